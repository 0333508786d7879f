// The parameterised binary family's vector kernels, compiled once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "binary/cpu/kernels.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <cstdint>

#include "binary/cpu/kernel_row.hpp"
#include "cpu/simd/span-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

#include "binary/math.inl"

using binary::Weight;
using scalar::Compute;

template <class Op, class T, Weight weight>
struct BinaryKernel {
  using C = Compute<T>;
  using Params = binary::Params<C>;
  using Inputs = std::conditional_t<weight == Weight::Tensor, Types<T, T, T>, Types<T, T>>;
  using Outputs = Types<T>;

  Vec<C> w;

  PLANCK_MATH explicit BinaryKernel(const Params& p) : w(p.weight) {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const {
    if constexpr (weight == Weight::Tensor) {
      out[0] = Op::value(in[0], in[1], in[2]);
    } else {
      out[0] = Op::value(in[0], in[1], w);
    }
  }
};

/// Gradients in Out: the element itself, or C where they are terms of a sum.
template <class Op, class T, Weight weight, class Out>
struct BinaryBackwardKernel {
  using C = Compute<T>;
  using Params = binary::Params<C>;
  using Inputs = std::conditional_t<weight == Weight::Tensor, Types<T, T, T, T>, Types<T>>;
  using Outputs = std::conditional_t<weight == Weight::Tensor, Types<Out, Out, Out>, Types<Out, Out>>;

  Vec<C> w;

  PLANCK_MATH explicit BinaryBackwardKernel(const Params& p) : w(p.weight) {}
  PLANCK_MATH void operator()(const Vec<C>* in, Vec<C>* out) const {
    const Vec<C> dy = in[0];
    if constexpr (weight == Weight::Tensor) {
      out[0] = Op::da(dy, in[3]);
      out[1] = Op::db(dy, in[3]);
      out[2] = Op::dw(dy, in[1], in[2]);
    } else {
      out[0] = Op::da(dy, w);
      out[1] = Op::db(dy, w);
    }
  }
};

template <class Kernel>
constexpr KernelRow row(BinaryKind kind, bool backward, Weight weight, ElementKind element, bool terms) {
  return binary::kernel_row(kind, backward, weight, element, terms, &Span<Kernel>::run);
}

// clang-format off
#define PLANCK_ROWS(Op, T, weight)                                                                                    \
  row<BinaryKernel<Op, T, weight>>(BinaryKind::Op, false, weight, element_of<T>, false),                              \
  row<BinaryBackwardKernel<Op, T, weight, T>>(BinaryKind::Op, true, weight, element_of<T>, false),                    \
  row<BinaryBackwardKernel<Op, T, weight, Compute<T>>>(BinaryKind::Op, true, weight, element_of<T>, true)
#define PLANCK_ROWS_OF_TYPE(T)                                                                                        \
  PLANCK_ROWS(Lerp, T, Weight::Scalar), PLANCK_ROWS(Lerp, T, Weight::Tensor),                                          \
  PLANCK_ROWS(AddScaled, T, Weight::Scalar), PLANCK_ROWS(AddScaled, T, Weight::Tensor)
// clang-format on

template <class... T>
constexpr auto rows_for(TypeList<T...>) {
  return join(std::array{PLANCK_ROWS_OF_TYPE(T)}...);
}
constexpr auto kRows = rows_for(TypesOf<ElementClass::Float>());
#undef PLANCK_ROWS_OF_TYPE
#undef PLANCK_ROWS

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct BinaryParamFamily;
template <>
struct TargetRows<BinaryParamFamily, HWY_TARGET> {
  static std::span<const KernelRow> get() { return HWY_NAMESPACE::kRows; }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
std::span<const KernelRow> binary_param_kernels(ArchSku arch) noexcept { return rows_of<BinaryParamFamily>(arch); }
}  // namespace planck::cpu
#endif
