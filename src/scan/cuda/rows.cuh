// Scans along rows: short ones by a warp or a part of it, longer ones by a block of threads that walks tiles of 4096
// steps or takes one of a row that is cut.
#pragma once

#include "scan/cuda/tree.cuh"

namespace planck::cuda {

inline constexpr int kShortThreads = 128;
inline constexpr int kShortWarps = kShortThreads / kWarp;
/// What a warp walks alone: the four blocks of 256 in which no block of 4096 closes early on.
inline constexpr std::int64_t kShortRow = 1024;

template <class State>
__device__ __forceinline__ State shuffled(State state, int lane) {
  constexpr int kParts = sizeof(state.part) / sizeof(state.part[0]);
#pragma unroll
  for (int k = 0; k < kParts; ++k) state.part[k] = __shfl_sync(kWholeWarp, state.part[k], lane);
  return state;
}

/// Stores what the joined states of a warp's slots stand for. `first` gives the exclusive value of this thread's first
/// slot for the inclusive one of its last.
template <class Pass, class First>
__device__ __forceinline__ void store_values(const ScanTask& task, const RowPlaces<Pass>& at, Quad* stage,
                                             const WarpRows& rows, std::int64_t row_step, std::int64_t s,
                                             const Eight<Pass>& e, const Open<typename Pass::Math>& before,
                                             const First& first) {
  using V = typename Pass::V;
  if (rows.count > 0) store_edge(task, at, s, e);
  put_values(task, at, s, e, before, first, [&](const V(&value)[kEight], std::byte* to, const ScanOperand& operand) {
    store_slots(value, stage, rows, to + row_step * operand.step, operand.step, operand.element);
  });
}

/// The inputs that states do not need. `next` is the lead input's element after the warp's last slot.
template <class Pass>
__device__ __forceinline__ void load_late(const ScanTask& task, const RowPlaces<Pass>& at, Quad* stage,
                                          const WarpRows& rows, std::int64_t row_step, std::int64_t s,
                                          typename Pass::V next, Eight<Pass>& e) {
#pragma unroll
  for (int k = 0; k < Pass::kInputs; ++k) {
    const ScanOperand& operand = task.operand[kScanIn + k];
    if (is_early<Pass>(k)) continue;
    if (at.in[k] != nullptr) {
      load_slots(e.in[k], stage, rows, at.in[k] + row_step * operand.step, operand.step, operand.element);
    }
    if constexpr (Pass::kLeads) {
      const auto first = __shfl_down_sync(kWholeWarp, e.in[k][0], 1);
      move_back(e.in[k], threadIdx.x % kWarp == kWarp - 1 ? next : first);
      set_edge(task, at, s, e);
    }
  }
}

template <class Pass>
inline constexpr bool kHasExponentials = requires {
  typename Pass::Math::Compute;
};
/// Blocks of a multiprocessor that registers are kept for: left to itself the compiler wants more, and spills.
template <class Pass>
inline constexpr int kShortBlocks = Pass::kBackward || kHasExponentials<Pass> ? 2 : 3;

/// Rows of up to kShortRow steps, by one warp: a handful side by side from w on, and every so many of these. `threads`
/// of the warp share a row: all of them, or as many as it has eights, rounded up to a power of two.
template <class Pass>
__device__ __forceinline__ void walk_short_rows(const ScanTask& task, const int threads, Quad* const stage,
                                                std::int64_t w, const std::int64_t every) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
  using State = typename Pass::State;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int own = lane & (threads - 1);  // among the row's threads
  const int place = digit(own);          // in its eight
  const int eight = own / kEight;        // among the row's eights of threads
  const int rows_per_warp = kWarp / threads;
  const std::int64_t warps = (task.rows + rows_per_warp - 1) / rows_per_warp;
  for (; w < warps; w += every) {
    const std::int64_t own_row = w * rows_per_warp + lane / threads;
    const bool active = own_row < task.rows;
    const std::int64_t row = active ? own_row : task.rows - 1;
    const RowPlaces<Pass> at(task, row);
    const CarryStart start(task, row);
    const Open<Math> above = carried<Math>(start);
    Open<Math> twos{};    // whole blocks of 64 in the open block of 512
    Open<Math> threes{};  // whole blocks of 512
    V raw[kScanInputs];   // an input's last element of the slots before
#pragma unroll
    for (int k = 0; k < Pass::kInputs; ++k) raw[k] = start_of(task, at, k);
    V last = from_word<V>(start.value);
    for (std::int64_t s0 = 0; s0 < task.length; s0 += kWarpSlots) {
      const std::int64_t s = s0 + own * kEight;
      const WarpRows rows(threads, active ? task.length - s0 : 0);
      Eight<Pass> e;
      V lag{};
#pragma unroll
      for (int k = 0; k < Pass::kInputs; ++k) {
        const ScanOperand& operand = task.operand[kScanIn + k];
        if (!is_early<Pass>(k)) continue;
        load_slots(e.in[k], stage, rows, at.in[k] + s0 * operand.step, operand.step, operand.element);
        if (!looks_back<Pass>(task, k)) continue;
        const V ended = e.in[k][kEight - 1];
        V first = __shfl_up_sync(kWholeWarp, ended, 1);
        if (own == 0) first = raw[k];
        raw[k] = __shfl_sync(kWholeWarp, ended, kWarp - 1);
        if (is_moved(task, k)) move_on(e.in[k], first);
        if (Pass::kLags && k == kLagInput) lag = first;
      }
      fold_eight(task, at, s, start.before, lag, e);

      // Eight threads hold a block of 64, and each the prefix before it there.
      const State total = e.state[kEight - 1];
      const int group = lane - place;
      State sum = shuffled(total, group);
      State ones = sum;
      for (int k = 1; k < kEight && k < threads; ++k) {
        if (place == k) ones = sum;
        sum = Math::combine(sum, shuffled(total, group + k));
      }
      Open<Math> before = above;
      if (threads > kEight) {
        Open<Math> own_twos{};
        for (int k = 0; k < threads / kEight; ++k) {
          if (eight == k) own_twos = twos;
          twos.add(shuffled(sum, lane - own + k * kEight));
        }
        if (threes.any) before.add(threes.state);
        if (own_twos.any) before.add(own_twos.state);
        if (s0 % (2 * kWarpSlots) != 0) {
          threes.add(twos.state);
          twos.any = false;
        }
      }
      if (place > 0) before.add(ones);
      join_eight<Pass>(before, e);
      V next{};
      if constexpr (Pass::kLeads) {
        if (lane == kWarp - 1 && rows.count > kWarpSlots && at.in[kLeadInput] != nullptr) {
          next = load_input(task, at, kLeadInput, s0 + kWarpSlots);
        }
      }
      load_late(task, at, stage, rows, s0, s, next, e);
      store_values(task, at, stage, rows, s0, s, e, before, [&](V ended) {
        V first = __shfl_up_sync(kWholeWarp, ended, 1);
        if (own == 0) first = last;
        last = __shfl_sync(kWholeWarp, ended, kWarp - 1);
        return first;
      });
    }
  }
}

template <class Pass>
__global__ void __launch_bounds__(kShortThreads, kShortBlocks<Pass>)
    scan_short_rows(const ScanTask task, const int threads) {
  __shared__ Quad staging[kShortWarps * kStageQuads];
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  walk_short_rows<Pass>(task, threads, staging + warp * kStageQuads, std::int64_t{blockIdx.x} * kShortWarps + warp,
                        std::int64_t{gridDim.x} * kShortWarps);
}

/// What the block of a tile keeps between its threads, apart from the tree.
template <class Pass>
struct TileEdges {
  using V = typename Pass::V;
  V value[kTileThreads / kWarp + 1];                ///< exclusive values of the warps' first steps
  V next[Pass::kLeads ? kTileThreads / kWarp : 1];  ///< the lead input's elements after the warps' last steps
  /// Inputs' last elements of the tile before, while those of this one are put beside them.
  V raw[2][kScanInputs];
};

/// An input's element before this thread's first step, given the thread's last one.
template <class Pass>
__device__ __forceinline__ typename Pass::V element_before(const ScanTask& task, const RowPlaces<Pass>& at, int k,
                                                           std::int64_t s, ScanMode mode, std::int64_t state,
                                                           const typename Pass::V* raw, typename Pass::V ended) {
  using V = typename Pass::V;
  V first = __shfl_up_sync(kWholeWarp, ended, 1);
  if (threadIdx.x % kWarp != 0 || s > task.length) return first;
  if (threadIdx.x != 0) return load_input(task, at, k, s - 1);
  if (s == 0) return start_of(task, at, k);
  if (mode == ScanMode::Whole) return raw[k];  // by now its place may hold a result
  if (mode == ScanMode::Totals) return load_input(task, at, k, s - 1);
  return from_word<V>(task.edges[(state - 1) * kScanInputs + k]);
}

/// A tile's elements that states are made of, which all threads have read before the tree's first barrier. Gives the
/// lag.
template <class Pass>
__device__ __forceinline__ typename Pass::V load_tile(const ScanTask& task, const RowPlaces<Pass>& at, Quad* stage,
                                                      const WarpRows& rows, std::int64_t s, ScanMode mode,
                                                      std::int64_t state, TileEdges<Pass>& edges, int odd,
                                                      Eight<Pass>& e) {
  using V = typename Pass::V;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t row_step = s - thread % kWarp * kEight;
  V lag{};
#pragma unroll
  for (int k = 0; k < Pass::kInputs; ++k) {
    const ScanOperand& operand = task.operand[kScanIn + k];
    if (!is_early<Pass>(k)) continue;
    load_slots(e.in[k], stage, rows, at.in[k] + row_step * operand.step, operand.step, operand.element);
    if (!looks_back<Pass>(task, k)) continue;
    const V ended = e.in[k][kEight - 1];
    const V first = element_before(task, at, k, s, mode, state, edges.raw[odd], ended);
    if (thread == static_cast<int>(blockDim.x) - 1) edges.raw[1 - odd][k] = ended;
    if (is_moved(task, k)) move_on(e.in[k], first);
    if (Pass::kLags && k == kLagInput) lag = first;
  }
  return lag;
}

/// The lead input's element after a warp's last slot, asked for by that slot's thread: another warp's, which may
/// overwrite it after the barrier.
template <class Pass>
__device__ __forceinline__ typename Pass::V element_after(const ScanTask& task, const RowPlaces<Pass>& at,
                                                          std::int64_t s, ScanMode mode, std::int64_t state) {
  const bool wanted = mode != ScanMode::Totals && at.in[kLeadInput] != nullptr;
  if (!wanted || s + kEight >= task.length) return {};
  if (threadIdx.x == blockDim.x - 1 && mode == ScanMode::Finish) {
    return from_word<typename Pass::V>(task.edges[(state + 1) * kScanInputs + kLeadInput]);
  }
  return load_input(task, at, kLeadInput, s + kEight);
}

/// What neighbouring segments read of this one.
template <class Pass>
__device__ __forceinline__ void save_edges(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t state,
                                           std::int64_t begin, std::int64_t end) {
#pragma unroll
  for (int k = 0; k < Pass::kInputs; ++k) {
    const bool leads = Pass::kLeads && k == kLeadInput;
    if (!leads && !looks_back<Pass>(task, k)) continue;
    if (at.in[k] == nullptr) continue;
    task.edges[state * kScanInputs + k] = to_word(load_input(task, at, k, leads ? begin : end - 1));
  }
}

/// The row that a block of threads works on, or a tile of it: the same for all threads, whose registers are few.
template <class Pass>
struct TileItem {
  std::int64_t number;
  RowPlaces<Pass> at;
  std::int64_t before;  ///< steps of earlier pieces
  std::int64_t begin;
  std::int64_t end;
  bool any_before;  ///< whether there is a prefix before `begin`
};

/// What a block of threads shares while it walks tiles.
template <class Pass>
struct TileMemory {
  Quad staging[kTileThreads / kWarp * kStageQuads];
  Tree<typename Pass::Math> tree;
  Levels<typename Pass::Math> levels;
  TileEdges<Pass> edges;
  TileItem<Pass> its;
};

/// Rows by tiles of eight steps a thread: whole ones that the block walks, or single tiles, from `item` on every so
/// many; or just this one, which then needs no register on the way.
template <class Pass, bool one = false>
__device__ __forceinline__ void walk_tiles(const ScanTask& task, const ScanMode mode, TileMemory<Pass>& memory,
                                           std::int64_t item, const std::int64_t every = 0) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
  using State = typename Pass::State;
  constexpr int kParts = Math::kParts;
  Tree<Math>& tree = memory.tree;
  Levels<Math>& levels = memory.levels;
  TileEdges<Pass>& edges = memory.edges;
  TileItem<Pass>& its = memory.its;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = one ? kTileThreads : static_cast<int>(blockDim.x);  // a constant takes no registers
  const int warp = thread / kWarp;
  Quad* const stage = memory.staging + warp * kStageQuads;
  const std::int64_t tile = std::int64_t{kEight} * threads;
  const TreeStart tree_start{};
  for (; item < (mode == ScanMode::Whole ? task.rows : task.rows * task.segments); item += every) {
    if (thread == 0) {
      const std::int64_t row = mode == ScanMode::Whole ? item : item / task.segments;
      const std::int64_t segment = mode == ScanMode::Whole ? 0 : item - row * task.segments;
      its.number = item;
      its.at = RowPlaces<Pass>(task, row);
      // A cut row's carry may be overwritten by now.
      its.before = mode == ScanMode::Finish ? task.row_words[row * kRowWords] : CarryStart(task, row).before;
      its.begin = segment * kTile;
      its.end = mode == ScanMode::Whole || its.begin + kTile > task.length ? task.length : its.begin + kTile;
      const std::int64_t blocks = its.before / kTile + segment;
      its.any_before = mode != ScanMode::Totals && blocks > 0;
      if (mode == ScanMode::Whole) {
        const CarryStart start(task, row);
        levels.take(start, kTileLevel);
        if (its.any_before) tree.before = levels.before(kTileLevel, blocks).state;
        edges.value[0] = from_word<V>(start.value);
      } else if (mode == ScanMode::Finish) {
        if (its.any_before) tree.before = load_state<State>(task.states + item * kParts);
        if (task.value == ScanValue::Exclusive) {
          edges.value[0] = from_word<V>(segment == 0 ? task.row_words[row * kRowWords + 1]
                                                     : task.ends[(item - 1) * kTileLevel * kParts]);
        }
      }
    }
    __syncthreads();
    for (std::int64_t s0 = its.begin; s0 < its.end; s0 += tile) {
      const bool any_before = its.any_before || s0 > its.begin;
      const std::int64_t s = s0 + thread * kEight;
      const WarpRows rows(kWarp, task.length - (s0 + warp * kWarpSlots));
      Eight<Pass> e;
      const V lag =
          load_tile(task, its.at, stage, rows, s, mode, its.number, edges, static_cast<int>(s0 / tile & 1), e);
      if constexpr (Pass::kLeads) {
        if (thread % kWarp == kWarp - 1) edges.next[warp] = element_after(task, its.at, s, mode, its.number);
      }
      fold_eight(task, its.at, s, its.before, lag, e);
      scan_tree(tree, e.state[kEight - 1], any_before, tree_start, [](int, int, const State& total) { return total; });
      if (mode == ScanMode::Totals) {
        if (thread == 0) {
          store_state(task.states + its.number * kParts, tree.total);
          save_edges(task, its.at, its.number, its.begin, its.end);
        }
        if (task.value == ScanValue::Exclusive && thread == threads - 1) {
          std::int64_t* const ends = task.ends + its.number * kTileLevel * kParts;
          store_state(ends, e.state[kEight - 1]);
          store_state(ends + kParts, tree.one[spread(thread)]);
          store_state(ends + 2 * kParts, tree.two[spread(thread / kEight)]);
          store_state(ends + 3 * kParts, tree.three[thread / kEight / kEight]);
        }
        continue;
      }
      const Open<Math> sum = before_thread(tree, any_before, tree_start);
      join_eight<Pass>(sum, e);
      const std::int64_t row_step = s0 + warp * kWarpSlots;
      load_late(task, its.at, stage, rows, row_step, s, edges.next[Pass::kLeads ? warp : 0], e);
      store_values(task, its.at, stage, rows, row_step, s, e, sum, [&](V ended) {
        V first = __shfl_up_sync(kWholeWarp, ended, 1);
        if (thread % kWarp == kWarp - 1) edges.value[warp + 1] = ended;
        __syncthreads();
        if (thread % kWarp == 0) first = edges.value[warp];
        if (thread == 0) edges.value[0] = edges.value[threads / kWarp];  // nobody else reads the first
        return first;
      });
      if (mode == ScanMode::Whole && tile == kTile && s0 + kTile <= task.length && thread == 0) {
        const std::int64_t done = its.before / kTile + s0 / kTile;
        numerics::push_block(levels, kTileLevel, done, tree.total);
        tree.before = levels.before(kTileLevel, done + 1).state;
      }
    }
    if (mode == ScanMode::Whole && task.operand[kScanCarryOut].base != nullptr && thread == 0) {
      const std::int64_t row = one ? its.number : item;
      std::byte* const carry_out = row_of(task, kScanCarryOut, row);
      const std::int64_t step = task.operand[kScanCarryOut].step;
      const CarryStart start(task, row);  // again, for fewer registers on the way
      levels.give(carry_out, step, kTileLevel, (its.before + task.length) / kTile);
      start.store(task, carry_out, step, to_word(rounded(task.operand[kScanOut].element, edges.value[0])));
    }
    __syncthreads();
    if (one) break;
  }
}

/// One block a multiprocessor allows as many registers as there are for so many threads.
template <class Pass>
__global__ void __launch_bounds__(kTileThreads, 1) scan_tiles(const ScanTask task, const ScanMode mode) {
  __shared__ TileMemory<Pass> memory;
  walk_tiles<Pass>(task, mode, memory, blockIdx.x, gridDim.x);
}

}  // namespace planck::cuda
