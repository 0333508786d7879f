// CUDA kernels of running sums and products.
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/schedules.cuh"

namespace planck::scan {

using cuda::ForwardPass;
using cuda::run_scan;

core::Status cuda_sums(const CudaScan& scan, ScanKind kind, bool floats) noexcept {
  using Wraps = std::uint64_t;
  const auto run = [&]<class Pass>(Pass) { return run_scan<Pass>(scan); };
  if (kind == ScanKind::Cumsum) {
    return floats ? run(ForwardPass<scalar::CumsumScan<double>, double>{})
                  : run(ForwardPass<scalar::CumsumScan<Wraps>, Wraps>{});
  }
  return floats ? run(ForwardPass<scalar::CumprodScan<double>, double>{})
                : run(ForwardPass<scalar::CumprodScan<Wraps>, Wraps>{});
}

}  // namespace planck::scan
