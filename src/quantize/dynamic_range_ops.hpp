// Dynamic-range quantisation as its plan hands it to a backend.
#pragma once

#include "planck/quantize.hpp"
#include "planck/stream.hpp"
#include "quantize/dynamic_range_scalar.hpp"

namespace planck::quantize {

struct DynamicRun {
  const Shape& shape;
  const Granularity& scope;
  ElementKind element;
  ElementKind codes;
  ElementKind scale_element;
  scalar::RangeRule rule;
  const AnyTensorRef& input;
  const AnyTensorMut& scale;
  const AnyTensorMut* zero_point;  ///< the outputs that are not wanted are null
  const AnyTensorMut* output;
  const AnyTensorMut* row_sum;
};

namespace reference {
void dynamic_range(const DynamicRun& run);
}

namespace cpu_backend {
/// Bytes of workspace that `run` can use, for any strides; with less it takes the reference's loops.
std::size_t dynamic_range_workspace(const Shape& shape, const Granularity& scope, ElementKind element) noexcept;
void dynamic_range(const Stream& stream, ArchSku arch, const DynamicRun& run, const Workspace& workspace) noexcept;
}  // namespace cpu_backend

}  // namespace planck::quantize
