// The CUDA language as kernels use it: nvcc's own, or, in tests without a GPU, the same words as host C++ with one
// fiber for each CUDA thread. The build's include path decides whose header this is.
#pragma once

#include <cuda_runtime.h>
