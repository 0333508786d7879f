// Scans on the CPU as the backend's table has them: the kernel and the workspace that a plan keeps, and its jobs.
#include <span>

#include "core/small_operands.hpp"
#include "cpu/entries.hpp"
#include "scan/carry.hpp"
#include "scan/cpu/exclusive.hpp"
#include "scan/cpu/inclusive.hpp"
#include "scan/cpu/kernel_row.hpp"
#include "scan/cpu/ragged.hpp"
#include "scan/cpu/schedule.hpp"
#include "scan/scalar.hpp"

namespace planck::cpu {

using scan::ScanJob;

namespace {

void run_one(const Run& run, const ScanJob& job) noexcept {
  if (job.loop->count() == 0) {
    scan::run_empty(job);
  } else if (job.backward) {
    job.key.exclusive ? run_exclusive_backward(run, job) : run_inclusive_backward(run, job, backward_cuttable(job));
  } else {
    job.key.exclusive ? run_exclusive(run, job) : run_inclusive(run, job);
  }
}

/// A row from one tensor (or two) to another, without anything beside it.
bool is_one_short_row(const ScanJob& job, const ScanKernel& kernel) {
  const std::int64_t length = job.loop->extent[job.axis];
  return length > 0 && length <= core::SmallOperands::kMaxElements && job.loop->count() == length &&
         kernel.row != nullptr && kernel.inputs <= 2 && kernel.outputs == 1 && kernel.feed == nullptr &&
         !job.key.exclusive && !job.key.initial && !job.segments && !job.backward;
}

}  // namespace

Status prepare_scan(const ScanJob& job, Selection& selection) noexcept {
  std::span<const KernelRow> kernels;
  scan::with_element(job.key.element, [&]<class T>(T) { kernels = scan_kernels<T>(selection.choice.arch); });
  PLANCK_TRY(take_kernel(selection, 0, kernels, scan::kernel_row(job.key, nullptr, job.backward)));
  const ScanKernel& kernel = scan_kernel(selection.choice);
  const ScanStates states{kernel.parts, kernel.lags, kernel.feed == nullptr ? 0 : kernel.feed->parts};
  const std::int64_t length = job.loop->extent[job.axis];
  const std::int64_t rows = length == 0 ? 0 : job.loop->count() / length;
  if (is_one_short_row(job, kernel)) selection.choice.small_elements = static_cast<std::int32_t>(length);
  const int threads = selection.request.stream.threads();
  if (job.segments) {
    selection.want_workspace(segments_workspace(rows, length, rows * size_of(job.key.element), states, threads));
    return {};
  }
  // An exclusive scan has one element less, and that may be cut otherwise.
  for (const std::int64_t scanned : {length, job.key.exclusive ? length - 1 : length}) {
    selection.want_workspace(scan_workspace(rows, scanned, states, threads));
  }
  return {};
}

Status run_scan(const Run& run, const ScanJob& job) noexcept {
  job.segments ? run_segments(run, job, run_one) : run_one(run, job);
  return {};
}

bool run_small_scan(const Choice& choice, const ScanJob& job, void* const* operands, std::int64_t n) noexcept {
  const ScanKernel& kernel = scan_kernel(choice);
  const std::int64_t first = job.reverse ? (n - 1) * size_of(job.key.element) : 0;
  RowRun run = row_run(kernel);
  run.input[0] = static_cast<const std::byte*>(operands[0]) + first;
  run.input_back[0] = run.output_back = job.reverse;
  void* output = operands[1];
  if (kernel.inputs == 2) {  // no loop: it took 40 instructions
    run.input[1] = static_cast<const std::byte*>(operands[1]) + first;
    run.input_back[1] = job.reverse;
    output = operands[2];
  }
  run.output[0] = static_cast<std::byte*>(output) + first;
  run.n = n;
  run.position = job.reverse ? n - 1 : 0;
  run.position_step = job.reverse ? -1 : 1;
  run.writes = true;
  kernel.row(run);
  return true;
}

}  // namespace planck::cpu
