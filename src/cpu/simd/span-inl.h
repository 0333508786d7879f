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
#include <tuple>
#include <utility>

#include "cpu/kernel.hpp"
#include "cpu/kernel_types.hpp"
#include "cpu/simd/lanes-inl.h"
#include "numerics/storage.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if HWY_TARGET != HWY_SCALAR
/// store_in_order where nothing is NaN, which takes bf16 four operations more to find out.
template <bool streamed, class T>
PLANCK_MATH void store_numbers_in_order(Pair<T> x, T* to) {
  if constexpr (std::is_same_v<T, bf16>) {
    using U = Vec<std::uint32_t>;
    const Tag<std::uint16_t> d16;
    const U first = bits(x.first);
    const U second = bits(x.second);
    const U low = first + U(0x7FFFU) + (shift_right<16>(first) & U(1U));
    const U high = second + U(0x7FFFU) + (shift_right<16>(second) & U(1U));
    const Vec<std::uint16_t> packed(hn::ConcatOdd(d16, hn::BitCast(d16, high.raw), hn::BitCast(d16, low.raw)));
    store_full<streamed>(packed, reinterpret_cast<std::uint16_t*>(to));
  } else {
    store_in_order<streamed>(x, to);
  }
}
#endif

/// Codes are one full register where the target packs four registers of them into one.
#define PLANCK_PACKS_CODES (HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3)

/// store_codes, streamed to an address aligned to the register if asked for.
template <bool streamed, class T>
PLANCK_MATH void put_codes(const Vec<float>* x, T* to) {
  using Byte = std::conditional_t<numerics::Pattern<T>, std::uint8_t, T>;  // what registers hold
#if HWY_TARGET == HWY_AVX3
  // Packing works within 128-bit quarters; one permutation of whole quadruples puts them in order.
  const __m512i low = _mm512_packs_epi32(code_words<T>(x[0]).raw, code_words<T>(x[1]).raw);
  const __m512i high = _mm512_packs_epi32(code_words<T>(x[2]).raw, code_words<T>(x[3]).raw);
  const __m512i codes = std::is_signed_v<T> ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const hn::Vec<Tag<Byte>> packed{_mm512_permutexvar_epi32(order, codes)};
  store_full<streamed>(Vec<Byte>(packed), reinterpret_cast<Byte*>(to));
#else
  if constexpr (streamed && PLANCK_PACKS_CODES) {
    alignas(64) T packed[HWY_MAX_BYTES];  // never leaves its register
    store_codes(x, packed);
    const auto* const bytes = reinterpret_cast<const Byte*>(packed);
    store_full<true>(Vec<Byte>(hn::Load(Tag<Byte>(), bytes)), reinterpret_cast<Byte*>(to));
  } else {
    store_codes(x, to);
  }
#endif
}

template <class Kernel, class Inputs = typename Kernel::Inputs, class Outputs = typename Kernel::Outputs>
struct Span;

template <class Kernel, class... In, class... Out>
struct Span<Kernel, Types<In...>, Types<Out...>> {
  using C = typename Kernel::C;
  static constexpr int kInputs = sizeof...(In);
  static constexpr int kOutputs = sizeof...(Out);
  static constexpr std::int64_t kSizes[] = {static_cast<std::int64_t>(sizeof(In))...,
                                            static_cast<std::int64_t>(sizeof(Out))...};
  /// Streamed outputs are all of one type.
  using Out0 = std::tuple_element_t<0, std::tuple<Out...>>;
  /// All operands f16 or bf16 alike: two registers of lanes a step, so that memory is moved in full registers.
  static constexpr bool kPaired = sizeof(C) == 4 && ((sizeof(In) == 2) && ...) && ((sizeof(Out) == 2) && ...);
  /// Codes: four registers of lanes a step, for the same reason.
  static constexpr bool kPacked = sizeof(C) == 4 && kOutputs == 1 && sizeof(Out0) == 1;
  /// One 16-bit output of other inputs: two registers of lanes a step, in order.
  static constexpr bool kOrdered =
      sizeof(C) == 4 && kOutputs == 1 && sizeof(Out0) == 2 && !kPaired && HWY_TARGET != HWY_SCALAR;
  /// A 16-bit output and terms beside it: the same.
  static constexpr bool kMixed = sizeof(C) == 4 && kOutputs > 1 && sizeof(Out0) == 2 && !kPaired
                                 && HWY_TARGET != HWY_SCALAR;
  /// Whether every store is a full register, which streaming needs.
  static constexpr bool kStreamedCodes = kPacked && PLANCK_PACKS_CODES;
  static constexpr bool kStreamable =
      kPaired || kOrdered || kMixed || kStreamedCodes || (std::is_same_v<Out, C> && ...);

  static constexpr std::int64_t kShortRow = 1024;

  static void run(const void* params, void* const* operands, std::int64_t n, unsigned streamed) {
    apply_to(Kernel(*static_cast<const typename Kernel::Params*>(params)), operands, n, streamed);
  }

  /// The same inside a caller's loop, with a kernel of the caller's making.
  static PLANCK_MATH void apply_to(const Kernel& kernel, void* const* operands, std::int64_t n, unsigned streamed) {
    std::int64_t i = 0;
    if constexpr (kStreamable) {
      const std::int64_t head = streamed != 0 ? elements_to_alignment(operands, n, streamed) : -1;
      if (head >= 0) {
        if constexpr (kStreamedCodes) i = full_steps<false>(kernel, operands, 0, head, 0);
        if (i < head) partial(kernel, operands, i, head - i);
        i = full_steps<true>(kernel, operands, head, n, streamed);
      } else {
        i = full_steps<false>(kernel, operands, 0, n, 0);
      }
    } else {
      i = full_steps<false>(kernel, operands, 0, n, 0);
    }
    if (i < n) partial(kernel, operands, i, n - i);
  }

 private:
  static PLANCK_MATH std::int64_t step_elements() {
    return static_cast<std::int64_t>(hn::Lanes(Tag<C>())) * (kPaired || kOrdered || kMixed ? 2 : 1);
  }

  /// Whole steps from element i on; `streamed` says which outputs are streamed if any may be.
  template <bool may_stream>
  static PLANCK_MATH std::int64_t full_steps(const Kernel& kernel, void* const* operands, std::int64_t i,
                                             std::int64_t n, unsigned streamed) {
    const std::int64_t elements = step_elements();
    // A copy that nothing else points to: a store of codes, which may alias anything, must not make us reload it.
    void* local[kInputs + kOutputs];
    for (int k = 0; k < kInputs + kOutputs; ++k) local[k] = operands[k];
    if constexpr (kPacked) {
      for (; i + 4 * elements <= n; i += 4 * elements) {
        Vec<C> codes[4];
        for (int k = 0; k < 4; ++k)
          apply(kernel, local, i + k * elements, codes + k, std::make_index_sequence<kInputs>());
        put_codes<may_stream && kStreamedCodes>(codes, static_cast<Out0*>(local[kInputs]) + i);
      }
    }
    for (; i + elements <= n; i += elements) {
      step<may_stream>(kernel, local, i, streamed, std::make_index_sequence<kInputs>(),
                       std::make_index_sequence<kOutputs>());
    }
    return i;
  }

  template <bool may_stream, std::size_t... I, std::size_t... O>
  static PLANCK_MATH void step(const Kernel& kernel, void* const* operands, std::int64_t i, unsigned streamed,
                               std::index_sequence<I...>, std::index_sequence<O...>) {
    if constexpr (kPaired) {
      const Vec<float> in[2 * kInputs] = {load_pair(static_cast<const In*>(operands[I]) + i).first...,
                                          load_pair(static_cast<const In*>(operands[I]) + i).second...};
      Vec<float> out[2 * kOutputs];
      kernel(in, out);
      kernel(in + kInputs, out + kOutputs);
      (put<may_stream>(Pair<Out>{out[O], out[kOutputs + O]}, static_cast<Out*>(operands[kInputs + O]) + i,
                       (streamed >> O & 1U) != 0),
       ...);
    } else if constexpr (kOrdered) {
      Vec<float> out[2];
      apply(kernel, operands, i, out, std::index_sequence<I...>());
      apply(kernel, operands, i + step_elements() / 2, out + 1, std::index_sequence<I...>());
      auto* to = static_cast<Out0*>(operands[kInputs]) + i;
      const Pair<Out0> both{out[0], out[1]};
      if (may_stream && streamed != 0) {
        put_in_order<true>(both, to);
      } else {
        put_in_order<false>(both, to);
      }
    } else if constexpr (kMixed) {
      const std::int64_t half = step_elements() / 2;
      Vec<float> out[2][kOutputs];
      apply(kernel, operands, i, out[0], std::index_sequence<I...>());
      apply(kernel, operands, i + half, out[1], std::index_sequence<I...>());
      const Pair<Out0> both{out[0][0], out[1][0]};
      auto* to = static_cast<Out0*>(operands[kInputs]) + i;
      if (may_stream && (streamed & 1U) != 0) {
        put_in_order<true>(both, to);
      } else {
        put_in_order<false>(both, to);
      }
      for (int o = 1; o < kOutputs; ++o) {
        auto* terms = static_cast<float*>(operands[kInputs + o]) + i;
        store(out[0][o], terms);
        store(out[1][o], terms + half);
      }
    } else {
      Vec<C> out[kOutputs];
      apply(kernel, operands, i, out, std::index_sequence<I...>());
      (put<may_stream>(out[O], static_cast<Out*>(operands[kInputs + O]) + i, (streamed >> O & 1U) != 0), ...);
    }
  }

  template <std::size_t... I>
  static PLANCK_MATH void apply(const Kernel& kernel, void* const* operands, std::int64_t i, Vec<C>* out,
                                std::index_sequence<I...>) {
    const Vec<C> in[] = {load<C>(static_cast<const In*>(operands[I]) + i)...};
    kernel(in, out);
  }

  /// A kernel with a member kNeverNan says that its results are none.
  template <bool streamed>
  static PLANCK_MATH void put_in_order(Pair<Out0> x, Out0* to) {
    if constexpr (requires { Kernel::kNeverNan; }) {
      store_numbers_in_order<streamed>(x, to);
    } else {
      store_in_order<streamed>(x, to);
    }
  }

  template <bool may_stream, class T>
  static PLANCK_MATH void put(Pair<T> x, T* to, bool streamed) {
    if (may_stream && streamed) {
      store_pair<true>(x, to);
    } else {
      store_pair<false>(x, to);
    }
  }
  template <bool may_stream, class T>
  static PLANCK_MATH void put(Vec<C> x, T* to, bool streamed) {
    if constexpr (may_stream && std::is_same_v<T, C>) {
      if (streamed) return store_full<true>(x, to);
    }
    store(x, to);
  }

  /// Fewer elements than a step, through padded copies.
  static void partial(const Kernel& kernel, void* const* operands, std::int64_t i, std::int64_t count) {
    alignas(64) unsigned char padded[kInputs + kOutputs][HWY_MAX_BYTES * (kOrdered || kMixed ? 2 : 1)] = {};
    void* copies[kInputs + kOutputs];
    for (int k = 0; k < kInputs + kOutputs; ++k) {
      copies[k] = padded[k];
      if (k < kInputs)
        std::memcpy(padded[k], at(operands[k], i * kSizes[k]), static_cast<std::size_t>(count * kSizes[k]));
    }
    full_steps<false>(kernel, copies, 0, step_elements(), 0);
    for (int k = kInputs; k < kInputs + kOutputs; ++k) {
      std::memcpy(at(operands[k], i * kSizes[k]), padded[k], static_cast<std::size_t>(count * kSizes[k]));
    }
  }

  /// How many elements come before all streamed outputs are aligned to a register; -1 if they never are together.
  static std::int64_t elements_to_alignment(void* const* operands, std::int64_t n, unsigned streamed) {
    const auto register_bytes = static_cast<std::uintptr_t>(step_elements()) * (kPacked ? 4 : 1) * sizeof(Out0);
    std::int64_t head = -1;
    for (int o = 0; o < kOutputs; ++o) {
      if ((streamed >> o & 1U) == 0) continue;
      const std::uintptr_t missing = -reinterpret_cast<std::uintptr_t>(operands[kInputs + o]) & (register_bytes - 1);
      const auto elements = static_cast<std::int64_t>(missing / sizeof(Out0));
      if (elements >= n || (head >= 0 && elements != head)) return -1;
      head = elements;
    }
    // Short rows: a head and a tail in pieces cost more than streaming gains.
    if (head > 0 && n < kShortRow) return -1;
    return head;
  }

  static unsigned char* at(void* p, std::int64_t bytes) { return static_cast<unsigned char*>(p) + bytes; }
};

#undef PLANCK_PACKS_CODES

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
