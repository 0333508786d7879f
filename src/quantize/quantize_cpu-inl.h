// The quantise family's vector kernels: every formula for a register at a time. Each quantize_cpu_<kind>.cpp compiles
// them for one element kind and every target.

#if defined(PLANCK_QUANTIZE_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_QUANTIZE_CPU_INL_H_
#undef PLANCK_QUANTIZE_CPU_INL_H_
#else
#define PLANCK_QUANTIZE_CPU_INL_H_
#endif

#include <algorithm>
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
  using Segment = void;
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
  using Segment = RunQParams<T, form_>;
  using Scale = S;
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

  using SegmentKernel = Kernel<formula, T, Q, typename Source::Segment>;

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

  using SegmentKernel = BackwardKernel<formula, T, typename Source::Segment>;

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

/// Inputs x, dy; dx, and what they add to d_scale and d_zero_point, all in C.
template <class T, class Source>
struct LearnableBackwardKernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<T, T>;
  using Outputs = Types<C, C, C>;
  using SegmentKernel = LearnableBackwardKernel<T, typename Source::Segment>;

  PLANCK_MATH explicit LearnableBackwardKernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 2);
    out[0] = fake_quantize_backward(in[0], in[1], q.scale, q.range);
    out[quantize::kDScale] = d_scale_term(in[0], in[1], q.scale, q.range);
    out[quantize::kDZeroPoint] = d_zero_point_term(in[0], in[1], q.scale, q.range);
  }
};

/// Infinities and NaN take no part in a range.
template <class V, class C>
PLANCK_MATH V finite_or(V x, C otherwise) {
  return select(abs(x) <= V(std::numeric_limits<C>::max()), x, V(otherwise));
}

/// The range of elements that a register holds each lane's share of.
template <class T>
struct RangeLanes {
  using C = Compute<T>;
  using V = Vec<C>;
  static constexpr C kInf = std::numeric_limits<C>::infinity();

  V lo;
  V hi;

  PLANCK_MATH RangeLanes() : lo(kInf), hi(-kInf) {}
  PLANCK_MATH RangeLanes(V low, V high) : lo(low), hi(high) {}
  PLANCK_MATH void add(V x) {
    lo = V(hn::Min(lo.raw, finite_or(x, kInf).raw));
    hi = V(hn::Max(hi.raw, finite_or(x, -kInf).raw));
  }
  PLANCK_MATH void widen(scalar::Range<C>& range) const {
    range.join({hn::GetLane(hn::MinOfLanes(Tag<C>(), lo.raw)), hn::GetLane(hn::MaxOfLanes(Tag<C>(), hi.raw))});
  }
};

/// The same for elements that are all finite, at half the price, and whether they were.
template <class T, bool is_float = std::is_same_v<T, Compute<T>>>
struct FiniteRange {
  using C = Compute<T>;
  using V = Vec<C>;

  V lo;
  V hi;
  V rest;  // x - x: 0, and NaN for infinities and NaN

  PLANCK_MATH FiniteRange()
      : lo(std::numeric_limits<C>::infinity()), hi(-std::numeric_limits<C>::infinity()), rest(C(0)) {}
  static PLANCK_MATH std::int64_t elements() { return static_cast<std::int64_t>(hn::Lanes(Tag<C>())); }
  PLANCK_MATH void add(const T* from) {
    const V x = load<C>(from);
    lo = V(hn::Min(lo.raw, x.raw));
    hi = V(hn::Max(hi.raw, x.raw));
    rest = rest | (x - x);
  }
  PLANCK_MATH void join(const FiniteRange& other) {
    lo = V(hn::Min(lo.raw, other.lo.raw));
    hi = V(hn::Max(hi.raw, other.hi.raw));
    rest = rest | other.rest;
  }
  PLANCK_MATH bool all_finite() const { return hn::AllFalse(Tag<C>(), hn::IsNaN(rest.raw)); }
  PLANCK_MATH void widen(scalar::Range<C>& range) const { RangeLanes<T>(lo, hi).widen(range); }
};

/// 16-bit kinds are ordered as integers once the magnitude of negative ones is complemented; twice the lanes, and
/// nothing to widen.
template <class T>
struct FiniteRange<T, false> {
  using Raw = hn::Vec<Tag<std::int16_t>>;
  static constexpr std::int16_t kInfinity = std::is_same_v<T, f16> ? 0x7C00 : 0x7F80;

  Raw lo;
  Raw hi;
  Raw magnitude;

  PLANCK_MATH FiniteRange()
      : lo(hn::Set(Tag<std::int16_t>(), kInfinity)),
        hi(hn::Set(Tag<std::int16_t>(), static_cast<std::int16_t>(~kInfinity))),  // the key of -Inf
        magnitude(hn::Zero(Tag<std::int16_t>())) {}
  static PLANCK_MATH std::int64_t elements() { return static_cast<std::int64_t>(hn::Lanes(Tag<std::int16_t>())); }
  PLANCK_MATH void add(const T* from) {
    const Tag<std::int16_t> d;
    const Raw x = hn::LoadU(d, reinterpret_cast<const std::int16_t*>(from));
    const Raw key = ordered(x);
    lo = hn::Min(lo, key);
    hi = hn::Max(hi, key);
    magnitude = hn::Max(magnitude, hn::And(x, hn::Set(d, 0x7FFF)));
  }
  PLANCK_MATH void join(const FiniteRange& other) {
    lo = hn::Min(lo, other.lo);
    hi = hn::Max(hi, other.hi);
    magnitude = hn::Max(magnitude, other.magnitude);
  }
  PLANCK_MATH bool all_finite() const {
    const Tag<std::int16_t> d;
    return hn::AllTrue(d, hn::Lt(magnitude, hn::Set(d, kInfinity)));
  }
  PLANCK_MATH void widen(scalar::Range<float>& range) const {
    const Tag<std::int16_t> d;
    range.join({value(hn::GetLane(hn::MinOfLanes(d, lo))), value(hn::GetLane(hn::MaxOfLanes(d, hi)))});
  }

 private:
  /// Its own inverse.
  static PLANCK_MATH Raw ordered(Raw x) {
    return hn::Xor(x, hn::And(hn::ShiftRight<15>(x), hn::Set(Tag<std::int16_t>(), 0x7FFF)));
  }
  static float value(std::int16_t key) {
    return scalar::widen<float>(T::from_bits(static_cast<std::uint16_t>(key < 0 ? key ^ 0x7FFF : key)));
  }
};

/// Widens the Range<C> in operands[1] by the n elements in operands[0].
template <class T>
struct RangeOfSpan {
  using C = Compute<T>;

  static void run(const void*, void* const* operands, std::int64_t n, unsigned) {
    const T* x = static_cast<const T*>(operands[0]);
    auto& range = *static_cast<scalar::Range<C>*>(operands[1]);
    std::int64_t i = 0;
    // Pieces that the first-level cache holds, as if all were finite; one that is not is gone through again.
    constexpr std::int64_t kPiece = 2048;
    const std::int64_t step = kChains * FiniteRange<T>::elements();
    while (n - i >= step) {
      const std::int64_t end = i + std::min(kPiece, n - i) / step * step;
      if (!add_finite(x + i, end - i, range)) add_any(x + i, end - i, range);
      i = end;
    }
    add_any(x + i, n - i, range);
  }

 private:
  static constexpr int kChains = 4;  // as many independent minima and maxima as hide their latency

  static bool add_finite(const T* x, std::int64_t n, scalar::Range<C>& range) {
    const std::int64_t elements = FiniteRange<T>::elements();
    FiniteRange<T> chain[kChains];
    for (std::int64_t i = 0; i < n; i += kChains * elements) {
      for (int k = 0; k < kChains; ++k) chain[k].add(x + i + k * elements);
    }
    for (int k = 1; k < kChains; ++k) chain[0].join(chain[k]);
    if (!chain[0].all_finite()) return false;
    chain[0].widen(range);
    return true;
  }

  static void add_any(const T* x, std::int64_t n, scalar::Range<C>& range) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    RangeLanes<T> all;
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) all.add(load<C>(x + i));
    all.widen(range);
    for (; i < n; ++i) range.add(scalar::widen<C>(x[i]));
  }
};

/// Widens the ranges of n columns, lo in operands[1] and hi in operands[2], by the rows of operands[0].
template <class T>
struct RangesOfColumns {
  using C = Compute<T>;
  using V = Vec<C>;

  static void run(const void* params, void* const* operands, std::int64_t n, unsigned) {
    const auto& rows = *static_cast<const quantize::Rows*>(params);
    const auto* x = static_cast<const std::byte*>(operands[0]);
    C* lo = static_cast<C*>(operands[1]);
    C* hi = static_cast<C*>(operands[2]);
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      RangeLanes<T> range{load<C>(lo + i), load<C>(hi + i)};
      for (std::int64_t r = 0; r < rows.count; ++r) {
        range.add(load<C>(reinterpret_cast<const T*>(x + r * rows.stride) + i));
      }
      store(range.lo, lo + i);
      store(range.hi, hi + i);
    }
    for (; i < n; ++i) {
      scalar::Range<C> range{lo[i], hi[i]};
      for (std::int64_t r = 0; r < rows.count; ++r) {
        range.add(scalar::widen<C>(reinterpret_cast<const T*>(x + r * rows.stride)[i]));
      }
      lo[i] = range.lo;
      hi[i] = range.hi;
    }
  }
};

template <class T>
constexpr std::array range_rows = {
    quantize::kernel_row(Formula::Range, element_of<T>, {}, 0, false, &RangeOfSpan<T>::run),
    quantize::kernel_row(Formula::ColumnRanges, element_of<T>, {}, 0, false, &RangesOfColumns<T>::run),
};

/// The kernel with parameters of a whole span, for a span along which the two operands stand still.
template <class SegmentKernel, class S>
struct SegmentSpan {
  using C = typename SegmentKernel::C;
  static void run(const void* params, void* const* operands, std::int64_t n, unsigned streamed) {
    using Run = Span<SegmentKernel>;
    const S scale = *static_cast<const S*>(operands[Run::kInputs]);
    const std::int32_t zero_point = *static_cast<const std::int32_t*>(operands[Run::kInputs + 1]);
    const auto& common = *static_cast<const quantize::Params<C>*>(params);
    const auto segment = common.segment(scalar::widen<C>(scale), static_cast<C>(zero_point));
    void* without[Run::kInputs + Run::kOutputs];
    for (int k = 0; k < Run::kInputs + Run::kOutputs; ++k) without[k] = operands[k < Run::kInputs ? k : k + 2];
    Run::run(&segment, without, n, streamed);
  }
};

template <class T, class K>
constexpr KernelRow row(Formula formula, std::optional<ElementKind> codes = {}, bool terms = false) {
  SpanKernel segment_span = nullptr;
  if constexpr (!std::is_void_v<typename K::Segment>) {
    segment_span = &SegmentSpan<typename K::SegmentKernel, typename K::Scale>::run;
  }
  return quantize::kernel_row(formula, element_of<T>, codes, K::kVariant, terms, &Span<K>::run, segment_span);
}
template <Formula formula, class T, class Q, class Source>
constexpr KernelRow row_with(std::optional<ElementKind> codes = {}) {
  return row<T, Kernel<formula, T, Q, Source>>(formula, codes);
}
template <Formula formula, class T, class Source>
constexpr KernelRow backward_row() {
  return row<T, BackwardKernel<formula, T, Source>>(formula);
}

template <class T, class Source>
constexpr KernelRow learnable_row() {
  return row<T, LearnableBackwardKernel<T, Source>>(Formula::FakeQuantizeBackward, {}, true);
}

/// What one source of parameters has in one scale form; dequantise does not know forms.
template <class T, class Source>
constexpr std::array form_rows = {
    row_with<Formula::Quantize, T, std::int8_t, Source>(ElementKind::S8),
    row_with<Formula::Quantize, T, std::uint8_t, Source>(ElementKind::U8),
    backward_row<Formula::QuantizeBackward, T, Source>(),
    row_with<Formula::FakeQuantize, T, void, Source>(),
    backward_row<Formula::FakeQuantizeBackward, T, Source>(),
};
template <class T, class Source>
constexpr std::array formless_rows = {
    row_with<Formula::Dequantize, T, std::int8_t, Source>(ElementKind::S8),
    row_with<Formula::Dequantize, T, std::uint8_t, Source>(ElementKind::U8),
    row_with<Formula::DequantizeBackward, T, void, Source>(),
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
              std::array{learnable_row<T, Divide>(), learnable_row<T, Reciprocal>()});
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
