// The quantise family's place in the kernel list, and its kernels' parameters.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "cpu/kernel.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/job.hpp"

namespace planck::quantize {

/// Where a kernel gets scale and zero point from: one pair for the run, or two more operands, a scale in C or in the
/// tensor's own 16-bit kind, and an s32.
enum class QParamsFrom : std::int32_t { Run, Operands, NarrowOperands };

/// A kernel's `variant`: scale form and source of the parameters. Dequantise has one form only.
constexpr std::int32_t variant_of(ScaleForm form, QParamsFrom from) {
  return static_cast<std::int32_t>(form) + 2 * static_cast<std::int32_t>(from);
}
constexpr ScaleForm form_of(std::int32_t variant) { return static_cast<ScaleForm>(variant % 2); }
constexpr QParamsFrom qparams_from(std::int32_t variant) { return static_cast<QParamsFrom>(variant / 2); }

/// Rows carry a span; what is looked for in the list is the same without one. One kernel serves all granularities, so
/// the list has no QuantizeKind but the formula.
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

  Params(double scale_, std::int64_t zero_point_, double q_min, double q_max)
      : scale(static_cast<C>(scale_)),
        inverse(C(1) / scale),
        zero_point(static_cast<C>(zero_point_)),
        lo(static_cast<C>(q_min - static_cast<double>(zero_point_))),
        hi(static_cast<C>(q_max - static_cast<double>(zero_point_))) {}
};

/// The kernel list of a float kind.
inline std::span<const cpu::KernelRow> kernels_for(ElementKind element, ArchSku arch) noexcept {
  std::span<const cpu::KernelRow> rows;
  numerics::with_float(element, [&]<class T>(T) { rows = cpu::quantize_kernels<T>(arch); });
  return rows;
}

}  // namespace planck::quantize
