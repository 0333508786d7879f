// The entry points of planck::cuda that each operation's .cu file defines; core::DeviceBackend says what they take.
#pragma once

#include "core/device_backend.hpp"

namespace planck::cuda {

core::Status quantize(const core::DeviceRun& run, const core::DeviceQuantize& job,
                      const core::StridedLoop& loop) noexcept;
core::Status binary(const core::DeviceRun& run, const core::DeviceBinary& job, const core::StridedLoop& loop) noexcept;
std::size_t sums_workspace(const core::SumShape& shape, int sums) noexcept;

}  // namespace planck::cuda
