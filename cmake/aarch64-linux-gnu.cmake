# Cross-builds for 64-bit Arm with Debian's compiler and runs the tests under qemu. PLANCK_ARM_ROOT holds the arm64
# libraries, unpacked; scripts/check --full fetches them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES PLANCK_ARM_ROOT)
# Headers of the libraries come from the unpacked packages, those that are the same everywhere from this system.
set(CMAKE_PREFIX_PATH ${PLANCK_ARM_ROOT}/usr)
set(CMAKE_IGNORE_PREFIX_PATH /usr/local)
set(CMAKE_CROSSCOMPILING_EMULATOR
  qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH=${PLANCK_ARM_ROOT}/usr/lib/aarch64-linux-gnu)
