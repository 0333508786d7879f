// Launches the kernels of a scan: which ones, the shape decides.
//
// Rows of up to 1024 steps: a warp or a part of it. Longer ones: a block of threads each, and if they are few and
// longer than a tile, a block for each tile. Columns: a thread each, and if they are long or few, one for each segment.
// Cut rows take three launches and read their inputs twice.
#pragma once

#include "cuda/launch.hpp"
#include "scan/cuda/columns.cuh"
#include "scan/cuda/schedule.hpp"

namespace planck::cuda {

template <class Pass>
core::Status run_cut(const backend::Run& run, const ScanTask& task, std::int64_t blocks, int threads,
                     void (*kernel)(ScanTask, ScanMode)) noexcept {
  const int heads = task.segments <= numerics::block_size(3) ? kTileThreads / kEight : kTileThreads;
  PLANCK_TRY(launch(run, blocks, threads, kernel, task, ScanMode::Totals));
  PLANCK_TRY(launch(run, task.rows, heads, scan_heads<Pass>, task));
  return launch(run, blocks, threads, kernel, task, ScanMode::Finish);
}

template <class Pass>
core::Status run_scan(const backend::Run& run, const ScanTask& task, const ScanSchedule& schedule) noexcept {
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
