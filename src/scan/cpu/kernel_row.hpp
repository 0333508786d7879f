// A scan's place in the kernel list.
#pragma once

#include "cpu/kernel.hpp"
#include "scan/kinds.hpp"

namespace planck::scan {

/// Rows carry their functions; what is looked for in the list is the same without.
constexpr cpu::KernelRow kernel_row(const ScanKey& key, const cpu::ScanKernel* scan = nullptr, bool backward = false) {
  const bool extremum = is_extremum(key.kind);
  const std::int32_t variant = extremum ? static_cast<std::int32_t>(key.ties) : (key.initial ? 1 : 0);
  return {OpCategory::Scan, static_cast<std::int32_t>(key.kind),   backward, variant, false,
          key.element,      extremum ? key.indices : std::nullopt, nullptr,  nullptr, scan};
}

}  // namespace planck::scan
