// The quantise family's vector kernels: every formula for a register at a time. Each quantize_cpu_<kind>.cpp compiles
// them for one element kind and every target.

#if defined(PLANCK_QUANTIZE_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_QUANTIZE_CPU_INL_H_
#undef PLANCK_QUANTIZE_CPU_INL_H_
#else
#define PLANCK_QUANTIZE_CPU_INL_H_
#endif

#include <array>
#include <cstdint>
#include <limits>

#include "cpu/span-inl.h"
#include "quantize/dynamic_range_scalar.hpp"
#include "quantize/quantize_ops.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

#include "quantize/quantize_math.inl"

using quantize::Formula;
using quantize::QParamsFrom;
using scalar::Compute;

template <ScaleForm form, class V>
PLANCK_MATH auto make_scale(V scale, V inverse) {
  if constexpr (form == ScaleForm::Divide) {
    return DivideScale<V>{scale};
  } else {
    return ReciprocalScale<V>{scale, inverse};
  }
}

/// Scale, range and zero point of one register's elements.
template <ScaleForm form, class V>
struct LaneQParams {
  decltype(make_scale<form>(V(), V())) scale;
  CodeRange<V> range;
  V zero_point;
};

/// The same for every element of the run.
template <class T, ScaleForm form_>
struct RunQParams {
  using C = Compute<T>;
  using V = Vec<C>;
  using Params = quantize::Params<C>;
  template <class... In>
  using Inputs = Types<In...>;
  static constexpr auto kVariant = quantize::variant_of(form_, QParamsFrom::Run);

  LaneQParams<form_, V> qparams;

  PLANCK_MATH explicit RunQParams(const Params& p)
      : qparams{make_scale<form_>(V(p.scale), V(p.inverse)), {V(p.lo), V(p.hi)}, V(p.zero_point)} {}
  PLANCK_MATH const LaneQParams<form_, V>& at(const V*) const { return qparams; }
};

/// Read beside each element: a scale stored as S, and a zero point.
template <class T, ScaleForm form_, class S>
struct OperandQParams {
  using C = Compute<T>;
  using V = Vec<C>;
  using Params = quantize::Params<C>;  // of zero point 0: lo and hi are q_min and q_max
  template <class... In>
  using Inputs = Types<In..., S, std::int32_t>;
  static constexpr auto kVariant =
      quantize::variant_of(form_, std::is_same_v<S, C> ? QParamsFrom::Operands : QParamsFrom::NarrowOperands);

  V q_min;
  V q_max;

  PLANCK_MATH explicit OperandQParams(const Params& p) : q_min(p.lo), q_max(p.hi) {}
  PLANCK_MATH LaneQParams<form_, V> at(const V* operands) const {
    const V scale = operands[0];
    const V zero_point = operands[1];
    return {make_scale<form_>(scale, V(C(1)) / scale), {q_min - zero_point, q_max - zero_point}, zero_point};
  }
};

/// The kernel of a formula over elements T (and codes Q), its parameters from `Source`.
template <Formula formula, class T, class Q, class Source>
struct Kernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<std::conditional_t<formula == Formula::Dequantize, Q, T>>;
  using Outputs = Types<std::conditional_t<formula == Formula::Quantize, Q, T>>;

  PLANCK_MATH explicit Kernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 1);
    if constexpr (formula == Formula::Quantize) out[0] = quantize(in[0], q.scale, q.range, q.zero_point);
    if constexpr (formula == Formula::Dequantize) out[0] = dequantize(in[0], q.scale.scale, q.zero_point);
    if constexpr (formula == Formula::DequantizeBackward) out[0] = dequantize_backward(in[0], q.scale.scale);
    if constexpr (formula == Formula::FakeQuantize) out[0] = fake_quantize(in[0], q.scale, q.range);
  }
};

/// Inputs x, dy.
template <Formula formula, class T, class Source>
struct BackwardKernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<T, T>;
  using Outputs = Types<T>;

  PLANCK_MATH explicit BackwardKernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 2);
    if constexpr (formula == Formula::QuantizeBackward) {
      out[0] = quantize_backward(in[0], in[1], q.scale, q.range);
    } else {
      out[0] = fake_quantize_backward(in[0], in[1], q.scale, q.range);
    }
  }
};

/// Inputs x, dy; what they add to d_scale and d_zero_point.
template <class T, class Source>
struct LearnableTermsKernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<T, T>;
  using Outputs = Types<C, C>;

  PLANCK_MATH explicit LearnableTermsKernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 2);
    out[quantize::kDScale] = d_scale_term(in[0], in[1], q.scale, q.range);
    out[quantize::kDZeroPoint] = d_zero_point_term(in[0], in[1], q.scale, q.range);
  }
};

/// Infinities and NaN take no part in a range.
template <class V, class C>
PLANCK_MATH V finite_or(V x, C otherwise) {
  return select(abs(x) <= V(std::numeric_limits<C>::max()), x, V(otherwise));
}

/// Widens the Range<C> in operands[1] by the n elements in operands[0].
template <class T>
struct RangeOfSpan {
  using C = Compute<T>;
  using V = Vec<C>;
  static constexpr C kInf = std::numeric_limits<C>::infinity();

  static void run(const void*, void* const* operands, std::int64_t n, unsigned) {
    const T* x = static_cast<const T*>(operands[0]);
    auto* range = static_cast<scalar::Range<C>*>(operands[1]);
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    constexpr int kChains = 4;  // as many independent minima and maxima as hide their latency
    V lo[kChains];
    V hi[kChains];
    for (int k = 0; k < kChains; ++k) {
      lo[k] = V(kInf);
      hi[k] = V(-kInf);
    }
    std::int64_t i = 0;
    for (; i + kChains * lanes <= n; i += kChains * lanes) {
      for (int k = 0; k < kChains; ++k) widen_by(load<C>(x + i + k * lanes), lo[k], hi[k]);
    }
    for (; i + lanes <= n; i += lanes) widen_by(load<C>(x + i), lo[0], hi[0]);
    for (int k = 1; k < kChains; ++k) {
      lo[0] = V(hn::Min(lo[0].raw, lo[k].raw));
      hi[0] = V(hn::Max(hi[0].raw, hi[k].raw));
    }
    C lows[HWY_MAX_BYTES / sizeof(C)];
    C highs[HWY_MAX_BYTES / sizeof(C)];
    hn::StoreU(lo[0].raw, Tag<C>(), lows);
    hn::StoreU(hi[0].raw, Tag<C>(), highs);
    for (std::int64_t k = 0; k < lanes; ++k) {
      range->lo = lows[k] < range->lo ? lows[k] : range->lo;
      range->hi = highs[k] > range->hi ? highs[k] : range->hi;
    }
    for (; i < n; ++i) {
      const C value = scalar::widen<C>(x[i]);
      if (!(scalar::abs(value) <= std::numeric_limits<C>::max())) continue;
      range->lo = value < range->lo ? value : range->lo;
      range->hi = value > range->hi ? value : range->hi;
    }
  }

 private:
  static PLANCK_MATH void widen_by(V x, V& lo, V& hi) {
    lo = V(hn::Min(lo.raw, finite_or(x, kInf).raw));
    hi = V(hn::Max(hi.raw, finite_or(x, -kInf).raw));
  }
};

/// Inputs x, lo, hi: each column's range with one more element.
template <class T>
struct ColumnRangesKernel {
  using C = Compute<T>;
  using V = Vec<C>;
  using Params = int;
  using Inputs = Types<T, C, C>;
  using Outputs = Types<C, C>;

  PLANCK_MATH explicit ColumnRangesKernel(const Params&) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    constexpr C kInf = std::numeric_limits<C>::infinity();
    out[0] = V(hn::Min(in[1].raw, finite_or(in[0], kInf).raw));
    out[1] = V(hn::Max(in[2].raw, finite_or(in[0], -kInf).raw));
  }
};

template <class T>
constexpr std::array range_rows = {
    quantize::kernel_row(Formula::Range, element_of<T>, {}, 0, false, &RangeOfSpan<T>::run),
    quantize::kernel_row(Formula::ColumnRanges, element_of<T>, {}, 0, false, &Span<ColumnRangesKernel<T>>::run),
};

template <Formula formula, class T, class Q, class Source>
constexpr KernelRow row(std::optional<ElementKind> codes = {}) {
  return quantize::kernel_row(formula, element_of<T>, codes, Source::kVariant, false,
                              &Span<Kernel<formula, T, Q, Source>>::run);
}
template <Formula formula, class T, class Source>
constexpr KernelRow backward_row() {
  return quantize::kernel_row(formula, element_of<T>, {}, Source::kVariant, false,
                              &Span<BackwardKernel<formula, T, Source>>::run);
}
template <class T, class Source>
constexpr KernelRow terms_row() {
  return quantize::kernel_row(Formula::FakeQuantizeBackward, element_of<T>, {}, Source::kVariant, true,
                              &Span<LearnableTermsKernel<T, Source>>::run);
}

/// What one source of parameters has in one scale form; dequantise does not know forms.
template <class T, class Source>
constexpr std::array form_rows = {
    row<Formula::Quantize, T, std::int8_t, Source>(ElementKind::S8),
    row<Formula::Quantize, T, std::uint8_t, Source>(ElementKind::U8),
    backward_row<Formula::QuantizeBackward, T, Source>(),
    row<Formula::FakeQuantize, T, void, Source>(),
    backward_row<Formula::FakeQuantizeBackward, T, Source>(),
};
template <class T, class Source>
constexpr std::array formless_rows = {
    row<Formula::Dequantize, T, std::int8_t, Source>(ElementKind::S8),
    row<Formula::Dequantize, T, std::uint8_t, Source>(ElementKind::U8),
    row<Formula::DequantizeBackward, T, void, Source>(),
};

template <class T>
constexpr auto run_rows() {
  return join(form_rows<T, RunQParams<T, ScaleForm::Divide>>, form_rows<T, RunQParams<T, ScaleForm::Reciprocal>>,
              formless_rows<T, RunQParams<T, ScaleForm::Divide>>);
}
/// Scales stored as S.
template <class T, class S>
constexpr auto operand_rows() {
  using Divide = OperandQParams<T, ScaleForm::Divide, S>;
  using Reciprocal = OperandQParams<T, ScaleForm::Reciprocal, S>;
  return join(form_rows<T, Divide>, form_rows<T, Reciprocal>, formless_rows<T, Divide>,
              std::array{terms_row<T, Divide>(), terms_row<T, Reciprocal>()});
}

template <class T>
constexpr auto rows_for() {
  using C = Compute<T>;
  if constexpr (std::is_same_v<T, C>) {
    return join(run_rows<T>(), operand_rows<T, C>(), range_rows<T>);
  } else {
    return join(run_rows<T>(), operand_rows<T, C>(), operand_rows<T, T>(), range_rows<T>);
  }
}

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
