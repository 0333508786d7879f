// The scan of a block of 64 elements of a row alone, where registers would have one lane in use.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_BLOCK_SCAN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_BLOCK_SCAN_INL_H_
#undef PLANCK_SCAN_ROW_BLOCK_SCAN_INL_H_
#else
#define PLANCK_SCAN_ROW_BLOCK_SCAN_INL_H_
#endif

#include <hwy/highway.h>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_block-inl.h"
#include "scan/cpu/row_prefixes-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Of the first lane's block; One is the scan in scalar lanes.
template <class Scan, class One, class Lanes>
class RowBlockScan {
 public:
  using V = LanesOf<Scan>;
  using Value = LanesOf<One>;
  using State = typename Scan::State;
  using OneState = typename One::State;
  using Traits = ScanTraits<Scan, V>;
  using Registers = typename Lanes::Registers;
  using Block = RowBlock<Lanes, Value>;
  using Prefixes = BlockPrefixes<One>;

  /// In scalar lanes, which is less work than registers with one lane in use; but sums and products in registers, with
  /// a block of eight in each lane.
  static void run(const RowRun& run, Lanes& lanes, Prefixes& prefixes, double& lag) {
    const auto lane = lanes[0];
    if (lanes.begins(0)) prefixes.restart();
    if (lane.begins() && run.rows > 1) lag = run.lag;
    Block elements(lanes);
    OneState before = Prefixes::nothing();  // the blocks of eight that are behind
    int first = 0;
    if constexpr (kEights) {
      first = lane.n / kBlock * kBlock;
      before = scan_eights(elements, first, prefixes.prefix());
    }
    for (; first < lane.n; first += kBlock) {
      const bool any = kNeutral || prefixes.any() || first > 0;
      OneState prefix = prefixes.prefix();
      if (kNeutral || first > 0) prefix = kNeutral || prefixes.any() ? One::combine(prefix, before) : before;
      OneState own;
      if (first + kBlock <= lane.n) {  // all steps are written out
        own = scan_steps(run, lanes, elements, first, kBlock, any, prefix, lag);
      } else {
        own = scan_steps(run, lanes, elements, first, lane.n - first, any, prefix, lag);
      }
      before = !kNeutral && first == 0 ? own : One::combine(before, own);
    }
    if (run.writes) elements.finish();
    if (lane.n == Lanes::kLane) prefixes.push(before);
  }

 private:
  static constexpr int kBlock = Registers::kBlock;
  static constexpr int kLanes = Registers::kLanes;
  static constexpr int kInputs = Lanes::kInputs;
  static constexpr int kOutputs = Lanes::kOutputs;
  static constexpr bool kNeutral = requires { Scan::kNeutral; };
  static constexpr bool kEights = kNeutral && !Traits::kExclusive;

  /// Whole blocks of eight, up to `end`, each in a lane; gives their state.
  static PLANCK_MATH OneState scan_eights(Block& elements, int end, const OneState& prefix) {
    OneState before = Prefixes::nothing();
    for (int first = 0; first < end; first += kLanes * kBlock) {
      const std::byte* from[kLanes];
      std::byte* to[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        from[lane] = reinterpret_cast<const std::byte*>(elements.input(0) + first + lane * kBlock);
        to[lane] = reinterpret_cast<std::byte*>(elements.output(0) + first + lane * kBlock);
      }
      V x[kBlock];
      Registers::template load<Value, kBlock, false>(from, 0, x);
      State own[kBlock];
      for (int s = 0; s < kBlock; ++s) {
        const State fresh = Scan::lift(x + s, V(0));
        own[s] = s == 0 ? fresh : Scan::combine(own[s - 1], fresh);
      }
      alignas(64) Value totals[kLanes];
      hn::Store(own[kBlock - 1].part[0].raw, Tag<Value>(), totals);
      Value prefixes[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        prefixes[lane] = One::combine(prefix, before).part[0];
        if (first + lane * kBlock < end) before = One::combine(before, {{totals[lane]}});
      }
      const State joined = {{Registers::of_lanes(prefixes)}};
      for (int s = 0; s < kBlock; ++s) x[s] = Scan::project(Scan::combine(joined, own[s]));
      Registers::template store<Value, kBlock, false>(x, to, 0);
    }
    return before;
  }
  /// Of n steps of a block of eight, that block's own state; before it comes `prefix`, if there is any.
  static PLANCK_MATH OneState scan_steps(const RowRun& run, const Lanes& lanes, Block& elements, int first, int n,
                                         bool any, const OneState& prefix, double& lag) {
    const bool writes = run.writes;
    OneState own{};
    for (int s = first; s < first + n; ++s) {
      Value in[kInputs];
      elements.load(s, in);
      const OneState left = own;
      own = lift_one(run, lanes, s, in, lag);
      if (s > first) own = One::combine(left, own);
      if (!writes) continue;
      Value out[kMaxScanOutputs];
      if constexpr (Traits::kExclusive) {
        out[0] = One::project(s == first ? prefix : One::combine(prefix, left));
      } else {
        const OneState inclusive = any ? One::combine(prefix, own) : own;
        if constexpr (Traits::kGradient) {
          One::gradients(in, true, static_cast<Value>(lanes.position(0) + s * run.position_step), inclusive, out);
        } else {
          out[0] = One::project(inclusive);
          if constexpr (kOutputs == 2) out[1] = One::position(inclusive);
        }
      }
      elements.store(s, out);
    }
    return own;
  }
  static PLANCK_MATH OneState lift_one(const RowRun& run, const Lanes& lanes, int s, const Value* in,
                                       [[maybe_unused]] double& lag) {
    if constexpr (Traits::kLags) {
      return One::lift(in, &lag);
    } else {
      if constexpr (Traits::kBegins) {
        if (s == 0 && run.edge_input != nullptr && lanes.has_edge(0, ScanEdge::First)) {
          Value edge[1];
          OneLane<Value>::template load<typename Lanes::template InOf<kEdgeInput>>(lanes.edge_input(0), edge);
          const Value with_edge[kInputs] = {in[0], in[1], edge[0]};
          return One::begin(with_edge);
        }
      }
      return One::lift(in, static_cast<Value>(lanes.position(0) + s * run.position_step));
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
