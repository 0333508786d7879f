// A shared array that AddressSanitizer would not watch: of a template, so that all files share one.
#include "cuda/platform.hpp"

namespace planck::cuda {

template <class T>
__device__ T unwatched(int i) {
  __shared__ T values[32];
  values[threadIdx.x] = T(1);
  __syncthreads();
  return values[i];
}

__global__ void __launch_bounds__(32) planted_unwatched(float* x) { x[threadIdx.x] = unwatched<float>(3); }
void (*planted_unwatched_kernel())(float*) { return planted_unwatched; }

}  // namespace planck::cuda
