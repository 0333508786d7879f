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
#include "scan/cpu/row_block_scan-inl.h"
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
        Alone::run(run, lanes, prefixes, lag);
        continue;
      }
      lanes.enter();
      if constexpr (Traits::kLags) tile.lag = lags_of(run, lanes, lag);
      run.input_back[0] ? scan_blocks<true>(run, lanes, tile) : scan_blocks<false>(run, lanes, tile);
      find_prefixes(lanes, prefixes, tile);
      if (run.writes) run.output_back ? write_blocks<true>(run, lanes, tile) : write_blocks<false>(run, lanes, tile);
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
  using Alone = RowBlockScan<Scan, One, Lanes>;
  using Prefixes = BlockPrefixes<One>;
  static constexpr int kBlock = Registers::kBlock;
  static constexpr int kLanes = Registers::kLanes;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  static constexpr int kStored = Lanes::kStored;
  static constexpr int kSteps = Lanes::kSteps;
  /// Inputs that gradients read of what is loaded first. Edges read theirs again.
  static constexpr unsigned kKept = [] {
    if constexpr (Traits::kGradient) return Scan::kGradientInputs & Lanes::kEarly & ~(Lanes::kEdgeEnds ? 0b10U : 0U);
    return 0U;
  }();
  /// No branch for what begins a row: a state that changes nothing comes before it.
  static constexpr bool kNeutral = requires { Scan::kNeutral; };

  /// A batch between the two times that it is gone through.
  struct Tile {
    State own[kBlock][kBlock];  ///< of each step, within its block of eight
    State before[kBlock + 1];   ///< of a lane's blocks of eight before each of them; of nothing only if that is neutral
    State total;
    V in[kKept != 0 ? kBlock : 1][kBlock][kInputs];
    V lag;
    State prefix;  ///< the prefix before each lane,
    V begins;      ///< 1 where there is none. No mask: the implicit constructor of Tile may not inline that of NEON's
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

  /// What the step before each block left: in the lane before, but for the first, to which `before` belongs, and where
  /// a row begins. Leaves there what the last block's last step does.
  static PLANCK_MATH V lags_of(const RowRun& run, const Lanes& lanes, double& before) {
    double lags[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane >= lanes.count()) break;
      lags[lane] = run.rows > 1 && lanes[lane].begins() ? run.lag : before;
      before = lanes.template last_input<Scan::kLagInput>(lane);
    }
    return Registers::of_lanes(lags);
  }

  /// Takes in the batch: the states of its blocks, each for itself.
  template <bool back>
  static PLANCK_MATH void scan_blocks(const RowRun& run, Lanes& lanes, Tile& tile) {
    if constexpr (Lanes::kFed && Traits::kLiftsFed) {
      if (lanes.has_fed_lanes()) return scan_blocks<back, true>(run, lanes, tile);
    }
    scan_blocks<back, false>(run, lanes, tile);
  }
  template <bool back, bool fed_lanes>
  static PLANCK_MATH void scan_blocks(const RowRun& run, Lanes& lanes, Tile& tile) {
    V position(0);
    const V step(Registers::place(run.position_step));
    if constexpr (Scan::kPositions && !Traits::kGradient) {
      position = each_lane(lanes, [&](int lane) { return Registers::place(lanes.position(lane)); });
    }
    V lag = tile.lag;
    const auto from = lanes.inputs();
    [[maybe_unused]] const Edges edges = edges_of(run, lanes);
    const bool writes = run.writes;
    const int steps = lanes.steps();
    State* to = tile.own[0];
    State* before = tile.before + 1;
    State total;
    if constexpr (kNeutral) total.part[0] = tile.before[0].part[0] = V(static_cast<Value>(Scan::kNeutral));
    for (int first = 0; first < steps; first += kSteps) {
      V x[kInputs][kSteps];
      from.template load<back, fed_lanes, Lanes::kEarly>(first, x);
      for (int b = 0; b < kSteps / kBlock; ++b, to += kBlock) {
        State own;
        for (int s = 0; s < kBlock; ++s) {
          V in[kInputs];
          Lanes::in_of(x, b * kBlock + s, in);
          State fresh;
          if constexpr (Traits::kLags) {
            fresh = Scan::lift(in, &lag);
          } else {
            fresh = Scan::lift(in, position);
            if constexpr (Scan::kPositions) position = Registers::moved(position, step);
          }
          if constexpr (Traits::kBegins) {
            if (s == 0 && first + b == 0 && edges.any) fresh = with_edges(edges, in, fresh);
          }
          own = s == 0 ? fresh : Scan::combine(own, fresh);
          if (!writes) continue;
          to[s] = own;
          for (int k = 0; k < kInputs; ++k) {
            if ((kKept >> k & 1) != 0) tile.in[first / kBlock + b][s][k] = in[k];
          }
        }
        total = !kNeutral && first + b == 0 ? own : Scan::combine(total, own);
        *before++ = total;
      }
      if (lanes.fetches_ahead()) {
        lanes.fetch_ahead();
      } else {
        from.template fetch<back>(first);
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
    Prefixes now = prefixes;
#pragma GCC unroll 8
    for (int lane = 0; lane < kLanes; ++lane) {
      const bool there = inside || lane < lanes.count();
      if (!inside && there && lane > 0 && lanes.begins(lane)) now.restart();
      if constexpr (!kNeutral) begins[lane] = now.any() ? 0 : 1;
      OneState total;
      for (int k = 0; k < Scan::kParts; ++k) {
        const bool place = Scan::kPositions && !Traits::kGradient && k == 1;
        total.part[k] = Registers::wide(totals[k][lane], place);
        before[k][lane] = Registers::narrow(now.prefix().part[k], place);
      }
      if (inside || (there && lanes[lane].n == Lanes::kLane)) now.push(total);
    }
    prefixes = now;
    for (int k = 0; k < Scan::kParts; ++k) tile.prefix.part[k] = Registers::of_lanes(before[k]);
    if constexpr (!kNeutral) tile.begins = Registers::of_lanes(begins);
  }

  template <bool back>
  static PLANCK_MATH void write_blocks(const RowRun& run, Lanes& lanes, const Tile& tile) {
    if constexpr (Lanes::kLate != 0) {
      if (lanes.has_fed_lanes()) return write_blocks<back, true>(run, lanes, tile);
    }
    write_blocks<back, false>(run, lanes, tile);
  }
  template <bool back, bool fed_lanes>
  static PLANCK_MATH void write_blocks(const RowRun& run, Lanes& lanes, const Tile& tile) {
    V position(0);
    if constexpr (Scan::kPositions && Traits::kGradient) {
      position = each_lane(lanes, [&](int lane) { return Registers::place(lanes.position(lane)); });
    }
    Value edges[kLanes] = {};  // before they are overwritten
    if (lanes.writes_edges()) read_edges(lanes, edges);
    const auto to = lanes.outputs();
    const int steps = lanes.steps();
    int first = 0;
    if constexpr (!kNeutral) {
      write_group<back, fed_lanes, true>(run, lanes, tile, to, first, position);
      first = kSteps;
    }
    for (; first < steps; first += kSteps) {
      write_group<back, fed_lanes, false>(run, lanes, tile, to, first, position);
    }
    if constexpr (Lanes::kEdgeEnds) {
      if (lanes.writes_edges()) write_edges(lanes, tile, edges);
    }
  }
  /// `begins`: before the first elements of some lanes' blocks there may be nothing.
  template <bool back, bool fed_lanes, bool begins, class Outputs>
  static PLANCK_MATH void write_group(const RowRun& run, const Lanes& lanes, const Tile& tile, const Outputs& to,
                                      int first, V& position) {
    V late[kInputs][kSteps];
    if constexpr (Lanes::kLate != 0) {
      lanes.inputs().template load<Lanes::kFed, fed_lanes, Lanes::kLate>(first, late);
    }
    const State* const own_of = tile.own[first / kBlock];
    V y[kStored][kSteps];
    for (int b = 0; b < kSteps / kBlock; ++b) {
      const int block = first / kBlock + b;
      const bool some = begins && b == 0;
      State prefix = tile.prefix;
      if (!some) {
        prefix = Scan::combine(tile.prefix, tile.before[block]);
        if constexpr (!kNeutral) prefix = select_state(nonzero(tile.begins), tile.before[block], prefix);
      }
      for (int s = 0; s < kBlock; ++s) {
        const State& own = own_of[b * kBlock + s];
        V out[kMaxScanOutputs];
        if constexpr (Traits::kExclusive) {
          static_assert(kNeutral);
          out[0] = Scan::project(s == 0 ? prefix : Scan::combine(prefix, own_of[b * kBlock + (s == 0 ? 0 : s - 1)]));
        } else {
          State inclusive = Scan::combine(prefix, own);
          if (some) inclusive = select_state(nonzero(tile.begins), own, inclusive);
          if constexpr (Traits::kGradient) {
            V in[kInputs];
            for (int k = 0; k < kInputs; ++k) {
              in[k] = (Lanes::kLate >> k & 1) != 0 ? late[k][b * kBlock + s] : V(0);
              if ((kKept >> k & 1) != 0) in[k] = tile.in[block][s][k];
            }
            Scan::gradients(in, true, position, inclusive, out);
            if constexpr (Scan::kPositions)
              position = Registers::moved(position, V(Registers::place(run.position_step)));
          } else {
            out[0] = Scan::project(inclusive);
            if constexpr (kOutputs == 2) out[1] = Scan::position(inclusive);
          }
        }
        for (int k = 0; k < kStored; ++k) y[k][b * kBlock + s] = out[k];
      }
    }
    to.template store<back>(first, y);
  }
  /// What belongs to the edge alone, where rows end, and the input that it is made from.
  static PLANCK_MATH void read_edges(const Lanes& lanes, Value* edges) {
    if constexpr (Lanes::kEdgeEnds) {
      for (int lane = 0; lane < lanes.count(); ++lane) edges[lane] = lanes.template last_input<1>(lane);
    }
  }
  static HWY_NOINLINE void write_edges(const Lanes& lanes, const Tile& tile, const Value* edges) {
    for (int lane = 0; lane < lanes.count(); ++lane) {
      if (!lanes.has_edge(lane, ScanEdge::Last)) continue;
      const int block = (lanes[lane].n - 1) / kBlock;
      const auto in_lane = [&](const State& states) {
        alignas(64) Value values[kLanes];
        OneState state;
        for (int k = 0; k < Scan::kParts; ++k) {
          hn::Store(states.part[k].raw, Tag<Value>(), values);
          state.part[k] = values[lane];
        }
        return state;
      };
      OneState state = in_lane(tile.own[block][(lanes[lane].n - 1) % kBlock]);
      if (block > 0) {
        const OneState before = in_lane(tile.before[block]);
        state = One::combine(lanes.begins(lane) ? before : One::combine(in_lane(tile.prefix), before), state);
      } else if (!lanes.begins(lane)) {
        state = One::combine(in_lane(tile.prefix), state);
      }
      const Value in[kInputs] = {0, edges[lane], 0};
      Value out[kMaxScanOutputs];
      One::gradients(in, true, 0, state, out);
      OneLane<Value>::template store<std::tuple_element_t<kEdgeOutput, Out>>(out + kEdgeOutput,
                                                                             lanes.edge_output(lane));
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
