// What the parts of the quantise family tell each other: the formulas, a run's parameters, a kernel's place in the
// list, and the reference loops.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
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

/// Where a kernel gets scale and zero point from: one pair for the run, or two more operands, a scale in C or in the
/// tensor's own 16-bit kind, and an s32.
enum class QParamsFrom : std::int32_t { Run, Operands, NarrowOperands };

/// A kernel's `variant`: scale form and source of the parameters. Dequantise has one form only.
constexpr std::int32_t variant_of(ScaleForm form, QParamsFrom from) {
  return static_cast<std::int32_t>(form) + 2 * static_cast<std::int32_t>(from);
}
constexpr ScaleForm form_of(std::int32_t variant) { return static_cast<ScaleForm>(variant % 2); }
constexpr QParamsFrom qparams_from(std::int32_t variant) { return static_cast<QParamsFrom>(variant / 2); }

/// A kernel's place in the list: rows carry a span, a plan's request is the same without one. One kernel serves all
/// granularities, so the list has no QuantizeKind but the formula.
constexpr cpu::KernelRow kernel_row(Formula formula, ElementKind element, std::optional<ElementKind> codes,
                                    std::int32_t variant, bool terms, cpu::SpanKernel span = nullptr,
                                    cpu::SegmentKernel segments = nullptr) {
  return {OpCategory::Quantization,
          static_cast<std::int32_t>(formula),
          is_backward(formula),
          variant,
          terms,
          element,
          codes,
          span,
          segments};
}

/// Scale and code range as the formulas use them, in the compute type C. Differences are taken in f64, where even
/// unchecked zero points cannot overflow.
template <class C>
struct Params {
  C scale;
  C inverse;     ///< 1 / scale, rounded once
  C zero_point;  ///< exact
  C lo;          ///< q_min - zp
  C hi;          ///< q_max - zp

  /// One segment's, from what OperandQParams reads: the same operations in the same type.
  Params segment(C scale_, C zero_point_) const {
    Params p = *this;
    p.scale = scale_;
    p.inverse = C(1) / scale_;
    p.zero_point = zero_point_;
    p.lo = lo - zero_point_;
    p.hi = hi - zero_point_;
    return p;
  }

  Params(double scale_, std::int64_t zero_point_, std::int64_t q_min, std::int64_t q_max)
      : scale(static_cast<C>(scale_)),
        inverse(C(1) / scale),
        zero_point(static_cast<C>(zero_point_)),
        lo(static_cast<C>(static_cast<double>(q_min) - static_cast<double>(zero_point_))),
        hi(static_cast<C>(static_cast<double>(q_max) - static_cast<double>(zero_point_))) {}
};

/// Parameters of ColumnRanges: rows that lie `stride` bytes apart.
struct Rows {
  std::int64_t count;
  std::int64_t stride;
  bool symmetric;  ///< only the largest magnitude is asked for
};

/// The learnable backward kernel's outputs after dx: terms of the summed gradients.
inline constexpr int kDScale = 1;
inline constexpr int kDZeroPoint = 2;

/// The reference. Operands: the formula's tensors that are read, scale, zero point (may be absent), then the one
/// that is written.
namespace reference {
struct Problem {
  Formula formula;
  ElementKind element;  ///< the floats
  ElementKind codes;
  ElementKind scale;
  ScaleForm form;
  std::int64_t q_min;
  std::int64_t q_max;
};
void run(const core::StridedLoop& loop, const Problem& problem);
/// d_scale or d_zero_point: the same operands, last the gradient, stored as `element`.
void sum_gradient(const core::StridedLoop& loop, const Problem& problem, ElementKind element, int gradient,
                  double factor);
}  // namespace reference

}  // namespace planck::quantize
