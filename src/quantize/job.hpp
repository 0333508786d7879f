// An operation of the quantise family as its plan hands it to a backend.
#pragma once

#include <cstdint>

#include "core/sums.hpp"
#include "planck/quantize.hpp"

namespace planck::quantize {

enum class Formula : std::int32_t {
  Quantize,
  QuantizeBackward,
  Dequantize,
  DequantizeBackward,
  FakeQuantize,
  FakeQuantizeBackward,
  // Steps of dynamic-range quantisation, no operations of their own.
  Range,         ///< over a span: reads x, widens one Range<C>
  ColumnRanges,  ///< over Rows of a span: reads x, widens lo and hi
  DynamicRows,   ///< over rows of a span: all of it
};

constexpr bool is_backward(Formula formula) {
  return formula < Formula::Range && static_cast<std::int32_t>(formula) % 2 == 1;
}
/// Whether the formula reads the float input x: all but dequantise, which reads codes or nothing.
constexpr bool reads_floats(Formula formula) {
  return formula != Formula::Dequantize && formula != Formula::DequantizeBackward;
}

/// The learnable backward pass's outputs after dx: terms of the summed gradients.
inline constexpr int kDScale = 1;
inline constexpr int kDZeroPoint = 2;

struct QuantizeJob {
  Formula formula;
  ElementKind element;  ///< the floats
  ElementKind codes;
  ElementKind scale_element;
  ScaleForm form;
  double q_min;  ///< as the formulas take them: of float codes they may be infinite, and backwards need not be codes
  double q_max;
  bool one_scale = false;  ///< for all elements: the operand, if present, has one element
  double scale = 1.0;      ///< stands for an absent operand,
  std::int64_t zero_point = 0;
  core::Sums sums{};  ///< d_scale (term kDScale) and d_zero_point (term kDZeroPoint)
  /// Operands: the formula's tensors that are read (x or q; x and dy; dy), scale, zero point, the tensor that is
  /// written (dx may be absent where sums are wanted), and the sums. A backend may rewrite the loop.
  core::StridedLoop* loop = nullptr;

  /// How many tensors are read.
  int reads() const { return formula == Formula::QuantizeBackward || formula == Formula::FakeQuantizeBackward ? 2 : 1; }
  int scale_operand() const { return reads(); }
  int zero_point_operand() const { return reads() + 1; }
  int output_operand() const { return reads() + 2; }
};

}  // namespace planck::quantize
