// Blocks of columns of LogCumsumExp and its gradient. Where all numbers stay normal, as they mostly do, sums are plain:
// in passes over the block, all exponentials first, then the sums, then all results. An exponential or logarithm is a
// chain of twenty operations that each wait for the one before; side by side in a short loop they keep the processor
// busy, in the midst of everything else a step does they do not. Elsewhere scaled numbers are added, as scan/math.inl
// has it. Re-included once per target.
#if defined(PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#undef PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#else
#define PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#endif

#include <hwy/highway.h>

#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/column_kernel-inl.h"
#include "scan/cpu/exponential_lanes-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// As ColumnBlock.
template <class Scan, class In, class Out>
class ColumnExponentials : public ColumnBlock<ManyLanes, Scan, In, Out> {
 public:
  using Base = ColumnBlock<ManyLanes, Scan, In, Out>;
  using V = Vec<double>;
  using State = typename Scan::State;

  static void run(const ColumnSteps& s, std::int64_t i) {
    if (s.steps <= 0) return;
    if constexpr (kGradient) {
      if (run_gradient(s, i)) return;
    } else {
      if (run_forward(s, i)) return;
    }
    Base::run(s, i);
  }

 private:
  using C = typename Scan::Compute;
  using Lanes = ComputeLanes<C>;
  using Parts = PlainParts<C>;
  using F = Vec<C>;
  static constexpr bool kGradient = ScanTraits<Scan, V>::kGradient;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kSteps = numerics::kRadix;
  static constexpr int kWide = ManyLanes::kRegisters;
  static constexpr int kFull = Lanes::kRegisters;
  using T = std::tuple_element_t<0, In>;
  using Y = std::tuple_element_t<kInputs - 1, In>;  ///< of a gradient
  using Stored = std::tuple_element_t<0, Out>;
  static constexpr bool kWideLog = !std::is_same_v<Stored, T>;
  static constexpr bool kFed = !std::is_same_v<Y, T>;
  static_assert(std::tuple_size_v<Out> == 1 && !Scan::kPositions);

  /// The block's own sums so far and those of the prefix before it, as plain numbers without their 2^k.
  struct Sums {
    V k[kWide];
    V own[kWide];
    V prefix[kWide];
    bool joins;

    PLANCK_MATH void add(const ColumnSteps& s, std::int64_t step, const V* terms) {
      for (int r = 0; r < kWide; ++r) own[r] = s.first && step == 0 ? terms[r] : own[r] + terms[r];
    }
    PLANCK_MATH V inclusive(int r) const { return joins ? prefix[r] + own[r] : own[r]; }
  };

  /// False if they are too far from 2^k, or with `narrow` too large for C.
  static PLANCK_MATH bool find_sums(const ColumnSteps& s, std::int64_t i, bool narrow, Sums& sums) {
    sums.joins = s.writes && s.prefix != nullptr;
    Mask<double> fits = every_lane<double>();
    const V largest(narrow ? PlainLimits<C>::kPrefix * ScaledLimits<C>::kUnit : ScaledLimits<C>::kNan);
    const auto take = [&](const std::byte* from, V* plain) {
      State states[kWide];
      Base::get(from, i, s.part_stride, states);
      for (int r = 0; r < kWide; ++r) {
        if constexpr (kGradient) {
          fits = fits & to_plain_gradient<C>(states[r], sums.k[r], plain[r]);
        } else {
          fits = fits & to_plain<C>(states[r], sums.k[r], plain[r]) & (states[r].part[0] <= largest);
        }
      }
    };
    if (!s.first) take(s.own, sums.own);
    if (sums.joins) take(s.prefix, sums.prefix);
    return all_of(fits);
  }
  static PLANCK_MATH void put_own(const ColumnSteps& s, std::int64_t i, const Sums& sums) {
    State states[kWide];
    for (int r = 0; r < kWide; ++r) {
      if constexpr (kGradient) {
        states[r] = Scan::Number::normalised(sums.own[r], sums.k[r] * V(ScaledLimits<C>::kUnit));
      } else {
        states[r] = from_plain<C>(sums.own[r], sums.k[r]);
      }
    }
    Base::put(states, i, s.part_stride, s.own);
  }

  template <class From>
  static PLANCK_MATH const From* place(const ColumnSteps& s, int input, std::int64_t step, std::int64_t i) {
    return reinterpret_cast<const From*>(s.input[input] + step * s.input_step[input]) + i;
  }
  static PLANCK_MATH void load(const T* from, F* x) {
    for (int r = 0; r < kFull; ++r) x[r] = HWY_NAMESPACE::load<C>(from + r * Lanes::lanes());
  }
  static PLANCK_MATH void load_wide(const ColumnSteps& s, int input, std::int64_t step, std::int64_t i, V* x) {
    ManyLanes::load<Y>(reinterpret_cast<const std::byte*>(place<Y>(s, input, step, i)), x);
  }
  static PLANCK_MATH void store(const ColumnSteps& s, std::int64_t step, std::int64_t i, const F* y) {
    T* const to = reinterpret_cast<T*>(s.output[0] + step * s.output_step[0]) + i;
    Lanes::store(y, to, s.streamed);
  }
  static PLANCK_MATH Mask<C> is_near(F x) { return abs(x) <= F(PlainLimits<C>::kElement); }

  // ---- forward ----

  static PLANCK_MATH bool run_forward(const ColumnSteps& s, std::int64_t i) {
    F x[kSteps][kFull];
    F first[kFull];
    Mask<C> near = every_lane<C>();
    for (std::int64_t step = 0; step < s.steps; ++step) {
      load(place<T>(s, 0, step, i), x[step]);
      for (int r = 0; r < kFull; ++r) near = near & is_near(x[step][r]);
    }
    for (int r = 0; r < kFull; ++r) first[r] = x[0][r];
    const bool begins = s.first && s.prefix == nullptr;
    if (all_of(near) && run_near(s, i, x, begins, first)) return true;
    return run_far(s, i, x, begins, first);
  }

  /// All x near 0: every sum is a number of C.
  static PLANCK_MATH bool run_near(const ColumnSteps& s, std::int64_t i, F (*x)[kFull], bool begins, const F* first) {
    Sums sums;
    for (V& k : sums.k) k = V(0);
    if (!find_sums(s, i, true, sums)) return false;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      for (int r = 0; r < kFull; ++r) x[step][r] = exp_small(x[step][r]);
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V wide[kWide];
      Lanes::widen(x[step], wide);
      sums.add(s, step, wide);
      for (int r = 0; r < kWide; ++r) wide[r] = sums.inclusive(r);
      Lanes::narrow(wide, x[step]);
    }
    put_own(s, i, sums);
    if (!s.writes) return true;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      if constexpr (kWideLog) {
        V y[1][kWide];
        Parts::log_normal(x[step], y[0]);
        if (begins && step == 0) Lanes::widen(first, y[0]);
        Base::template store<0>(s, step, i, y);
      } else {
        for (int r = 0; r < kFull; ++r) x[step][r] = begins && step == 0 ? first[r] : log_normal(x[step][r]);
        store(s, step, i, x[step]);
      }
    }
    return true;
  }

  /// Each column's x near to each other, wherever that is, and -Inf among them.
  static PLANCK_MATH bool run_far(const ColumnSteps& s, std::int64_t i, const F (*x)[kFull], bool begins,
                                  const F* first) {
    F middle[kFull];
    if (!find_middle(s.steps, x, middle)) return false;
    Sums sums;
    set_places(middle, sums.k);
    if (!find_sums(s, i, false, sums)) return false;
    V terms[kSteps][kWide];
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V n[kWide];
      V wide[kWide];
      Lanes::widen(x[step], wide);
      Parts::exp(x[step], terms[step], n);
      scale_terms<kWide>(n, sums.k, wide, terms[step]);
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      sums.add(s, step, terms[step]);
      for (int r = 0; r < kWide; ++r) terms[step][r] = sums.inclusive(r);
    }
    put_own(s, i, sums);
    if (!s.writes) return true;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      if constexpr (kWideLog) {
        V y[1][kWide];
        Parts::log(terms[step], sums.k, y[0]);
        if (begins && step == 0) Lanes::widen(first, y[0]);
        Base::template store<0>(s, step, i, y);
      } else {
        F y[kFull];
        Parts::log(terms[step], sums.k, y);
        store(s, step, i, begins && step == 0 ? first : y);
      }
    }
    return true;
  }

  /// The middle between each column's largest and smallest element that are more than nothing; false if one is no
  /// number, or too far off, or they are too far apart.
  static PLANCK_MATH bool find_middle(std::int64_t steps, const F (*x)[kFull], F* middle) {
    const F most(PlainLimits<C>::kFar);
    Mask<C> fits = every_lane<C>();
    F high[kFull];
    F low[kFull];
    for (int r = 0; r < kFull; ++r) {
      high[r] = F(0) - most;
      low[r] = most;
    }
    for (std::int64_t step = 0; step < steps; ++step) {
      for (int r = 0; r < kFull; ++r) {
        const auto nothing = is_nothing(x[step][r]);
        fits = fits & (nothing | (abs(x[step][r]) <= most));
        high[r] = select(high[r] < x[step][r], x[step][r], high[r]);
        low[r] = select(nothing, low[r], select(x[step][r] < low[r], x[step][r], low[r]));
      }
    }
    for (int r = 0; r < kFull; ++r) {
      fits = fits & (high[r] - low[r] <= F(PlainLimits<C>::kSpread));
      middle[r] = (high[r] + low[r]) * F(C(0.5));  // 0 where there is nothing
    }
    return all_of(fits);
  }
  static PLANCK_MATH void set_places(const F* x, V* k) {
    Lanes::widen(x, k);
    for (int r = 0; r < kWide; ++r) k[r] = rne(k[r] * V(ExpLog<double>::kLog2E));
  }

  // ---- gradients ----

  static PLANCK_MATH bool run_gradient(const ColumnSteps& s, std::int64_t i) requires kGradient {
    F x[kSteps][kFull];
    F y[kSteps][kFull];
    V terms[kSteps][kWide];
    Mask<C> near = every_lane<C>();
    Mask<C> plain = every_lane<C>();
    for (std::int64_t step = 0; step < s.steps; ++step) {
      F dy[kFull];
      load(place<T>(s, 0, step, i), dy);
      Lanes::widen(dy, terms[step]);
      load(place<T>(s, 1, step, i), x[step]);
      if constexpr (kFed) {
        V wide[kWide];
        load_wide(s, 2, step, i, wide);
        Lanes::narrow(wide, y[step]);
      } else {
        load(place<T>(s, 2, step, i), y[step]);
      }
      for (int r = 0; r < kFull; ++r) {
        plain = plain & is_plain_term(dy[r]);
        near = near & is_near(x[step][r]) & is_near(y[step][r]);
      }
    }
    if (!all_of(plain)) return false;
    if (all_of(near) && run_near_gradient(s, i, x, y, terms)) return true;
    return run_far_gradient(s, i, x, y, terms);
  }

  static PLANCK_MATH bool run_near_gradient(const ColumnSteps& s, std::int64_t i, F (*x)[kFull], const F (*y)[kFull],
                                            V (*terms)[kWide]) requires kGradient {
    Sums sums;
    for (V& k : sums.k) k = V(0);
    if (!find_sums(s, i, false, sums)) return false;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V weight[kWide];
      if constexpr (kFed) {
        load_wide(s, 2, step, i, weight);
        for (int r = 0; r < kWide; ++r) weight[r] = V(0) - weight[r];
        Parts::exp_small(weight, weight);
      } else {
        F narrow[kFull];
        for (int r = 0; r < kFull; ++r) narrow[r] = exp_small(F(0) - y[step][r]);
        Lanes::widen(narrow, weight);
      }
      for (int r = 0; r < kWide; ++r) terms[step][r] = terms[step][r] * weight[r];
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      for (int r = 0; r < kFull; ++r) x[step][r] = exp_small(x[step][r]);
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      sums.add(s, step, terms[step]);
      if (!s.writes) continue;
      V dx[1][kWide];
      Lanes::widen(x[step], dx[0]);
      for (int r = 0; r < kWide; ++r) dx[0][r] = sums.inclusive(r) * dx[0][r];
      Base::template store<0>(s, step, i, dx);
    }
    put_own(s, i, sums);
    return true;
  }

  static PLANCK_MATH bool run_far_gradient(const ColumnSteps& s, std::int64_t i, const F (*x)[kFull],
                                           const F (*y)[kFull], V (*terms)[kWide]) requires kGradient {
    F middle[kFull];
    Mask<C> fits = every_lane<C>();
    for (std::int64_t step = 0; step < s.steps; ++step) {
      for (int r = 0; r < kFull; ++r) {
        fits = fits & (is_nothing(x[step][r]) | (abs(x[step][r]) <= F(PlainLimits<C>::kFar)));
      }
    }
    if (!all_of(fits) || !find_middle(s.steps, y, middle)) return false;
    Sums sums;
    set_places(middle, sums.k);
    for (V& k : sums.k) k = V(0) - k;
    if (!find_sums(s, i, false, sums)) return false;
    V ys[kSteps][kWide];
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V p[kWide];
      V n[kWide];
      load_y(s, i, step, y[step], ys[step]);
      negative_exp(y[step], ys[step], p, n);
      for (int r = 0; r < kWide; ++r) terms[step][r] = terms[step][r] * p[r];
      scale_terms<kWide>(n, sums.k, ys[step], terms[step]);
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      sums.add(s, step, terms[step]);
      if (!s.writes) continue;
      V dx[1][kWide];
      V wide[kWide];
      V p[kWide];
      V n[kWide];
      Lanes::widen(x[step], wide);
      Parts::exp(x[step], p, n);
      for (int r = 0; r < kWide; ++r) {
        const V value = scaled_gradient(sums.inclusive(r), p[r], n[r] + sums.k[r]);
        const V weightless = select(is_nothing(wide[r]), sums.inclusive(r) * V(0), value);
        dx[0][r] = select(is_nothing(ys[step][r]), V(0), weightless);
      }
      Base::template store<0>(s, step, i, dx);
    }
    put_own(s, i, sums);
    return true;
  }
  static PLANCK_MATH void load_y(const ColumnSteps& s, std::int64_t i, std::int64_t step, const F* y, V* wide) {
    if constexpr (kFed) {
      load_wide(s, 2, step, i, wide);
    } else {
      Lanes::widen(y, wide);
    }
  }
  /// Of e^-y.
  static PLANCK_MATH void negative_exp(const F* y, const V* wide, V* p, V* n) {
    if constexpr (kFed) {
      V x[kWide];
      for (int r = 0; r < kWide; ++r) x[r] = V(0) - wide[r];
      Parts::exp(x, p, n);
    } else {
      F x[kFull];
      for (int r = 0; r < kFull; ++r) x[r] = F(0) - y[r];
      Parts::exp(x, p, n);
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
