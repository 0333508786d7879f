// The CUDA language as kernels use it: nvcc's own, or, in tests without a GPU, the same words as host C++ with one
// fiber for each CUDA thread (tests/cuda_on_cpu).
#pragma once

#if defined(PLANCK_CUDA_ON_CPU)
#include "cuda_on_cpu/cuda_shim.hpp"
#else
#include <cuda_runtime.h>
#endif
