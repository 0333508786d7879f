// CUDA kernels of running maxima and minima of integers.
#include "scan/cuda/extrema.cuh"

namespace planck::scan {

core::Status cuda_integer_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept {
  return run_extrema<std::int64_t>(scan, largest, last, positions);
}

}  // namespace planck::scan
