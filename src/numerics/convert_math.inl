// f16 and bf16 to and from f32, for any lane kind: patterns travel in the low bits of u32 lanes.
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
