// Launches the kernels of a scan: which ones, the shape decides.
//
// Rows of up to 1024 steps: a warp or a part of it. Longer ones: a block of threads each, and if they are few and
// longer than a tile, a block for each tile. Columns: a thread each, and if they are long or few, one for each segment.
// Cut rows take three launches and read their inputs twice.
#pragma once

#include "cuda/launch.hpp"
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/segments.cuh"

namespace planck::cuda {

template <class Pass>
core::Status run_cut(const backend::Run& run, const ScanTask& task, std::int64_t blocks, int threads,
                     void (*kernel)(ScanTask, ScanMode)) noexcept {
  const int heads = task.segments <= numerics::block_size(3) ? kTileThreads / kEight : kTileThreads;
  PLANCK_TRY(launch(run, blocks, threads, kernel, task, ScanMode::Totals));
  PLANCK_TRY(launch(run, task.rows, heads, scan_heads<Pass>, task));
  return launch(run, blocks, threads, kernel, task, ScanMode::Finish);
}

/// Segments of a ragged batch: short ones a warp each, long ones a block, which the kernels find among them; columns a
/// thread each. None is cut, and nobody here knows their lengths.
template <class Pass>
core::Status run_segments(const scan::CudaScan& scan) noexcept {
  const auto& [run, task, schedule, segments] = scan;
  if (schedule.columns) {
    const std::int64_t chunks = (task.rows + kColumnThreads - 1) / kColumnThreads;
    return launch(run, segments->count * chunks, kColumnThreads, scan_segment_columns<Pass>, task, *segments);
  }
  const std::int64_t items = task.rows * segments->count;
  PLANCK_TRY(
      launch(run, (items + kShortWarps - 1) / kShortWarps, kShortThreads, scan_short_segments<Pass>, task, *segments));
  // No more can be long than this.
  const std::int64_t most = task.rows * (task.length / (kShortRow + 1));
  return launch(run, items < most ? items : most, kTileThreads, scan_long_segments<Pass>, task, *segments);
}

template <class Pass>
core::Status run_scan(const scan::CudaScan& scan) noexcept {
  if (scan.segments != nullptr) return run_segments<Pass>(scan);
  const backend::Run& run = scan.run;
  const ScanTask& task = scan.task;
  const ScanSchedule& schedule = scan.schedule;
  if (schedule.columns) {
    const std::int64_t threads = schedule.cut() ? task.rows * task.segments : task.rows;
    const std::int64_t blocks = (threads + kColumnThreads - 1) / kColumnThreads;
    if (schedule.cut()) return run_cut<Pass>(run, task, blocks, kColumnThreads, scan_columns<Pass>);
    return launch(run, blocks, kColumnThreads, scan_columns<Pass>, task, ScanMode::Whole);
  }
  if (schedule.cut()) return run_cut<Pass>(run, task, task.rows * task.segments, kTileThreads, scan_tiles<Pass>);
  if (task.length > kShortRow) {
    const int threads = task.length <= kTile / 2 ? kTileThreads / 2 : kTileThreads;
    return launch(run, task.rows, threads, scan_tiles<Pass>, task, ScanMode::Whole);
  }
  int threads = 1;
  while (threads < kWarp && threads * kEight < task.length) threads *= 2;
  const std::int64_t rows = std::int64_t{kWarp / threads} * kShortWarps;
  return launch(run, (task.rows + rows - 1) / rows, kShortThreads, scan_short_rows<Pass>, task, threads);
}

}  // namespace planck::cuda
