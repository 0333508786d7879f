// Inclusive scans and their gradients on the CPU: what exclusive ones are made of.
#pragma once

#include "backend/backend.hpp"
#include "cpu/kernel.hpp"
#include "scan/cpu/pass.hpp"
#include "scan/job.hpp"

namespace planck::cpu {

/// What the plan kept.
inline const ScanKernel& scan_kernel(const backend::Choice& choice) noexcept { return *kernel_in(choice, 0).scan; }

void run_inclusive(const backend::Run& run, const scan::ScanJob& job) noexcept;
/// `cuttable`: no output replaces an input that other steps read.
void run_inclusive_backward(const backend::Run& run, const scan::ScanJob& job, bool cuttable) noexcept;

/// Whether dx takes the place of an input that later steps read: then the axis cannot be cut.
bool backward_cuttable(const scan::ScanJob& job) noexcept;

}  // namespace planck::cpu
