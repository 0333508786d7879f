// CUDA kernels of running log-sum-exps and their gradient.
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/schedules.cuh"

namespace planck::scan {

namespace {

template <class C>
using Forward = cuda::ForwardPass<scalar::LogCumsumExpScan<double, C>, double>;
using Feed = cuda::ForwardPass<scalar::WideLogScan<double>, double>;
template <class C, bool fed>
using Backward = cuda::BackwardPass<scalar::LogCumsumExpGradient<double, C, fed>, 3, 1, 0b101>;

template <class Pass>
core::Status run_pass(const CudaScan& scan) noexcept {
  return cuda::run_scan<Pass>(scan);
}

}  // namespace

core::Status cuda_exponentials(const CudaScan& scan, bool backward) noexcept {
  const auto is_f64 = [&](int slot) { return scan.task.operand[slot].element == ElementKind::F64; };
  const bool f64 = is_f64(cuda::kScanIn);
  if (backward) {
    if (f64) return run_pass<Backward<double, false>>(scan);
    return is_f64(cuda::kScanIn + 2) ? run_pass<Backward<float, true>>(scan) : run_pass<Backward<float, false>>(scan);
  }
  if (f64) return run_pass<Forward<double>>(scan);
  return is_f64(cuda::kScanOut) ? run_pass<Feed>(scan) : run_pass<Forward<float>>(scan);
}

}  // namespace planck::scan
