// exp and log1p for any lane kind, f32 and f64: + - * / and integer operations on the bits, in one fixed order
// without branches, tables or fused multiply-adds, so that every target gives the same bits.
//
//   exp(x) = 2^n (1 + r + r^2 T(r))                       n whole, r = x - n ln 2, |r| <= ln(2) / 2
//   log1p(x) = k ln 2 + f - s (f - z T(z))                1 + x = 2^k (1 + f), -1/4 <= f < 1/2, s = f / (2 + f), z =
//   s^2
//
// The polynomials T are minimax fits; scripts/fit_exp_log1p.py prints their coefficients. docs/numerics.md has the
// measured errors and the special values. Round to nearest and no flush to zero are assumed, as everywhere.

template <class T>
struct ExpLog1p;

template <>
struct ExpLog1p<float> {
  using Bits = std::uint32_t;
  static constexpr int kFraction = 23;  // bits after the leading one
  static constexpr Bits kSignAndExponent = 0xFF800000U;
  static constexpr Bits kThreeQuarters = 0x3F400000U;
  static constexpr Bits kTwo = 0x40000000U;
  static constexpr Bits kInfinity = 0x7F800000U;
  static constexpr Bits kNan = 0x7FC00000U;
  static constexpr float kWhole = 0x1p23F;  // from here on the last bit of a number counts ones
  static constexpr float kBias = 127;

  static constexpr float kLog2E = 0x1.715476p+0F;
  // 16 bits, so that its product with up to 8 more is exact, and the rest of ln 2.
  static constexpr float kLn2High = 0x1.62e4p-1F;
  static constexpr float kLn2Low = 0x1.7f7d1cp-20F;
  // Beyond these, results are 0 (below 2^-150) and infinite.
  static constexpr float kExpLowest = -104;
  static constexpr float kExpHighest = 89;

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
struct ExpLog1p<double> {
  using Bits = std::uint64_t;
  static constexpr int kFraction = 52;
  static constexpr Bits kSignAndExponent = 0xFFF0000000000000U;
  static constexpr Bits kThreeQuarters = 0x3FE8000000000000U;
  static constexpr Bits kTwo = 0x4000000000000000U;
  static constexpr Bits kInfinity = 0x7FF0000000000000U;
  static constexpr Bits kNan = 0x7FF8000000000000U;
  static constexpr double kWhole = 0x1p52;
  static constexpr double kBias = 1023;

  static constexpr double kLog2E = 0x1.71547652b82fep+0;
  // 42 bits, for products with up to 11 more.
  static constexpr double kLn2High = 0x1.62e42fefa38p-1;
  static constexpr double kLn2Low = 0x1.ef35793c7673p-45;
  // Beyond these, results are 0 (below 2^-1075) and infinite.
  static constexpr double kExpLowest = -746;
  static constexpr double kExpHighest = 710;

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

/// e to the x. Subnormal results are rounded once; NaN stays NaN.
template <class V>
PLANCK_MATH V exp(V x) {
  using K = ExpLog1p<LaneType<V>>;
  const V inside = clamp_or_nan(x, V(K::kExpLowest), V(K::kExpHighest));
  // Adding 1.5 * 2^23 (2^52) rounds to a whole number n and leaves n, here with twice the exponent's bias on top so
  // that it is positive, in the lowest bits.
  const V shift(K::kWhole * LaneType<V>(1.5) + 2 * K::kBias);
  const V shifted = inside * V(K::kLog2E) + shift;
  const V n = shifted - shift;
  const V r = (inside - n * V(K::kLn2High)) - n * V(K::kLn2Low);
  const V r2 = r * r;
  const V y = V(1) + (r + r2 * K::exp_tail(r, r2));
  // 2^n reaches from 2^-151 to 2^128 (2^-1076 to 2^1024), too far for one number: its halves are normal, the first
  // product is exact and only the second one rounds.
  const auto exponent = bits(shifted);
  const auto half = shift_right<1>(exponent);
  return (y * from_bits(shift_left<K::kFraction>(half))) * from_bits(shift_left<K::kFraction>(exponent - half));
}

/// log(1 + x): -Inf at -1 and NaN below; zeros and subnormals stay as they are, so do +Inf and NaN.
template <class V>
PLANCK_MATH V log1p(V x) {
  using T = LaneType<V>;
  using K = ExpLog1p<T>;
  using U = decltype(bits(x));
  const V sum = V(1) + x;
  // k in the exponent's place, so that 3/4 <= (1 + x) / 2^k < 3/2.
  const U k = (bits(sum) - U(K::kThreeQuarters)) & U(K::kSignAndExponent);
  // f = x / 2^k - (1 - 1 / 2^k) is exact for this choice of k, but for the x just below 1/2: no term for what
  // rounding 1 + x loses. The integer subtraction divides, as |x| >= 1/4 is normal where k is not 0. 2 / 2^k stands
  // in for 1 / 2^k, which is no normal number for the largest k.
  const U two_over = U(K::kTwo) - k;
  const V f = from_bits(bits(x) - k) - (V(1) - V(T(0.5)) * from_bits(two_over));
  // -k rather than k: f - 0 keeps the sign of a zero f. The exponent of 2 / 2^k becomes a number as the last bits of
  // 2^23 (2^52).
  const V minus_k = from_bits(shift_right<K::kFraction>(two_over) | bits(V(K::kWhole))) - V(K::kWhole + K::kBias + 1);
  const V s = f / (V(2) + f);
  const V z = s * s;
  const V small = s * (f - z * K::log_tail(z)) + minus_k * V(K::kLn2Low);
  const V y = (f - small) - minus_k * V(K::kLn2High);
  const V infinity = from_bits(U(K::kInfinity));
  const V below = select(sum < V(0), from_bits(U(K::kNan)), V(0) - infinity);
  return select(sum <= V(0), below, select(sum < infinity, y, sum));
}
