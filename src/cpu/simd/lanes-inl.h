// Highway vectors as a lane kind: the names of src/numerics/scalar_lanes.hpp for a whole register, plus
// loading and storing every element kind. Re-included once per target, as Highway's -inl.h headers are.
//
// Where Highway 1.0.3 and docs/numerics.md differ (bf16 and f16 narrowing, rounding of f64 without SSE4) the shared
// text in convert_math.inl or plain IEEE additions take over, so that all targets agree to the bit.

#if defined(PLANCK_CPU_SIMD_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_CPU_SIMD_LANES_INL_H_
#undef PLANCK_CPU_SIMD_LANES_INL_H_
#else
#define PLANCK_CPU_SIMD_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <type_traits>

#include "numerics/element_traits.hpp"
#include "numerics/portability.hpp"
#include "planck/element.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Tag = hn::ScalableTag<T>;
/// As many lanes of T as a register of C holds.
template <class T, class C>
using Narrow = hn::Rebind<T, Tag<C>>;

template <class T>
struct Mask {
  hn::Mask<Tag<T>> raw;
  friend PLANCK_MATH Mask operator&(Mask a, Mask b) { return {hn::And(a.raw, b.raw)}; }
  friend PLANCK_MATH Mask operator|(Mask a, Mask b) { return {hn::Or(a.raw, b.raw)}; }
};
template <class T>
PLANCK_MATH Mask<T> but_not(Mask<T> mask, Mask<T> without) {
  return {hn::AndNot(without.raw, mask.raw)};
}

template <class T>
struct Vec {
  using Lane = T;
  hn::Vec<Tag<T>> raw;

  Vec() = default;
  PLANCK_MATH explicit Vec(T x) : raw(hn::Set(Tag<T>(), x)) {}
  PLANCK_MATH explicit Vec(hn::Vec<Tag<T>> v) : raw(v) {}

  friend PLANCK_MATH Vec operator+(Vec a, Vec b) { return Vec(hn::Add(a.raw, b.raw)); }
  friend PLANCK_MATH Vec operator-(Vec a, Vec b) { return Vec(hn::Sub(a.raw, b.raw)); }
  friend PLANCK_MATH Vec operator*(Vec a, Vec b) { return Vec(hn::Mul(a.raw, b.raw)); }
  friend PLANCK_MATH Vec operator/(Vec a, Vec b) { return Vec(hn::Div(a.raw, b.raw)); }
  friend PLANCK_MATH Vec operator&(Vec a, Vec b) { return Vec(hn::And(a.raw, b.raw)); }
  friend PLANCK_MATH Vec operator|(Vec a, Vec b) { return Vec(hn::Or(a.raw, b.raw)); }
  friend PLANCK_MATH Mask<T> operator<(Vec a, Vec b) { return {hn::Lt(a.raw, b.raw)}; }
  friend PLANCK_MATH Mask<T> operator<=(Vec a, Vec b) { return {hn::Le(a.raw, b.raw)}; }
};

template <class V>
using LaneType = typename V::Lane;

template <class T>
PLANCK_MATH Mask<T> is_nan(Vec<T> x) {
  return {hn::IsNaN(x.raw)};
}
/// Two operations; a select of zeros takes gcc one more.
template <class T>
PLANCK_MATH Vec<T> zero_if_nan(Vec<T> x) {
  return Vec<T>(hn::IfThenElseZero(hn::Eq(x.raw, x.raw), x.raw));
}
template <class T>
PLANCK_MATH Vec<T> abs(Vec<T> x) {
  return Vec<T>(hn::Abs(x.raw));
}
template <class T>
PLANCK_MATH Vec<T> select(Mask<T> mask, Vec<T> yes, Vec<T> no) {
  return Vec<T>(hn::IfThenElse(mask.raw, yes.raw, no.raw));
}
/// x where the mask is set, else +0, and the other way round; a select of zeros takes gcc two operations.
template <class T>
PLANCK_MATH Vec<T> where(Mask<T> mask, Vec<T> x) {
  return Vec<T>(hn::IfThenElseZero(mask.raw, x.raw));
}
template <class T>
PLANCK_MATH Vec<T> where_not(Mask<T> mask, Vec<T> x) {
  return Vec<T>(hn::IfThenZeroElse(mask.raw, x.raw));
}
template <class T>
PLANCK_MATH Vec<T> clamp(Vec<T> x, Vec<T> lo, Vec<T> hi) {
  return Vec<T>(hn::Min(hn::Max(x.raw, lo.raw), hi.raw));
}
#if HWY_ARCH_X86 && HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128
/// x comes second: x86 gives the second operand where one is NaN.
template <class T>
PLANCK_MATH Vec<T> clamp_or_nan(Vec<T> x, Vec<T> lo, Vec<T> hi) {
  return Vec<T>(hn::Min(hi.raw, hn::Max(lo.raw, x.raw)));
}
#else
/// Elsewhere Highway's Min and Max give the operand that is no NaN.
template <class T>
PLANCK_MATH Vec<T> clamp_or_nan(Vec<T> x, Vec<T> lo, Vec<T> hi) {
  const Vec<T> raised = select(x < lo, lo, x);
  return select(hi < raised, hi, raised);
}
#endif

#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || (HWY_ARCH_X86 && HWY_TARGET > HWY_SSE4)
/// Without a rounding instruction: adding and taking away 2^23 (2^52) rounds to nearest-even in the adder.
template <class T>
PLANCK_MATH Vec<T> rne(Vec<T> x) {
  const Vec<T> big(sizeof(T) == 4 ? T(8388608.0) : T(4503599627370496.0));
  const Vec<T> magnitude = abs(x);
  const Vec<T> rounded(hn::CopySign(((magnitude + big) - big).raw, x.raw));
  return select(magnitude < big, rounded, x);
}
#else
template <class T>
PLANCK_MATH Vec<T> rne(Vec<T> x) {
  return Vec<T>(hn::Round(x.raw));
}
#endif

PLANCK_MATH Vec<std::uint32_t> bits(Vec<float> x) {
  return Vec<std::uint32_t>(hn::BitCast(Tag<std::uint32_t>(), x.raw));
}
PLANCK_MATH Vec<std::uint64_t> bits(Vec<double> x) {
  return Vec<std::uint64_t>(hn::BitCast(Tag<std::uint64_t>(), x.raw));
}
PLANCK_MATH Vec<float> from_bits(Vec<std::uint32_t> u) { return Vec<float>(hn::BitCast(Tag<float>(), u.raw)); }
PLANCK_MATH Vec<double> from_bits(Vec<std::uint64_t> u) { return Vec<double>(hn::BitCast(Tag<double>(), u.raw)); }
template <int Count, class U>
PLANCK_MATH Vec<U> shift_left(Vec<U> u) {
  return Vec<U>(hn::ShiftLeft<Count>(u.raw));
}
template <int Count, class U>
PLANCK_MATH Vec<U> shift_right(Vec<U> u) {
  return Vec<U>(hn::ShiftRight<Count>(u.raw));
}

template <class U>
using SignedTag = Tag<std::make_signed_t<U>>;
/// Of lanes whose highest bit is 0: signed comparisons are instructions everywhere.
template <class U>
PLANCK_MATH Mask<U> small_less(Vec<U> a, Vec<U> b) {
  const SignedTag<U> d;
  return {hn::RebindMask(Tag<U>(), hn::Lt(hn::BitCast(d, a.raw), hn::BitCast(d, b.raw)))};
}
template <class U>
PLANCK_MATH Vec<U> small_min(Vec<U> a, Vec<U> b) {
  const SignedTag<U> d;
  return Vec<U>(hn::BitCast(Tag<U>(), hn::Min(hn::BitCast(d, a.raw), hn::BitCast(d, b.raw))));
}
template <class U>
PLANCK_MATH Vec<U> small_max(Vec<U> a, Vec<U> b) {
  const SignedTag<U> d;
  return Vec<U>(hn::BitCast(Tag<U>(), hn::Max(hn::BitCast(d, a.raw), hn::BitCast(d, b.raw))));
}

#include "numerics/convert_math.inl"
#include "numerics/exp_log_math.inl"

// AVX2 and better have F16C: exact widening, and narrowing to nearest-even by its immediate operand.
#define PLANCK_HAS_F16C (HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2)

/// One register of elements of storage type T, as lanes of C. Any alignment.
template <class C, class T>
PLANCK_MATH Vec<C> load(const T* from) {
  if constexpr (std::is_same_v<T, C>) {
    return Vec<C>(hn::LoadU(Tag<C>(), from));
  } else if constexpr (numerics::Pattern<T>) {
    using Bits = numerics::PatternBits<T>;
    const auto patterns = hn::LoadU(Narrow<Bits, C>(), reinterpret_cast<const Bits*>(from));
    if constexpr (sizeof(C) == 8) {
      const auto wide = hn::PromoteTo(Narrow<std::uint32_t, C>(), patterns);
      return widen_pattern(T(), Vec<std::uint64_t>(hn::PromoteTo(Tag<std::uint64_t>(), wide)));
    } else {
#if PLANCK_HAS_F16C
      if constexpr (std::is_same_v<T, f16>) {
        return Vec<float>(hn::PromoteTo(Tag<float>(), hn::BitCast(Narrow<hwy::float16_t, float>(), patterns)));
      }
#endif
      return widen_pattern(T(), Vec<std::uint32_t>(hn::PromoteTo(Tag<std::uint32_t>(), patterns)));
    }
  } else {
    const Narrow<std::int32_t, C> d32;
    hn::Vec<Narrow<std::int32_t, C>> integers;
    if constexpr (std::is_same_v<T, std::int32_t>) {
      integers = hn::LoadU(d32, from);
    } else {
      integers = hn::PromoteTo(d32, hn::LoadU(Narrow<T, C>(), from));
    }
    if constexpr (sizeof(C) == 4) {
      return Vec<C>(hn::ConvertTo(Tag<C>(), integers));
    } else {
      return Vec<C>(hn::PromoteTo(Tag<C>(), integers));
    }
  }
}

/// Whole numbers of at most 22 bits, as integers: adding 1.5 * 2^23 puts them into the low bits of the fraction. Much
/// cheaper than Highway's conversion, which also mends what overflows.
PLANCK_MATH auto to_integers(Vec<float> x) {
  const Tag<std::int32_t> d32;
  return hn::Sub(hn::BitCast(d32, (x + Vec<float>(12582912.0F)).raw), hn::Set(d32, 0x4B400000));
}

/// One register of whole numbers that T (s8 or u8) can hold, as T.
template <class T, class C>
PLANCK_MATH auto to_codes(Vec<C> x) {
  if constexpr (sizeof(C) == 4) {
    return hn::DemoteTo(Narrow<T, C>(), to_integers(x));
  } else {
    return hn::DemoteTo(Narrow<T, C>(), hn::DemoteTo(Narrow<std::int32_t, C>(), x.raw));
  }
}

/// One register of C, rounded once to the patterns of T; of f64 to those of 8 bits.
template <numerics::Pattern T, class C>
PLANCK_MATH auto to_patterns(Vec<C> x) {
  using Bits = numerics::PatternBits<T>;
  if constexpr (sizeof(C) == 8) {
    // As numbers, for which there is a way to bytes already.
    const Vec<double> whole(0x1p52);
    return to_codes<Bits>(from_bits(narrow_pattern(T(), x) | bits(whole)) - whole);
  } else {
    const Narrow<Bits, float> d;
#if PLANCK_HAS_F16C
    if constexpr (std::is_same_v<T, f16>) {
      return hn::BitCast(d, hn::DemoteTo(Narrow<hwy::float16_t, float>(), x.raw));
    }
#endif
    const Vec<std::uint32_t> wide = narrow_pattern(T(), x);
    // No lane has more bits than a pattern, so the saturating narrowing keeps every one.
    return hn::DemoteTo(d, hn::BitCast(Tag<std::int32_t>(), wide.raw));
  }
}

/// One register of C, rounded once to the storage type T; for codes a whole number that T can hold. Any alignment.
template <class T, class C>
PLANCK_MATH void store(Vec<C> x, T* to) {
  if constexpr (std::is_same_v<T, C>) {
    hn::StoreU(x.raw, Tag<C>(), to);
  } else if constexpr (numerics::Pattern<T>) {
    using Bits = numerics::PatternBits<T>;
    hn::StoreU(to_patterns<T>(x), Narrow<Bits, C>(), reinterpret_cast<Bits*>(to));
  } else {
    hn::StoreU(to_codes<T>(x), Narrow<T, C>(), to);
  }
}

/// Codes in words of 32 bits: of such numbers, or rounded once to an 8-bit float.
template <class T>
PLANCK_MATH hn::Vec<Tag<std::int32_t>> code_words(Vec<float> x) {
  if constexpr (numerics::Pattern<T>) {
    return hn::BitCast(Tag<std::int32_t>(), narrow_pattern(T(), x).raw);
  } else {
    return to_integers(x);
  }
}

/// Four registers of f32 as one register of codes.
template <class T>
PLANCK_MATH void store_codes(const Vec<float>* x, T* to) {
#if HWY_TARGET == HWY_AVX2
  // Packing works within 128-bit halves; one permutation of whole quadruples puts them in order.
  const __m256i low = _mm256_packs_epi32(code_words<T>(x[0]).raw, code_words<T>(x[1]).raw);
  const __m256i high = _mm256_packs_epi32(code_words<T>(x[2]).raw, code_words<T>(x[3]).raw);
  const __m256i codes = std::is_signed_v<T> ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm256_permutevar8x32_epi32(codes, order));
#else
  for (int k = 0; k < 4; ++k) store(x[k], to + k * static_cast<std::int64_t>(hn::Lanes(Tag<float>())));
#endif
}

/// Full registers of 16-bit elements, two registers of f32 lanes at a time. Which element lands in which lane
/// is the pair's own business, the same for load and store: even and odd elements apart need no shuffles.
template <class T>
struct Pair {
  Vec<float> first;
  Vec<float> second;
};

template <class T>
PLANCK_MATH Pair<T> load_pair(const T* from) {
  static_assert(std::is_same_v<T, f16> || std::is_same_v<T, bf16>);
#if PLANCK_HAS_F16C
  if constexpr (std::is_same_v<T, f16>) {
    return {load<float>(from), load<float>(from + hn::Lanes(Tag<float>()))};
  }
#endif
  const Vec<std::uint32_t> both(hn::LoadU(Tag<std::uint32_t>(), reinterpret_cast<const std::uint32_t*>(from)));
  if constexpr (std::is_same_v<T, f16>) {
    return {widen_f16(both & Vec<std::uint32_t>(0xFFFFU)), widen_f16(shift_right<16>(both))};
  } else {
    return {from_bits(shift_left<16>(both)), from_bits(both & Vec<std::uint32_t>(0xFFFF0000U))};
  }
}

/// `streamed`: non-temporal, to an address aligned to the register.
template <bool streamed, class T>
PLANCK_MATH void store_full(Vec<T> x, T* to) {
  if constexpr (streamed) {
    hn::Stream(x.raw, Tag<T>(), to);
  } else {
    hn::StoreU(x.raw, Tag<T>(), to);
  }
}

#if HWY_TARGET != HWY_SCALAR
/// A full register of 16-bit elements: those of `low`, then those of `high`.
template <bool streamed, class T>
PLANCK_MATH void store_ordered(Vec<float> low, Vec<float> high, T* to) {
  const Vec<std::uint16_t> both(hn::Combine(Tag<std::uint16_t>(), to_patterns<T>(high), to_patterns<T>(low)));
  store_full<streamed>(both, reinterpret_cast<std::uint16_t*>(to));
}
#endif

template <bool streamed, class T>
PLANCK_MATH void store_pair(Pair<T> x, T* to) {
  static_assert(std::is_same_v<T, f16> || std::is_same_v<T, bf16>);
#if PLANCK_HAS_F16C
  if constexpr (std::is_same_v<T, f16>) {
    store_ordered<streamed>(x.first, x.second, to);
    return;
  }
#endif
  Vec<std::uint32_t> both;
  if constexpr (std::is_same_v<T, f16>) {
    both = narrow_f16(x.first) | shift_left<16>(narrow_f16(x.second));
  } else {
    both = narrow_bf16(x.first) | (round_to_bf16(x.second) & Vec<std::uint32_t>(0xFFFF0000U));
  }
  store_full<streamed>(both, reinterpret_cast<std::uint32_t*>(to));
}

/// The same for registers that hold elements one after the other, the second those after the first.
template <bool streamed, class T>
PLANCK_MATH void store_in_order(Pair<T> x, T* to) {
  static_assert(std::is_same_v<T, f16> || std::is_same_v<T, bf16>);
#if HWY_TARGET == HWY_SCALAR
  store(x.first, to);
  store(x.second, to + 1);
#else
  const Tag<std::uint16_t> d16;
  const auto halves = [&](Vec<std::uint32_t> u) { return hn::BitCast(d16, u.raw); };
  if constexpr (std::is_same_v<T, bf16>) {
    const Vec<std::uint16_t> packed(
        hn::ConcatOdd(d16, halves(round_to_bf16(x.second)), halves(round_to_bf16(x.first))));
    store_full<streamed>(packed, reinterpret_cast<std::uint16_t*>(to));
  } else if constexpr (PLANCK_HAS_F16C) {
    store_pair<streamed>(x, to);
  } else {
    const Vec<std::uint16_t> packed(hn::ConcatEven(d16, halves(narrow_f16(x.second)), halves(narrow_f16(x.first))));
    store_full<streamed>(packed, reinterpret_cast<std::uint16_t*>(to));
  }
#endif
}

/// The same for patterns of any size; those of 8 bits do not fill a register, and are stored through the caches.
template <bool streamed, numerics::Pattern T>
PLANCK_MATH void store_two(Vec<float> first, Vec<float> second, T* to) {
  if constexpr (sizeof(T) == 2) {
    store_in_order<streamed>(Pair<T>{first, second}, to);
  } else {
    store(first, to);
    store(second, to + hn::Lanes(Tag<float>()));
  }
}

#undef PLANCK_HAS_F16C

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
