// The reference's functions, as its table lists them.
#pragma once

#include "backend/backend.hpp"

namespace planck::reference {

using backend::Run;
using core::Status;

Status run_quantize(const Run& run, const quantize::QuantizeJob& job) noexcept;
Status run_dynamic_range(const Run& run, const quantize::DynamicRangeJob& job) noexcept;
Status run_binary(const Run& run, const binary::BinaryJob& job) noexcept;
Status run_scan(const Run& run, const scan::ScanJob& job) noexcept;

}  // namespace planck::reference
