// The CUDA backend's functions, as its table lists them; each family defines its own in src/<family>/cuda.
#pragma once

#include "backend/backend.hpp"
#include "core/layout.hpp"

namespace planck::cuda {

using backend::Run;
using backend::Selection;
using core::Status;

Status prepare_quantize(const quantize::QuantizeJob& job, Selection& selection) noexcept;
Status run_quantize(const Run& run, const quantize::QuantizeJob& job) noexcept;

Status prepare_dynamic_range(const quantize::DynamicRangeJob& job, Selection& selection) noexcept;
Status run_dynamic_range(const Run& run, const quantize::DynamicRangeJob& job) noexcept;

Status prepare_binary(const binary::BinaryJob& job, Selection& selection) noexcept;
Status run_binary(const Run& run, const binary::BinaryJob& job) noexcept;

Status prepare_scan(const scan::ScanJob& job, Selection& selection) noexcept;
Status run_scan(const Run& run, const scan::ScanJob& job) noexcept;

// Bytes of workspace, of any alignment, that the runs need for any strides.

/// Of `sums` sums as the loop's last operand is one.
std::size_t sums_workspace(const core::StridedLoop& loop, int sums) noexcept;
std::size_t dynamic_range_workspace(const quantize::DynamicRangeJob& job) noexcept;
std::size_t scan_workspace(const scan::ScanJob& job) noexcept;

}  // namespace planck::cuda
