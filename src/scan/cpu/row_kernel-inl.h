// A scan along rows in this target's lanes: each lane is a block of 64. Within a lane the two lowest levels of the
// canonical order are plain vertical combinations; what is above them is found from the blocks' totals, one after the
// other, and then combined with all that the lanes hold. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_KERNEL_INL_H_
#undef PLANCK_SCAN_ROW_KERNEL_INL_H_
#else
#define PLANCK_SCAN_ROW_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_block-inl.h"
#include "scan/cpu/row_lanes-inl.h"
#include "scan/cpu/row_prefixes-inl.h"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Runs along rows. Scan in this target's lanes, One in scalar ones; In and Out are tuples of what is stored.
template <class Scan, class One, class In, class Out>
class RowScan {
 public:
  static void run(RowRun& run) {
    Lanes lanes(run);
    typename Prefixes::Fold fold;
    Prefixes prefixes(run, fold);
    double lag = run.lag;
    Tile tile;
    while (lanes.next()) {
      if (lanes.count() == 1) {
        scan_one(run, lanes, prefixes, lag);
        continue;
      }
      lanes.enter();
      if constexpr (Traits::kLags) tile.lag = lags_of(run, lanes, lag);
      scan_blocks(run, lanes, tile);
      find_prefixes(lanes, prefixes, tile);
      if (run.writes) write_blocks(run, lanes, tile);
      lanes.leave();
    }
    if constexpr (Traits::kLags) run.lag = lag;
    if (run.total == nullptr) return;
    const OneState total = fold.open(run.n == kRowSegment ? kCarryLevel : kRowTileLevel);
    for (int k = 0; k < Scan::kParts; ++k) run.total[k] = std::bit_cast<double>(total.part[k]);
  }

 private:
  using V = LanesOf<Scan>;
  using Value = LaneType<V>;
  using State = typename Scan::State;
  using OneState = typename One::State;
  using Traits = ScanTraits<Scan, V>;
  using Lanes = RowLanes<Scan, In, Out>;
  using Registers = typename Lanes::Registers;
  using Block = RowBlock<Lanes>;
  using Prefixes = BlockPrefixes<One>;
  static constexpr int kBlock = Registers::kBlock;
  static constexpr int kLanes = Registers::kLanes;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  static constexpr int kSteps = Lanes::kSteps;
  /// No branch for what begins a row: a state that changes nothing comes before it.
  static constexpr bool kNeutral = requires { Scan::kNeutral; };

  /// A batch between the two times that it is gone through.
  struct Tile {
    State own[kBlock][kBlock];  ///< of each step, within its block of eight
    State before[kBlock + 1];   ///< of a lane's blocks of eight before each of them, from the second on
    State total;
    V in[Traits::kGradient ? kBlock : 1][kBlock][kInputs];
    V lag;
    State prefix;        ///< the prefix before each lane,
    Mask<Value> begins;  ///< where there is one
    bool any_begins;
  };

  static PLANCK_MATH State select_state(Mask<Value> mask, const State& yes, const State& no) {
    State s;
    for (int k = 0; k < Scan::kParts; ++k) s.part[k] = select(mask, yes.part[k], no.part[k]);
    return s;
  }
  /// A value for each lane.
  template <class Of>
  static PLANCK_MATH V each_lane(const Lanes& lanes, const Of& value) {
    alignas(64) Value values[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = lane < lanes.count() ? value(lane) : 0;
    return V(hn::Load(Tag<Value>(), values));
  }
  static PLANCK_MATH Mask<Value> nonzero(V flags) { return V(0) < flags; }

  // ---- several blocks ----

  /// What the step before each block left: in the lane before, but for the first, to which `before` belongs, and where
  /// a row begins. Leaves there what the last block's last step does.
  static PLANCK_MATH V lags_of(const RowRun& run, const Lanes& lanes, double& before) {
    V x[kInputs][kSteps];
    lanes.inputs().load(lanes.steps() - kSteps, x);
    V in[kInputs];
    Lanes::in_of(x, kSteps - 1, in);
    V last(0);
    Scan::lift(in, &last);
    alignas(64) double left[kLanes];
    hn::Store(last.raw, Tag<double>(), left);
    const V lag = each_lane(lanes, [&](int lane) {
      if (lanes[lane].begins() && run.rows > 1) return run.lag;
      return lane == 0 ? before : left[lane - 1];
    });
    before = left[lanes.count() - 1];
    return lag;
  }

  /// Takes in the batch: the states of its blocks, each for itself.
  static PLANCK_MATH void scan_blocks(const RowRun& run, Lanes& lanes, Tile& tile) {
    V position(0);
    const V step(static_cast<Value>(run.position_step));
    if constexpr (Scan::kPositions && !Traits::kGradient) {
      position = each_lane(lanes, [&](int lane) { return static_cast<Value>(lanes.position(lane)); });
    }
    V lag = tile.lag;
    const auto from = lanes.inputs();
    [[maybe_unused]] const Edges edges = edges_of(run, lanes);
    const bool writes = run.writes;
    const int steps = lanes.steps();
    State total;
    if constexpr (kNeutral) total.part[0] = V(static_cast<Value>(Scan::kNeutral));
    for (int first = 0; first < steps; first += kSteps) {
      V x[kInputs][kSteps];
      from.load(first, x);
      for (int b = 0; b < kSteps / kBlock; ++b) {
        const int block = first / kBlock + b;
        State own;
        for (int s = 0; s < kBlock; ++s) {
          V in[kInputs];
          Lanes::in_of(x, b * kBlock + s, in);
          State fresh;
          if constexpr (Traits::kLags) {
            fresh = Scan::lift(in, &lag);
          } else {
            fresh = Scan::lift(in, position);
            if constexpr (Scan::kPositions) position = position + step;
          }
          if constexpr (Traits::kBegins) {
            if (s == 0 && block == 0 && edges.any) fresh = with_edges(edges, in, fresh);
          }
          own = s == 0 ? fresh : Scan::combine(own, fresh);
          if (!writes) continue;
          tile.own[block][s] = own;
          if constexpr (Traits::kGradient) {
            for (int k = 0; k < kInputs; ++k) {
              if ((Scan::kGradientInputs >> k & 1) != 0) tile.in[block][s][k] = in[k];
            }
          }
        }
        total = !kNeutral && block == 0 ? own : Scan::combine(total, own);
        tile.before[block + 1] = total;
      }
      if (lanes.fetches_ahead()) {
        lanes.fetch_ahead();
      } else {
        from.fetch(first);
      }
    }
    tile.total = total;
  }
  /// What the lanes' blocks begin with, where they begin a row.
  struct Edges {
    bool any;
    V value;
    V there;
  };
  static PLANCK_MATH Edges edges_of(const RowRun& run, const Lanes& lanes) {
    Edges edges;
    edges.any = Traits::kBegins && run.edge_input != nullptr;
    if (edges.any) set_edges(lanes, edges);
    return edges;
  }
  static HWY_NOINLINE void set_edges(const Lanes& lanes, Edges& edges) {
    edges.value = each_lane(lanes, [&](int lane) {
      Value value[1] = {0};
      if (lanes.has_edge(lane, ScanEdge::First)) {
        OneLane<Value>::template load<std::tuple_element_t<kInputs - 1, In>>(lanes.edge_input(lane), value);
      }
      return value[0];
    });
    edges.there = each_lane(lanes, [&](int lane) { return Value(lanes.has_edge(lane, ScanEdge::First) ? 1 : 0); });
  }
  static PLANCK_MATH State with_edges(const Edges& edges, const V* in, const State& fresh) {
    static_assert(kInputs == kEdgeInput + 1);
    const V with_edge[kInputs] = {in[0], in[1], edges.value};
    return select_state(nonzero(edges.there), Scan::begin(with_edge), fresh);
  }

  /// From the totals of the lanes' blocks to the prefix before each.
  static PLANCK_MATH void find_prefixes(const Lanes& lanes, Prefixes& prefixes, Tile& tile) {
    if (lanes.begins(0)) prefixes.restart();
    if (lanes.inside()) return find_prefixes<true>(lanes, prefixes, tile);
    find_prefixes<false>(lanes, prefixes, tile);
  }
  template <bool inside>
  static PLANCK_MATH void find_prefixes(const Lanes& lanes, Prefixes& prefixes, Tile& tile) {
    alignas(64) Value totals[Scan::kParts][kLanes];
    for (int k = 0; k < Scan::kParts; ++k) hn::Store(tile.total.part[k].raw, Tag<Value>(), totals[k]);
    Value before[Scan::kParts][kLanes];
    Value begins[kLanes] = {};
    tile.any_begins = false;
    Prefixes now = prefixes;
#pragma GCC unroll 8
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool there = inside || lane < lanes.count();
      if (!inside && there && lane > 0 && lanes.begins(lane)) now.restart();
      if constexpr (!kNeutral) {
        begins[lane] = now.any() ? 0 : 1;
        tile.any_begins = tile.any_begins || !now.any();
      }
      OneState total;
      for (int k = 0; k < Scan::kParts; ++k) {
        total.part[k] = totals[k][lane];
        before[k][lane] = now.prefix().part[k];
      }
      if (inside || (there && lanes[lane].n == Lanes::kLane)) now.push(total);
    }
    prefixes = now;
    for (int k = 0; k < Scan::kParts; ++k) tile.prefix.part[k] = Registers::of_lanes(before[k]);
    if constexpr (!kNeutral) tile.begins = nonzero(Registers::of_lanes(begins));
  }

  static PLANCK_MATH void write_blocks(const RowRun& run, Lanes& lanes, const Tile& tile) {
    if (!kNeutral && tile.any_begins) return write_blocks<true>(run, lanes, tile);
    write_blocks<false>(run, lanes, tile);
  }
  /// `begins`: before some lanes' blocks there is nothing.
  template <bool begins>
  static PLANCK_MATH void write_blocks(const RowRun& run, Lanes& lanes, const Tile& tile) {
    V position(0);
    const V step(static_cast<Value>(run.position_step));
    if constexpr (Scan::kPositions && Traits::kGradient) {
      position = each_lane(lanes, [&](int lane) { return static_cast<Value>(lanes.position(lane)); });
    }
    const auto to = lanes.outputs();
    const int steps = lanes.steps();
    for (int first = 0; first < steps; first += kSteps) {
      V y[kOutputs][kSteps];
      for (int b = 0; b < kSteps / kBlock; ++b) {
        const int block = first / kBlock + b;
        const bool some = begins && block == 0;  // without anything before their elements
        State prefix = tile.prefix;
        if (block > 0) {
          prefix = Scan::combine(tile.prefix, tile.before[block]);
          if (begins) prefix = select_state(tile.begins, tile.before[block], prefix);
        }
        for (int s = 0; s < kBlock; ++s) {
          V out[kMaxScanOutputs];
          if constexpr (Traits::kExclusive) {
            static_assert(kNeutral);
            out[0] = Scan::project(s == 0 ? prefix : Scan::combine(prefix, tile.own[block][s == 0 ? 0 : s - 1]));
          } else {
            State inclusive = Scan::combine(prefix, tile.own[block][s]);
            if (some) inclusive = select_state(tile.begins, tile.own[block][s], inclusive);
            if constexpr (Traits::kGradient) {
              Scan::gradients(tile.in[block][s], true, position, inclusive, out);
              if constexpr (Scan::kPositions) position = position + step;
            } else {
              out[0] = Scan::project(inclusive);
              if constexpr (kOutputs == 2) out[1] = Scan::position(inclusive);
            }
          }
          for (int k = 0; k < kOutputs; ++k) y[k][b * kBlock + s] = out[k];
        }
      }
      to.store(first, y);
    }
  }

  // ---- one block alone ----

  /// In scalar lanes, which is less work than registers with one lane in use.
  static void scan_one(const RowRun& run, Lanes& lanes, Prefixes& prefixes, double& lag) {
    const auto lane = lanes[0];
    if (lanes.begins(0)) prefixes.restart();
    if (lane.begins() && run.rows > 1) lag = run.lag;
    Block elements(lanes);
    OneState before = Prefixes::nothing();  // the blocks of eight that are behind
    for (int first = 0; first < lane.n; first += kBlock) {
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
          OneLane<Value>::template load<std::tuple_element_t<kEdgeInput, In>>(lanes.edge_input(0), edge);
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
