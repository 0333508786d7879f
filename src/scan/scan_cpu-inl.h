// A scan's kernel in this target's lanes: a block of up to eight steps of many lanes. Re-included once per target.
#if defined(PLANCK_SCAN_SCAN_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_SCAN_CPU_INL_H_
#undef PLANCK_SCAN_SCAN_CPU_INL_H_
#else
#define PLANCK_SCAN_SCAN_CPU_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>
#include <tuple>

#include "cpu/kernel_types.hpp"
#include "cpu/lane_scan.hpp"
#include "scan/row_scan_cpu-inl.h"
#include "scan/scan_lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// A block's steps. In and Out are tuples of what inputs and outputs are stored as.
template <class Lanes, class Scan, class In, class Out>
class Block {
 public:
  using V = typename Lanes::V;
  using State = typename Scan::State;

  static PLANCK_MATH void run(const LaneSteps& s, std::int64_t i) {
    State own[kRegisters];
    State before[kRegisters];
    V lag[kRegisters];
    const bool joins = s.writes && s.before != nullptr;
    // Where there is nothing yet, whatever stands there is read, but not used.
    get(s.own, i, s.part_stride, own);
    get(joins ? s.before : s.own, i, s.part_stride, before);
    if constexpr (kLags) Lanes::template load<double>(s.lag + i * kPartBytes, lag);
    [[maybe_unused]] Shared<Scan> shared[kRegisters];
    if constexpr (kBridges) {
      // Of no reference yet.
      const V nan(std::numeric_limits<double>::quiet_NaN());
      for (int r = 0; r < kRegisters; ++r) shared[r] = {{nan, nan, nan}, nan};
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V x[kInputs][kRegisters];
      load<0>(s, step, i, x);
      V position[kRegisters];
      for (int r = 0; r < kRegisters; ++r) position[r] = V(0);
      if constexpr (Scan::kPositions) {
        const std::int64_t here = s.position + step * s.position_step;
        Lanes::positions(here + i * s.lane_position, s.lane_position, position);
      }
      V y[kOutputs][kRegisters];
      if constexpr (kBefore) {
        if (s.writes) {
          for (int r = 0; r < kRegisters; ++r) {
            if (s.first && step == 0) {
              y[0][r] = joins ? Scan::project(before[r]) : Scan::identity();
            } else {
              y[0][r] = Scan::project(joins ? Scan::combine(before[r], own[r]) : own[r]);
            }
          }
          store<0>(s, step, i, y);
        }
      }
      V in[kRegisters][kInputs];
      State fresh[kRegisters];
      for (int r = 0; r < kRegisters; ++r) {
        for (int k = 0; k < kInputs; ++k) in[r][k] = x[k][r];
        fresh[r] = lift(s, in[r], lag + r, position[r]);
      }
      if constexpr (kLags) {
        if (s.lag_only) break;
      }
      for (int r = 0; r < kRegisters; ++r) {
        if (s.first && step == 0) {
          own[r] = fresh[r];
        } else {
          own[r] = Scan::combine(own[r], fresh[r]);
        }
      }
      if (kBefore || !s.writes) continue;
      if constexpr (kBridges) {
        for (int r = 0; r < kRegisters; ++r) {
          if (!joins) {
            y[0][r] = Scan::project(own[r]);
            continue;
          }
          if (!Lanes::all_same(own[r].part[0], shared[r].reference)) {
            shared[r] = {Scan::bridge(before[r], own[r]), own[r].part[0]};
          }
          y[0][r] = Scan::project(shared[r].bridge, own[r]);
        }
      } else {
        for (int r = 0; r < kRegisters; ++r) {
          State prefix = own[r];
          if (joins) prefix = Scan::combine(before[r], own[r]);
          V out[kOutputs];
          project(s, in[r], position[r], prefix, out);
          for (int k = 0; k < kOutputs; ++k) y[k][r] = out[k];
        }
      }
      store<0>(s, step, i, y);
    }
    if constexpr (kLags) Lanes::template store<double>(lag, s.lag + i * kPartBytes);
    if (!s.lag_only) put(own, i, s.part_stride, s.own);
  }

  static PLANCK_MATH void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t i,
                                  std::int64_t part_stride) {
    State l[kRegisters];
    State r[kRegisters];
    get(left, i, part_stride, l);
    get(right, i, part_stride, r);
    for (int k = 0; k < kRegisters; ++k) l[k] = Scan::combine(l[k], r[k]);
    put(l, i, part_stride, into);
  }

 private:
  static constexpr int kRegisters = Lanes::kRegisters;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  static constexpr bool kLags = requires { Scan::kLagStart; };
  static constexpr bool kGradient = requires(V * v, State s) { Scan::gradients(v, true, *v, s, v); };
  static constexpr bool kBefore = requires { Scan::identity(); };
  static constexpr bool kBridges = requires(State s) { Scan::bridge(s, s); };

  template <class S>
  struct Shared {};
  template <class S>
  requires requires(State s) { S::bridge(s, s); }
  struct Shared<S> {
    typename S::Bridge bridge;
    V reference;
  };

  static PLANCK_MATH State lift(const LaneSteps& s, const V* in, V* lag, V position) {
    if constexpr (kLags) {
      return Scan::lift(in, lag);
    } else {
      if constexpr (requires { Scan::begin(in); }) {
        if (s.edge) return Scan::begin(in);
      }
      return Scan::lift(in, position);
    }
  }
  static PLANCK_MATH void project(const LaneSteps& s, const V* in, V position, const State& prefix, V* out) {
    if constexpr (kGradient) {
      Scan::gradients(in, !s.edge || s.input[kEdgeInput] != nullptr, position, prefix, out);
    } else {
      out[0] = Scan::project(prefix);
      if constexpr (kOutputs == 2) out[1] = Scan::position(prefix);
    }
  }

  template <int k>
  static PLANCK_MATH void load(const LaneSteps& s, std::int64_t step, std::int64_t i, V (*x)[kRegisters]) {
    if constexpr (k < kInputs) {
      using T = std::tuple_element_t<k, In>;
      // Fed inputs and those of the edge may be absent.
      const bool absent = std::is_same_v<T, Unread> || (k >= kEdgeInput && s.input[k] == nullptr);
      if (absent) {
        for (int r = 0; r < kRegisters; ++r) x[k][r] = V(0);
      } else if constexpr (!std::is_same_v<T, Unread>) {
        constexpr std::int64_t kBytes = sizeof(T);
        Lanes::template load<T>(s.input[k] + step * s.input_step[k] + i * kBytes, x[k]);
      }
      load<k + 1>(s, step, i, x);
    }
  }
  template <int k>
  static PLANCK_MATH void store(const LaneSteps& s, std::int64_t step, std::int64_t i, V (*y)[kRegisters]) {
    if constexpr (k < kOutputs) {
      using T = std::tuple_element_t<k, Out>;
      constexpr std::int64_t kBytes = sizeof(T);
      if (kOutputs == 1 || s.output[k] != nullptr) {
        Lanes::template store<T>(y[k], s.output[k] + step * s.output_step[k] + i * kBytes, s.streamed);
      }
      store<k + 1>(s, step, i, y);
    }
  }

  static PLANCK_MATH void get(const std::byte* from, std::int64_t i, std::int64_t part_stride, State* states) {
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kRegisters];
      Lanes::template load<Stored>(from + k * part_stride + i * kPartBytes, part);
      for (int r = 0; r < kRegisters; ++r) states[r].part[k] = part[r];
    }
  }
  static PLANCK_MATH void put(const State* states, std::int64_t i, std::int64_t part_stride, std::byte* to) {
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kRegisters];
      for (int r = 0; r < kRegisters; ++r) part[r] = states[r].part[k];
      Lanes::template store<Stored>(part, to + k * part_stride + i * kPartBytes);
    }
  }
  /// What a lane of a state is stored as.
  using Stored = std::conditional_t<std::is_integral_v<V>, V, double>;
};

// A scan in this target's lanes and in scalar ones.
#define PLANCK_SCAN_OF(Name)     \
  struct Name##Of {              \
    template <class V>           \
    using Many = Name<V>;        \
    template <class V>           \
    using One = scalar::Name<V>; \
  };
PLANCK_SCAN_OF(CumsumScan)
PLANCK_SCAN_OF(CumprodScan)
PLANCK_SCAN_OF(LogCumsumExpScan)
PLANCK_SCAN_OF(LinearRecurrenceScan)
PLANCK_SCAN_OF(ProductBeforeScan)
PLANCK_SCAN_OF(CumprodGradient)
PLANCK_SCAN_OF(LogCumsumExpGradient)
PLANCK_SCAN_OF(LinearRecurrenceGradient)
#undef PLANCK_SCAN_OF

/// A kernel: `ScanOf` has the scan in this target's lanes (Many) and in scalar ones (One), with states in V.
template <class ScanOf, class V, class In, class Out>
struct Lanes {
  using Scan = typename ScanOf::template One<V>;
  using One = Block<OneLane<V>, Scan, In, Out>;
#if PLANCK_SCAN_VECTORS
  using Many = Block<ManyLanes, typename ScanOf::template Many<Vec<double>>, In, Out>;
  static PLANCK_MATH std::int64_t many() { return ManyLanes::lanes(); }
#endif

  static void step(const LaneSteps& s) {
    if (kDear || s.n < kWide) return step_lanes(s);
    // Step by step: then memory is walked row by row, and the states wait in the first-level cache.
    LaneSteps one = s;
    one.steps = 1;
    for (std::int64_t k = 0; k < s.steps; ++k) {
      step_lanes(one);
      one.first = false;
      one.position += s.position_step;
      for (int i = 0; i < kMaxScanInputs; ++i) {
        if (s.input[i] != nullptr) one.input[i] += s.input_step[i];
      }
      for (int i = 0; i < kMaxScanOutputs; ++i) {
        if (s.output[i] != nullptr) one.output[i] += s.output_step[i];
      }
    }
  }
  static void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                      std::int64_t part_stride) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    if constexpr (std::is_same_v<V, double>) {
      for (; i + many() <= n; i += many()) Many::combine(into, left, right, i, part_stride);
    }
#endif
    for (; i < n; ++i) One::combine(into, left, right, i, part_stride);
  }

  /// Exponentials are dear: along a row they would be taken for totals too.
  static constexpr auto row() -> void (*)(RowRun&) {
#if PLANCK_SCAN_VECTORS
    using ManyScan = typename ScanOf::template Many<Vec<double>>;
    if constexpr (std::is_same_v<V, double> && !kDear) {
      return &Row<ManyScan, Scan, In, Out>::run;
    }
#endif
    return nullptr;
  }

  /// A kernel whose last input, if a feed is given, comes from it.
  static constexpr LaneScanKernel kernel(const LaneScanKernel* feed = nullptr, bool states_need_feed = false) {
    constexpr auto kInputs = static_cast<int>(std::tuple_size_v<In>);
    double lag_start = 0;
    bool lags = false;
    if constexpr (requires { Scan::kLagStart; }) {
      lags = true;
      lag_start = Scan::kLagStart;
    }
    // A fed input comes last, and so does the edge's of a scan that begins with one.
    constexpr bool kBegins = requires(const V* x) { Scan::begin(x); };
    return {feed != nullptr || (kBegins && !lags) ? kInputs - 1 : kInputs,
            static_cast<int>(std::tuple_size_v<Out>),
            Scan::kParts,
            lags,
            lag_start,
            &step,
            &combine,
            feed,
            states_need_feed,
            row()};
  }

 private:
  static constexpr bool kDear = requires { Scan::kDear; };
  static constexpr std::int64_t kWide = 512;  ///< lanes whose rows are worth walking one by one

  static void step_lanes(const LaneSteps& s) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    if constexpr (std::is_same_v<V, double>) {
      for (; i + many() <= s.n; i += many()) Many::run(s, i);
    }
#endif
    for (; i < s.n; ++i) One::run(s, i);
  }
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
