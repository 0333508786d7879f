# A result that nobody looks at is a warning, in C++ and in C:
#   cmake -DCOMPILER=… -DSOURCE=… -DSTANDARD=… -DCASES=N -DINCLUDE=… -DOBJECT=… -P ignored_results_test.cmake
foreach(case RANGE ${CASES})
  execute_process(COMMAND ${COMPILER} -std=${STANDARD} -Werror=unused-result -I${INCLUDE} -DCASE=${case} -c ${SOURCE} -o ${OBJECT}
    RESULT_VARIABLE failed ERROR_VARIABLE text)
  if(case EQUAL 0 AND failed)
    message(FATAL_ERROR "${SOURCE}: results that are looked at do not compile:\n${text}")
  elseif(NOT case EQUAL 0 AND NOT (failed AND text MATCHES "unused-result"))
    message(FATAL_ERROR "${SOURCE}: the compiler is silent in case ${case}\n${text}")
  endif()
endforeach()
