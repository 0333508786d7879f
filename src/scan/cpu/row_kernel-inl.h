// A scan along one row in this target's lanes: each lane is a block of eight. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_SCAN_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_SCAN_CPU_INL_H_
#undef PLANCK_SCAN_ROW_SCAN_CPU_INL_H_
#else
#define PLANCK_SCAN_ROW_SCAN_CPU_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>
#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/rows.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Runs along a row. Scan in this target's lanes, One in scalar ones; In and Out are tuples of what is stored.
template <class Scan, class One, class In, class Out>
class Row {
 public:
  static void run(RowRun& run) {
    Fold fold;
    Progress now = begin(run, fold);
    Places at = places_of(run);
    Places end = at;  // of the last elements
    // What is no whole group goes through scratch, and so does an edge at the end.
    const bool odd_end = run.n % kGroup != 0 || (kEdgeEnds && run.edge == ScanEdge::Last);
    const std::int64_t odd = odd_end ? (run.n - 1) % kGroup + 1 : 0;
    Tile tile;
    std::memset(tile.totals, 0, sizeof tile.totals);
    alignas(64) Scratch scratch[kInputs + kOutputs];
    for (std::int64_t t = 0; t < run.n; t += kTile) {
      const bool ends = run.n - t <= kTile;
      const auto groups = static_cast<int>(ends ? (run.n - t + kGroup - 1) / kGroup : kBlock);
      const int whole = ends && odd > 0 ? groups - 1 : groups;
      Places to = at;
      for (int g = 0; g < groups; ++g) {
        if (g == whole) {
          end = at;
          at = copy_in(run, end, odd, scratch);
        }
        scan_group(run, at, t == 0 && g == 0, now, g, tile);
        advance(at);
        if constexpr (kAhead) fetch_ahead(at);
      }
      join_blocks(groups, fold, now, tile);
      const bool begins = now.begins;
      now.begins = false;
      if (!run.writes) continue;
      for (int g = 0; g < groups; ++g) {
        if (g == whole) to = scratch_places(run, end, odd, scratch);
        write_group(to, begins && g == 0, g, tile);
        if (g == whole) copy_out(run, end, odd, to);
        advance(to);
      }
    }
    if constexpr (Traits::kLags) run.lag = BlockLanes::first(now.lag);
    if (run.total != nullptr) {
      const auto total = fold.open(kCarryLevel);
      for (int k = 0; k < Scan::kParts; ++k) run.total[k] = total.part[k];
    }
  }

 private:
  using V = Vec<double>;
  using State = typename Scan::State;
  using OneState = typename One::State;
  static constexpr int kBlock = BlockLanes::kBlock;
  static constexpr int kLanes = BlockLanes::kLanes;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  using Traits = ScanTraits<Scan, V>;
  static constexpr bool kEdgeEnds = kOutputs > kEdgeOutput;
  /// A feed, whose values stay f64, and what is fed with them.
  static constexpr bool kFeeds = kInputs == 1 && kOutputs == 1 && std::is_same_v<std::tuple_element_t<0, Out>, double>;
  static constexpr bool kFed = kInputs == 3 && std::is_same_v<std::tuple_element_t<kInputs - 1, In>, double>;
  static constexpr bool kAhead = kFeeds || kFed;
  template <int k>
  using InOf = std::tuple_element_t<k, In>;
  template <int k>
  using OutOf = std::tuple_element_t<k, Out>;
  static constexpr int kGroup = BlockLanes::kGroup;
  static constexpr int kTile = kBlock * kGroup;  ///< as many blocks of 64 as there are lanes
  using Scratch = std::byte[kGroup * kPartBytes];

  using Fold = numerics::CanonicalFold<OneState, One>;
  static constexpr int kBeforeLevel = kCarryLevel + 1;  ///< above all that a run with something before it closes

  /// Where a group's elements are.
  struct Places {
    const std::byte* input[kInputs];
    std::byte* output[kOutputs];
    std::int64_t input_group[kInputs];
    std::int64_t output_group[kOutputs];
    bool input_back[kInputs];
    bool output_back[kOutputs];
    bool streamed;
    bool in_lanes;
    const std::byte* ahead;
  };

  /// How far a run is.
  struct Progress {
    V lag;
    bool begins;  ///< no prefix
    std::int64_t position;
    OneState before;  ///< the next block of 64, unless it begins
    OneState above;   ///< the block of 512, if anything does
    bool has_above;
    OneState open;  ///< of the block of 512, what is behind
    int open_blocks;
  };

  /// A tile's groups between the two times that they are gone through.
  struct Tile {
    State own[kBlock][kBlock];  ///< group by group: of each step, within its block
    V in[Traits::kGradient ? kBlock : 1][kBlock][kInputs];
    V position[kBlock];                                ///< of a group's first steps
    V step;                                            ///< and from one to the next
    alignas(64) double totals[Scan::kParts][kGroup];   ///< block by block
    alignas(64) double befores[Scan::kParts][kGroup];  ///< the prefix before each
  };

  static PLANCK_MATH Progress begin(const RowRun& run, Fold& fold) {
    if (run.before != nullptr) {
      OneState before;
      for (int k = 0; k < Scan::kParts; ++k) before.part[k] = run.before[k];
      fold.resume_after(numerics::block_size(kBeforeLevel));
      fold.totals().set(kBeforeLevel, before);
    }
    Progress now;
    now.lag = V(run.lag);
    now.begins = run.before == nullptr;
    now.position = run.position;
    for (int k = 0; k < Scan::kParts; ++k) now.above.part[k] = now.begins ? 0 : run.before[k];
    now.before = now.open = now.above;
    now.has_above = !now.begins;
    now.open_blocks = 0;
    return now;
  }

  static Places places_of(const RowRun& run) {
    Places at;
    set_places(run, at, std::make_index_sequence<kInputs>(), std::make_index_sequence<kOutputs>());
    at.streamed = run.streamed;
    at.in_lanes = run.in_lanes;
    at.ahead = run.ahead != nullptr ? run.ahead : run.input[0];
    return at;
  }
  template <std::size_t... i, std::size_t... o>
  static PLANCK_MATH void set_places(const RowRun& run, Places& at, std::index_sequence<i...>,
                                     std::index_sequence<o...>) {
    (set_input<i>(run, at), ...);
    (set_output<o>(run, at), ...);
  }
  template <int k>
  static PLANCK_MATH void set_input(const RowRun& run, Places& at) {
    at.input[k] = run.input[k];
    at.input_back[k] = run.input_back[k];
    at.input_group[k] = run.input[k] != nullptr ? group_bytes<InOf<k>>(run.input_back[k]) : 0;
  }
  template <int k>
  static PLANCK_MATH void set_output(const RowRun& run, Places& at) {
    const bool there = run.output[k] != nullptr && run.writes && k != kEdgeOutput;
    at.output[k] = there ? run.output[k] : nullptr;
    at.output_back[k] = run.output_back[k];
    at.output_group[k] = there ? group_bytes<OutOf<k>>(run.output_back[k]) : 0;
  }
  template <class T>
  static constexpr std::int64_t group_bytes(bool back) {
    constexpr std::int64_t kBytes = BlockLanes::kGroup * sizeof(T);
    return back ? -kBytes : kBytes;
  }
  static PLANCK_MATH void advance(Places& at) {
    for (int k = 0; k < kInputs; ++k) at.input[k] += at.input_group[k];
    for (int k = 0; k < kOutputs; ++k) at.output[k] += at.output_group[k];
  }

  /// Asks for what is wanted next and lies where the processor does not expect it: as many bytes as a group has.
  static PLANCK_MATH void fetch_ahead(Places& at) {
    constexpr std::int64_t kLine = 64;
    constexpr auto kBytes = static_cast<std::int64_t>(kGroup * sizeof(InOf<0>));
    for (std::int64_t i = 0; i < kBytes; i += kLine) hwy::Prefetch(at.ahead + i);
    at.ahead += kBytes;
  }

  static PLANCK_MATH State select_state(Mask<double> mask, const State& yes, const State& no) {
    State s;
    for (int k = 0; k < Scan::kParts; ++k) s.part[k] = select(mask, yes.part[k], no.part[k]);
    return s;
  }

  template <int k>
  static PLANCK_MATH void load(const Places& at, V (*x)[kBlock]) {
    if constexpr (k < kInputs) {
      using T = InOf<k>;
      constexpr bool kRead = !std::is_same_v<T, Unread> && !(Traits::kBegins && k == kEdgeInput);
      if (!kRead || at.input[k] == nullptr) {
        for (int s = 0; s < kBlock; ++s) x[k][s] = V(0);
      } else if constexpr (kRead) {
        if (kFed && k == kInputs - 1 && at.in_lanes) {
          BlockLanes::load_lanes_back(at.input[k], x[k]);
        } else {
          BlockLanes::load<T>(at.input[k], at.input_back[k], x[k]);
        }
      }
      load<k + 1>(at, x);
    }
  }
  template <int k>
  static PLANCK_MATH void store(const Places& at, V (*y)[kBlock]) {
    if constexpr (k < kOutputs) {
      if (kFeeds && at.in_lanes) {
        BlockLanes::store_lanes(y[k], at.output[k]);
      } else if (kOutputs == 1 || at.output[k] != nullptr) {
        BlockLanes::store<OutOf<k>>(y[k], at.output[k], at.output_back[k], at.streamed);
      }
      store<k + 1>(at, y);
    }
  }

  /// Takes in group g: the states of its blocks, each for itself.
  static PLANCK_MATH void scan_group(const RowRun& run, const Places& at, bool first, Progress& now, int g,
                                     Tile& tile) {
    V x[kInputs][kBlock];
    load<0>(at, x);
    V in[kBlock][kInputs];
    for (int s = 0; s < kBlock; ++s) {
      for (int k = 0; k < kInputs; ++k) in[s][k] = x[k][s];
    }
    V position(0);
    const V step(static_cast<double>(run.position_step));
    if constexpr (Scan::kPositions) {
      position = V(static_cast<double>(now.position)) + BlockLanes::numbers() * (step * V(kBlock));
      now.position += kGroup * run.position_step;
      tile.position[g] = position;
      if constexpr (Traits::kGradient) tile.step = step;
    }
    V lag = now.lag;
    if constexpr (Traits::kLags) {
      V last = lag;
      Scan::lift(in[kBlock - 1], &last);
      lag = BlockLanes::move_up(last, now.lag);
      now.lag = BlockLanes::broadcast_last(last);
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
          OneLane<double>::load<InOf<kEdgeInput>>(run.edge_input, edge);
          const V with_edge[kInputs] = {in[0][0], in[0][1], V(edge[0])};
          fresh = select_state(BlockLanes::first_lanes(1), Scan::begin(with_edge), fresh);
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
      BlockLanes::load<double>(reinterpret_cast<const std::byte*>(tile.totals[k]), false, part);
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
      for (int k = 0; k < Scan::kParts; ++k) wide[k][b] = now.before.part[k];
      if (b >= whole) break;
      now.open = b == 0 && now.open_blocks == 0 ? total : One::combine(now.open, total);
      now.before = now.has_above ? One::combine(now.above, now.open) : now.open;
      ++now.open_blocks;
    }
    if (now.open_blocks == kBlock) {
      fold.push_block(3, now.open);
      now.above = now.before = fold.prefix();
      now.has_above = true;
      now.open_blocks = 0;
    }
    State above;
    for (int k = 0; k < Scan::kParts; ++k) above.part[k] = V(hn::Load(Tag<double>(), wide[k]));
    const Mask<double> none = BlockLanes::first_lanes(now.begins ? 1 : 0);
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kBlock];
      part[0] = above.part[k];
      for (int s = 1; s < kBlock; ++s) {
        part[s] = select_state(none, x[s - 1], Scan::combine(above, x[s - 1])).part[k];
      }
      BlockLanes::store<double>(part, reinterpret_cast<std::byte*>(tile.befores[k]), false, false);
    }
  }

  /// Writes group g. `begins`: before its first block there is nothing.
  static PLANCK_MATH void write_group(const Places& at, bool begins, int g, const Tile& tile) {
    State before;
    for (int k = 0; k < Scan::kParts; ++k) {
      before.part[k] = V(hn::Load(Tag<double>(), tile.befores[k] + g * kLanes));
    }
    V y[kOutputs][kBlock];
    if (begins) {
      project<true>(g, before, tile, y);
    } else {
      project<false>(g, before, tile, y);
    }
    store<0>(at, y);
  }
  template <bool begins>
  static PLANCK_MATH void project(int g, const State& before, const Tile& tile, V (*y)[kBlock]) {
    const Mask<double> none = BlockLanes::first_lanes(1);
    const State* own = tile.own[g];
    V position(0);
    V step(0);
    if constexpr (Traits::kGradient && Scan::kPositions) {
      position = tile.position[g];
      step = tile.step;
    }
    for (int s = 0; s < kBlock; ++s) {
      if constexpr (Traits::kBefore) {
        V value = s == 0 ? Scan::project(before) : Scan::project(Scan::combine(before, own[s == 0 ? 0 : s - 1]));
        if (begins) value = select(none, s == 0 ? Scan::identity() : Scan::project(own[s == 0 ? 0 : s - 1]), value);
        y[0][s] = value;
      } else {
        State prefix = Scan::combine(before, own[s]);
        if (begins) prefix = select_state(none, own[s], prefix);
        if constexpr (Traits::kGradient) {
          V out[kMaxScanOutputs];
          Scan::gradients(tile.in[g][s], true, position, prefix, out);
          for (int k = 0; k < kOutputs; ++k) y[k][s] = out[k];
          position = position + step;
        } else {
          y[0][s] = Scan::project(prefix);
          if constexpr (kOutputs == 2) y[1][s] = Scan::position(prefix);
        }
      }
    }
  }

  // ---- the last n elements, by way of scratch that has room for a group ----

  /// Of a whole group only what belongs to an edge goes that way.
  static PLANCK_MATH bool stays(std::int64_t n, bool edge) { return n == kGroup && !edge; }

  /// As they lie in memory: going back, the first one comes last.
  static PLANCK_MATH std::byte* first_in(Scratch& scratch, bool back, std::int64_t bytes) {
    return back ? scratch + (kGroup - 1) * bytes : scratch;
  }
  /// The lowest address of n elements.
  static PLANCK_MATH std::int64_t lowest(bool back, std::int64_t n, std::int64_t bytes) {
    return back ? -(n - 1) * bytes : 0;
  }

  static Places copy_in(const RowRun& run, const Places& at, std::int64_t n, Scratch* scratch) {
    Places here = at;
    copy_inputs<0>(run, at, n, scratch, here);
    return here;
  }
  template <int k>
  static PLANCK_MATH void copy_inputs(const RowRun& run, const Places& at, std::int64_t n, Scratch* scratch,
                                      Places& here) {
    if constexpr (k < kInputs) {
      if constexpr (!std::is_same_v<InOf<k>, Unread>) {
        constexpr auto kBytes = static_cast<std::int64_t>(sizeof(InOf<k>));
        if (at.input[k] != nullptr && !stays(n, kEdgeEnds && k == kEdgeInput)) {
          const bool back = at.input_back[k];
          std::byte* const to = first_in(scratch[k], back, kBytes);
          std::memset(scratch[k], 0, kGroup * kBytes);
          const bool edge = kEdgeEnds && k == kEdgeInput && run.edge == ScanEdge::Last;
          const std::int64_t there = edge ? n - 1 : n;
          const std::int64_t low = lowest(back, there, kBytes);
          if (there > 0) std::memcpy(to + low, at.input[k] + low, static_cast<std::size_t>(there * kBytes));
          std::byte* const last = to + (back ? -(n - 1) : n - 1) * kBytes;
          if (edge && run.edge_input != nullptr) std::memcpy(last, run.edge_input, kBytes);
          // What the last step leaves for the next is the last block's: all that follow are like it.
          for (std::int64_t i = 1; Traits::kLags && i <= kGroup - n; ++i) {
            std::memcpy(last + (back ? -i : i) * kBytes, last, kBytes);
          }
          here.input[k] = to;
        }
      }
      copy_inputs<k + 1>(run, at, n, scratch, here);
    }
  }

  /// Where the last group is written.
  static Places scratch_places(const RowRun& run, const Places& at, std::int64_t n, Scratch* scratch) {
    Places here = at;
    here.streamed = false;
    scratch_outputs<0>(run, n, scratch + kInputs, here);
    return here;
  }
  template <int k>
  static PLANCK_MATH void scratch_outputs(const RowRun& run, std::int64_t n, Scratch* scratch, Places& here) {
    if constexpr (k < kOutputs) {
      if (run.output[k] != nullptr && !stays(n, k == kEdgeOutput)) {
        here.output[k] = first_in(scratch[k], here.output_back[k], sizeof(OutOf<k>));
      }
      scratch_outputs<k + 1>(run, n, scratch, here);
    }
  }
  static void copy_out(const RowRun& run, const Places& at, std::int64_t n, const Places& scratch) {
    copy_outputs<0>(run, at, n, scratch);
  }
  template <int k>
  static PLANCK_MATH void copy_outputs(const RowRun& run, const Places& at, std::int64_t n, const Places& scratch) {
    if constexpr (k < kOutputs) {
      constexpr auto kBytes = static_cast<std::int64_t>(sizeof(OutOf<k>));
      if (scratch.output[k] != nullptr) {
        const bool back = scratch.output_back[k];
        std::byte* const last = scratch.output[k] + (back ? -(n - 1) : n - 1) * kBytes;
        const bool edge = kEdgeEnds && run.edge == ScanEdge::Last;
        if (edge && k == 0 && run.edge_input == nullptr) std::memset(last, 0, kBytes);  // no prefix
        if (edge && k == kEdgeOutput) std::memcpy(run.output[k], last, kBytes);
        const std::int64_t low = lowest(back, n, kBytes);
        if (k != kEdgeOutput && !stays(n, false)) {
          std::memcpy(at.output[k] + low, scratch.output[k] + low, static_cast<std::size_t>(n * kBytes));
        }
      }
      copy_outputs<k + 1>(run, at, n, scratch);
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
