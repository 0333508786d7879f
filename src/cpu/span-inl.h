// From a kernel's one-register step to a function over n contiguous elements, and from such functions to a
// target's rows of the kernel list. Re-included once per target.
//
// A kernel is a struct with types C, Params, Inputs, Outputs (lists of storage types), a constructor from
// Params, and `void operator()(const Vec<C>* in, Vec<C>* out) const`. The tail goes through the same step on
// padded copies, so that element n - 1 sees the very instructions element 0 does.

#if defined(PLANCK_CPU_SPAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_CPU_SPAN_INL_H_
#undef PLANCK_CPU_SPAN_INL_H_
#else
#define PLANCK_CPU_SPAN_INL_H_
#endif

#include <cstring>
#include <utility>

#include "cpu/kernel.hpp"
#include "cpu/kernel_types.hpp"
#include "cpu/simd_lanes-inl.h"
#include "numerics/storage.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

template <class Kernel, class Inputs = typename Kernel::Inputs, class Outputs = typename Kernel::Outputs>
struct Span;

template <class Kernel, class... In, class... Out>
struct Span<Kernel, Types<In...>, Types<Out...>> {
  using C = typename Kernel::C;
  static constexpr int kInputs = sizeof...(In);
  static constexpr int kOutputs = sizeof...(Out);
  static constexpr std::int64_t kSizes[] = {static_cast<std::int64_t>(sizeof(In))...,
                                            static_cast<std::int64_t>(sizeof(Out))...};

  static void run(const void* params, void* const* operands, std::int64_t n) {
    const Kernel kernel(*static_cast<const typename Kernel::Params*>(params));
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    std::int64_t i = 0;
    for (; i + lanes <= n; i += lanes) step(kernel, operands, i);
    if (i < n) tail(kernel, operands, i, n - i);
  }

 private:
  static PLANCK_MATH void step(const Kernel& kernel, void* const* operands, std::int64_t i) {
    step(kernel, operands, i, std::make_index_sequence<kInputs>(), std::make_index_sequence<kOutputs>());
  }

  template <std::size_t... I, std::size_t... O>
  static PLANCK_MATH void step(const Kernel& kernel, void* const* operands, std::int64_t i, std::index_sequence<I...>,
                               std::index_sequence<O...>) {
    const Vec<C> in[] = {load<C>(static_cast<const In*>(operands[I]) + i)...};
    Vec<C> out[kOutputs];
    kernel(in, out);
    (store(out[O], static_cast<Out*>(operands[kInputs + O]) + i), ...);
  }

  static void tail(const Kernel& kernel, void* const* operands, std::int64_t i, std::int64_t rest) {
    alignas(64) unsigned char padded[kInputs + kOutputs][HWY_MAX_BYTES] = {};
    void* copies[kInputs + kOutputs];
    for (int k = 0; k < kInputs + kOutputs; ++k) {
      copies[k] = padded[k];
      if (k < kInputs) std::memcpy(padded[k], at(operands[k], i * kSizes[k]), rest * kSizes[k]);
    }
    step(kernel, copies, 0);
    for (int k = kInputs; k < kInputs + kOutputs; ++k) {
      std::memcpy(at(operands[k], i * kSizes[k]), padded[k], rest * kSizes[k]);
    }
  }

  static unsigned char* at(void* p, std::int64_t bytes) { return static_cast<unsigned char*>(p) + bytes; }
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
