// Scans of columns side by side: a thread walks its column, or a segment of it, with the open blocks in registers.
#pragma once

#include "scan/cuda/rows.cuh"

namespace planck::cuda {

inline constexpr int kColumnThreads = 128;
/// Segments of columns are shorter than rows' tiles: a thread walks one alone.
inline constexpr int kColumnLevel = 3;

/// The blocks of 8, 64 and 512 that are open on a thread's way, and everything before them.
template <class Math>
struct Walk {
  using State = typename Math::State;
  Open<Math> before;  ///< the walk
  Open<Math> ones;
  Open<Math> twos;
  Open<Math> threes;
  Open<Math> upper;  ///< before, threes and twos together

  __device__ __forceinline__ explicit Walk(const Open<Math>& start)
      : before(start), ones{}, twos{}, threes{}, upper(start) {}

  __device__ __forceinline__ Open<Math> sum() const {
    Open<Math> all = upper;
    if (ones.any) all.add(ones.state);
    return all;
  }
  /// One more whole block of 8, with so many before it.
  __device__ __forceinline__ void push(const State& total, std::int64_t blocks) {
    ones.add(total);
    if (digit(blocks) != kEight - 1) return;
    twos.add(ones.state);
    ones.any = false;
    if (digit(blocks, 1) == kEight - 1) {
      threes.add(twos.state);
      twos.any = false;
    }
    upper = before;
    if (threes.any) upper.add(threes.state);
    if (twos.any) upper.add(twos.state);
  }
};

template <class Pass>
__device__ __forceinline__ void store_column(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                             std::int64_t count, const Eight<Pass>& e,
                                             const Open<typename Pass::Math>& before, typename Pass::V& last) {
  using V = typename Pass::V;
  store_edge(task, at, s, e);
  const auto first = [&](V ended) {
    const V previous = last;
    last = ended;
    return previous;
  };
  put_values(task, at, s, e, before, first, [&](const V(&value)[kEight], std::byte* to, const ScanOperand& operand) {
    store_eight(value, to + s * operand.step, operand.step, operand.element, count);
  });
}

/// The inputs that states do not need, of a segment with `count` steps left.
template <class Pass>
__device__ __forceinline__ void load_late_column(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                                 std::int64_t count, std::int64_t state, Eight<Pass>& e) {
  using V = typename Pass::V;
#pragma unroll
  for (int k = 0; k < Pass::kInputs; ++k) {
    const ScanOperand& operand = task.operand[kScanIn + k];
    if (is_early<Pass>(k) || at.in[k] == nullptr) continue;
    if constexpr (!Pass::kLeads) {
      load_eight(e.in[k], at.in[k] + s * operand.step, operand.step, operand.element, count);
    } else {
      load_eight(e.in[k], at.in[k] + (s + 1) * operand.step, operand.step, operand.element, count - 1);
      if (count <= kEight && s + count < task.length) {  // there it may be overwritten by now
        e.in[k][kEight - 1] = from_word<V>(task.edges[(state + 1) * kScanInputs + k]);
      }
    }
  }
  if constexpr (Pass::kLeads) set_edge(task, at, s, e);
}

/// Columns of up to 4096 steps, or segments of 512 of longer ones: from `item` on every so many.
template <class Pass>
__device__ __forceinline__ void walk_columns(const ScanTask& task, const ScanMode mode, std::int64_t item,
                                             const std::int64_t every) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
  using State = typename Pass::State;
  constexpr int kParts = Math::kParts;
  constexpr std::int64_t kSegment = numerics::block_size(kColumnLevel);
  const std::int64_t items = mode == ScanMode::Whole ? task.rows : task.rows * task.segments;
  for (; item < items; item += every) {
    const std::int64_t segment = mode == ScanMode::Whole ? 0 : item / task.rows;
    const std::int64_t column = item - segment * task.rows;
    const std::int64_t state = column * task.segments + segment;
    const RowPlaces<Pass> at(task, column);
    const std::int64_t begin = segment * kSegment;
    const std::int64_t end = mode == ScanMode::Whole || begin + kSegment > task.length ? task.length : begin + kSegment;
    std::int64_t before = 0;
    Open<Math> above{};
    V last{};
    if (mode == ScanMode::Finish) {
      before = task.row_words[column * kRowWords];
      above.any = before + begin > 0;
      if (above.any) above.state = load_state<State>(task.states + state * kParts);
      if (task.value == ScanValue::Exclusive) {
        last = from_word<V>(segment == 0 ? task.row_words[column * kRowWords + 1]
                                         : task.ends[(state - 1) * kTileLevel * kParts]);
      }
    } else {
      const CarryStart start(task, column);
      before = start.before;
      if (mode == ScanMode::Whole) above = carried<Math>(start);
      last = from_word<V>(start.value);
    }
    V raw[kScanInputs] = {};
#pragma unroll
    for (int k = 0; k < Pass::kInputs; ++k) {
      if (!looks_back<Pass>(task, k)) continue;
      if (segment == 0) {
        raw[k] = start_of(task, at, k);
      } else {
        raw[k] = mode == ScanMode::Finish ? from_word<V>(task.edges[(state - 1) * kScanInputs + k])
                                          : load_input(task, at, k, begin - 1);
      }
    }
    Walk<Math> walk(above);
    for (std::int64_t s = begin; s < end; s += kEight) {
      const std::int64_t count = end - s;
      Eight<Pass> e;
      V lag{};
#pragma unroll
      for (int k = 0; k < Pass::kInputs; ++k) {
        const ScanOperand& operand = task.operand[kScanIn + k];
        if (!is_early<Pass>(k)) continue;
        load_eight(e.in[k], at.in[k] + s * operand.step, operand.step, operand.element, count);
        if (Pass::kLags && k == kLagInput) {
          lag = raw[k];
          raw[k] = e.in[k][kEight - 1];
        } else if (is_moved(task, k)) {
          const V ended = e.in[k][kEight - 1];
          move_on(e.in[k], raw[k]);
          raw[k] = ended;
        }
      }
      fold_eight(task, at, s, before, lag, e);
      const State total = e.state[kEight - 1];
      if (mode == ScanMode::Totals) {
        if (task.value == ScanValue::Exclusive && count <= kEight) {
          std::int64_t* const ends = task.ends + state * kTileLevel * kParts;
          store_state(ends, total);
          store_state(ends + kParts, walk.ones.state);
          store_state(ends + 2 * kParts, walk.twos.state);
        }
      } else {
        const Open<Math> sum = walk.sum();
        join_eight<Pass>(sum, e);
        load_late_column(task, at, s, count, state, e);
        store_column(task, at, s, count, e, sum, last);
      }
      walk.push(total, (s - begin) / kEight);
    }
    if (mode == ScanMode::Totals) {
      store_state(task.states + state * kParts, walk.threes.state);
      save_edges(task, at, state, begin, end);
    }
  }
}

/// Two blocks a multiprocessor allow as many registers as there are: left to itself the compiler takes fewer for more
/// blocks, and spills.
template <class Pass>
__global__ void __launch_bounds__(kColumnThreads, 2) scan_columns(const ScanTask task, const ScanMode mode) {
  walk_columns<Pass>(task, mode, std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x,
                     std::int64_t{gridDim.x} * kColumnThreads);
}

/// From the totals of a column's segments to the prefix before each, by a block of 64 or 512 threads for each column. A
/// carry may start inside a tree: then its open blocks stand for the threads before.
template <class Pass>
__global__ void __launch_bounds__(kTileThreads, 1) scan_heads(const ScanTask task) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
  using State = typename Pass::State;
  constexpr int kParts = Math::kParts;
  __shared__ Tree<Math> tree;
  __shared__ Levels<Math> levels;
  const int thread = static_cast<int>(threadIdx.x);
  const int tree_levels = blockDim.x == kTileThreads ? 4 : 3;
  const std::int64_t chunk = numerics::block_size(tree_levels);
  const int above = task.level + tree_levels;  // the lowest level outside the tree
  for (std::int64_t column = blockIdx.x; column < task.rows; column += gridDim.x) {
    const CarryStart start(task, column);
    std::byte* const carry_out = row_of(task, kScanCarryOut, column);
    const std::int64_t out_step = task.operand[kScanCarryOut].step;
    const std::int64_t first = start.before >> (numerics::kRadixBits * task.level);  // block of the segments' level
    const std::int64_t end = first + task.segments;
    if (thread == 0) {
      levels.take(start, above);
      task.row_words[column * kRowWords] = start.before;
      task.row_words[column * kRowWords + 1] = start.value;
    }
    for (std::int64_t base = first & -chunk; base < end; base += chunk) {
      const int inside = base < first ? static_cast<int>(first - base) : 0;  // what the carry stands for
      const int ones = inside / kEight;
      const int twos = ones / kEight;
      const int threes = twos / kEight;
      const TreeStart tree_start{
          {ones - (digit(ones) > 0 ? 1 : 0), twos - (digit(twos) > 0 ? 1 : 0), threes - (threes > 0 ? 1 : 0)}};
      const bool any_before = base > 0;
      if (thread == 0 && any_before)
        tree.before = levels.before(above, base >> (numerics::kRadixBits * tree_levels)).state;

      const std::int64_t block = base + thread * kEight;
      Open<Math> open{};
      if (thread == ones && digit(inside) > 0) {
        open = {carried_state<State>(start.carry, start.step, task.level), true};
      }
      const Open<Math> opened = open;
      std::int64_t* const states = task.states + (column * task.segments + (block - first)) * kParts;
      State total[kEight];
#pragma unroll
      for (int j = 0; j < kEight; ++j) {
        if (block + j < first || block + j >= end) continue;
        total[j] = load_state<State>(states + j * kParts);
        open.add(total[j]);
      }
      scan_tree(tree, open.state, any_before, tree_start, [&](int level, int i, const State& own) {
        const int starts = level == 1 ? ones : level == 2 ? twos : threes;
        const bool carried = i == starts - 1 && digit(starts) > 0;
        return carried ? carried_state<State>(start.carry, start.step, task.level + level) : own;
      });
      const Open<Math> sum = before_thread(tree, any_before, tree_start);
      open = opened;
#pragma unroll
      for (int j = 0; j < kEight; ++j) {
        if (block + j == end && carry_out != nullptr) {
          const int two = thread / kEight;
          const auto give = [&](int level, bool any, const State& state) {
            if (task.level + level < scan::kCarryLevel || level >= tree_levels) return;
            carry_state(carry_out, out_step, task.level + level, any, state);
          };
          give(0, open.any, open.state);
          give(1, TreeStart::follows(thread, tree_start.first[0]), tree.one[spread(thread)]);
          give(2, TreeStart::follows(two, tree_start.first[1]), tree.two[spread(two)]);
          give(3, TreeStart::follows(two / kEight, tree_start.first[2]), tree.three[two / kEight]);
        }
        if (block + j < first || block + j >= end) continue;
        Open<Math> head = sum;
        if (open.any) head.add(open.state);
        if (head.any) store_state(states + j * kParts, head.state);
        if constexpr (kCanMove<Pass>) {
          // The value at a segment's last step, which follows from no total.
          const std::int64_t segment = block + j - first;
          const bool full = (segment + 1) << (numerics::kRadixBits * task.level) <= task.length;
          if (task.value == ScanValue::Exclusive && full) {
            std::int64_t* const ends = task.ends + (column * task.segments + segment) * kTileLevel * kParts;
            Open<Math> prefix = head;
            for (int level = task.level - 1; level >= 0; --level) {
              prefix.add(load_state<State>(ends + level * kParts));
            }
            const V value = Math::project(prefix.state);
            ends[0] = to_word(value);
            if (block + j == end - 1 && carry_out != nullptr) {
              word_at(carry_out, out_step, scan::kCarryValue) = to_word(rounded(task.operand[kScanOut].element, value));
            }
          }
        }
        open.add(total[j]);
      }
      if (thread == 0 && base + chunk <= end) {
        numerics::push_block(levels, above, base >> (numerics::kRadixBits * tree_levels), tree.total);
      }
    }
    __syncthreads();  // the tree is free, and the last value is there
    if (thread == 0 && carry_out != nullptr) {
      levels.give(carry_out, out_step, above, end >> (numerics::kRadixBits * tree_levels));
      if ((end & (chunk - 1)) == 0) {
        for (int level = scan::kCarryLevel; level < above; ++level) {
          carry_state(carry_out, out_step, level, false, State{});
        }
      }
      start.store(task, carry_out, out_step, word_at(carry_out, out_step, scan::kCarryValue));
    }
    __syncthreads();
  }
}

}  // namespace planck::cuda
