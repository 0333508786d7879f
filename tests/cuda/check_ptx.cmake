# Compiles math_compile_test.cu to PTX and reads it: cmake -DNVCC=… -DFMAD=false … -P check_ptx.cmake.
#
# SPEC's division, sums and products are single PTX instructions with a rounding mode (div.rn.f32 becomes its
# Newton steps with fma only below PTX, correctly rounded), so not one fma, approximation or flush to zero may
# appear. FMAD=true is the control: the same check must then complain.

set(ptx ${OUTPUT})
execute_process(COMMAND ${NVCC} ${FLAGS} --fmad=${FMAD} -ptx -o ${ptx} ${INPUT} COMMAND_ECHO STDOUT
  COMMAND_ERROR_IS_FATAL ANY)
file(READ ${ptx} text)

foreach(forbidden "fma\\.[a-z]" "mad\\.[a-z.]*f(32|64)" "\\.ftz" "\\.approx" "div\\.full")
  if(text MATCHES "[^\n]*[ \t]([a-z0-9.]*${forbidden}[^\n]*)")
    message(FATAL_ERROR "the PTX has a forbidden instruction: ${CMAKE_MATCH_1}")
  endif()
endforeach()

# The PTX of one kernel, from its name to the next one's.
function(kernel_text name result)
  string(FIND "${text}" ".entry ${name}(" begin)
  if(begin EQUAL -1)
    message(FATAL_ERROR "no kernel ${name} in the PTX")
  endif()
  string(SUBSTRING "${text}" ${begin} -1 rest)
  string(SUBSTRING "${rest}" 1 -1 after)
  string(FIND "${after}" ".entry " end)
  string(SUBSTRING "${after}" 0 ${end} body)
  set(${result} "${body}" PARENT_SCOPE)
endfunction()

function(expect kernel instruction)
  kernel_text(${kernel} body)
  string(FIND "${body}" "\t${instruction}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "${kernel} has no ${instruction}")
  endif()
endfunction()
function(expect_none kernel instruction)
  kernel_text(${kernel} body)
  string(FIND "${body}" "\t${instruction}" at)
  if(NOT at EQUAL -1)
    message(FATAL_ERROR "${kernel} has a ${instruction}")
  endif()
endfunction()

foreach(element f32 f64 f16 bf16)
  set(compute f32)
  if(element STREQUAL "f64")
    set(compute f64)
  endif()
  foreach(kernel fake_quantize fake_quantize_backward)
    expect(${kernel}_divide_${element} div.rn.${compute})
    expect(${kernel}_reciprocal_${element} mul.rn.${compute})
    expect_none(${kernel}_reciprocal_${element} div.rn.${compute})
    expect(${kernel}_divide_${element} cvt.rni.${compute}.${compute})
  endforeach()
  expect(dequantize_s8_${element} mul.rn.${compute})
  expect(lerp_${element} mul.rn.${compute})
  expect(lerp_${element} add.rn.${compute})
  expect(canonical_sum_${element} add.rn.f64)
endforeach()
message(STATUS "the PTX is clean")
