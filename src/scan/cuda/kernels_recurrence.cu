// CUDA kernels of linear recurrences, and of the gradients that are recurrences or segmented sums.
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/schedules.cuh"

namespace planck::scan {

core::Status cuda_recurrence(const CudaScan& scan) noexcept {
  using Pass = cuda::ForwardPass<scalar::LinearRecurrenceScan<double>, double>;
  return cuda::run_scan<Pass>(scan);
}

core::Status cuda_gradient(const CudaScan& scan, ScanKind kind) noexcept {
  using Recurrence = cuda::BackwardPass<scalar::LinearRecurrenceGradient<double>, 3, 3, 0b011>;
  using Product = cuda::BackwardPass<scalar::CumprodGradient<double>, 3, 1, 0b011>;
  using Extremum = cuda::BackwardPass<scalar::ExtremumGradient<double, 2>, 2, 1, 0b011>;
  switch (kind) {
    case ScanKind::LinearRecurrence:
      return cuda::run_scan<Recurrence>(scan);
    case ScanKind::Cumprod:
      return cuda::run_scan<Product>(scan);
    default:
      return cuda::run_scan<Extremum>(scan);
  }
}

}  // namespace planck::scan
