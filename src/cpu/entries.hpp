// The CPU backend's functions, as its table lists them; each family defines its own in src/<family>/cpu.
#pragma once

#include "backend/backend.hpp"

namespace planck::cpu {

using backend::Choice;
using backend::Run;
using backend::Selection;
using core::Status;

Status prepare_quantize(const quantize::QuantizeJob& job, Selection& selection) noexcept;
Status run_quantize(const Run& run, const quantize::QuantizeJob& job) noexcept;
bool run_small_quantize(const Choice& choice, const quantize::QuantizeJob& job, void* const* operands,
                        std::int64_t n) noexcept;

Status prepare_dynamic_range(const quantize::DynamicRangeJob& job, Selection& selection) noexcept;
Status run_dynamic_range(const Run& run, const quantize::DynamicRangeJob& job) noexcept;

Status prepare_binary(const binary::BinaryJob& job, Selection& selection) noexcept;
Status run_binary(const Run& run, const binary::BinaryJob& job) noexcept;
bool run_small_binary(const Choice& choice, const binary::BinaryJob& job, void* const* operands,
                      std::int64_t n) noexcept;

Status prepare_scan(const scan::ScanJob& job, Selection& selection) noexcept;
Status run_scan(const Run& run, const scan::ScanJob& job) noexcept;
bool run_small_scan(const Choice& choice, const scan::ScanJob& job, void* const* operands, std::int64_t n) noexcept;

}  // namespace planck::cpu
