// Exclusive scans on the CPU, as inclusive ones one place further on.
#pragma once

#include "backend/backend.hpp"
#include "scan/job.hpp"

namespace planck::cpu {

void run_exclusive(const backend::Run& run, const scan::ScanJob& job) noexcept;
void run_exclusive_backward(const backend::Run& run, const scan::ScanJob& job) noexcept;

}  // namespace planck::cpu
