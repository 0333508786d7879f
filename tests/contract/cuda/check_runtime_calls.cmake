# Which functions of the CUDA runtime object files call: cmake -DNM=nm -DOBJECTS=a.o,b.o -P check_runtime_calls.cmake.
#
# Runs may be captured into a graph, so they allocate, copy and wait for nothing. All that the library may call is what
# launches a kernel, what asks for an error and, when a plan is selected, what asks for the device.

cmake_minimum_required(VERSION 3.25)
set(allowed cudaDeviceGetAttribute cudaGetDevice cudaGetErrorName cudaGetLastError
  __cudaGetKernel __cudaLaunchKernel __cudaPopCallConfiguration __cudaPushCallConfiguration
  __cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaRegisterFunction __cudaUnregisterFatBinary)

string(REPLACE "," ";" objects "${OBJECTS}")
list(FILTER objects INCLUDE REGEX "\\.cu\\.o$")
execute_process(COMMAND ${NM} -u ${objects} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " (__)?cu(da)?[A-Z][A-Za-z0-9_]*" calls "${symbols}")
list(TRANSFORM calls STRIP)
list(REMOVE_DUPLICATES calls)
if(NOT "__cudaLaunchKernel" IN_LIST calls)
  message(FATAL_ERROR "no object launches a kernel: ${calls}")
endif()
list(REMOVE_ITEM calls ${allowed})
if(calls)
  message(FATAL_ERROR "forbidden calls of the CUDA runtime: ${calls}")
endif()
