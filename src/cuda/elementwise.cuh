// The elementwise engine: an operation on values of a compute type, over operands of any kind and strides.
//
// An operation is a struct with
//   Compute                        float or double
//   kTensors, kParams, kOutputs    its operands, in this order; params are inputs that often are broadcast along a row
//   State state(const Compute (&param)[])                               what params make of themselves, e.g. 1 / scale
//   kStored, kFirstSummed          how many outputs, the first ones, ever are stored; from which one on they are summed
//   void operator()(const State&, const Compute (&in)[], Compute (&out)[])   one element
// The loop is collapsed first. Where every operand is broadcast or has no gaps along the inner dimension, a thread
// takes a chunk of elements that follow each other, in 16-byte vectors; the output's alignment decides where chunks
// begin, so that only a row's first and last one are partial. Threads are dealt out over several short rows or parts of
// a long one. Anything else goes element by element, neighbouring threads along the inner dimension, in tiles where an
// operand is transposed.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>

#include "core/layout.hpp"
#include "cuda/access.cuh"
#include "cuda/launch.hpp"

namespace planck::cuda {

/// Elements of a chunk: two 16-byte vectors of the compute type, one of a 16-bit kind.
template <class C>
inline constexpr int kChunk = 32 / static_cast<int>(sizeof(C));

/// An operation and its operands. What an absent input is read as is told for each.
template <class Op>
struct ElementwiseJob {
  using C = typename Op::Compute;
  static constexpr int kInputs = Op::kTensors + Op::kParams;
  static constexpr int kOperands = kInputs + Op::kOutputs;

  Op op;
  core::StridedLoop loop;
  std::array<ElementKind, kOperands> kind;
  std::array<C, kInputs> absent{};

  PLANCK_HOST_DEVICE std::int64_t inner_stride(int k) const { return loop.operand[k].stride[loop.rank - 1]; }
};

/// Moves the operands by index number `index` of the first `dims` dimensions, the last of them fastest.
template <class Op>
__device__ __forceinline__ void move_operands(const ElementwiseJob<Op>& job, int dims, std::int64_t index,
                                              std::byte* (&at)[ElementwiseJob<Op>::kOperands]) {
  for (int d = dims - 1; d >= 0; --d) {
    const std::int64_t rest = d == 0 ? 0 : index / job.loop.extent[d];
    const std::int64_t along = index - rest * job.loop.extent[d];
    index = rest;
#pragma unroll
    for (int k = 0; k < ElementwiseJob<Op>::kOperands; ++k) {
      if (at[k] != nullptr) at[k] += along * job.loop.operand[k].stride[d];
    }
  }
}

/// A row of a job as one thread sees it: where its operands are, and the state of parameters that are broadcast along
/// it.
template <class Op>
struct Row {
  using C = typename Op::Compute;

  std::byte* at[ElementwiseJob<Op>::kOperands];
  typename Op::State state;
  bool states_move;  ///< from element to element

  __device__ __forceinline__ static bool moves(const ElementwiseJob<Op>& job, int k) {
    return job.loop.operand[k].base != nullptr && job.inner_stride(k) != 0;
  }

  /// Row number `row` of the outer dimensions, counted with the last one fastest.
  __device__ __forceinline__ Row(const ElementwiseJob<Op>& job, std::int64_t row) : states_move(false) {
#pragma unroll
    for (int k = 0; k < ElementwiseJob<Op>::kOperands; ++k) at[k] = job.loop.operand[k].base;
    move_operands(job, job.loop.rank - 1, row, at);
    C param[Op::kParams + 1];  // no array is empty
#pragma unroll
    for (int p = 0; p < Op::kParams; ++p) {
      const int k = Op::kTensors + p;
      param[p] = at[k] == nullptr || moves(job, k) ? job.absent[k] : load_one<C>(at[k], job.kind[k]);
      states_move |= moves(job, k);
    }
    state = job.op.state(param);
  }
};

/// Evaluates the places first <= i < last of the chunk that starts at `start`, calls taken(i, values) for each of the
/// chunk in turn, and stores the outputs that are present. All inputs are read before anything is written. Values of
/// places outside are anything.
template <class Op, class Taken>
__device__ __forceinline__ void run_chunk(const ElementwiseJob<Op>& job, const Row<Op>& row, std::int64_t start,
                                          int first, int last, const Taken& taken) {
  using C = typename Op::Compute;
  constexpr int kN = kChunk<C>;
  constexpr int kInputs = ElementwiseJob<Op>::kInputs;
  C in[kInputs][kN];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) {
#pragma unroll
    for (int i = 0; i < kN; ++i) in[k][i] = job.absent[k];
    // Also what does not move, which would take registers to keep.
    if (row.at[k] != nullptr && (k < Op::kTensors || row.states_move)) {
      const std::int64_t stride = job.inner_stride(k);
      load_chunk(in[k], row.at[k] + start * stride, stride, job.kind[k], first, last);
    }
  }
  C out[Op::kStored + 1][kN];
  const auto evaluate = [&](const typename Op::State& state, int i) {
    C x[Op::kTensors];
    C y[Op::kOutputs];
#pragma unroll
    for (int k = 0; k < Op::kTensors; ++k) x[k] = in[k][i];
    job.op(state, x, y);
    taken(i, y);
#pragma unroll
    for (int o = 0; o < Op::kStored; ++o) out[o][i] = y[o];
  };
  if (row.states_move) {
#pragma unroll
    for (int i = 0; i < kN; ++i) {
      C param[Op::kParams + 1];
#pragma unroll
      for (int p = 0; p < Op::kParams; ++p) param[p] = in[Op::kTensors + p][i];
      evaluate(job.op.state(param), i);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kN; ++i) evaluate(row.state, i);
  }
#pragma unroll
  for (int o = 0; o < Op::kStored; ++o) {
    if (row.at[kInputs + o] == nullptr) continue;
    const std::int64_t stride = job.inner_stride(kInputs + o);
    store_chunk(out[o], row.at[kInputs + o] + start * stride, stride, job.kind[kInputs + o], first, last);
  }
}

inline constexpr int kElementwiseThreads = 256;

/// How threads are dealt out over rows.
struct RowSplit {
  std::int64_t rows;
  std::int64_t segments;            ///< of each row, a block's work
  std::int64_t chunks_per_segment;  ///< the last one takes what is left
  int threads_per_row;
  int leader;       ///< the output that chunks are aligned to
  int leader_bits;  ///< log2 of its element's bytes
};

template <class Op>
__global__ void __launch_bounds__(kElementwiseThreads, 2)
    elementwise_rows(const ElementwiseJob<Op> job, const RowSplit split) {
  using C = typename Op::Compute;
  constexpr int kN = kChunk<C>;
  const int thread = static_cast<int>(threadIdx.x);
  const int rows_per_block = kElementwiseThreads / split.threads_per_row;
  const int local = thread / split.threads_per_row;
  const int lane = thread - local * split.threads_per_row;
  if (local >= rows_per_block) return;
  const std::int64_t length = job.loop.extent[job.loop.rank - 1];
  const std::int64_t items = (split.rows + rows_per_block - 1) / rows_per_block * split.segments;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const std::int64_t group = split.segments == 1 ? item : item / split.segments;
    const std::int64_t segment = item - group * split.segments;
    const std::int64_t number = group * rows_per_block + local;
    if (number >= split.rows) continue;
    const Row<Op> row(job, number);
    std::uintptr_t leader = 0;
#pragma unroll
    for (int k = ElementwiseJob<Op>::kInputs; k < ElementwiseJob<Op>::kOperands; ++k) {
      if (k == split.leader) leader = reinterpret_cast<std::uintptr_t>(row.at[k]);
    }
    const auto mask = static_cast<std::uintptr_t>(chunk_alignment<kN>(std::int64_t{1} << split.leader_bits) - 1);
    const int head = static_cast<int>((-leader & mask) >> split.leader_bits);
    const int shift = (kN - head) % kN;  // chunk c starts at c * kN - shift
    const std::int64_t chunks = (length + shift + kN - 1) / kN;
    const std::int64_t begin = segment * split.chunks_per_segment;
    const std::int64_t end = segment + 1 == split.segments ? chunks : begin + split.chunks_per_segment;
    for (std::int64_t c = begin + lane; c < end; c += split.threads_per_row) {
      const std::int64_t start = c * kN - shift;
      const int first = start < 0 ? static_cast<int>(-start) : 0;
      const int last = length - start < kN ? static_cast<int>(length - start) : kN;
      run_chunk(job, row, start, first, last, [](int, const auto&) {});
    }
  }
}

/// How single elements are dealt out: in the loop's order or, where an operand is transposed, in tiles of its last two
/// dimensions.
struct Scatter {
  std::int64_t count;         ///< elements or tiles
  std::int64_t inner_tiles;   ///< of a row of tiles; 0: elements in order
  std::int64_t second_tiles;  ///< along the second last dimension
};
inline constexpr int kTransposeTile = 32;

template <class Op>
__device__ __forceinline__ void run_element(const ElementwiseJob<Op>& job,
                                            std::byte* const (&at)[ElementwiseJob<Op>::kOperands]) {
  using C = typename Op::Compute;
  constexpr int kInputs = ElementwiseJob<Op>::kInputs;
  C in[kInputs];
#pragma unroll
  for (int k = 0; k < kInputs; ++k) in[k] = at[k] == nullptr ? job.absent[k] : load_one<C>(at[k], job.kind[k]);
  C x[Op::kTensors];
  C param[Op::kParams + 1];
  C y[Op::kOutputs];
#pragma unroll
  for (int k = 0; k < Op::kTensors; ++k) x[k] = in[k];
#pragma unroll
  for (int p = 0; p < Op::kParams; ++p) param[p] = in[Op::kTensors + p];
  job.op(job.op.state(param), x, y);
#pragma unroll
  for (int o = 0; o < Op::kOutputs; ++o) {
    if (at[kInputs + o] != nullptr) store_one(at[kInputs + o], job.kind[kInputs + o], y[o]);
  }
}

/// One element for each thread: for strides and rows that no vector fits. In a tile a warp goes along the inner
/// dimension and the block's other warps along the second last one, so that what a transposed operand has in one line
/// of memory is used while the cache holds it.
template <class Op>
__global__ void __launch_bounds__(kElementwiseThreads, 2)
    elementwise_scattered(const ElementwiseJob<Op> job, const Scatter scatter) {
  constexpr int kOperands = ElementwiseJob<Op>::kOperands;
  const int rank = job.loop.rank;
  const bool tiled = scatter.inner_tiles != 0;
  const std::int64_t items = tiled ? scatter.count : (scatter.count + kElementwiseThreads - 1) / kElementwiseThreads;
  for (std::int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    std::int64_t index = item * kElementwiseThreads + threadIdx.x;
    std::int64_t i = 0;
    std::int64_t j = 0;
    if (tiled) {
      const std::int64_t tile = item / scatter.inner_tiles;
      index = tile / scatter.second_tiles;
      i = (item - tile * scatter.inner_tiles) * kTransposeTile + threadIdx.x % kTransposeTile;
      j = (tile - index * scatter.second_tiles) * kTransposeTile + threadIdx.x / kTransposeTile;
      if (i >= job.loop.extent[rank - 1]) continue;
    } else if (index >= scatter.count) {
      continue;
    }
    std::byte* start[kOperands];
#pragma unroll
    for (int k = 0; k < kOperands; ++k) start[k] = job.loop.operand[k].base;
    move_operands(job, tiled ? rank - 2 : rank, index, start);
    if (!tiled) {
      run_element(job, start);
      continue;
    }
    const std::int64_t left = job.loop.extent[rank - 2] - j;
    for (int step = 0; step < kTransposeTile && step < left; step += kElementwiseThreads / kTransposeTile) {
      std::byte* at[kOperands];
#pragma unroll
      for (int k = 0; k < kOperands; ++k) {
        const core::LoopOperand& operand = job.loop.operand[k];
        at[k] = start[k];
        if (at[k] != nullptr) at[k] += i * operand.stride[rank - 1] + (j + step) * operand.stride[rank - 2];
      }
      run_element(job, at);
    }
  }
}

/// Whether every operand is broadcast or has no gaps along the inner dimension, and a row is worth a chunk.
template <class Op>
bool runs_in_chunks(const ElementwiseJob<Op>& job, int leader) {
  if (job.loop.extent[job.loop.rank - 1] < kChunk<typename Op::Compute>) return false;
  for (int k = 0; k < ElementwiseJob<Op>::kOperands; ++k) {
    if (job.loop.operand[k].base == nullptr) continue;
    const std::int64_t stride = job.inner_stride(k);
    if (stride != size_of(job.kind[k]) && (stride != 0 || k == leader)) return false;
  }
  return true;
}

template <class Op>
RowSplit split_rows(const ElementwiseJob<Op>& job, int leader) {
  constexpr int kN = kChunk<typename Op::Compute>;
  const core::LoopOperand& to = job.loop.operand[leader];
  const std::int64_t bytes = size_of(job.kind[leader]);
  const std::int64_t alignment = chunk_alignment<kN>(bytes);
  std::int64_t shifted = reinterpret_cast<std::uintptr_t>(to.base) % static_cast<std::uintptr_t>(alignment) != 0;
  for (int d = 0; d < job.loop.rank - 1; ++d) shifted |= to.stride[d] % alignment != 0;
  const std::int64_t length = job.loop.extent[job.loop.rank - 1];
  const std::int64_t chunks = (length + kN - 1) / kN + shifted;  // rows may begin in the middle of a chunk

  RowSplit split{};
  split.leader = leader;
  while ((std::int64_t{1} << split.leader_bits) < bytes) ++split.leader_bits;
  split.rows = job.loop.count() / length;
  split.segments = 1;
  if (chunks > kElementwiseThreads) {
    // Two thousand blocks fill a large device; only beyond that is it worth walking on in the same row.
    const std::int64_t blocks = split.rows * (chunks / kElementwiseThreads);
    const std::int64_t steps = std::clamp<std::int64_t>(blocks / 2048, 1, 4);
    split.threads_per_row = kElementwiseThreads;
    split.chunks_per_segment = steps * kElementwiseThreads;
    split.segments = (chunks + split.chunks_per_segment - 1) / split.chunks_per_segment;
  } else {
    // More than half a block's threads, but not all: two steps each, and more rows in the block.
    const bool half = chunks > kElementwiseThreads / 2 && chunks < kElementwiseThreads;
    split.threads_per_row = static_cast<int>(half ? (chunks + 1) / 2 : chunks);
    split.chunks_per_segment = chunks;
  }
  return split;
}

/// The dimension along which a transposed operand has its elements closest together, or -1.
template <class Op>
int transposed_dim(const ElementwiseJob<Op>& job) {
  for (int k = 0; k < ElementwiseJob<Op>::kOperands; ++k) {
    if (job.loop.operand[k].base == nullptr) continue;
    int closest = job.loop.rank - 1;
    for (int d = closest - 1; d >= 0; --d) {
      const auto stride = [&](int dim) { return std::abs(job.loop.operand[k].stride[dim]); };
      if (stride(d) != 0 && stride(d) < stride(closest)) closest = d;
    }
    if (closest != job.loop.rank - 1) return closest;
  }
  return -1;
}

template <class Op>
core::Status run_scattered(const backend::Run& run, ElementwiseJob<Op> job, std::int64_t count) noexcept {
  core::StridedLoop& loop = job.loop;
  Scatter scatter{count, 0, 0};
  std::int64_t blocks = (count + kElementwiseThreads - 1) / kElementwiseThreads;
  const int dim = transposed_dim(job);
  const std::int64_t inner = loop.extent[loop.rank - 1];
  if (dim >= 0 && inner >= kTransposeTile / 2 && loop.extent[dim] >= 4) {
    const std::int64_t second = loop.extent[dim];
    loop.move_dim(dim, loop.rank - 2);
    scatter.inner_tiles = (inner + kTransposeTile - 1) / kTransposeTile;
    scatter.second_tiles = (second + kTransposeTile - 1) / kTransposeTile;
    blocks = count / inner / second * scatter.inner_tiles * scatter.second_tiles;
    scatter.count = blocks;
  }
  return launch(run, blocks, kElementwiseThreads, elementwise_scattered<Op>, job, scatter);
}

/// Runs the job's operation on every element of its loop, which has the operands of the job and no others.
template <class Op>
core::Status run_elementwise(const backend::Run& run, ElementwiseJob<Op> job) noexcept {
  const std::int64_t count = job.loop.count();
  int leader = ElementwiseJob<Op>::kOperands - 1;
  while (leader >= ElementwiseJob<Op>::kInputs && job.loop.operand[leader].base == nullptr) --leader;
  if (count == 0 || leader < ElementwiseJob<Op>::kInputs) return {};
  core::collapse(job.loop);
  if (job.loop.rank == 0) job.loop.append_unit_dim();
  if (!runs_in_chunks(job, leader)) return run_scattered(run, job, count);
  const RowSplit split = split_rows(job, leader);
  const int rows_per_block = kElementwiseThreads / split.threads_per_row;
  const std::int64_t blocks = (split.rows + rows_per_block - 1) / rows_per_block * split.segments;
  return launch(run, blocks, kElementwiseThreads, elementwise_rows<Op>, job, split);
}

}  // namespace planck::cuda
