// A scan's kernel in this target's lanes: a block of up to eight steps of many lanes. Re-included once per target.
#if defined(PLANCK_SCAN_SCAN_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_SCAN_CPU_INL_H_
#undef PLANCK_SCAN_SCAN_CPU_INL_H_
#else
#define PLANCK_SCAN_SCAN_CPU_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <limits>
#include <tuple>

#include "cpu/kernel_types.hpp"
#include "cpu/lane_scan.hpp"
#include "cpu/simd_lanes-inl.h"
#include "numerics/storage.hpp"
#include "scan/scan_scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

// Highway's scalar stand-ins round f64 to f32 in their own way near overflow.
#define PLANCK_SCAN_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#include "scan/scan_math.inl"

using scalar::Compute;

/// Stands for an input that a feed reads, but not the kernel itself.
struct Unread {};

/// One lane: for integers, for what is left over of a register, and the plain target.
template <class Value>
struct OneLane {
  using V = Value;
  static constexpr int kRegisters = 1;
  static PLANCK_MATH std::int64_t lanes() { return 1; }

  template <class T>
  static PLANCK_MATH void load(const std::byte* from, V* x) {
    T stored;
    std::memcpy(&stored, from, sizeof stored);
    x[0] = scalar::widen<V>(stored);
  }
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool = false) {
    T stored;
    if constexpr (std::is_integral_v<T>) {
      stored = static_cast<T>(x[0]);
    } else {
      stored = scalar::narrow<T>(static_cast<Compute<T>>(x[0]));
    }
    std::memcpy(to, &stored, sizeof stored);
  }
  static PLANCK_MATH void positions(std::int64_t first, std::int64_t, V* x) { x[0] = static_cast<V>(first); }
  static PLANCK_MATH bool all_same(V a, V b) { return a == b; }
};

#if PLANCK_SCAN_VECTORS
/// Four registers of f64 lanes, as many as two of f32: with AVX2 a cache line of those. Each step of a scan is done for
/// all of them before the next: a chain of exponentials is long, and processors look only so far ahead for something
/// else to do.
struct ManyLanes {
  using V = Vec<double>;
  static constexpr int kRegisters = 4;
  static PLANCK_MATH std::int64_t lanes() { return kRegisters * half(); }

  template <class T>
  static PLANCK_MATH void load(const std::byte* from, V* x) {
    const T* elements = reinterpret_cast<const T*>(from);
    if constexpr (sizeof(T) == 8 || std::is_same_v<T, std::int32_t>) {
      for (int r = 0; r < kRegisters; ++r) x[r] = load_register(elements + r * half());
    } else {
      for (int r = 0; r < kRegisters; r += 2) {
        const hn::Half<Tag<float>> narrow;
        const auto both = HWY_NAMESPACE::load<float>(elements + r * half()).raw;
        x[r] = V(hn::PromoteTo(Tag<double>(), hn::LowerHalf(narrow, both)));
        x[r + 1] = V(hn::PromoteTo(Tag<double>(), hn::UpperHalf(narrow, both)));
      }
    }
  }
  /// `streamed`: past the caches, to an address aligned to the register.
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool streamed = false) {
    T* elements = reinterpret_cast<T*>(to);
    if constexpr (sizeof(T) == 8 || std::is_same_v<T, std::int32_t>) {
      for (int r = 0; r < kRegisters; ++r) store_register(x[r], elements + r * half(), streamed);
    } else {
      for (int r = 0; r < kRegisters; r += 2) {
        const hn::Half<Tag<float>> narrow;
        const auto low = hn::DemoteTo(narrow, x[r].raw);
        const auto high = hn::DemoteTo(narrow, x[r + 1].raw);
        const Vec<float> both(hn::Combine(Tag<float>(), high, low));
        if constexpr (std::is_same_v<T, float>) {
          if (streamed) {
            store_full<true>(both, elements + r * half());
            continue;
          }
        }
        HWY_NAMESPACE::store(both, elements + r * half());
      }
    }
  }
  static PLANCK_MATH void positions(std::int64_t first, std::int64_t lane, V* x) {
    for (int r = 0; r < kRegisters; ++r) {
      const V lanes(hn::Iota(Tag<double>(), static_cast<double>(r * half())));
      x[r] = V(static_cast<double>(first)) + lanes * V(static_cast<double>(lane));
    }
  }
  static PLANCK_MATH bool all_same(V a, V b) { return hn::AllTrue(Tag<double>(), ((a <= b) & (b <= a)).raw); }

 private:
  static PLANCK_MATH std::int64_t half() { return static_cast<std::int64_t>(hn::Lanes(Tag<double>())); }

  static PLANCK_MATH V load_register(const double* from) { return V(hn::LoadU(Tag<double>(), from)); }
  static PLANCK_MATH V load_register(const std::int64_t* from) {
    return V(hn::ConvertTo(Tag<double>(), hn::LoadU(Tag<std::int64_t>(), from)));
  }
  static PLANCK_MATH V load_register(const std::int32_t* from) {
    return V(hn::PromoteTo(Tag<double>(), hn::LoadU(Narrow<std::int32_t, double>(), from)));
  }
  template <class T>
  static PLANCK_MATH void store_whole(Vec<T> x, T* to, bool streamed) {
    if (streamed) return store_full<true>(x, to);
    store_full<false>(x, to);
  }
  static PLANCK_MATH void store_register(V x, double* to, bool streamed) { store_whole(x, to, streamed); }
  /// Whole numbers below 2^51.
  static PLANCK_MATH void store_register(V x, std::int64_t* to, bool streamed) {
    const Tag<std::int64_t> d;
    const V big(6755399441055744.0);  // 1.5 * 2^52: leaves the number in the low bits of the fraction
    const Vec<std::int64_t> whole(hn::Sub(hn::BitCast(d, (x + big).raw), hn::BitCast(d, big.raw)));
    store_whole(whole, to, streamed);
  }
  static PLANCK_MATH void store_register(V x, std::int32_t* to, bool) {
    const Narrow<std::int32_t, double> d;
    hn::StoreU(hn::DemoteTo(d, x.raw), d, to);
  }
};
#endif

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
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    if constexpr (std::is_same_v<V, double>) {
      for (; i + many() <= s.n; i += many()) Many::run(s, i);
    }
#endif
    for (; i < s.n; ++i) One::run(s, i);
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
            states_need_feed};
  }
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
