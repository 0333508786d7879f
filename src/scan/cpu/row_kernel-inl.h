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
      run.input_back[0] ? scan_blocks<true>(run, lanes, tile) : scan_blocks<false>(run, lanes, tile);
      find_prefixes(lanes, prefixes, tile);
      if (run.writes) run.output_back ? write_blocks<true>(run, lanes, tile) : write_blocks<false>(run, lanes, tile);
      lanes.leave();
    }
    if constexpr (Traits::kLags) run.lag = lag;
    if (run.total == nullptr) return;
    const OneState total = fold.open(run.n == kRowSegment ? kCarryLevel : kRowTileLevel);
    for (int k = 0; k < Scan::kParts; ++k) run.total[k] = total.part[k];
  }

 private:
  using V = Vec<double>;
  using State = typename Scan::State;
  using OneState = typename One::State;
  using Traits = ScanTraits<Scan, V>;
  using Lanes = RowLanes<Scan, In, Out>;
  using Block = RowBlock<Lanes>;
  using Prefixes = BlockPrefixes<One>;
  static constexpr int kBlock = RowRegisters::kBlock;
  static constexpr int kLanes = RowRegisters::kLanes;
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
  /// Sums and products of a block alone are worth registers.
  static constexpr bool kEights = kNeutral && !Traits::kExclusive;

  /// A batch between the two times that it is gone through.
  struct Tile {
    State own[kBlock][kBlock];  ///< of each step, within its block of eight
    State before[kBlock + 1];   ///< of a lane's blocks of eight before each of them; of nothing only if that is neutral
    State total;
    V in[kKept != 0 ? kBlock : 1][kBlock][kInputs];
    V lag;
    State prefix;         ///< the prefix before each lane,
    Mask<double> begins;  ///< where there is one
    bool any_begins;
  };

  static PLANCK_MATH State select_state(Mask<double> mask, const State& yes, const State& no) {
    State s;
    for (int k = 0; k < Scan::kParts; ++k) s.part[k] = select(mask, yes.part[k], no.part[k]);
    return s;
  }
  /// A value for each lane.
  template <class Value>
  static PLANCK_MATH V each_lane(const Lanes& lanes, const Value& value) {
    alignas(64) double values[kLanes];
    for (int lane = 0; lane < kLanes; ++lane) values[lane] = lane < lanes.count() ? value(lane) : 0;
    return V(hn::Load(Tag<double>(), values));
  }
  static PLANCK_MATH Mask<double> nonzero(V flags) { return V(0) < flags; }

  // ---- several blocks ----

  /// What the step before each block left: in the lane before, but for the first, to which `before` belongs, and where
  /// a row begins. Leaves there what the last block's last step does.
  static PLANCK_MATH V lags_of(const RowRun& run, const Lanes& lanes, double& before) {
    double lags[kLanes] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      if (lane >= lanes.count()) break;
      lags[lane] = run.rows > 1 && lanes[lane].begins() ? run.lag : before;
      before = lanes.template last_input<Scan::kLagInput>(lane);
    }
    return RowRegisters::of_lanes(lags);
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
    const V step(static_cast<double>(run.position_step));
    if constexpr (Scan::kPositions && !Traits::kGradient) {
      position = each_lane(lanes, [&](int lane) { return static_cast<double>(lanes.position(lane)); });
    }
    V lag = tile.lag;
    const auto from = lanes.inputs();
    [[maybe_unused]] const Edges edges = edges_of(run, lanes);
    const bool writes = run.writes;
    const int steps = lanes.steps();
    State* to = tile.own[0];
    State* before = tile.before + 1;
    State total;
    if constexpr (kNeutral) total.part[0] = tile.before[0].part[0] = V(Scan::kNeutral);
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
            if constexpr (Scan::kPositions) position = position + step;
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
      double value[1] = {0};
      if (lanes.has_edge(lane, ScanEdge::First)) {
        OneLane<double>::load<std::tuple_element_t<kInputs - 1, In>>(lanes.edge_input(lane), value);
      }
      return value[0];
    });
    edges.there = each_lane(lanes, [&](int lane) { return lanes.has_edge(lane, ScanEdge::First) ? 1.0 : 0.0; });
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
    alignas(64) double totals[Scan::kParts][kLanes];
    for (int k = 0; k < Scan::kParts; ++k) hn::Store(tile.total.part[k].raw, Tag<double>(), totals[k]);
    double before[Scan::kParts][kLanes];
    double begins[kLanes] = {};
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
    for (int k = 0; k < Scan::kParts; ++k) tile.prefix.part[k] = RowRegisters::of_lanes(before[k]);
    if constexpr (!kNeutral) tile.begins = nonzero(RowRegisters::of_lanes(begins));
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
      position = each_lane(lanes, [&](int lane) { return static_cast<double>(lanes.position(lane)); });
    }
    const auto to = lanes.outputs();
    const int steps = lanes.steps();
    int first = 0;
    if constexpr (!kNeutral) {
      if (tile.any_begins) {
        write_group<back, fed_lanes, true, true>(run, lanes, tile, to, 0, position);
        for (first = kSteps; first < steps; first += kSteps) {
          write_group<back, fed_lanes, true, false>(run, lanes, tile, to, first, position);
        }
      }
    }
    for (; first < steps; first += kSteps) {
      write_group<back, fed_lanes, false, false>(run, lanes, tile, to, first, position);
    }
    if constexpr (Lanes::kEdgeEnds) {
      if (lanes.writes_edges()) write_edges(lanes, tile);
    }
  }
  /// `begins`: before some lanes' blocks there is nothing; `first_group`: and before their first elements.
  template <bool back, bool fed_lanes, bool begins, bool first_group, class Outputs>
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
      const bool some = first_group && b == 0;  // without anything before their elements
      State prefix = tile.prefix;
      if (!first_group || b > 0) {
        prefix = !kNeutral && block == 0 ? tile.prefix : Scan::combine(tile.prefix, tile.before[block]);
        if (begins) prefix = select_state(tile.begins, tile.before[block], prefix);
      }
      for (int s = 0; s < kBlock; ++s) {
        const State& own = own_of[b * kBlock + s];
        V out[kMaxScanOutputs];
        if constexpr (Traits::kExclusive) {
          static_assert(kNeutral);
          out[0] = Scan::project(s == 0 ? prefix : Scan::combine(prefix, own_of[b * kBlock + (s == 0 ? 0 : s - 1)]));
        } else {
          State inclusive = Scan::combine(prefix, own);
          if (some) inclusive = select_state(tile.begins, own, inclusive);
          if constexpr (Traits::kGradient) {
            V in[kInputs];
            for (int k = 0; k < kInputs; ++k) {
              in[k] = (Lanes::kLate >> k & 1) != 0 ? late[k][b * kBlock + s] : V(0);
              if ((kKept >> k & 1) != 0) in[k] = tile.in[block][s][k];
            }
            Scan::gradients(in, true, position, inclusive, out);
            if constexpr (Scan::kPositions) position = position + V(static_cast<double>(run.position_step));
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
  /// What belongs to the edge alone, where rows end.
  static HWY_NOINLINE void write_edges(const Lanes& lanes, const Tile& tile) {
    for (int lane = 0; lane < lanes.count(); ++lane) {
      if (!lanes.has_edge(lane, ScanEdge::Last)) continue;
      const int block = (lanes[lane].n - 1) / kBlock;
      const auto in_lane = [&](const State& states) {
        alignas(64) double values[kLanes];
        OneState state;
        for (int k = 0; k < Scan::kParts; ++k) {
          hn::Store(states.part[k].raw, Tag<double>(), values);
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
      const double in[kInputs] = {0, lanes.template last_input<1>(lane), 0};
      double out[kMaxScanOutputs];
      One::gradients(in, true, 0, state, out);
      OneLane<double>::store<std::tuple_element_t<kEdgeOutput, Out>>(out + kEdgeOutput, lanes.edge_output(lane));
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
  /// Whole blocks of eight, up to `end`, each in a lane; gives their state. Results of totals alone are not used.
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
      RowRegisters::load<double, kBlock, false>(from, 0, x);
      State own[kBlock];
      for (int s = 0; s < kBlock; ++s) {
        const State fresh = Scan::lift(x + s, V(0));
        own[s] = s == 0 ? fresh : Scan::combine(own[s - 1], fresh);
      }
      alignas(64) double totals[kLanes];
      hn::Store(own[kBlock - 1].part[0].raw, Tag<double>(), totals);
      double prefixes[kLanes];
      for (int lane = 0; lane < kLanes; ++lane) {
        prefixes[lane] = One::combine(prefix, before).part[0];
        if (first + lane * kBlock < end) before = One::combine(before, {{totals[lane]}});
      }
      const State joined = {{RowRegisters::of_lanes(prefixes)}};
      for (int s = 0; s < kBlock; ++s) x[s] = Scan::project(Scan::combine(joined, own[s]));
      RowRegisters::store<double, kBlock, false>(x, to, 0);
    }
    return before;
  }
  /// Of n steps of a block of eight, that block's own state; before it comes `prefix`, if there is any.
  static PLANCK_MATH OneState scan_steps(const RowRun& run, const Lanes& lanes, Block& elements, int first, int n,
                                         bool any, const OneState& prefix, double& lag) {
    const bool writes = run.writes;
    OneState own{};
    for (int s = first; s < first + n; ++s) {
      double in[kInputs];
      elements.load(s, in);
      const OneState left = own;
      own = lift_one(run, lanes, s, in, lag);
      if (s > first) own = One::combine(left, own);
      if (!writes) continue;
      double out[kMaxScanOutputs];
      if constexpr (Traits::kExclusive) {
        out[0] = One::project(s == first ? prefix : One::combine(prefix, left));
      } else {
        const OneState inclusive = any ? One::combine(prefix, own) : own;
        if constexpr (Traits::kGradient) {
          One::gradients(in, true, static_cast<double>(lanes.position(0) + s * run.position_step), inclusive, out);
        } else {
          out[0] = One::project(inclusive);
          if constexpr (kOutputs == 2) out[1] = One::position(inclusive);
        }
      }
      elements.store(s, out);
    }
    return own;
  }
  static PLANCK_MATH OneState lift_one(const RowRun& run, const Lanes& lanes, int s, const double* in,
                                       [[maybe_unused]] double& lag) {
    if constexpr (Traits::kLags) {
      return One::lift(in, &lag);
    } else {
      if constexpr (Traits::kBegins) {
        if (s == 0 && run.edge_input != nullptr && lanes.has_edge(0, ScanEdge::First)) {
          double edge[1];
          OneLane<double>::load<std::tuple_element_t<kEdgeInput, In>>(lanes.edge_input(0), edge);
          const double with_edge[kInputs] = {in[0], in[1], edge[0]};
          return One::begin(with_edge);
        }
      }
      return One::lift(in, static_cast<double>(lanes.position(0) + s * run.position_step));
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
