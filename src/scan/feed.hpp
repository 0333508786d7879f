// Which gradients need what a scan from the axis' start finds at each element: the plans, the CPU's engine and the CUDA
// library all ask here.
#pragma once

#include "scan/ops.hpp"

namespace planck::scan {

/// Whether a backward pass first walks forwards for something: products before an element, winners without indices, and
/// the values of LogCumsumExp that 16-bit storage lost.
constexpr bool is_fed(const ScanKey& key) {
  const bool wide = key.element == ElementKind::F32 || key.element == ElementKind::F64;
  return key.kind == ScanKind::Cumprod || (is_extremum(key.kind) && !key.indices) ||
         (key.kind == ScanKind::LogCumsumExp && !wide);
}

}  // namespace planck::scan
