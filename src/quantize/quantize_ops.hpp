// What the parts of the quantise family tell each other: the parameters of a run, and the reference loops.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/quantize.hpp"

namespace planck::quantize {

/// A kernel's place in the list: rows carry a span, a plan's request is the same without one.
constexpr cpu::KernelRow kernel_row(QuantizeKind kind, ElementKind element, std::optional<ElementKind> aux,
                                    ScaleForm form, cpu::SpanKernel span = nullptr) {
  const bool backward = kind == QuantizeKind::FakeQuantizeBackward || kind == QuantizeKind::DequantizePerTensorBackward;
  return {OpCategory::Quantization,
          static_cast<std::int32_t>(kind),
          backward,
          static_cast<std::int32_t>(form),
          false,
          element,
          aux,
          span};
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

  Params(double scale_, std::int64_t zero_point_, std::int64_t q_min, std::int64_t q_max)
      : scale(static_cast<C>(scale_)),
        inverse(C(1) / scale),
        zero_point(static_cast<C>(zero_point_)),
        lo(static_cast<C>(static_cast<double>(q_min) - static_cast<double>(zero_point_))),
        hi(static_cast<C>(static_cast<double>(q_max) - static_cast<double>(zero_point_))) {}

  /// The same run in a narrower C: the scale is rounded first, the reciprocal taken of what it became.
  explicit Params(const Params<double>& wide) requires std::is_same_v<C, float>
      : scale(static_cast<C>(wide.scale)),
        inverse(C(1) / scale),
        zero_point(static_cast<C>(wide.zero_point)),
        lo(static_cast<C>(wide.lo)),
        hi(static_cast<C>(wide.hi)) {}
};

/// The reference: operands in the order of the span kernels, `params` a Params<C> of the float kind's C.
namespace reference {
void fake_quantize(const core::StridedLoop& loop, ElementKind element, ScaleForm form, const void* params);
void fake_quantize_backward(const core::StridedLoop& loop, ElementKind element, ScaleForm form, const void* params);
void dequantize(const core::StridedLoop& loop, ElementKind codes, ElementKind element, const void* params);
void dequantize_backward(const core::StridedLoop& loop, ElementKind element, const void* params);
}  // namespace reference

}  // namespace planck::quantize
