// Exponentials and logarithms of elements in full registers, while all numbers stay normal: sums of e^x are then plain
// f64 numbers, and have the bits of scan/math.inl's scaled ones. Re-included once per target.
#if defined(PLANCK_SCAN_EXPONENTIAL_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_EXPONENTIAL_LANES_INL_H_
#undef PLANCK_SCAN_EXPONENTIAL_LANES_INL_H_
#else
#define PLANCK_SCAN_EXPONENTIAL_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>

#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Bounds within which nothing leaves the normal numbers, with room for any sum of an axis.
template <class C>
struct PlainLimits;
template <>
struct PlainLimits<float> {
  static constexpr float kElement = 70;      ///< |x|, |y|: e^x from 2^-101 to 2^101, in f32
  static constexpr double kPrefix = 110;     ///< the exponent of a sum of e^x, which is rounded to f32
  static constexpr double kApart = 800;      ///< places between 2^k and what it is taken out of, in f64
  static constexpr float kFar = 0x1p23F;     ///< |x|, |y| with the exponent taken apart
  static constexpr float kSpread = 1000;     ///< between such elements: 722 places to either side of the middle
  static constexpr float kSmallestTerm = 0;  ///< of dy: any f32 is far from f64's limits
  static constexpr float kLargestTerm = std::numeric_limits<float>::max();
};
template <>
struct PlainLimits<double> {
  static constexpr double kElement = 200;
  static constexpr double kPrefix = 600;
  static constexpr double kApart = 600;
  static constexpr double kFar = 0x1p23;
  static constexpr double kSpread = 800;
  static constexpr double kSmallestTerm = 0x1p-200;
  static constexpr double kLargestTerm = 0x1p200;
};

/// What a state is without its 2^k, as a plain number; 0 for nothing. False, and something else, if it is too far away.
template <class C, class State, class V>
PLANCK_MATH auto to_plain(const State& s, V k, V& plain) {
  const V most(PlainLimits<C>::kApart);
  const V places = s.part[0] * V(1 / ScaledLimits<C>::kUnit) - k;
  const auto nothing = s.part[0] <= V(-ScaledLimits<C>::kInfinity);
  plain = select(nothing, V(0), s.part[1] * power_of_two(clamp(places, V(0) - most, most)));
  return nothing | (abs(places) <= most);
}
/// The same of a gradient's: 0 keeps its sign, and sums that belong to +Inf are none, nor are infinite ones.
template <class C, class State, class V>
PLANCK_MATH auto to_plain_gradient(const State& s, V k, V& plain) {
  const auto fits = to_plain<C>(s, k, plain);
  const auto zero = abs(s.part[1]) <= V(0);
  plain = select(zero, s.part[1], plain);
  const auto number = (V(1) <= abs(s.part[1])) & (abs(s.part[1]) < V(2)) & (V(-ScaledLimits<C>::kInfinity) < s.part[0]);
  return zero | (number & fits);
}
/// And back: the state of a plain sum of e^x.
template <class C, class V>
PLANCK_MATH ScanState<V, 2> from_plain(V plain, V k) {
  ScanState<V, 2> s = Scaled<V, C>::normalised(plain, k * V(ScaledLimits<C>::kUnit));
  s.part[1] = select(plain <= V(0), V(1), s.part[1]);
  return s;
}

/// Lanes of C, as many as fill what ManyLanes has of f64 ones.
template <class C>
struct ComputeLanes;

template <>
struct ComputeLanes<float> {
  using F = Vec<float>;
  using V = Vec<double>;
  static constexpr int kRegisters = ManyLanes::kRegisters / 2;
  static PLANCK_MATH std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag<float>())); }

  static PLANCK_MATH F reverse(F x) { return F(hn::Reverse(Tag<float>(), x.raw)); }
  static PLANCK_MATH void widen(const F* x, V* wide) {
    const Narrow<float, double> half;
    for (int r = 0; r < kRegisters; ++r) {
      wide[2 * r] = V(hn::PromoteTo(Tag<double>(), hn::LowerHalf(half, x[r].raw)));
      wide[2 * r + 1] = V(hn::PromoteTo(Tag<double>(), hn::UpperHalf(half, x[r].raw)));
    }
  }
  static PLANCK_MATH void narrow(const V* wide, F* x) {
    const Narrow<float, double> half;
    for (int r = 0; r < kRegisters; ++r) {
      const auto low = hn::DemoteTo(half, wide[2 * r].raw);
      x[r] = F(hn::Combine(Tag<float>(), hn::DemoteTo(half, wide[2 * r + 1].raw), low));
    }
  }
  template <class T>
  static PLANCK_MATH void store(const F* x, T* to, bool streamed) {
    streamed ? store_as<true>(x, to) : store_as<false>(x, to);
  }

 private:
  template <bool streamed, class T>
  static PLANCK_MATH void store_as(const F* x, T* to) {
    if constexpr (std::is_same_v<T, float>) {
      for (int r = 0; r < kRegisters; ++r) store_full<streamed>(x[r], to + r * lanes());
    } else {
      store_in_order<streamed>(Pair<T>{x[0], x[1]}, to);
    }
  }
};

template <>
struct ComputeLanes<double> {
  using F = Vec<double>;
  using V = Vec<double>;
  static constexpr int kRegisters = ManyLanes::kRegisters;
  static PLANCK_MATH std::int64_t lanes() { return static_cast<std::int64_t>(hn::Lanes(Tag<double>())); }

  static PLANCK_MATH F reverse(F x) { return F(hn::Reverse(Tag<double>(), x.raw)); }
  static PLANCK_MATH void widen(const F* x, V* wide) {
    for (int r = 0; r < kRegisters; ++r) wide[r] = x[r];
  }
  static PLANCK_MATH void narrow(const V* wide, F* x) {
    for (int r = 0; r < kRegisters; ++r) x[r] = wide[r];
  }
  static PLANCK_MATH void store(const F* x, double* to, bool streamed) {
    ManyLanes::store<double>(x, reinterpret_cast<std::byte*>(to), streamed);
  }
};

template <class C>
PLANCK_MATH bool all_of(Mask<C> mask) {
  return hn::AllTrue(Tag<C>(), mask.raw);
}
/// True in every lane, to be narrowed down.
template <class C>
PLANCK_MATH Mask<C> every_lane() {
  return Vec<C>(0) <= Vec<C>(0);
}

/// Whether a dy does not take its sums out of the normal numbers; 0 does not.
template <class C>
PLANCK_MATH Mask<C> is_plain_term(Vec<C> dy) {
  using Limits = PlainLimits<C>;
  const auto fits = abs(dy) <= Vec<C>(Limits::kLargestTerm);
  if constexpr (Limits::kSmallestTerm == 0) {
    return fits;
  } else {
    return fits & ((Vec<C>(Limits::kSmallestTerm) <= abs(dy)) | (abs(dy) <= Vec<C>(0)));
  }
}

/// e^x = p 2^n and log(sum 2^k) for all of ManyLanes' lanes, with n and k in f64: what Scaled and LogCumsumExpScan have
/// of them, for finite |x| <= kFar. A sum of 0 has -Inf.
template <class C>
struct PlainParts;

template <>
struct PlainParts<double> {
  using V = Vec<double>;
  static constexpr int kWide = ManyLanes::kRegisters;

  static PLANCK_MATH void exp(const V* x, V* p, V* n) {
    for (int r = 0; r < kWide; ++r) n[r] = rne(x[r] * V(ExpLog<double>::kLog2E));
    for (int r = 0; r < kWide; ++r) p[r] = exp_fraction(exp_rest(x[r], n[r]));
  }
  static PLANCK_MATH void log(const V* sums, const V* k, V* y) {
    for (int r = 0; r < kWide; ++r) {
      y[r] = LogCumsumExpScan<V, double>::project(from_plain<double>(sums[r], k[r]));
    }
  }
};

template <>
struct PlainParts<float> {
  using Lanes = ComputeLanes<float>;
  using F = Vec<float>;
  using V = Vec<double>;
  static constexpr int kWide = ManyLanes::kRegisters;
  static constexpr int kFull = Lanes::kRegisters;

  static PLANCK_MATH void exp(const F* x, V* p, V* n) {
    F rest[kFull];
    F whole[kFull];
    Mask<float> near = every_lane<float>();
    for (int r = 0; r < kFull; ++r) {
      near = near & (abs(x[r]) <= F(kExpNear));
      whole[r] = rne(x[r] * F(ExpLog<float>::kLog2E));
      rest[r] = exp_rest(x[r], whole[r]);
    }
    Lanes::widen(whole, n);
    if (!all_of(near)) {
      V wide[kWide];
      V wide_n[kWide];
      F far[kFull];
      Lanes::widen(x, wide);
      for (int r = 0; r < kWide; ++r) {
        wide_n[r] = rne(wide[r] * V(ExpLog<double>::kLog2E));
        n[r] = select(abs(wide[r]) <= V(kExpNear), n[r], wide_n[r]);
        wide[r] = exp_rest(wide[r], wide_n[r]);
      }
      Lanes::narrow(wide, far);
      for (int r = 0; r < kFull; ++r) rest[r] = select(abs(x[r]) <= F(kExpNear), rest[r], far[r]);
    }
    for (int r = 0; r < kFull; ++r) rest[r] = exp_fraction(rest[r]);
    Lanes::widen(rest, p);
  }
  /// Of x with f64's bits.
  static PLANCK_MATH void exp(const V* x, V* p, V* n) {
    F rest[kFull];
    for (int r = 0; r < kWide; ++r) {
      n[r] = rne(x[r] * V(ExpLog<double>::kLog2E));
      p[r] = exp_rest(x[r], n[r]);
    }
    Lanes::narrow(p, rest);
    for (int r = 0; r < kFull; ++r) rest[r] = exp_fraction(rest[r]);
    Lanes::widen(rest, p);
  }

  /// e^x as a number, for |x| <= 70 with f64's bits.
  static PLANCK_MATH void exp_small(const V* x, V* power) {
    using K = ExpLog<double>;
    const V shift(K::kWhole * 1.5);  // leaves a whole number in the lowest bits, as numerics' exp_small has it
    V shifted[kWide];
    V p[kWide];
    F rest[kFull];
    for (int r = 0; r < kWide; ++r) {
      shifted[r] = x[r] * V(K::kLog2E) + shift;
      p[r] = exp_rest(x[r], shifted[r] - shift);
    }
    Lanes::narrow(p, rest);
    for (int r = 0; r < kFull; ++r) rest[r] = exp_fraction(rest[r]);
    Lanes::widen(rest, p);
    for (int r = 0; r < kWide; ++r) power[r] = from_bits(bits(p[r]) + shift_left<K::kFraction>(bits(shifted[r])));
  }

  /// y with f64's bits, of sums that are normal numbers of f32.
  static PLANCK_MATH void log_normal(const F* sums, V* y) {
    using K = ExpLog<float>;
    using U = Vec<std::uint32_t>;
    F a[kFull];
    F minus_k[kFull];
    V places[kWide];
    for (int r = 0; r < kFull; ++r) {
      const U k = (bits(sums[r]) - U(K::kThreeQuarters)) & U(K::kSignAndExponent);
      a[r] = from_bits(bits(sums[r]) - k);
      minus_k[r] =
          from_bits(shift_right<K::kFraction>(U(K::kTwo) - k) | bits(F(K::kWhole))) - F(K::kWhole + K::kBias + 1);
    }
    Lanes::widen(minus_k, places);
    for (int r = 0; r < kWide; ++r) places[r] = V(0) - places[r];
    log_far(a, places, y);
  }

  /// y, rounded to f32.
  static PLANCK_MATH void log(const V* sums, const V* k, F* y) {
    F a[kFull];
    V places[kWide];
    split(sums, k, a, places);
    Mask<double> near = every_lane<double>();
    for (int r = 0; r < kWide; ++r) near = near & (abs(places[r]) <= V(1024));
    F minus_k[kFull];
    Lanes::narrow(places, minus_k);
    for (int r = 0; r < kFull; ++r) y[r] = log_power(a[r], F(0) - minus_k[r]);
    if (!all_of(near)) {
      V wide[kWide];
      V far[kWide];
      Lanes::widen(y, wide);
      log_far(a, places, far);
      for (int r = 0; r < kWide; ++r) wide[r] = select(abs(places[r]) <= V(1024), wide[r], far[r]);
      Lanes::narrow(wide, y);
    }
    Mask<double> some = every_lane<double>();
    for (int r = 0; r < kWide; ++r) some = some & (V(0) < sums[r]);
    if (all_of(some)) return;
    V wide[kWide];
    Lanes::widen(y, wide);
    for (int r = 0; r < kWide; ++r) wide[r] = or_nothing(sums[r], wide[r]);
    Lanes::narrow(wide, y);
  }
  /// y with f64's bits.
  static PLANCK_MATH void log(const V* sums, const V* k, V* y) {
    F a[kFull];
    V places[kWide];
    split(sums, k, a, places);
    log_far(a, places, y);
    for (int r = 0; r < kWide; ++r) y[r] = or_nothing(sums[r], y[r]);
  }

 private:
  static PLANCK_MATH V or_nothing(V sum, V y) {
    return select(sum <= V(0), V(-std::numeric_limits<double>::infinity()), y);
  }
  /// a 2^places, 3/4 <= a < 3/2, of sums that have lost 2^k.
  static PLANCK_MATH void split(const V* sums, const V* k, F* a, V* places) {
    V m[kWide];
    for (int r = 0; r < kWide; ++r) {
      const auto s = Scaled<V, float>::normalised(sums[r], k[r]);
      places[r] = s.part[0];
      m[r] = s.part[1];
    }
    Lanes::narrow(m, a);
    F one[kFull];
    for (int r = 0; r < kFull; ++r) {
      const auto large = F(1.5F) <= a[r];
      a[r] = select(large, a[r] * F(0.5F), a[r]);
      one[r] = select(large, F(1), F(0));
    }
    V more[kWide];
    Lanes::widen(one, more);
    for (int r = 0; r < kWide; ++r) places[r] = places[r] + more[r];
  }
  static PLANCK_MATH void log_far(const F* a, const V* places, V* y) {
    constexpr double kLn2 = 0x1.62e42fefa39efp-1;
    F fraction[kFull];
    for (int r = 0; r < kFull; ++r) {
      const F f = a[r] - F(1);
      fraction[r] = f - log_rest(f);
    }
    Lanes::widen(fraction, y);
    for (int r = 0; r < kWide; ++r) y[r] = places[r] * V(kLn2) + y[r];
  }
};

/// Whether an element is -Inf, which adds nothing.
template <class C>
PLANCK_MATH Mask<C> is_nothing(Vec<C> x) {
  return x <= Vec<C>(-std::numeric_limits<C>::infinity());
}

/// p 2^(n - k), 0 where x is -Inf.
template <int registers>
PLANCK_MATH void scale_terms(const Vec<double>* n, const Vec<double>* k, const Vec<double>* x, Vec<double>* p) {
  using V = Vec<double>;
  for (int r = 0; r < registers; ++r) {
    p[r] = select(is_nothing(x[r]), V(0), p[r] * power_of_two(n[r] - k[r]));
  }
}

/// e^x G for a plain G without its 2^k: rounded as the gradient of scan/math.inl, whatever the exponents.
PLANCK_MATH Vec<double> scaled_gradient(Vec<double> sum, Vec<double> p, Vec<double> places) {
  using V = Vec<double>;
  const V k = clamp(places, V(-2000), V(2000));
  const V half = rne(k * V(0.5));
  return (sum * p * power_of_two(half)) * power_of_two(k - half);
}

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
