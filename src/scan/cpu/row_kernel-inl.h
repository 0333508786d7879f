// A scan along one row in this target's lanes: each lane is a block of eight. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_KERNEL_INL_H_
#undef PLANCK_SCAN_ROW_KERNEL_INL_H_
#else
#define PLANCK_SCAN_ROW_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_groups-inl.h"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Runs along a row. Scan in this target's lanes, One in scalar ones; In and Out are tuples of what is stored.
template <class Scan, class One, class In, class Out>
class RowScan {
 public:
  static void run(RowRun& run) {
    Fold fold;
    Progress now = begin(run, fold);
    Places at(run);
    Places end = at;  // of the last elements
    // What is no whole group goes through scratch, and so does an edge at the end.
    const bool odd_end = run.n % kGroup != 0 || (Places::kEdgeEnds && run.edge == ScanEdge::Last);
    const std::int64_t odd = odd_end ? (run.n - 1) % kGroup + 1 : 0;
    Tile tile;
    std::memset(tile.totals, 0, sizeof tile.totals);
    alignas(64) typename Places::Scratch scratch[kInputs + kOutputs];
    for (std::int64_t t = 0; t < run.n; t += kTile) {
      const bool ends = run.n - t <= kTile;
      const auto groups = static_cast<int>(ends ? (run.n - t + kGroup - 1) / kGroup : kBlock);
      const int whole = ends && odd > 0 ? groups - 1 : groups;
      Places to = at;
      for (int g = 0; g < groups; ++g) {
        if (g == whole) {
          end = at;
          at = end.inputs_in(scratch, run, odd);
        }
        scan_group(run, at, t == 0 && g == 0, now, g, tile);
        at.advance();
        if constexpr (Places::kAhead) at.fetch_ahead();
      }
      join_blocks(groups, fold, now, tile);
      const bool begins = now.begins;
      now.begins = false;
      if (!run.writes) continue;
      for (int g = 0; g < groups; ++g) {
        if (g == whole) to = end.outputs_in(scratch, run, odd);
        write_group(to, begins && g == 0, g, tile);
        if (g == whole) end.copy_outputs(run, odd, to);
        to.advance();
      }
    }
    if constexpr (Traits::kLags) run.lag = RowRegisters::first(now.lag);
    if (run.total != nullptr) {
      const auto total = fold.open(run.n == kRowSegment ? kCarryLevel : kRowTileLevel);
      for (int k = 0; k < Scan::kParts; ++k) run.total[k] = total.part[k];
    }
  }

 private:
  using V = Vec<double>;
  using State = typename Scan::State;
  using OneState = typename One::State;
  static constexpr int kBlock = RowRegisters::kBlock;
  static constexpr int kLanes = RowRegisters::kLanes;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  using Traits = ScanTraits<Scan, V>;
  static constexpr int kGroup = RowRegisters::kGroup;
  static constexpr int kTile = kBlock * kGroup;  ///< as many blocks of 64 as there are lanes
  using Places = GroupPlaces<Scan, In, Out>;
  using Fold = numerics::CanonicalFold<OneState, One>;
  static constexpr int kPrefixLevel = kCarryLevel + 1;  ///< above all that a run with something before it closes

  /// How far a run is.
  struct Progress {
    V lag;
    bool begins;  ///< no prefix
    std::int64_t position;
    OneState prefix;  ///< the next block of 64, unless it begins
    OneState above;   ///< the block of 512, if anything does
    bool has_above;
    OneState open;  ///< of the block of 512, what is behind
    int open_blocks;
  };

  /// A tile's groups between the two times that they are gone through.
  struct Tile {
    State own[kBlock][kBlock];  ///< group by group: of each step, within its block
    V in[Traits::kGradient ? kBlock : 1][kBlock][kInputs];
    V position[kBlock];                                 ///< of a group's first steps
    V step;                                             ///< and from one to the next
    alignas(64) double totals[Scan::kParts][kGroup];    ///< block by block
    alignas(64) double prefixes[Scan::kParts][kGroup];  ///< the prefix before each
  };

  static PLANCK_MATH Progress begin(const RowRun& run, Fold& fold) {
    if (run.prefix != nullptr) {
      OneState prefix;
      for (int k = 0; k < Scan::kParts; ++k) prefix.part[k] = run.prefix[k];
      fold.resume_after(numerics::block_size(kPrefixLevel));
      fold.totals().set(kPrefixLevel, prefix);
    }
    Progress now;
    now.lag = V(run.lag);
    now.begins = run.prefix == nullptr;
    now.position = run.position;
    for (int k = 0; k < Scan::kParts; ++k) now.above.part[k] = now.begins ? 0 : run.prefix[k];
    now.prefix = now.open = now.above;
    now.has_above = !now.begins;
    now.open_blocks = 0;
    return now;
  }

  static PLANCK_MATH State select_state(Mask<double> mask, const State& yes, const State& no) {
    State s;
    for (int k = 0; k < Scan::kParts; ++k) s.part[k] = select(mask, yes.part[k], no.part[k]);
    return s;
  }

  /// Takes in group g: the states of its blocks, each for itself.
  static PLANCK_MATH void scan_group(const RowRun& run, const Places& at, bool first, Progress& now, int g,
                                     Tile& tile) {
    V x[kInputs][kBlock];
    at.load(x);
    V in[kBlock][kInputs];
    for (int s = 0; s < kBlock; ++s) {
      for (int k = 0; k < kInputs; ++k) in[s][k] = x[k][s];
    }
    V position(0);
    const V step(static_cast<double>(run.position_step));
    if constexpr (Scan::kPositions) {
      position = V(static_cast<double>(now.position)) + RowRegisters::numbers() * (step * V(kBlock));
      now.position += kGroup * run.position_step;
      tile.position[g] = position;
      if constexpr (Traits::kGradient) tile.step = step;
    }
    V lag = now.lag;
    if constexpr (Traits::kLags) {
      V last = lag;
      Scan::lift(in[kBlock - 1], &last);
      lag = RowRegisters::move_up(last, now.lag);
      now.lag = RowRegisters::broadcast_last(last);
    }
    State own[kBlock];
    for (int s = 0; s < kBlock; ++s) {
      State fresh;
      if constexpr (Traits::kLags) {
        fresh = Scan::lift(in[s], &lag);
      } else {
        fresh = Scan::lift(in[s], position);
        position = position + step;
      }
      if constexpr (Traits::kBegins) {
        if (s == 0 && first && run.edge_input != nullptr) {
          double edge[1];
          OneLane<double>::load<std::tuple_element_t<kEdgeInput, In>>(run.edge_input, edge);
          const V with_edge[kInputs] = {in[0][0], in[0][1], V(edge[0])};
          fresh = select_state(RowRegisters::first_lanes(1), Scan::begin(with_edge), fresh);
        }
      }
      own[s] = s == 0 ? fresh : Scan::combine(own[s == 0 ? 0 : s - 1], fresh);
    }
    for (int k = 0; k < Scan::kParts; ++k) {
      hn::Store(own[kBlock - 1].part[k].raw, Tag<double>(), tile.totals[k] + g * kLanes);
    }
    if (!run.writes) return;
    for (int s = 0; s < kBlock; ++s) {
      tile.own[g][s] = own[s];
      if constexpr (Traits::kGradient) {
        for (int k = 0; k < kInputs; ++k) {
          if ((Scan::kGradientInputs >> k & 1) != 0) tile.in[g][s][k] = in[s][k];
        }
      }
    }
  }

  /// From the totals of all blocks to the prefix before each. A lane is a block of 64 now.
  static PLANCK_MATH void join_blocks(int groups, Fold& fold, Progress& now, Tile& tile) {
    State x[kBlock];
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kBlock];
      RowRegisters::load<double>(reinterpret_cast<const std::byte*>(tile.totals[k]), false, part);
      for (int s = 0; s < kBlock; ++s) x[s].part[k] = part[s];
    }
    for (int s = 1; s < kBlock; ++s) x[s] = Scan::combine(x[s - 1], x[s]);
    alignas(64) double wide[Scan::kParts][kLanes];
    for (int k = 0; k < Scan::kParts; ++k) hn::Store(x[kBlock - 1].part[k].raw, Tag<double>(), wide[k]);
    // One block of 64 after the other: the prefix before it takes the place of its total.
    const int whole = groups / (kBlock / kLanes);
    for (int b = 0; b < kLanes; ++b) {
      OneState total;
      for (int k = 0; k < Scan::kParts; ++k) total.part[k] = wide[k][b];
      for (int k = 0; k < Scan::kParts; ++k) wide[k][b] = now.prefix.part[k];
      if (b >= whole) break;
      now.open = b == 0 && now.open_blocks == 0 ? total : One::combine(now.open, total);
      now.prefix = now.has_above ? One::combine(now.above, now.open) : now.open;
      ++now.open_blocks;
    }
    if (now.open_blocks == kBlock) {
      fold.push_block(3, now.open);
      now.above = now.prefix = fold.prefix();
      now.has_above = true;
      now.open_blocks = 0;
    }
    State above;
    for (int k = 0; k < Scan::kParts; ++k) above.part[k] = V(hn::Load(Tag<double>(), wide[k]));
    const Mask<double> none = RowRegisters::first_lanes(now.begins ? 1 : 0);
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kBlock];
      part[0] = above.part[k];
      for (int s = 1; s < kBlock; ++s) {
        part[s] = select_state(none, x[s - 1], Scan::combine(above, x[s - 1])).part[k];
      }
      RowRegisters::store<double>(part, reinterpret_cast<std::byte*>(tile.prefixes[k]), false, false);
    }
  }

  /// Writes group g. `begins`: before its first block there is nothing.
  static PLANCK_MATH void write_group(const Places& at, bool begins, int g, const Tile& tile) {
    State prefix;
    for (int k = 0; k < Scan::kParts; ++k) {
      prefix.part[k] = V(hn::Load(Tag<double>(), tile.prefixes[k] + g * kLanes));
    }
    V y[kOutputs][kBlock];
    if (begins) {
      project<true>(g, prefix, tile, y);
    } else {
      project<false>(g, prefix, tile, y);
    }
    at.store(y);
  }
  template <bool begins>
  static PLANCK_MATH void project(int g, const State& prefix, const Tile& tile, V (*y)[kBlock]) {
    const Mask<double> none = RowRegisters::first_lanes(1);
    const State* own = tile.own[g];
    V position(0);
    V step(0);
    if constexpr (Traits::kGradient && Scan::kPositions) {
      position = tile.position[g];
      step = tile.step;
    }
    for (int s = 0; s < kBlock; ++s) {
      if constexpr (Traits::kExclusive) {
        V value = s == 0 ? Scan::project(prefix) : Scan::project(Scan::combine(prefix, own[s == 0 ? 0 : s - 1]));
        if (begins) value = select(none, s == 0 ? Scan::identity() : Scan::project(own[s == 0 ? 0 : s - 1]), value);
        y[0][s] = value;
      } else {
        State inclusive = Scan::combine(prefix, own[s]);
        if (begins) inclusive = select_state(none, own[s], inclusive);
        if constexpr (Traits::kGradient) {
          V out[kMaxScanOutputs];
          Scan::gradients(tile.in[g][s], true, position, inclusive, out);
          for (int k = 0; k < kOutputs; ++k) y[k][s] = out[k];
          position = position + step;
        } else {
          y[0][s] = Scan::project(inclusive);
          if constexpr (kOutputs == 2) y[1][s] = Scan::position(inclusive);
        }
      }
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
