// Running maxima and minima on a CUDA stream, for files that each instantiate them over one V.
#pragma once

#include "scan/cuda/kernels.hpp"
#include "scan/cuda/schedules.cuh"

namespace planck::scan {

template <class V, bool largest, bool last>
core::Status run_extremum(const CudaScan& scan, bool positions) noexcept {
  using cuda::ForwardPass;
  using scalar::ExtremumScan;
  if (positions) {
    return cuda::run_scan<ForwardPass<ExtremumScan<V, largest, last, true>, V>>(scan);
  }
  return cuda::run_scan<ForwardPass<ExtremumScan<V, largest, last, false>, V>>(scan);
}

template <class V>
core::Status run_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept {
  if (largest)
    return last ? run_extremum<V, true, true>(scan, positions) : run_extremum<V, true, false>(scan, positions);
  return last ? run_extremum<V, false, true>(scan, positions) : run_extremum<V, false, false>(scan, positions);
}

}  // namespace planck::scan
