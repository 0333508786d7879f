// f16, bf16 and 8-bit floats to and from f32, for any lane kind: patterns travel in the low bits of u32 lanes. 8-bit
// floats have the same ways to and from f64, in u64 lanes.
//
// Written with integer operations and one exact or once-rounded f32 operation each, so every target gives
// the same bits: Highway 1.0.3 truncates bf16 everywhere and f16 where there is no F16C.
//
// widen_pattern and narrow_pattern are the same by storage type, for templates.

template <class U>
PLANCK_MATH auto widen_bf16(U h) {
  return from_bits(shift_left<16>(h));
}

/// Nearest-even, left in the upper half of each lane; the lower half is rest. NaN becomes the quiet NaN.
template <class F>
PLANCK_MATH auto round_to_bf16(F x) {
  using U = decltype(bits(x));
  const U u = bits(select(is_nan(x), from_bits(U(0x7FC00000U)), x));
  const U odd = shift_right<16>(u) & U(1U);
  return u + U(0x7FFFU) + odd;
}
template <class F>
PLANCK_MATH auto narrow_bf16(F x) {
  return shift_right<16>(round_to_bf16(x));
}

template <class U>
PLANCK_MATH auto widen_pattern(bf16, U h) {
  return widen_bf16(h);
}
template <class F>
PLANCK_MATH auto narrow_pattern(bf16, F x) {
  return narrow_bf16(x);
}

template <class U>
PLANCK_MATH auto widen_f16(U h) {
  const U sign = shift_left<16>(h & U(0x8000U));
  const U magnitude = shift_left<13>(h & U(0x7FFFU));       // exponent and fraction where f32 has them
  const U normal = magnitude + U((127U - 15U) << 23);       // exponent re-biased
  const U special = normal + U((255U - 31U - 112U) << 23);  // infinity and NaN: exponent 31 becomes 255
  // Subnormal: 2^-14 * (1 + fraction) - 2^-14 is exact, and needs no subnormal f32 on the way.
  const U unit = U(113U << 23);
  const U subnormal = bits(from_bits(magnitude + unit) - from_bits(unit));
  const U finite = select(magnitude < U(1U << 23), subnormal, normal);
  return from_bits(sign | select(magnitude < U(31U << 23), finite, special));
}

/// Nearest-even; from 65520 on infinity; NaN keeps its upper payload bits and becomes quiet.
template <class F>
PLANCK_MATH auto narrow_f16(F x) {
  const auto u = bits(x);
  using U = decltype(bits(x));
  const U magnitude = u & U(0x7FFFFFFFU);
  const U sign = shift_right<16>(u & U(0x80000000U));
  const U odd = shift_right<13>(magnitude) & U(1U);
  const U normal = shift_right<13>(magnitude - U(112U << 23) + odd + U(0xFFFU));
  // Below 2^-14: adding 0.5 puts the f16 subnormal step 2^-24 at f32's last bit, so the addition rounds.
  const U half = U(126U << 23);
  const U subnormal = bits(from_bits(magnitude) + from_bits(half)) - half;
  const U finite = select(magnitude < U(113U << 23), subnormal, normal);
  const U nan = U(0x7E00U) | (shift_right<13>(magnitude) & U(0x3FFU));
  const U special = select(U(0x7F800000U) < magnitude, nan, U(0x7C00U));
  return sign | select(magnitude < U(0x477FF000U), finite, special);
}

template <class U>
PLANCK_MATH auto widen_pattern(f16, U h) {
  return widen_f16(h);
}
template <class F>
PLANCK_MATH auto narrow_pattern(f16, F x) {
  return narrow_f16(x);
}

/// How an 8-bit float lies in its byte.
template <class T>
struct Float8;
template <>
struct Float8<f8e4m3> {
  static constexpr int kFraction = 3;
  static constexpr int kBias = 7;
  static constexpr unsigned kOverflow = 0x7F;  // what follows the largest number: NaN
  static constexpr unsigned kNanBits = 0;      // what NaN has beside that
};
template <>
struct Float8<f8e5m2> {
  static constexpr int kFraction = 2;
  static constexpr int kBias = 15;
  static constexpr unsigned kOverflow = 0x7C;  // infinity
  static constexpr unsigned kNanBits = 2;
};

/// Between such a float and lanes of L bits.
template <class T, class L>
struct Float8Lanes {
  using Format = Float8<T>;
  static constexpr bool kWide = sizeof(L) == 8;
  static constexpr int kFraction = kWide ? 52 : 23;
  static constexpr int kBias = kWide ? 1023 : 127;
  static constexpr int kFractionShift = kFraction - Format::kFraction;
  static constexpr int kSignShift = 8 * static_cast<int>(sizeof(L)) - 8;
  static constexpr L kMagnitude = ~(L(1) << (kSignShift + 7));
  static constexpr L kInfinity = L(kWide ? 2047 : 255) << kFraction;
  static constexpr L kRebias = L(kBias - Format::kBias) << kFraction;
  static constexpr L kLeastNormal = kRebias + (L(1) << kFraction);
  static constexpr L kOverflow = kRebias + (L(Format::kOverflow) << kFractionShift);
};

template <class T, class U>
PLANCK_MATH auto widen_f8(U h) {
  using L = LaneType<U>;
  using K = Float8Lanes<T, L>;
  const U sign = shift_left<K::kSignShift>(h & U(0x80U));
  const U magnitude = shift_left<K::kFractionShift>(h & U(0x7FU));
  const U normal = magnitude + U(K::kRebias);
  // As in widen_f16.
  const U unit = U(K::kLeastNormal);
  const U subnormal = bits(from_bits(magnitude + unit) - from_bits(unit));
  const U finite = select(small_less(magnitude, U(L(1) << K::kFraction)), subnormal, normal);
  // Beyond the largest number: infinity and NaN keep their fraction, and f8e4m3's one NaN gets one.
  constexpr L kNan = Float8<T>::kNanBits == 0 ? L(1) << (K::kFraction - 1) : 0;
  const U special = magnitude | U(K::kInfinity | kNan);
  const U first_special = U(L(Float8<T>::kOverflow) << K::kFractionShift);
  return from_bits(sign | select(small_less(magnitude, first_special), finite, special));
}

/// Nearest-even, f32 or f64 alike: a number whose last bit is the code's is added, so that the addition rounds.
template <class T, class F>
PLANCK_MATH auto narrow_f8(F x) {
  using U = decltype(bits(x));
  using L = LaneType<U>;
  using K = Float8Lanes<T, L>;
  const U u = bits(x);
  // Whatever is larger, infinity and NaN too, gives what follows the largest number.
  const U magnitude = small_min(u & U(K::kMagnitude), U(K::kOverflow));
  const U exponent = small_max(magnitude & U(K::kInfinity), U(K::kLeastNormal));
  const U unit = exponent + U(L(K::kFractionShift) << K::kFraction);
  // In steps of the code's last bit: with the hidden bit, which counts one exponent more.
  const U steps = bits(from_bits(magnitude) + from_bits(unit)) - unit;
  const U code = shift_right<K::kFractionShift>(exponent - U(K::kLeastNormal)) + steps;
  const U sign = shift_right<K::kSignShift>(u) & U(0x80U);
  if constexpr (Float8<T>::kNanBits == 0) {
    return sign | code;
  } else {
    return sign | code | bits(where(is_nan(x), from_bits(U(Float8<T>::kNanBits))));
  }
}

template <class U>
PLANCK_MATH auto widen_pattern(f8e4m3, U h) {
  return widen_f8<f8e4m3>(h);
}
template <class F>
PLANCK_MATH auto narrow_pattern(f8e4m3, F x) {
  return narrow_f8<f8e4m3>(x);
}
template <class U>
PLANCK_MATH auto widen_pattern(f8e5m2, U h) {
  return widen_f8<f8e5m2>(h);
}
template <class F>
PLANCK_MATH auto narrow_pattern(f8e5m2, F x) {
  return narrow_f8<f8e5m2>(x);
}
