// The canonical order above eight steps: open blocks of the high levels, and a block's threads as a tree of eights.
#pragma once

#include "numerics/canonical_order.hpp"
#include "scan/carry.hpp"
#include "scan/cuda/pass.cuh"

namespace planck::cuda {

inline constexpr int kTileLevel = 4;
inline constexpr int kTileThreads = 512;
inline constexpr std::int64_t kTile = numerics::block_size(kTileLevel);
static_assert(kTile == kTileThreads * kEight && kTileLevel == scan::kCarryLevel);

using numerics::digit;

// ---- a carry's words, which lie `step` bytes apart ----

__device__ __forceinline__ std::int64_t& word_at(std::byte* carry, std::int64_t step, int word) {
  return *reinterpret_cast<std::int64_t*>(carry + word * step);
}
constexpr PLANCK_HOST_DEVICE int total_word(int level) {
  return scan::kCarryTotals + scan::kStateWords * (level - scan::kCarryLevel);
}

template <class State>
__device__ __forceinline__ State carried_state(std::byte* carry, std::int64_t step, int level) {
  State state;
  constexpr int kParts = sizeof(state.part) / sizeof(state.part[0]);
  using V = std::remove_reference_t<decltype(state.part[0])>;
#pragma unroll
  for (int k = 0; k < kParts; ++k) state.part[k] = from_word<V>(word_at(carry, step, total_word(level) + k));
  return state;
}
/// A level's words: its open blocks, or 0 for none.
template <class State>
__device__ __forceinline__ void carry_state(std::byte* carry, std::int64_t step, int level, bool any,
                                            const State& state) {
  constexpr int kParts = sizeof(state.part) / sizeof(state.part[0]);
#pragma unroll
  for (int k = 0; k < scan::kStateWords; ++k) {
    std::int64_t word = 0;
    if (k < kParts && any) word = to_word(state.part[k < kParts ? k : 0]);
    word_at(carry, step, total_word(level) + k) = word;
  }
}

/// What a row starts from: the words of its carry, or those of nothing so far.
struct CarryStart {
  std::byte* carry;  ///< null if there is none
  std::int64_t step;
  std::int64_t id;
  std::int64_t before;
  std::int64_t value;

  __device__ __forceinline__ CarryStart(const ScanTask& task, std::int64_t row)
      : carry(row_of(task, kScanCarryIn, row)),
        step(task.operand[kScanCarryIn].step),
        id(task.carry_id),
        before(0),
        value(task.identity) {
    if (carry == nullptr) return;
    id = word_at(carry, step, scan::kCarryId);
    before = word_at(carry, step, scan::kCarryBefore);
    value = word_at(carry, step, scan::kCarryValue);
  }

  /// The words of a carry that are no totals; `last` is the row's last value.
  __device__ __forceinline__ void store(const ScanTask& task, std::byte* to, std::int64_t to_step,
                                        std::int64_t last) const {
    word_at(to, to_step, scan::kCarryId) = id;
    word_at(to, to_step, scan::kCarryBefore) = before + task.length;
    word_at(to, to_step, scan::kCarryValue) = task.carries_value ? last : (carry == nullptr ? 0 : value);
  }
};

/// Everything before a row, straight from its carry.
template <class Math>
__device__ __forceinline__ Open<Math> carried(const CarryStart& start) {
  Open<Math> open{};
  if (start.carry == nullptr) return open;
  // for_each_open, but with a count of rounds that the compiler knows: that takes fewer registers.
  for (int level = numerics::kMaxLevels - 1; level >= scan::kCarryLevel; --level) {
    if (digit(start.before, level) == 0) continue;
    open.add(carried_state<typename Math::State>(start.carry, start.step, level));
  }
  return open;
}

// ---- open levels, kept by one thread in shared memory ----

template <class Math>
struct Levels {
  using State = typename Math::State;
  State open[numerics::kMaxLevels];

  __device__ __forceinline__ const State& at(int level) const { return open[level]; }
  __device__ __forceinline__ void set(int level, const State& total) { open[level] = total; }
  __device__ __forceinline__ void add(int level, const State& total) {
    open[level] = Math::combine(open[level], total);
  }

  /// Of levels `first` and above, from a carry.
  __device__ __forceinline__ void take(const CarryStart& start, int first) {
    if (start.carry == nullptr) return;
    for (int level = first; level < numerics::kMaxLevels; ++level) {
      open[level] = carried_state<State>(start.carry, start.step, level);
    }
  }
  /// The prefix before a block of a level that has `blocks` before it.
  __device__ __forceinline__ Open<Math> before(int level, std::int64_t blocks) const {
    Open<Math> sum{};
    numerics::for_each_open(level, blocks, [&](int above) { sum.add(open[above]); });
    return sum;
  }
  /// Into a carry, with `blocks` of level `first` behind.
  __device__ __forceinline__ void give(std::byte* carry, std::int64_t step, int first, std::int64_t blocks) const {
    for (int level = first; level < numerics::kMaxLevels; ++level) {
      carry_state(carry, step, level, digit(blocks, level - first) > 0, open[level]);
    }
  }
};

// ---- a block's threads ----

/// Totals of a block's threads, of eight of them, and so on; a moment later the prefix before each in its own eight.
template <class Math>
struct Tree {
  using State = typename Math::State;
  State one[kTileThreads + kTileThreads / kEight];  ///< with gaps, against bank conflicts
  State two[kTileThreads / kEight + kEight];
  State three[kEight];
  State total;
  State before;  ///< the whole tree, if anything is
  State before_three[kEight];
  State before_two[kTileThreads / kEight];
};

__device__ __forceinline__ int spread(int i) { return i + i / kEight; }

/// The first totals that are there, at each level: 0, but where a row starts inside a tree.
struct TreeStart {
  int first[3];
  /// Whether there is a prefix before total i in its eight.
  static __device__ __forceinline__ bool follows(int i, int first) { return i > first && digit(i) != 0; }
};

/// Totals of eight neighbours become the prefix before each; gives the total of all.
template <class Math>
__device__ __forceinline__ typename Math::State fold_group(typename Math::State* totals, int group, int first) {
  Open<Math> sum{};
#pragma unroll 2
  for (int k = 0; k < kEight; ++k) {
    const int i = group * kEight + k;
    const auto total = totals[spread(i)];
    totals[spread(i)] = sum.state;
    if (i >= first) sum.add(total);
  }
  return sum.state;
}

/// From each thread's total to the prefix before it. `replaced(level, i, total)` is the total of i at a level of the
/// tree. All threads of the block call it; the tree may be used again when all have read what they want.
template <class Math, class Replaced>
__device__ __forceinline__ void scan_tree(Tree<Math>& tree, const typename Math::State& own, bool any_before,
                                          const TreeStart& start, const Replaced& replaced) {
  const int thread = static_cast<int>(threadIdx.x);
  const int twos = static_cast<int>(blockDim.x) / kEight;
  const int threes = twos / kEight;
  tree.one[spread(thread)] = replaced(1, thread, own);
  __syncthreads();
  if (thread < twos) {
    tree.two[spread(thread)] = replaced(2, thread, fold_group<Math>(tree.one, thread, start.first[0]));
  }
  __syncthreads();
  if (thread < kWarp) {
    if (thread < threes) tree.three[thread] = replaced(3, thread, fold_group<Math>(tree.two, thread, start.first[1]));
    __syncwarp();
    if (thread == 0) {
      Open<Math> sum{};
      for (int i = 0; i < threes; ++i) {
        const auto total = tree.three[i];
        tree.three[i] = sum.state;
        if (i >= start.first[2]) sum.add(total);
      }
      tree.total = sum.state;
    }
    __syncwarp();
    if (thread < threes) {
      Open<Math> sum{tree.before, any_before};
      if (TreeStart::follows(thread, start.first[2])) sum.add(tree.three[thread]);
      tree.before_three[thread] = sum.state;
    }
    __syncwarp();
    for (int i = thread; i < twos; i += kWarp) {
      Open<Math> sum{tree.before_three[i / kEight], any_before || TreeStart::follows(i / kEight, start.first[2])};
      if (TreeStart::follows(i, start.first[1])) sum.add(tree.two[spread(i)]);
      tree.before_two[i] = sum.state;
    }
  }
  __syncthreads();
}

/// Everything before this thread.
template <class Math>
__device__ __forceinline__ Open<Math> before_thread(const Tree<Math>& tree, bool any_before, const TreeStart& start) {
  const int thread = static_cast<int>(threadIdx.x);
  const int two = thread / kEight;
  Open<Math> sum{tree.before_two[two], any_before || TreeStart::follows(two / kEight, start.first[2]) ||
                                           TreeStart::follows(two, start.first[1])};
  if (TreeStart::follows(thread, start.first[0])) sum.add(tree.one[spread(thread)]);
  return sum;
}

}  // namespace planck::cuda
