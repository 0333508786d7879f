// LogCumsumExp and its gradient along a row, tile by tile of a segment. Where all numbers stay normal, as they mostly
// do, a tile's exponentials are taken first, then their plain sums by the kernel of Cumsum, then the results. Elsewhere
// scaled numbers are added, as scan/math.inl has it. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_EXPONENTIALS_INL_H_
#undef PLANCK_SCAN_ROW_EXPONENTIALS_INL_H_
#else
#define PLANCK_SCAN_ROW_EXPONENTIALS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/exponential_lanes-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_exponential_gradient-inl.h"
#include "scan/cpu/row_kernel-inl.h"
#include "scan/cpu/row_plain_sums-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// As RowScan.
template <class Scan, class One, class In, class Out>
class RowExponentials {
 public:
  static void run(RowRun& run) {
    RowRun row = run;
    for (std::int64_t done = 0; done < run.rows; done += row.rows) {
      const std::int64_t rows = std::min(run.rows - done, kRowTile / run.n);
      row.rows = rows > 1 && follow_each_other<0>(run) ? rows : 1;
      if (row.rows > 1) {
        run_rows(row);
      } else {
        run_row(row);
      }
      for (int k = 0; k < kInputs; ++k) {
        if (row.input[k] != nullptr) row.input[k] += row.rows * run.input_row[k];
      }
      if (row.output[0] != nullptr) row.output[0] += row.rows * run.output_row[0];
    }
  }

 private:
  static PLANCK_MATH void run_row(const RowRun& run) {
    Fold fold;
    OneState state;
    if (run.prefix != nullptr) {
      state = {{run.prefix[0], run.prefix[1]}};
      fold.resume_after(numerics::block_size(kCarryLevel + 1));
      fold.totals().set(kCarryLevel + 1, state);
    }
    T first;
    std::memcpy(&first, run.input[0], sizeof first);
    for (std::int64_t t = 0; t < run.n; t += kRowTile) {
      RowRun segment = segment_of(run, t);
      double prefix[2];
      double total[2];
      segment.prefix = nullptr;
      if (t > 0 || run.prefix != nullptr) {
        state = fold.prefix();
        std::copy_n(state.part, 2, prefix);
        segment.prefix = prefix;
      }
      segment.total = segment.n == kRowTile ? total : nullptr;
      if (!run_plain(segment)) RowScan<Scan, One, In, Out>::run(segment);
      if (segment.total == nullptr) break;
      fold.push_block(kRowTileLevel, OneState{{total[0], total[1]}});
    }
    if (run.total != nullptr) {
      state = fold.open(kCarryLevel);
      std::copy_n(state.part, 2, run.total);
    }
    if constexpr (!kGradient) {
      if (run.prefix == nullptr && run.writes) put_first(run, first);
    }
  }

  using V = Vec<double>;
  using C = typename Scan::Compute;
  using F = Vec<C>;
  using Lanes = ComputeLanes<C>;
  using Parts = PlainParts<C>;
  using T = std::tuple_element_t<0, In>;
  using Stored = std::tuple_element_t<0, Out>;
  using OneState = typename One::State;
  using Fold = numerics::CanonicalFold<OneState, One>;
  static constexpr bool kGradient = ScanTraits<Scan, V>::kGradient;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kWide = ManyLanes::kRegisters;
  static constexpr int kFull = Lanes::kRegisters;
  using Row = PlainRow<One, C, false>;
  static constexpr bool kWideLog = !std::is_same_v<Stored, T>;  ///< a feed's, of f64's bits
  using Result = std::conditional_t<kWideLog, double, C>;

  static PLANCK_MATH bool run_plain(const RowRun& segment) {
    if constexpr (kGradient) {
      return RowExponentialGradient<Scan, One, In, Out>::run(segment);
    } else {
      return run_forward(segment);
    }
  }

  // ---- several short rows: all steps but the sums take them as one ----

  /// Whether a row begins where the one before it ends.
  template <int k>
  static PLANCK_MATH bool follow_each_other(const RowRun& run) {
    const auto follows = [&](std::int64_t row, bool back, std::size_t bytes) {
      return row == (back ? -run.n : run.n) * static_cast<std::int64_t>(bytes);
    };
    if constexpr (k < kInputs) {
      return follows(run.input_row[k], run.input_back[k], sizeof(std::tuple_element_t<k, In>)) &&
             follow_each_other<k + 1>(run);
    }
    return run.output[0] == nullptr || follows(run.output_row[0], run.output_back, sizeof(Stored));
  }

  static PLANCK_MATH void run_rows(const RowRun& run) {
    RowRun tile = run;
    tile.n = run.rows * run.n;
    tile.in_lanes = false;
    // Results pass through the tile where a row's first has to be put among them before they are streamed.
    alignas(64) Stored results[kRowTile];
    const bool staged = run.streamed && !kGradient;
    if (staged) {
      tile.output[0] = reinterpret_cast<std::byte*>(results + (run.output_back ? tile.n - 1 : 0));
      tile.streamed = false;
    }
    T first[kRowTile];
    for (std::int64_t r = 0; r < run.rows && !kGradient; ++r) {
      std::memcpy(first + r, run.input[0] + r * run.input_row[0], sizeof(T));
    }
    if (!run_plain(tile)) {
      RowRun slow = run;
      slow.in_lanes = slow.streamed = false;
      slow.output[0] = tile.output[0];
      RowScan<Scan, One, In, Out>::run(slow);
    }
    if (kGradient || !run.writes) return;
    RowRun row = tile;
    for (std::int64_t r = 0; r < run.rows; ++r, row.output[0] += run.output_row[0]) put_first(row, first[r]);
    if (!staged) return;
    const std::int64_t bytes = tile.n * static_cast<std::int64_t>(sizeof(Stored));
    std::byte* const to = run.output[0] - (run.output_back ? bytes - static_cast<std::int64_t>(sizeof(Stored)) : 0);
    stream_lines(reinterpret_cast<const std::byte*>(results), to, bytes);
  }

  /// The value at the axis' first element is the element.
  static PLANCK_MATH void put_first(const RowRun& run, T first) {
    if constexpr (std::is_same_v<Stored, T>) {
      std::memcpy(run.output[0], &first, sizeof first);
    } else {
      double wide[1];
      OneLane<double>::load<T>(reinterpret_cast<const std::byte*>(&first), wide);
      std::memcpy(run.output[0], wide, sizeof wide);
    }
  }

  template <int k = 0>
  static PLANCK_MATH void advance_inputs(RowRun& segment, std::int64_t t) {
    if constexpr (k < kInputs) {
      const auto bytes = static_cast<std::int64_t>(sizeof(std::tuple_element_t<k, In>)) * t;
      segment.input[k] += segment.input_back[k] ? -bytes : bytes;
      advance_inputs<k + 1>(segment, t);
    }
  }
  static PLANCK_MATH RowRun segment_of(const RowRun& run, std::int64_t t) {
    RowRun segment = run;
    segment.n = std::min(kRowTile, run.n - t);
    segment.in_lanes = false;  // a feed's values are stored in order
    // The first element's value is put there last, through the caches.
    if (t == 0 && !kGradient) segment.streamed = false;
    advance_inputs(segment, t);
    const auto bytes = static_cast<std::int64_t>(sizeof(Stored)) * t;
    if (run.output[0] != nullptr) segment.output[0] += run.output_back ? -bytes : bytes;
    return segment;
  }

  // ---- forward ----

  static bool run_forward(const RowRun& segment) { return run_near(segment) || run_far(segment); }

  /// All x near 0: every sum is a number of C.
  static bool run_near(const RowRun& segment) {
    double prefix = 0;
    if (!Row::plain_prefix(segment, 0, prefix) || Row::places_below_prefix(segment, 0) > PlainLimits<C>::kPrefix)
      return false;
    alignas(64) C sums[Row::kRoom];
    const RowElements<T, C> from(segment.input[0], segment.input_back[0]);
    const std::int64_t step = ManyLanes::lanes();
    Mask<C> near = every_lane<C>();
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F x[kFull];
      from.load(t, segment.n, x);
      for (int r = 0; r < kFull; ++r) near = near & (abs(x[r]) <= F(PlainLimits<C>::kElement));
      for (int r = 0; r < kFull; ++r) HWY_NAMESPACE::store(exp_small(x[r]), sums + t + r * Lanes::lanes());
    }
    if (!all_of(near)) return false;
    Row::add_up(segment, segment.prefix == nullptr ? nullptr : &prefix, 0, segment.writes, sums);
    if (!segment.writes) return true;
    const RowElements<Stored, Result> to(segment.output[0], segment.output_back);
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F sum[kFull];
      Vec<Result> y[ComputeLanes<Result>::kRegisters];
      for (int r = 0; r < kFull; ++r) sum[r] = HWY_NAMESPACE::load<C>(sums + t + r * Lanes::lanes());
      if constexpr (kWideLog) {
        Parts::log_normal(sum, y);
      } else {
        for (int r = 0; r < kFull; ++r) y[r] = log_normal(sum[r]);
      }
      to.store(t, segment.n, y, segment.streamed && !kWideLog);
    }
    return true;
  }

  /// All x near to each other, wherever that is, and -Inf among them.
  static bool run_far(const RowRun& segment) {
    const RowElements<T, C> from(segment.input[0], segment.input_back[0]);
    const std::int64_t step = ManyLanes::lanes();
    typename Row::RangeFinder finder;
    typename Row::Range range{};
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F x[kFull];
      from.load(t, segment.n, x, -std::numeric_limits<C>::infinity());
      for (int r = 0; r < kFull; ++r) finder.take(x[r]);
    }
    if (!finder.find(range)) return false;
    const double k = Row::places((range.high + range.low) / 2);
    // Beside so large a prefix the segment is nothing.
    const bool lost = Row::places_below_prefix(segment, Row::places(range.high)) > 100;
    double prefix = 0;
    if (!lost && !Row::plain_prefix(segment, k, prefix)) return false;
    alignas(64) double sums[Row::kRoom];
    V ks[kWide];
    for (V& each : ks) each = V(k);
    for (std::int64_t t = 0; t < segment.n; t += step) {
      F x[kFull];
      V wide[kWide];
      V p[kWide];
      V n[kWide];
      from.load(t, segment.n, x);
      Lanes::widen(x, wide);
      Parts::exp(x, p, n);
      scale_terms<kWide>(n, ks, wide, p);
      ManyLanes::store<double>(p, reinterpret_cast<std::byte*>(sums + t));
    }
    const bool joins = segment.prefix != nullptr && !lost;
    Row::add_up(segment, joins ? &prefix : nullptr, k, segment.writes && !lost, sums);
    if (!segment.writes) return true;
    const double constant = lost ? One::project({{segment.prefix[0], segment.prefix[1]}}) : 0;
    for (std::int64_t t = 0; t < segment.n; t += step) {
      V wide[kWide];
      ManyLanes::load<double>(reinterpret_cast<const std::byte*>(sums + t), wide);
      store_logs(segment, t, wide, ks, lost, constant);
    }
    return true;
  }
  static PLANCK_MATH void store_logs(const RowRun& segment, std::int64_t t, const V* sums, const V* k, bool lost,
                                     double constant) {
    const RowElements<Stored, Result> to(segment.output[0], segment.output_back);
    Vec<Result> y[ComputeLanes<Result>::kRegisters];
    if (lost) {
      for (auto& each : y) each = Vec<Result>(static_cast<Result>(constant));
    } else {
      Parts::log(sums, k, y);
    }
    to.store(t, segment.n, y, segment.streamed && !kWideLog);
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
