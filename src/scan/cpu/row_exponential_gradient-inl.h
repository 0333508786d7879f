// The gradient of LogCumsumExp along a segment of a row, in plain sums. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_EXPONENTIAL_GRADIENT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_EXPONENTIAL_GRADIENT_INL_H_
#undef PLANCK_SCAN_ROW_EXPONENTIAL_GRADIENT_INL_H_
#else
#define PLANCK_SCAN_ROW_EXPONENTIAL_GRADIENT_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>
#include <tuple>

#include "scan/cpu/exponential_lanes-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_plain_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// One segment of a row of LogCumsumExp's gradient, if plain sums have its bits; or false, and nothing is done.
template <class Scan, class One, class In, class Out>
class RowExponentialGradient {
 public:
  static bool run(const RowRun& segment) { return run_near_gradient(segment) || run_far_gradient(segment); }

 private:
  using V = Vec<double>;
  using C = typename Scan::Compute;
  using F = Vec<C>;
  using Lanes = ComputeLanes<C>;
  using Parts = PlainParts<C>;
  using Row = PlainRow<One, C, true>;
  using T = std::tuple_element_t<0, In>;
  using Stored = std::tuple_element_t<0, Out>;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kWide = ManyLanes::kRegisters;
  static constexpr int kFull = Lanes::kRegisters;
  using Y = std::tuple_element_t<kInputs - 1, In>;
  static constexpr bool kFed = !std::is_same_v<Y, T>;

  /// dy, x and y of a gradient.
  struct Operands {
    PLANCK_MATH explicit Operands(const RowRun& segment)
        : dy(segment.input[0], segment.input_back[0]),
          x(segment.input[1], segment.input_back[1]),
          y(segment.input[kInputs - 1], segment.input_back[kInputs - 1]) {}

    PLANCK_MATH void fetch_ahead(std::int64_t t) const {
      dy.fetch_ahead(t);
      x.fetch_ahead(t);
      if constexpr (!kFed) y.fetch_ahead(t);
    }
    /// y, rounded to C, and e^-y of small ones.
    PLANCK_MATH void small_negative_exp(std::int64_t t, std::int64_t n, F* narrow, V* weights) const {
      if constexpr (kFed) {
        V wide[kWide];
        y.load(t, n, wide);
        Lanes::narrow(wide, narrow);
        for (int r = 0; r < kWide; ++r) wide[r] = V(0) - wide[r];
        Parts::exp_small(wide, weights);
      } else {
        F small[kFull];
        y.load(t, n, narrow);
        for (int r = 0; r < kFull; ++r) small[r] = exp_small(F(0) - narrow[r]);
        Lanes::widen(small, weights);
      }
    }
    PLANCK_MATH void load_y(std::int64_t t, std::int64_t n, V* wide) const {
      if constexpr (kFed || sizeof(C) == 8) {
        y.load(t, n, wide);
      } else {
        F narrow[kFull];
        y.load(t, n, narrow);
        Lanes::widen(narrow, wide);
      }
    }
    /// Rounded to C, and nothing behind the last.
    PLANCK_MATH void load_narrow_y(std::int64_t t, std::int64_t n, F* narrow) const {
      if constexpr (kFed) {
        V wide[kWide];
        y.load(t, n, wide, -std::numeric_limits<double>::infinity());
        Lanes::narrow(wide, narrow);
      } else {
        y.load(t, n, narrow, -std::numeric_limits<C>::infinity());
      }
    }
    /// y, and e^-y = p 2^places.
    PLANCK_MATH void negative_exp(std::int64_t t, std::int64_t n, V* wide, V* p, V* places) const {
      load_y(t, n, wide);
      if constexpr (kFed || sizeof(C) == 8) {
        V minus[kWide];
        for (int r = 0; r < kWide; ++r) minus[r] = V(0) - wide[r];
        Parts::exp(minus, p, places);
      } else {
        F minus[kFull];
        y.load(t, n, minus);
        for (int r = 0; r < kFull; ++r) minus[r] = F(0) - minus[r];
        Parts::exp(minus, p, places);
      }
    }

    RowElements<T, C> dy;
    RowElements<T, C> x;
    RowElements<Y, std::conditional_t<kFed, double, C>> y;
  };

  static bool run_near_gradient(const RowRun& segment) {
    double prefix = 0;
    if (!Row::plain_prefix(segment, 0, prefix)) return false;
    alignas(64) double sums[Row::kRoom];
    const Operands from(segment);
    const std::int64_t step = ManyLanes::lanes();
    Mask<C> near = every_lane<C>();
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F dy[kFull];
      F x[kFull];
      F y[kFull];
      V terms[kWide];
      V weights[kWide];
      from.fetch_ahead(t);
      from.dy.load(t, segment.n, dy);
      from.x.load(t, segment.n, x);
      from.small_negative_exp(t, segment.n, y, weights);
      for (int r = 0; r < kFull; ++r) {
        const F most(PlainLimits<C>::kElement);
        near = near & is_plain_term(dy[r]) & (abs(x[r]) <= most) & (abs(y[r]) <= most);
      }
      Lanes::widen(dy, terms);
      for (int r = 0; r < kWide; ++r) terms[r] = terms[r] * weights[r];
      ManyLanes::store<double>(terms, reinterpret_cast<std::byte*>(sums + t));
    }
    if (!all_of(near)) return false;
    Row::add_up(segment, segment.prefix == nullptr ? nullptr : &prefix, 0, segment.writes, sums);
    if (!segment.writes) return true;
    const RowElements<Stored, C> to(segment.output[0], segment.output_back);
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F x[kFull];
      V wide[kWide];
      V gradients[kWide];
      from.x.load(t, segment.n, x);
      for (int r = 0; r < kFull; ++r) x[r] = exp_small(x[r]);
      Lanes::widen(x, wide);
      ManyLanes::load<double>(reinterpret_cast<const std::byte*>(sums + t), gradients);
      for (int r = 0; r < kWide; ++r) gradients[r] = gradients[r] * wide[r];
      Lanes::narrow(gradients, x);
      to.store(t, segment.n, x, segment.streamed);
    }
    return true;
  }

  static bool run_far_gradient(const RowRun& segment) {
    const Operands from(segment);
    const std::int64_t step = ManyLanes::lanes();
    typename Row::RangeFinder finder;
    typename Row::Range range{};
    Mask<C> fits = every_lane<C>();
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F dy[kFull];
      F x[kFull];
      F y[kFull];
      from.dy.load(t, segment.n, dy);
      from.x.load(t, segment.n, x);
      from.load_narrow_y(t, segment.n, y);
      for (int r = 0; r < kFull; ++r) {
        finder.take(y[r]);
        fits = fits & is_plain_term(dy[r]) & (is_nothing(x[r]) | (abs(x[r]) <= F(PlainLimits<C>::kFar)));
      }
    }
    if (!all_of(fits) || !finder.find(range)) return false;
    const double k = -Row::places((range.high + range.low) / 2);
    double prefix = 0;
    if (!Row::plain_prefix(segment, k, prefix)) return false;
    alignas(64) double sums[Row::kRoom];
    V ks[kWide];
    for (V& each : ks) each = V(k);
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F dy[kFull];
      V terms[kWide];
      V y[kWide];
      V p[kWide];
      V n[kWide];
      from.dy.load(t, segment.n, dy);
      Lanes::widen(dy, terms);
      from.negative_exp(t, segment.n, y, p, n);
      for (int r = 0; r < kWide; ++r) terms[r] = terms[r] * p[r];
      scale_terms<kWide>(n, ks, y, terms);
      ManyLanes::store<double>(terms, reinterpret_cast<std::byte*>(sums + t));
    }
    Row::add_up(segment, segment.prefix == nullptr ? nullptr : &prefix, k, segment.writes, sums);
    if (!segment.writes) return true;
    store_far(segment, from, k, sums);
    return true;
  }
  static PLANCK_MATH void store_far(const RowRun& segment, const Operands& from, double k, const double* sums) {
    const std::int64_t step = ManyLanes::lanes();
    const RowElements<Stored, C> to(segment.output[0], segment.output_back);
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F x[kFull];
      V wide[kWide];
      V y[kWide];
      V p[kWide];
      V n[kWide];
      V gradients[kWide];
      from.x.load(t, segment.n, x);
      from.load_y(t, segment.n, y);
      Lanes::widen(x, wide);
      Parts::exp(x, p, n);
      ManyLanes::load<double>(reinterpret_cast<const std::byte*>(sums + t), gradients);
      for (int r = 0; r < kWide; ++r) {
        const V value = scaled_gradient(gradients[r], p[r], n[r] + V(k));
        const V weightless = select(is_nothing(wide[r]), gradients[r] * V(0), value);
        gradients[r] = select(is_nothing(y[r]), V(0), weightless);
      }
      Lanes::narrow(gradients, x);
      to.store(t, segment.n, x, segment.streamed);
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
