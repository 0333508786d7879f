// CUDA kernels of running maxima and minima of floats.
#include "cuda/scan.cuh"
#include "scan/scan_cuda.hpp"

namespace planck::scan {
namespace {

using V = double;

template <bool largest, bool last>
core::Status run_extremum(const CudaScan& scan, bool positions) noexcept {
  using cuda::ForwardPass;
  using scalar::ExtremumScan;
  if (positions) {
    return cuda::run_scan<ForwardPass<ExtremumScan<V, largest, last, true>, V>>(scan.run, scan.task, scan.schedule);
  }
  return cuda::run_scan<ForwardPass<ExtremumScan<V, largest, last, false>, V>>(scan.run, scan.task, scan.schedule);
}

}  // namespace

core::Status cuda_float_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept {
  if (largest) return last ? run_extremum<true, true>(scan, positions) : run_extremum<true, false>(scan, positions);
  return last ? run_extremum<false, true>(scan, positions) : run_extremum<false, false>(scan, positions);
}

}  // namespace planck::scan
