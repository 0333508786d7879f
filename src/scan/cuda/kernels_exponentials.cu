// CUDA kernels of running log-sum-exps and their gradient.
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/schedules.cuh"

namespace planck::scan {

core::Status cuda_exponentials(const CudaScan& scan, bool backward) noexcept {
  using Forward = cuda::ForwardPass<scalar::LogCumsumExpScan<double>, double>;
  using Backward = cuda::BackwardPass<scalar::LogCumsumExpGradient<double>, 3, 1, 0b101>;
  return backward ? cuda::run_scan<Backward>(scan.run, scan.task, scan.schedule)
                  : cuda::run_scan<Forward>(scan.run, scan.task, scan.schedule);
}

}  // namespace planck::scan
