// The scans' kernels by family: each file instantiates its own, so that they compile side by side.
#pragma once

#include "backend/backend.hpp"
#include "scan/cuda/schedule.hpp"
#include "scan/cuda/task.hpp"

namespace planck::scan {

/// What each family's launch gets.
struct CudaScan {
  const backend::Run& run;
  const cuda::ScanTask& task;
  const cuda::ScanSchedule& schedule;
  const cuda::ScanSegments* segments = nullptr;  ///< of a ragged batch
};

core::Status cuda_sums(const CudaScan& scan, ScanKind kind, bool floats) noexcept;  ///< Cumsum, Cumprod
core::Status cuda_float_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept;
core::Status cuda_integer_extrema(const CudaScan& scan, bool largest, bool last, bool positions) noexcept;
core::Status cuda_exponentials(const CudaScan& scan, bool backward) noexcept;  ///< LogCumsumExp
core::Status cuda_recurrence(const CudaScan& scan) noexcept;
/// Of every other kind but Cumsum; of extrema with positions as an input.
core::Status cuda_gradient(const CudaScan& scan, ScanKind kind) noexcept;

}  // namespace planck::scan
