// Dynamic-range quantisation as its plan hands it to a backend.
#pragma once

#include <cstdint>

#include "dynamic_range/scalar.hpp"
#include "planck/dynamic_range.hpp"

namespace planck::quantize {

struct DynamicRangeJob {
  const Shape& shape;
  const Granularity& scope;
  ElementKind element;
  ElementKind codes;
  ElementKind scale_element;
  scalar::RangeRule rule;
  const AnyTensorRef& input;
  const AnyTensorMut& scale;
  const AnyTensorMut* zero_point = nullptr;  ///< the outputs that are not wanted are null
  const AnyTensorMut* output = nullptr;
  const AnyTensorMut* row_sum = nullptr;
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

}  // namespace planck::quantize
