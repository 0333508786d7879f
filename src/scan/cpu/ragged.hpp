// Ragged batches on the CPU: the segments of an axis, shared among threads.
#pragma once

#include "backend/backend.hpp"
#include "scan/cpu/pass.hpp"
#include "scan/job.hpp"

namespace planck::cpu {

/// Runs a job without segments.
using RunScan = void (*)(const backend::Run& run, const scan::ScanJob& job) noexcept;

/// Runs every segment of a job's axis by itself.
void run_segments(const backend::Run& run, const scan::ScanJob& job, RunScan run_one) noexcept;

/// Enough for any offsets. `step_bytes` are those of one place along the axis, of all rows and operands.
std::size_t segments_workspace(std::int64_t rows, std::int64_t length, std::int64_t step_bytes,
                               const ScanStates& states, int threads) noexcept;

}  // namespace planck::cpu
