// Dynamic-range quantisation as its plan hands it to a backend.
#pragma once

#include <array>
#include <cstdint>

#include "dynamic_range/scalar.hpp"
#include "planck/dynamic_range.hpp"
#include "planck/stream.hpp"

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

/// The operands' places in loops over whole segments; the scale is last.
namespace dynamic_operand {
inline constexpr int kInput = 0;
inline constexpr int kOutput = 1;
inline constexpr int kZeroPoint = 2;
inline constexpr int kRowSum = 3;
inline constexpr int kScale = 4;
inline constexpr int kOperands = 5;
}  // namespace dynamic_operand

/// Parameters of Formula::DynamicRows: segments of contiguous elements. Outputs that are not wanted are null.
struct DynamicRows {
  scalar::RangeRule rule;
  bool narrow_scale;  ///< scales are stored in the elements' own 16-bit kind
  std::int64_t count;
  std::array<std::int64_t, dynamic_operand::kOperands> stride;  ///< bytes from one row to the next
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
