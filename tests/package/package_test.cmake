# One way of using the library from outside, start to end: cmake -DMODE=<mode> -D… -P package_test.cmake.
#
#   install           installs the build tree, then moves the prefix: whatever remembers the first place fails below
#   find_package      builds and runs the consumer against that prefix
#   pkg_config        the same with nothing but the compiler and pkg-config
#   add_subdirectory  the consumer compiles planck's source tree as a part of its own project
#   cuda              find_package(planck COMPONENTS cuda) against that prefix
#   static            configures, builds and installs a static planck without CUDA, then find_package, which finds no
#                     component cuda, and pkg-config --static
#
# SOURCE and BUILD are planck's trees, SCRATCH a directory of our own, VERSION what every package must say. What compiles
# planck again does so beside BUILD, with the same options: then a compiler cache, which sees paths relative to where the
# compiler runs, has all of it.

foreach(name MODE SOURCE BUILD SCRATCH VERSION CXX_COMPILER LIBDIR)
  if(NOT DEFINED ${name})
    message(FATAL_ERROR "missing -D${name}=…")
  endif()
endforeach()

set(consumer ${CMAKE_CURRENT_LIST_DIR}/consumer)
set(cmake_arguments -G ${GENERATOR} -DCMAKE_BUILD_TYPE=${BUILD_TYPE} -DCMAKE_CXX_COMPILER=${CXX_COMPILER}
  -DCMAKE_C_COMPILER=${C_COMPILER})
if(CXX_COMPILER_LAUNCHER)
  list(APPEND cmake_arguments -DCMAKE_CXX_COMPILER_LAUNCHER=${CXX_COMPILER_LAUNCHER})
endif()

function(run)
  execute_process(COMMAND ${ARGV} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# Nothing that is installed may point into the source or build tree, or to where it was first installed.
function(check_no_paths prefix)
  file(GLOB_RECURSE files ${prefix}/*.cmake ${prefix}/*.pc ${prefix}/*.h ${prefix}/*.hpp)
  if(NOT files)
    message(FATAL_ERROR "nothing is installed under ${prefix}")
  endif()
  foreach(file IN LISTS files)
    file(READ ${file} text)
    foreach(path ${SOURCE} ${BUILD})
      string(FIND "${text}" "${path}" at)
      if(NOT at EQUAL -1)
        message(FATAL_ERROR "${file} mentions ${path}")
      endif()
    endforeach()
  endforeach()
endfunction()

# Installs a build tree and moves the result to `prefix`.
function(install_and_move build prefix)
  file(REMOVE_RECURSE ${prefix} ${prefix}-first)
  run(${CMAKE_COMMAND} --install ${build} --prefix ${prefix}-first)
  file(RENAME ${prefix}-first ${prefix})
  check_no_paths(${prefix})
endfunction()

# Configures the consumer with the given arguments, builds and runs it.
function(build_consumer directory)
  file(REMOVE_RECURSE ${directory})
  run(${CMAKE_COMMAND} -S ${consumer} -B ${directory} ${cmake_arguments} ${ARGN})
  run(${CMAKE_COMMAND} --build ${directory})
  run(${directory}/consumer)
  run(${directory}/c_consumer)
endfunction()

function(use_find_package prefix)
  build_consumer(${prefix}-find_package -DCMAKE_PREFIX_PATH=${prefix} -DPLANCK_EXPECTED_VERSION=${VERSION})
endfunction()

function(use_cuda prefix)
  set(directory ${prefix}-cuda)
  file(REMOVE_RECURSE ${directory})
  run(${CMAKE_COMMAND} -S ${consumer}_cuda -B ${directory} ${cmake_arguments} -DCMAKE_PREFIX_PATH=${prefix})
  run(${CMAKE_COMMAND} --build ${directory})
  run(${directory}/consumer)
endfunction()

function(expect_no_cuda prefix)
  file(REMOVE_RECURSE ${prefix}-cuda)
  execute_process(COMMAND ${CMAKE_COMMAND} -S ${consumer}_cuda -B ${prefix}-cuda ${cmake_arguments}
    -DCMAKE_PREFIX_PATH=${prefix} RESULT_VARIABLE failed OUTPUT_QUIET ERROR_VARIABLE said)
  if(NOT failed OR NOT said MATCHES "built without PLANCK_CUDA")
    message(FATAL_ERROR "a planck without CUDA was found for COMPONENTS cuda, or nobody said why not:\n${said}")
  endif()
endfunction()

# What pkg-config answers for planck, as a list.
function(pkg_config result)
  execute_process(COMMAND ${PKG_CONFIG} ${ARGN} planck OUTPUT_VARIABLE answer OUTPUT_STRIP_TRAILING_WHITESPACE
    COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(answer)
  set(${result} ${answer} PARENT_SCOPE)
endfunction()

function(use_pkg_config prefix)
  set(ENV{PKG_CONFIG_PATH} ${prefix}/${LIBDIR}/pkgconfig)
  pkg_config(version --modversion)
  if(NOT version STREQUAL VERSION)
    message(FATAL_ERROR "pkg-config says version ${version}, expected ${VERSION}")
  endif()
  pkg_config(flags ${ARGN} --cflags --libs)
  set(program ${prefix}-pkg_config)
  run(${CXX_COMPILER} -std=c++20 ${consumer}/main.cpp ${flags} -o ${program})
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${prefix}/${LIBDIR} ${program})
endfunction()

file(MAKE_DIRECTORY ${SCRATCH})
set(prefix ${SCRATCH}/prefix)
if(MODE STREQUAL "install")
  install_and_move(${BUILD} ${prefix})
elseif(MODE STREQUAL "find_package")
  use_find_package(${prefix})
elseif(MODE STREQUAL "pkg_config")
  if(SHARED)
    use_pkg_config(${prefix})
  else()
    use_pkg_config(${prefix} --static)
  endif()
elseif(MODE STREQUAL "cuda")
  use_cuda(${prefix})
elseif(MODE STREQUAL "add_subdirectory")
  build_consumer(${BUILD}-add_subdirectory -DPLANCK_SOURCE=${SOURCE})
elseif(MODE STREQUAL "static")
  set(static_prefix ${SCRATCH}/static-prefix)
  set(build ${BUILD}-static)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${build} ${cmake_arguments} -DBUILD_SHARED_LIBS=OFF -DPLANCK_CUDA=OFF -DPLANCK_BUILD_TESTS=OFF
    -DPLANCK_BUILD_BENCHMARKS=OFF -DPLANCK_BUILD_EXAMPLES=OFF -DCMAKE_INSTALL_LIBDIR=${LIBDIR})
  run(${CMAKE_COMMAND} --build ${build})
  install_and_move(${build} ${static_prefix})
  if(NOT EXISTS ${static_prefix}/${LIBDIR}/libplanck.a)
    message(FATAL_ERROR "no static library in ${static_prefix}/${LIBDIR}")
  endif()
  use_find_package(${static_prefix})
  expect_no_cuda(${static_prefix})
  if(PKG_CONFIG)
    use_pkg_config(${static_prefix} --static)
  endif()
else()
  message(FATAL_ERROR "no mode ${MODE}")
endif()
