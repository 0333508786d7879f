// Rows whose exponentials, weights and sums are plain numbers: loading, adding up, and when they are. Re-included once
// per target.
#if defined(PLANCK_SCAN_ROW_PLAIN_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_PLAIN_SUMS_INL_H_
#undef PLANCK_SCAN_ROW_PLAIN_SUMS_INL_H_
#else
#define PLANCK_SCAN_ROW_PLAIN_SUMS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>
#include <utility>

#include "scan/cpu/exponential_lanes-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_kernel-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Elements of a row in scan order, all of ManyLanes' at a time.
template <class T, class C>
class RowElements {
 public:
  using Lanes = ComputeLanes<C>;
  using F = Vec<C>;
  static constexpr int kFull = Lanes::kRegisters;
  static PLANCK_MATH std::int64_t step() { return ManyLanes::lanes(); }

  /// `first` is element 0; with `back` the others lie before it.
  PLANCK_MATH RowElements(const std::byte* first, bool back) : first_(reinterpret_cast<const T*>(first)), back_(back) {}

  /// Elements t … t + step() - 1, of which those from n on are `others`.
  PLANCK_MATH void load(std::int64_t t, std::int64_t n, F* x, C others = 0) const {
    if (t + step() > n) return load_some(t, n - t, others, x);
    load_at(back_ ? first_ - t - (step() - 1) : first_ + t, x);
  }

  /// Asks for the elements a tile further on, wherever that is: three rows at once, walked backwards, are more than
  /// processors foresee.
  PLANCK_MATH void fetch_ahead(std::int64_t t) const {
    const std::int64_t distance = (t + kRowTile) * static_cast<std::int64_t>(sizeof(T));
    const auto from = reinterpret_cast<std::uintptr_t>(first_);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie outside of the tensor, and is fetched but never read
    hwy::Prefetch(reinterpret_cast<const T*>(from + static_cast<std::uintptr_t>(back_ ? -distance : distance)));
  }

  PLANCK_MATH void store(std::int64_t t, std::int64_t n, F* y, bool streamed) const {
    const bool whole = t + step() <= n;
    T some[kMost];
    T* const from = const_cast<T*>(first_);
    T* to = whole ? (back_ ? from - t - (step() - 1) : from + t) : some;
    if (back_) reverse(y);
    if constexpr (sizeof(T) == sizeof(C)) {
      for (int r = 0; r < kFull; ++r) {
        T* const at = to + r * Lanes::lanes();
        if (streamed && whole) {
          store_full<true>(y[r], at);
        } else {
          store_full<false>(y[r], at);
        }
      }
    } else if (streamed && whole) {
      store_two<true>(y[0], y[1], to);
    } else {
      store_two<false>(y[0], y[1], to);
    }
    if (whole) return;
    const std::int64_t left = n - t;
    std::memcpy(back_ ? from - (n - 1) : from + t, back_ ? some + (step() - left) : some,
                static_cast<std::size_t>(left) * sizeof(T));
  }

 private:
  static constexpr int kMost = ManyLanes::kRegisters * static_cast<int>(hn::MaxLanes(Tag<double>()));

  static PLANCK_MATH void reverse(F* x) {
    for (int r = 0; r < kFull; ++r) x[r] = Lanes::reverse(x[r]);
    for (int r = 0; r < kFull / 2; ++r) std::swap(x[r], x[kFull - 1 - r]);
  }
  PLANCK_MATH void load_at(const T* from, F* x) const {
    for (int r = 0; r < kFull; ++r) x[r] = HWY_NAMESPACE::load<C>(from + r * Lanes::lanes());
    if (back_) reverse(x);
  }
  PLANCK_MATH void load_some(std::int64_t t, std::int64_t left, C others, F* x) const {
    T some[kMost];
    std::fill_n(some, step(), scalar::narrow<T>(others));
    std::memcpy(back_ ? some + (step() - left) : some, back_ ? first_ - t - (left - 1) : first_ + t,
                static_cast<std::size_t>(left) * sizeof(T));
    load_at(some, x);
  }

  const T* first_;
  bool back_;
};

/// What rows of LogCumsumExp and of its gradient share: the plain sums of a segment, or of several rows with as many
/// elements altogether. One is the scan in scalar lanes.
template <class One, class C, bool gradient>
class PlainRow {
 public:
  using V = Vec<double>;
  using F = Vec<C>;
  using Lanes = ComputeLanes<C>;
  using OneState = typename One::State;
  template <class Sum>
  using Sums = RowScan<CumsumScan<V>, scalar::CumsumScan<double>, std::tuple<Sum>, std::tuple<Sum>>;
  static constexpr std::int64_t kRoom = kRowTile + 64;  ///< a tile, and what registers reach beyond

  /// Plain sums of the terms without their 2^k, in their place; gives the segment's total, if that is wanted.
  template <class Sum>
  static PLANCK_MATH void add_up(const RowRun& segment, const double* prefix, double k, bool writes, Sum* terms) {
    RowRun sums{};
    sums.input[0] = reinterpret_cast<const std::byte*>(terms);
    sums.output[0] = reinterpret_cast<std::byte*>(terms);
    sums.rows = segment.rows;
    sums.n = segment.n / segment.rows;
    sums.input_row[0] = sums.output_row[0] = sums.n * static_cast<std::int64_t>(sizeof(Sum));
    sums.prefix = prefix;
    double total = 0;
    sums.total = segment.total == nullptr ? nullptr : &total;
    sums.writes = writes;
    Sums<Sum>::run(sums);
    if (segment.total == nullptr) return;
    OneState state = One::Number::normalised(total, k * ScaledLimits<C>::kUnit);
    if (!gradient && total == 0) state.part[1] = 1;
    std::copy_n(state.part, 2, segment.total);
  }

  /// The prefix as a plain number without its 2^k: false if it is none.
  static PLANCK_MATH bool plain_prefix(const RowRun& segment, double k, double& plain) {
    if (segment.prefix == nullptr) return true;
    const ScanState<V, 2> state = {{V(segment.prefix[0]), V(segment.prefix[1])}};
    V wide(0);
    bool fits = false;
    if constexpr (gradient) {
      fits = all_of(to_plain_gradient<C>(state, V(k), wide));
    } else {
      fits = all_of(to_plain<C>(state, V(k), wide));
    }
    plain = RowRegisters::first(wide);
    return fits;
  }
  /// How many places 2^k is below the prefix; none if nothing is there.
  static PLANCK_MATH double places_below_prefix(const RowRun& segment, double k) {
    if (segment.prefix == nullptr) return 0;
    return segment.prefix[0] * (1 / ScaledLimits<C>::kUnit) - k;
  }

  /// The largest and the smallest elements that are more than nothing.
  struct Range {
    double high;
    double low;
  };
  class RangeFinder {
   public:
    PLANCK_MATH RangeFinder()
        : fits_(every_lane<C>()), high_(F(-PlainLimits<C>::kFar)), low_(F(PlainLimits<C>::kFar)) {}
    PLANCK_MATH void take(F x) {
      const auto nothing = is_nothing(x);
      fits_ = fits_ & (nothing | (abs(x) <= F(PlainLimits<C>::kFar)));
      high_ = select(high_ < x, x, high_);
      low_ = select(nothing, low_, select(x < low_, x, low_));
    }
    /// False if one is no number, or too far off, or they are too far apart.
    PLANCK_MATH bool find(Range& range) const {
      if (!all_of(fits_)) return false;
      C high[kMost];
      C low[kMost];
      HWY_NAMESPACE::store(high_, high);
      HWY_NAMESPACE::store(low_, low);
      range.high = *std::max_element(high, high + Lanes::lanes());
      range.low = *std::min_element(low, low + Lanes::lanes());
      if (range.high < range.low) range = {0, 0};  // nothing at all
      return range.high - range.low <= PlainLimits<C>::kSpread;
    }

   private:
    static constexpr int kMost = static_cast<int>(hn::MaxLanes(Tag<C>()));
    Mask<C> fits_;
    F high_;
    F low_;
  };
  static PLANCK_MATH double places(double x) { return scalar::rne(x * ExpLog<double>::kLog2E); }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
