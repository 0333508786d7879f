// CUDA kernels of running maxima and minima of floats.
#include "scan/scan_cuda_extrema.cuh"

namespace planck::scan {

core::Status cuda_float_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept {
  return run_extrema<double>(scan, largest, last, positions);
}

}  // namespace planck::scan
