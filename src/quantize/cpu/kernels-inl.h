// The quantise family's vector kernels: every formula for a register at a time. Each kernels_<kind>.cpp compiles
// them for one element kind and every target.

#if defined(PLANCK_QUANTIZE_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_QUANTIZE_CPU_INL_H_
#undef PLANCK_QUANTIZE_CPU_INL_H_
#else
#define PLANCK_QUANTIZE_CPU_INL_H_
#endif

#include <algorithm>
#include <array>
#include <concepts>
#include <cstdint>
#include <limits>

#include "cpu/simd/span-inl.h"
#include "quantize/cpu/kernel_row.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

#include "quantize/math.inl"

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

/// What span-inl.h may know of a formula's results: integers times a finite scale are no NaN.
template <Formula formula, class Q>
struct Results {};
template <std::integral Q>
struct Results<Formula::Dequantize, Q> {
  static constexpr bool kNeverNan = true;
};

/// The kernel of a formula over elements T (and codes Q), its parameters from `Source`.
template <Formula formula, class T, class Q, class Source>
struct Kernel : Source, Results<formula, Q> {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<std::conditional_t<formula == Formula::Dequantize, Q, T>>;
  using Outputs = Types<std::conditional_t<formula == Formula::Quantize, Q, T>>;

  using SegmentKernel = Kernel<formula, T, Q, typename Source::Segment>;

  PLANCK_MATH explicit Kernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 1);
    if constexpr (formula == Formula::Quantize) out[0] = quantize_to<Q>(in[0], q.scale, q.range, q.zero_point);
    if constexpr (formula == Formula::Dequantize) out[0] = dequantize_from<Q>(in[0], q.scale.scale, q.zero_point);
    if constexpr (formula == Formula::DequantizeBackward) out[0] = dequantize_backward(in[0], q.scale.scale);
    if constexpr (formula == Formula::FakeQuantize) out[0] = fake_quantize(in[0], q.scale, q.range);
  }
};

/// Inputs x, dy.
template <Formula formula, class T, class Source, bool float_codes = false>
struct QuantizeBackwardKernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<T, T>;
  using Outputs = Types<T>;

  using SegmentKernel = QuantizeBackwardKernel<formula, T, typename Source::Segment, float_codes>;

  PLANCK_MATH explicit QuantizeBackwardKernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 2);
    if constexpr (formula == Formula::QuantizeBackward && float_codes) {
      out[0] = quantize_backward_from_float(in[0], in[1], q.scale, q.range);
    } else if constexpr (formula == Formula::QuantizeBackward) {
      out[0] = quantize_backward(in[0], in[1], q.scale, q.range);
    } else {
      out[0] = fake_quantize_backward(in[0], in[1], q.scale, q.range);
    }
  }
};

/// Inputs x, dy; dx, and what they add to d_scale and d_zero_point, in C.
template <class T, class Source>
struct LearnableBackwardKernel : Source {
  using typename Source::C;
  using V = Vec<C>;
  using Inputs = typename Source::template Inputs<T, T>;
  using Outputs = Types<T, C, C>;
  using SegmentKernel = LearnableBackwardKernel<T, typename Source::Segment>;

  PLANCK_MATH explicit LearnableBackwardKernel(const typename Source::Params& p) : Source(p) {}
  PLANCK_MATH void operator()(const V* in, V* out) const {
    const auto& q = this->at(in + 2);
    out[0] = fake_quantize_backward(in[0], in[1], q.scale, q.range);
    out[quantize::kDScale] = d_scale_term(in[0], in[1], q.scale, q.range);
    out[quantize::kDZeroPoint] = d_zero_point_term(in[0], in[1], q.scale, q.range);
  }
};

/// The kernel with parameters of a whole row, for rows along which the two operands are broadcast.
template <class K>
struct SegmentRows {
  using C = typename K::C;

  /// Scales are stored as S.
  template <class S>
  static void run(const void* params, void* const* operands, const std::int64_t* row_strides, std::int64_t rows,
                  std::int64_t n, unsigned streamed) {
    const auto scale_at = [](const std::byte* p) { return scalar::widen<C>(*reinterpret_cast<const S*>(p)); };
    run_with(scale_at, params, operands, row_strides, rows, n, streamed);
  }

 private:
  /// One text for all S, which takes the compiler long enough.
  static void run_with(C (*scale_at)(const std::byte*), const void* params, void* const* operands,
                       const std::int64_t* row_strides, std::int64_t rows, std::int64_t n, unsigned streamed) {
    constexpr int kScale = Span<K>::kInputs;
    constexpr int kZeroPoint = kScale + 1;
    constexpr int kOperands = Span<K>::kInputs + Span<K>::kOutputs;
    const auto common = *static_cast<const quantize::Params<C>*>(params);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto at = [&](int k) { return static_cast<std::byte*>(operands[k]) + r * row_strides[k]; };
      const C scale = scale_at(at(kScale));
      const std::int32_t zero_point = *reinterpret_cast<const std::int32_t*>(at(kZeroPoint));
      void* without[kOperands];
      for (int k = 0; k < kOperands; ++k) without[k] = at(k < kScale ? k : k + 2);
      Span<K>::apply_to(K(common.segment(scale, static_cast<C>(zero_point))), without, n, streamed);
    }
  }
};

template <class T, class K>
constexpr KernelRow row(Formula formula, std::optional<ElementKind> codes = {}, bool terms = false) {
  SegmentKernel segments = nullptr;
  if constexpr (!std::is_void_v<typename K::Segment>) {
    segments = &SegmentRows<typename K::SegmentKernel>::template run<typename K::Scale>;
  }
  return quantize::kernel_row(formula, element_of<T>, codes, K::kVariant, terms, &Span<K>::run, segments);
}
template <Formula formula, class T, class Source>
constexpr KernelRow plain_row() {
  return row<T, Kernel<formula, T, void, Source>>(formula);
}
/// One for each kind of codes.
template <Formula formula, class T, class Source, class... Q>
constexpr std::array<KernelRow, sizeof...(Q)> code_rows(TypeList<Q...>) {
  return {row<T, Kernel<formula, T, Q, Source>>(formula, element_of<Q>)...};
}
template <Formula formula, class T, class Source>
constexpr KernelRow backward_row() {
  return row<T, QuantizeBackwardKernel<formula, T, Source>>(formula);
}
/// Integer codes differ in their range only, float codes in theirs: one kernel for all of these.
template <class T, class Source>
constexpr std::array<KernelRow, 2> float_backward_rows() {
  using K = QuantizeBackwardKernel<Formula::QuantizeBackward, T, Source, true>;
  return {row<T, K>(Formula::QuantizeBackward, ElementKind::F8E4M3),
          row<T, K>(Formula::QuantizeBackward, ElementKind::F8E5M2)};
}

template <class T, class Source>
constexpr KernelRow learnable_row() {
  return row<T, LearnableBackwardKernel<T, Source>>(Formula::FakeQuantizeBackward, {}, true);
}

/// What one source of parameters has in one scale form; dequantise does not know forms.
template <class T, class Source>
constexpr auto form_rows = join(code_rows<Formula::Quantize, T, Source>(TypesOf<ElementClass::Codes>()),
                                float_backward_rows<T, Source>(),
                                std::array{backward_row<Formula::QuantizeBackward, T, Source>(),
                                           plain_row<Formula::FakeQuantize, T, Source>(),
                                           backward_row<Formula::FakeQuantizeBackward, T, Source>()});
template <class T, class Source>
constexpr auto formless_rows = join(code_rows<Formula::Dequantize, T, Source>(TypesOf<ElementClass::Codes>()),
                                    std::array{plain_row<Formula::DequantizeBackward, T, Source>()});

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
    return join(run_rows<T>(), operand_rows<T, C>());
  } else {
    return join(run_rows<T>(), operand_rows<T, C>(), operand_rows<T, T>());
  }
}

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
