// The entry points of the CUDA library, one for each engine, as core::DeviceBackend lists them.
#pragma once

#include "backend/device_backend.hpp"

namespace planck::cuda {

core::Status quantize(const core::DeviceRun& run, const core::DeviceQuantize& job,
                      const core::StridedLoop& loop) noexcept;
core::Status binary(const core::DeviceRun& run, const core::DeviceBinary& job, const core::StridedLoop& loop) noexcept;
core::Status dynamic_range(const core::DeviceRun& run, const quantize::DynamicRun& job) noexcept;
core::Status scan(const core::DeviceRun& run, const core::DeviceScan& job, const core::StridedLoop& loop) noexcept;

std::size_t sums_workspace(const core::SumShape& shape, int sums) noexcept;
std::size_t dynamic_range_workspace(const Shape& shape, const Granularity& scope, ElementKind element) noexcept;
std::size_t scan_workspace(const core::DeviceScan& job, const Shape& shape) noexcept;

}  // namespace planck::cuda
