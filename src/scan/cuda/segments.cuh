// Ragged batches: the same walks over one segment at a time, as a task of its own in shared memory.
//
// Offsets are read here and nowhere else. Whatever they hold, a segment lies inside the axis: bad ones give results of
// no meaning, and touch nothing outside the tensors.
#pragma once

#include "scan/cuda/columns.cuh"

namespace planck::cuda {

/// A segment's steps along the axis.
struct SegmentPlace {
  std::int64_t start;
  std::int64_t elements;  ///< before any is left out
  std::int64_t length;

  __device__ __forceinline__ SegmentPlace(const ScanSegments& segments, std::int64_t i) {
    const std::int64_t begin = inside(segments, i, 0);
    const std::int64_t end = inside(segments, i + 1, begin);
    elements = end - begin;
    start = (segments.mirrored ? segments.length - end : begin) + segments.left_out;
    length = elements > segments.left_out ? elements - segments.left_out : 0;
  }

 private:
  static __device__ __forceinline__ std::int64_t inside(const ScanSegments& segments, std::int64_t i,
                                                        std::int64_t least) {
    const std::byte* const at = segments.offsets + i * segments.offset_step;
    const std::int64_t offset =
        segments.narrow ? *reinterpret_cast<const std::int32_t*>(at) : *reinterpret_cast<const std::int64_t*>(at);
    const std::int64_t most = offset < segments.length ? offset : segments.length;
    return most > least ? most : least;
  }
};

/// The task of one segment after another, in shared memory.
struct SegmentTask {
  ScanTask task;
  std::byte* base[kScanSlots];  ///< of the whole axis

  /// By one thread.
  __device__ __forceinline__ void take(const ScanTask& whole) {
    task = whole;
#pragma unroll
    for (int k = 0; k < kScanSlots; ++k) base[k] = whole.operand[k].base;
  }
  /// By at least kScanSlots threads, of which `thread` is one, while none of them uses the task.
  __device__ __forceinline__ void enter(const ScanSegments& segments, std::int64_t i, const SegmentPlace& place,
                                        int thread) {
    if (thread == 0) {
      task.length = place.length;
      task.position = task.position_step < 0 ? place.elements - 1 : 0;
    }
    if (thread >= kScanSlots || base[thread] == nullptr) return;
    std::int64_t moved = place.start * task.operand[thread].step;
    if (thread == kScanInitial) moved = i * segments.initial_step;
    if (thread == kScanOut + scan::kDInitial) moved = i * segments.d_initial_step;
    task.operand[thread].base = base[thread] + moved;
  }
};

/// Segments of up to kShortRow steps in every row, a warp each.
template <class Pass>
__global__ void __launch_bounds__(kShortThreads, kShortBlocks<Pass>)
    scan_short_segments(const ScanTask task, const ScanSegments segments) {
  __shared__ Quad staging[kShortWarps * kStageQuads];
  __shared__ SegmentTask tasks[kShortWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  SegmentTask& own = tasks[warp];
  if (lane == 0) own.take(task);
  __syncwarp();
  const std::int64_t items = task.rows * segments.count;
  for (std::int64_t item = std::int64_t{blockIdx.x} * kShortWarps + warp; item < items;
       item += std::int64_t{gridDim.x} * kShortWarps) {
    const std::int64_t row = item / segments.count;
    const std::int64_t i = item - row * segments.count;
    const SegmentPlace place(segments, i);
    if (place.length == 0 || place.length > kShortRow) continue;
    own.enter(segments, i, place, lane);
    __syncwarp();
    walk_short_rows<Pass>(own.task, kWarp, staging + warp * kStageQuads, row, task.rows);
    __syncwarp();
  }
}

/// The longer ones, a block of threads each.
template <class Pass>
__global__ void __launch_bounds__(kTileThreads, 1)
    scan_long_segments(const ScanTask task, const ScanSegments segments) {
  __shared__ TileMemory<Pass> memory;
  __shared__ SegmentTask own;
  // Which segment of which row, in shared memory too: the walk needs all registers.
  __shared__ std::int64_t item;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) {
    own.take(task);
    item = blockIdx.x;
  }
  for (;;) {
    __syncthreads();
    if (item >= task.rows * segments.count) break;
    const std::int64_t row = item / segments.count;
    const std::int64_t i = item - row * segments.count;
    const SegmentPlace place(segments, i);
    if (place.length > kShortRow) {
      own.enter(segments, i, place, thread);
      __syncthreads();
      walk_tiles<Pass, true>(own.task, ScanMode::Whole, memory, row);  // ends with a barrier
    } else {
      __syncthreads();
    }
    if (thread == 0) item += gridDim.x;
  }
}

/// Columns side by side, a thread each: a block of threads has one segment of so many of them.
template <class Pass>
__global__ void __launch_bounds__(kColumnThreads, 2)
    scan_segment_columns(const ScanTask task, const ScanSegments segments) {
  __shared__ SegmentTask own;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread == 0) own.take(task);
  __syncthreads();
  const std::int64_t chunks = (task.rows + kColumnThreads - 1) / kColumnThreads;
  for (std::int64_t item = blockIdx.x; item < segments.count * chunks; item += gridDim.x) {
    const std::int64_t i = item / chunks;
    const SegmentPlace place(segments, i);
    if (place.length == 0) continue;
    own.enter(segments, i, place, thread);
    __syncthreads();
    walk_columns<Pass>(own.task, ScanMode::Whole, (item - i * chunks) * kColumnThreads + thread, task.rows);
    __syncthreads();
  }
}

}  // namespace planck::cuda
