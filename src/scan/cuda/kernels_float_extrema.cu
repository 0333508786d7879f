// CUDA kernels of running maxima and minima of floats.
#include "scan/cuda/extrema.cuh"

namespace planck::scan {

core::Status cuda_float_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept {
  return run_extrema<double>(scan, largest, last, positions);
}

}  // namespace planck::scan
