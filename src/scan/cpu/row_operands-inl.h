// What the lanes of a run along rows load and store: groups of steps of blocks that lie apart.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_OPERANDS_INL_H_
#undef PLANCK_SCAN_ROW_OPERANDS_INL_H_
#else
#define PLANCK_SCAN_ROW_OPERANDS_INL_H_
#endif

#include <hwy/highway.h>

#include <tuple>
#include <type_traits>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// In and Out are tuples of what is stored.
template <class Scan, class In, class Out>
class RowOperands {
 public:
  using V = LanesOf<Scan>;
  using Value = LaneType<V>;
  using Registers = RowRegistersOf<Value>;
  static constexpr int kLanes = Registers::kLanes;
  static constexpr int kLane = Registers::kLaneElements;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  static constexpr bool kEdgeEnds = kOutputs > kEdgeOutput;
  /// A feed, whose values stay f64, and what is fed with them.
  static constexpr bool kFeeds = kInputs == 1 && kOutputs == 1 && std::is_same_v<std::tuple_element_t<0, Out>, double>;
  static constexpr bool kFed = kInputs == 3 && std::is_same_v<std::tuple_element_t<kInputs - 1, In>, double>;
  static constexpr bool kAhead = kFeeds || kFed;  ///< is told what to ask for
  /// Steps of a group: as many as its widest way of loading takes.
  static constexpr int kSteps = Registers::template kSteps<std::tuple_element_t<0, In>>;

  using Traits = ScanTraits<Scan, V>;
  template <int k>
  using InOf = std::tuple_element_t<k, In>;
  template <int k>
  using OutOf = std::tuple_element_t<k, Out>;
  template <int k>
  static constexpr bool kRead = !std::is_same_v<InOf<k>, Unread> && !(Traits::kBegins && k == kEdgeInput);
  template <class T>
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  /// Where the lanes' blocks are, to be kept in registers: what is stored through them might lie anywhere.
  struct Inputs {
    const std::byte* lane[kInputs][kLanes];
    bool back[kInputs];
    bool there[kInputs];
    const Value* fed;
    std::uint64_t flip;

    /// x[k][s] = element first + s of every lane's block of input k.
    PLANCK_MATH void load(int first, V (*x)[kSteps]) const { load_from<0>(first, x); }
    /// Asks for as much as a group has, kDistance further on: lanes lie too far apart for the processor to foresee.
    template <int k = 0>
    PLANCK_MATH void fetch(int first) const {
      if constexpr (k < kInputs) {
        constexpr std::int64_t kDistance = 512;
        if constexpr (kRead<k>) {
          constexpr std::int64_t kGroup = kSteps * kLanes * kBytes<InOf<k>>;
          const std::int64_t at = (kDistance + first * kLanes) * kBytes<InOf<k>>;
          const std::byte* const from = back[k] ? lane[k][0] - at - kGroup : lane[k][0] + at;
          if (k == 0 || there[k]) {
            for (std::int64_t i = 0; i < kGroup; i += 64) __builtin_prefetch(from + i);
          }
        }
        fetch<k + 1>(first);
      }
    }

   private:
    template <int k>
    PLANCK_MATH void load_from(int first, V (*x)[kSteps]) const {
      if constexpr (k < kInputs) {
        if constexpr (!kRead<k>) {
          // in_of says what it is.
        } else if (k > 0 && !there[k]) {
          for (int s = 0; s < kSteps; ++s) x[k][s] = V(0);
        } else {
          if (kFed && k == kInputs - 1 && fed != nullptr) {
            Registers::template load_lanes_back<kSteps>(fed - kLanes * kLane, first, x[k]);
          } else {
            Registers::template load<InOf<k>, kSteps>(lane[k], first, back[k], x[k]);
          }
        }
        if constexpr (Traits::kExtremum && k == 0) {
          if (flip != 0) flip_all(x[0], flip);
        }
        load_from<k + 1>(first, x);
      }
    }
  };
  struct Outputs {
    std::byte* lane[kOutputs][kLanes];
    bool back[kOutputs];
    bool there[kOutputs];
    Value* fed;
    std::uint64_t flip;

    PLANCK_MATH void store(int first, V (*y)[kSteps]) const { store_from<0>(first, y); }

   private:
    template <int k>
    PLANCK_MATH void store_from(int first, V (*y)[kSteps]) const {
      if constexpr (k < kOutputs) {
        // Without a branch: results then need not wait for it in memory.
        if constexpr (Traits::kWritesExtremum && k == 0) flip_all(y[0], flip);
        if (kFeeds && fed != nullptr) {
          Registers::template store_lanes<kSteps>(y[k], first, fed);
        } else if (kOutputs == 1 || there[k]) {
          Registers::template store<OutOf<k>, kSteps>(y[k], lane[k], first, back[k]);
        }
        store_from<k + 1>(first, y);
      }
    }
  };
  /// Step s of what was loaded.
  static PLANCK_MATH void in_of(const V (*x)[kSteps], int s, V* in) { in_from<0>(x, s, in); }

 private:
  template <int k>
  static PLANCK_MATH void in_from(const V (*x)[kSteps], int s, V* in) {
    if constexpr (k < kInputs) {
      if constexpr (kRead<k>) {
        in[k] = x[k][s];
      } else {
        in[k] = V(0);
      }
      in_from<k + 1>(x, s, in);
    }
  }
  static PLANCK_MATH void flip_all(V* x, std::uint64_t mask) {
    for (int s = 0; s < kSteps; ++s) x[s] = Registers::Many::flip(x[s], mask);
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
