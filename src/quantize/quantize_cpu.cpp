// The quantise family's vector kernels: every formula for a register at a time, compiled once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/quantize_cpu.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <cstdint>

#include "cpu/span-inl.h"
#include "quantize/quantize_ops.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

#include "quantize/quantize_math.inl"

using quantize::Params;
using scalar::Compute;

template <ScaleForm form, class C>
PLANCK_MATH auto make_scale(const Params<C>& p) {
  if constexpr (form == ScaleForm::Divide) {
    return DivideScale<Vec<C>>{Vec<C>(p.scale)};
  } else {
    return ReciprocalScale<Vec<C>>{Vec<C>(p.scale), Vec<C>(p.inverse)};
  }
}

template <class T, ScaleForm form>
struct FakeQuantizeKernel {
  using C = Compute<T>;
  using Params = quantize::Params<C>;
  using Inputs = Types<T>;
  using Outputs = Types<T>;

  decltype(make_scale<form, C>(std::declval<Params>())) scale;
  CodeRange<Vec<C>> range;

  PLANCK_MATH explicit FakeQuantizeKernel(const Params& p)
      : scale(make_scale<form, C>(p)), range{Vec<C>(p.lo), Vec<C>(p.hi)} {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const { out[0] = fake_quantize(in[0], scale, range); }
};

/// Inputs x, dy.
template <class T, ScaleForm form>
struct FakeQuantizeBackwardKernel : FakeQuantizeKernel<T, form> {
  using Base = FakeQuantizeKernel<T, form>;
  using typename Base::C;
  using Inputs = Types<T, T>;

  PLANCK_MATH explicit FakeQuantizeBackwardKernel(const typename Base::Params& p) : Base(p) {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const {
    out[0] = fake_quantize_backward(in[0], in[1], this->scale, this->range);
  }
};

template <class Q, class T>
struct DequantizeKernel {
  using C = Compute<T>;
  using Params = quantize::Params<C>;
  using Inputs = Types<Q>;
  using Outputs = Types<T>;

  Vec<C> scale;
  Vec<C> zero_point;

  PLANCK_MATH explicit DequantizeKernel(const Params& p) : scale(p.scale), zero_point(p.zero_point) {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const { out[0] = dequantize(in[0], scale, zero_point); }
};

template <class T>
struct DequantizeBackwardKernel {
  using C = Compute<T>;
  using Params = quantize::Params<C>;
  using Inputs = Types<T>;
  using Outputs = Types<T>;

  Vec<C> scale;

  PLANCK_MATH explicit DequantizeBackwardKernel(const Params& p) : scale(p.scale) {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const { out[0] = dequantize_backward(in[0], scale); }
};

template <class Kernel>
constexpr KernelRow row(QuantizeKind kind, ElementKind element, std::optional<ElementKind> aux = {},
                        ScaleForm form = ScaleForm::Divide) {
  return quantize::kernel_row(kind, element, aux, form, &Span<Kernel>::run);
}

// clang-format off
#define PLANCK_ROWS(T)                                                                                                                        \
  row<FakeQuantizeKernel<T, ScaleForm::Divide>>(QuantizeKind::FakeQuantize, element_of<T>),                                                    \
  row<FakeQuantizeKernel<T, ScaleForm::Reciprocal>>(QuantizeKind::FakeQuantize, element_of<T>, {}, ScaleForm::Reciprocal),                     \
  row<FakeQuantizeBackwardKernel<T, ScaleForm::Divide>>(QuantizeKind::FakeQuantizeBackward, element_of<T>),                                    \
  row<FakeQuantizeBackwardKernel<T, ScaleForm::Reciprocal>>(QuantizeKind::FakeQuantizeBackward, element_of<T>, {}, ScaleForm::Reciprocal),     \
  row<DequantizeKernel<std::int8_t, T>>(QuantizeKind::DequantizePerTensor, element_of<T>, ElementKind::S8),                                    \
  row<DequantizeKernel<std::uint8_t, T>>(QuantizeKind::DequantizePerTensor, element_of<T>, ElementKind::U8),                                   \
  row<DequantizeBackwardKernel<T>>(QuantizeKind::DequantizePerTensorBackward, element_of<T>)
// clang-format on

constexpr KernelRow kRows[] = {PLANCK_ROWS(float), PLANCK_ROWS(double), PLANCK_ROWS(f16), PLANCK_ROWS(bf16)};
#undef PLANCK_ROWS

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct QuantizeFamily;
template <>
struct TargetRows<QuantizeFamily, HWY_TARGET> {
  static std::span<const KernelRow> get() { return HWY_NAMESPACE::kRows; }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
std::span<const KernelRow> quantize_kernels(ArchSku arch) noexcept { return rows_of<QuantizeFamily>(arch); }
}  // namespace planck::cpu
#endif
