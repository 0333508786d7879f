// e^x and the logarithm for any lane kind, f32 and f64, with the power of two kept apart: + - * / and integer
// operations on the bits, in one fixed order without branches, tables or fused multiply-adds, so that every target
// gives the same bits. Nothing overflows but in exp_small, which puts both into one number.
//
//   e^x = p 2^n                                       n whole, r = x - n ln 2, p = 1 + r + r^2 T(r), |r| <= ln(2) / 2
//   log(a 2^k) = k ln 2 + f - q (f - z T(z))          3/4 <= a < 3/2, f = a - 1, q = f / (2 + f), z = q^2
//
// The polynomials T are minimax fits; scripts/fit_exp_log.py prints their coefficients. docs/numerics.md has the
// measured errors. Round to nearest and no flush to zero are assumed, as everywhere.

template <class T>
struct ExpLog;

template <>
struct ExpLog<float> {
  static constexpr int kFraction = 23;  // bits after the leading one
  static constexpr std::uint32_t kSignAndExponent = 0xFF800000U;
  static constexpr std::uint32_t kThreeQuarters = 0x3F400000U;
  static constexpr std::uint32_t kTwo = 0x40000000U;
  static constexpr float kWhole = 0x1p23F;  // from here on the last bit of a number counts ones
  static constexpr float kBias = 127;

  static constexpr float kLog2E = 0x1.715476p+0F;
  // 14 bits, so that its product with 10 more is exact, and the rest of ln 2.
  static constexpr float kLn2High = 0x1.62e8p-1F;
  static constexpr float kLn2Low = -0x1.e8082ep-16F;

  template <class V>
  static PLANCK_MATH V exp_tail(V r, V r2) {
    const V low = V(0x1.fffffcp-2F) + V(0x1.555492p-3F) * r;
    const V high = (V(0x1.5558f2p-5F) + V(0x1.1239f8p-7F) * r) + r2 * V(0x1.6a241ep-10F);
    return low + r2 * high;
  }
  template <class V>
  static PLANCK_MATH V log_tail(V z) {
    return V(0x1.5555b4p-1F) + z * (V(0x1.992b44p-2F) + z * V(0x1.36e076p-2F));
  }
};

template <>
struct ExpLog<double> {
  static constexpr int kFraction = 52;
  static constexpr std::uint64_t kSignAndExponent = 0xFFF0000000000000U;
  static constexpr std::uint64_t kThreeQuarters = 0x3FE8000000000000U;
  static constexpr std::uint64_t kTwo = 0x4000000000000000U;
  static constexpr double kWhole = 0x1p52;
  static constexpr double kBias = 1023;

  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  // 42 bits, for products with up to 11 more.
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;

  template <class V>
  static PLANCK_MATH V exp_tail(V r, V r2) {
    const V r4 = r2 * r2;
    const V c0 = V(0x1.000000000000ap-1) + V(0x1.55555555554fap-3) * r;
    const V c2 = V(0x1.5555555550868p-5) + V(0x1.1111111127c47p-7) * r;
    const V c4 = V(0x1.6c16c1842ef1cp-10) + V(0x1.a01a012a3fd9ep-13) * r;
    const V c6 = V(0x1.a01999fe525eep-16) + V(0x1.71df257225d9dp-19) * r;
    const V c8 = V(0x1.28ad80850708ap-22) + V(0x1.ad7f5f5a9612cp-26) * r;
    return (c0 + r2 * c2) + r4 * ((c4 + r2 * c6) + r4 * c8);
  }
  template <class V>
  static PLANCK_MATH V log_tail(V z) {
    const V z2 = z * z;
    const V c1 = V(0x1.99999998f175p-2) + V(0x1.249249b1aff33p-2) * z;
    const V c3 = V(0x1.c71c01a7c4703p-3) + V(0x1.7474d8afba88ap-3) * z;
    const V c5 = V(0x1.38539383d44cp-3) + V(0x1.3ab8c0920ba45p-3) * z;
    return V(0x1.5555555555773p-1) + z * (c1 + z2 * (c3 + z2 * c5));
  }
};

/// Up to here exponents n have 10 bits (f32) or 11 (f64), and their products with ln 2's high part are exact.
inline constexpr double kExpNear = 704;

/// 2^k, for whole k from -1022 to 1023.
template <class V>
PLANCK_MATH V power_of_two(V k) {
  using K = ExpLog<LaneType<V>>;
  return from_bits(shift_left<K::kFraction>(bits(k + V(K::kWhole + K::kBias))));
}

/// x - n ln 2. Exact but for one rounding up to kExpNear.
template <class V>
PLANCK_MATH V exp_rest(V x, V n) {
  using K = ExpLog<LaneType<V>>;
  return (x - n * V(K::kLn2High)) - n * V(K::kLn2Low);
}

/// e^r, |r| <= ln(2) / 2 and a little more.
template <class V>
PLANCK_MATH V exp_fraction(V r) {
  const V r2 = r * r;
  return V(1) + (r + r2 * ExpLog<LaneType<V>>::exp_tail(r, r2));
}

/// e^x as a number, where n is so small that nothing overflows: |x| <= 70 in f32, 600 in f64.
template <class V>
PLANCK_MATH V exp_small(V x) {
  using K = ExpLog<LaneType<V>>;
  // Adding 1.5 * 2^23 (2^52) rounds to a whole number n and leaves n in the lowest bits, from where the shift takes it
  // to the exponent's place.
  const V shift(K::kWhole * LaneType<V>(1.5));
  const V shifted = x * V(K::kLog2E) + shift;
  const V p = exp_fraction(exp_rest(x, shifted - shift));
  return from_bits(bits(p) + shift_left<K::kFraction>(bits(shifted)));
}

/// log(1 + f) = f - what this gives.
template <class V>
PLANCK_MATH V log_rest(V f) {
  const V q = f / (V(2) + f);
  const V z = q * q;
  return q * (f - z * ExpLog<LaneType<V>>::log_tail(z));
}

/// log(a / 2^minus_k), 3/4 <= a < 3/2, whole |minus_k| <= 1024.
template <class V>
PLANCK_MATH V log_power(V a, V minus_k) {
  using K = ExpLog<LaneType<V>>;
  const V f = a - V(1);
  return (f - (log_rest(f) + minus_k * V(K::kLn2Low))) - minus_k * V(K::kLn2High);
}

/// The same of a normal x > 0.
template <class V>
PLANCK_MATH V log_normal(V x) {
  using K = ExpLog<LaneType<V>>;
  using U = decltype(bits(x));
  // k in the exponent's place, so that 3/4 <= x / 2^k < 3/2.
  const U k = (bits(x) - U(K::kThreeQuarters)) & U(K::kSignAndExponent);
  // -k rather than k: the exponent of 2 / 2^k becomes a number as the last bits of 2^23 (2^52).
  const V minus_k =
      from_bits(shift_right<K::kFraction>(U(K::kTwo) - k) | bits(V(K::kWhole))) - V(K::kWhole + K::kBias + 1);
  return log_power(from_bits(bits(x) - k), minus_k);
}
