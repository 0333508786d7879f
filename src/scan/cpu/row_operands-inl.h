// What the lanes of a run along rows load and store: groups of steps of blocks that lie apart.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_OPERANDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_OPERANDS_INL_H_
#undef PLANCK_SCAN_ROW_OPERANDS_INL_H_
#else
#define PLANCK_SCAN_ROW_OPERANDS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <tuple>
#include <type_traits>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/row_words-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Whole cache lines, non-temporally.
PLANCK_MATH void stream_lines(const std::byte* from, std::byte* to, std::int64_t bytes) {
  const Tag<std::uint64_t> d;
  constexpr auto kStep = static_cast<std::int64_t>(hn::MaxLanes(Tag<std::uint64_t>()) * sizeof(std::uint64_t));
  for (std::int64_t i = 0; i < bytes; i += kStep) {
    const auto words = hn::LoadU(d, reinterpret_cast<const std::uint64_t*>(from + i));
    hn::Stream(words, d, reinterpret_cast<std::uint64_t*>(to + i));
  }
}

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
  static constexpr int kStored = std::min(kOutputs, kEdgeOutput);  ///< outputs of every element
  static constexpr bool kEdgeEnds = kOutputs > kEdgeOutput;
  using Traits = ScanTraits<Scan, V>;
  static constexpr bool kFeeds = Traits::kFeeds;
  static constexpr bool kFed = Traits::kFed;
  static constexpr bool kAhead = kFeeds || kFed;  ///< is told what to ask for
  /// Steps of a group: as many as its widest way of loading takes.
  static constexpr int kSteps = Registers::template kSteps<std::tuple_element_t<0, In>>;

  template <int k>
  using InOf = std::tuple_element_t<k, In>;
  template <int k>
  using OutOf = std::tuple_element_t<k, Out>;
  template <int k>
  static constexpr bool kRead = !std::is_same_v<InOf<k>, Unread> && !(Traits::kBegins && k == kEdgeInput);
  template <class T>
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  /// Inputs that only gradients read, and that nothing stored can have replaced: a feed's. They are loaded when the
  /// results are written.
  static constexpr unsigned kLate = kFed && !Traits::kLiftsFed ? 1U << (kInputs - 1) : 0;
  static constexpr unsigned kEarly = ((1U << kInputs) - 1) & ~kLate;

  /// Where the lanes' blocks are, to be kept in registers: what is stored through them might lie anywhere. Inputs that
  /// are absent are zeros.
  struct Inputs {
    const std::byte* lane[kInputs][kLanes];
    bool there[kInputs];
    const Value* fed;
    std::uint64_t flip;

    /// x[k][s] = element first + s of every lane's block of input k, for the inputs among `which`. They all go `back`,
    /// or none does, but for a feed's, which always do; `fed_lanes` says whether those are as registers have them.
    template <bool back, bool fed_lanes, unsigned which, int k = 0>
    PLANCK_MATH void load(int first, V (*x)[kSteps]) const {
      if constexpr (k < kInputs) {
        constexpr bool kHere = kFed && k == kInputs - 1;
        if constexpr (kRead<k> && (which >> k & 1) != 0) {
          if constexpr (kHere && fed_lanes) {
            Registers::template load_lanes_back<kSteps>(fed - kLanes * kLane, first, x[k]);
          } else {
            Registers::template load<InOf<k>, kSteps, kHere || back>(lane[k], first, x[k]);
          }
          if constexpr (Traits::kExtremum && k == 0) flip_all(x[0], flip);
        }
        load<back, fed_lanes, which, k + 1>(first, x);
      }
    }
    /// Asks for as much as a group has, kDistance further on, which is behind all lanes: they lie too far apart for the
    /// processor to foresee.
    template <bool back, int k = 0>
    PLANCK_MATH void fetch(int first) const {
      if constexpr (k < kInputs) {
        constexpr std::int64_t kDistance = std::max(512, kLanes * kLane);
        if constexpr (kRead<k> && !(kFed && k == kInputs - 1)) {
          constexpr std::int64_t kBytesOf = kBytes<InOf<k>>;
          constexpr std::int64_t kGroup = kSteps * kLanes * kBytesOf;
          const std::byte* const here = lane[k][0] + (back ? -first : first) * kLanes * kBytesOf;
          const std::byte* const from = here + (back ? -kDistance * kBytesOf - kGroup : kDistance * kBytesOf);
          if (k == 0 || there[k]) {
            for (std::int64_t i = 0; i < kGroup; i += 64) __builtin_prefetch(from + i);
          }
        }
        fetch<back, k + 1>(first);
      }
    }
  };
  /// The edge's own output is not among them.
  struct Outputs {
    std::byte* lane[kStored][kLanes];
    bool there[kStored];
    Value* fed;
    std::uint64_t flip;

    /// All outputs go `back`, or none does.
    template <bool back, int k = 0>
    PLANCK_MATH void store(int first, V (*y)[kSteps]) const {
      if constexpr (k < kStored) {
        if constexpr (Traits::kWritesExtremum && k == 0) flip_all(y[0], flip);
        if (store_fed(first, y[k])) return;
        if (kStored == 1 || there[k]) {
          Registers::template store<OutOf<k>, kSteps, back>(y[k], lane[k], first);
        }
        store<back, k + 1>(first, y);
      }
    }
    /// A feed's only output, if it stays as registers have it.
    PLANCK_MATH bool store_fed(int first, V* y) const {
      if constexpr (kFeeds) {
        if (fed != nullptr) Registers::template store_lanes<kSteps>(y, first, fed);
      }
      return kFeeds && fed != nullptr;
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
    for (int s = 0; s < kSteps; ++s) x[s] = Registers::flip(x[s], mask);
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
