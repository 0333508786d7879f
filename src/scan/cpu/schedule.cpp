// Scans on the CPU: the kernel and the workspace that a plan keeps, and how a job is run by the engines of columns.hpp
// and rows.hpp.
#include <algorithm>
#include <span>

#include "core/reference_loop.hpp"
#include "cpu/entries.hpp"
#include "numerics/dispatch.hpp"
#include "scan/carry.hpp"
#include "scan/cpu/columns.hpp"
#include "scan/cpu/exclusive.hpp"
#include "scan/cpu/inclusive.hpp"
#include "scan/cpu/kernel_row.hpp"
#include "scan/cpu/rows.hpp"
#include "scan/scalar.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;
using scan::ScanJob;

const LaneScanKernel& scan_kernel(const Choice& choice) { return *kernel_in(choice, 0).scan; }

LaneScan inclusive_scan(const Choice& choice, const ScanJob& job, const StridedLoop& loop) {
  LaneScan scan{scan_kernel(choice), loop, job.axis, job.reverse};
  if (job.key.initial) scan.edge = ScanEdge::First;
  return scan;
}

/// The engine goes on from totals and leaves totals; what else a carry holds is put beside them.
void run_with_carries(const Run& run, const ScanJob& job) noexcept {
  const StridedLoop& carries = *job.carries;
  StridedLoop loop = *job.loop;
  LaneScan scan = inclusive_scan(run.choice, job, loop);
  const std::int64_t length = loop.extent[job.axis];
  for (const int k : {scan::kCarryIn, scan::kCarryOut}) {
    core::LoopOperand& totals = loop.operand[loop.operands++] = carries.operand[k];
    const std::int64_t word = totals.stride[job.axis];
    if (totals.base != nullptr) totals.base += scan::kCarryTotals * word;
    totals.stride[job.axis] = 0;
    (k == scan::kCarryIn ? scan.carry.in_word : scan.carry.out_word) = word;
  }
  scan.carry.before = scan::carry_before(&carries, job.axis, {}, job.key)[scan::kCarryBefore];
  run_lane_scan(run.stream, scan, run.workspace);
  if (!scan::has_carry(&carries, scan::kCarryOut)) return;
  scan::for_each_lane(carries, job.axis, [&](core::LoopIndex row) {
    const scan::CarryWords words = scan::carry_before(&carries, job.axis, row, job.key);
    for (const int k : {scan::kCarryId, scan::kCarryBefore, scan::kCarryValue}) {
      row[job.axis] = k;
      core::cell_at(carries, row, scan::kCarryOut).set(words[k] + (k == scan::kCarryBefore ? length : 0));
    }
  });
}

}  // namespace

void run_inclusive(const Run& run, const ScanJob& job) noexcept {
  if (job.carries != nullptr) return run_with_carries(run, job);
  run_lane_scan(run.stream, inclusive_scan(run.choice, job, *job.loop), run.workspace);
}

bool backward_cuttable(const ScanJob& job) noexcept {
  const auto base = [&](int k) { return job.loop->operand[k].base; };
  if (job.key.kind == ScanKind::LinearRecurrence) {
    const std::byte* const h = base(scan::kH);
    return h == nullptr || (base(job.inputs) != h && base(job.inputs + 1) != h);
  }
  const bool over_x = job.key.reads_x() && base(scan::kX) == base(job.inputs);
  return !over_x || (!job.key.is_fed() && !job.key.exclusive);
}

void run_inclusive_backward(const Run& run, const ScanJob& job, bool cuttable) noexcept {
  StridedLoop& loop = *job.loop;
  if (loop.count() == 0) return;
  loop.flip_dim(job.axis);
  const bool recurrence = job.key.kind == ScanKind::LinearRecurrence;
  if (auto& h = loop.operand[scan::kH]; recurrence && h.base != nullptr) {
    h.base += h.stride[job.axis];  // each step reads the h before its own
  }
  LaneScan scan{scan_kernel(run.choice), loop, job.axis, !job.reverse};
  if (recurrence) scan.edge = ScanEdge::Last;
  scan.cuttable = cuttable;
  run_lane_scan(run.stream, scan, run.workspace);
}

Status prepare_scan(const ScanJob& job, Selection& selection) noexcept {
  std::span<const KernelRow> rows;
  scan::with_element(job.key.element, [&]<class T>(T) { rows = scan_kernels<T>(selection.choice.arch); });
  PLANCK_TRY(take_kernel(selection, 0, rows, scan::kernel_row(job.key, nullptr, job.backward)));
  const LaneScanKernel& kernel = scan_kernel(selection.choice);
  const LaneStates states{kernel.parts, kernel.lags, kernel.feed == nullptr ? 0 : kernel.feed->parts};
  const std::int64_t length = job.loop->extent[job.axis];
  const std::int64_t lanes = length == 0 ? 0 : job.loop->count() / length;
  const int threads = selection.request.stream.threads();
  // An exclusive scan has one element less, and that may be cut otherwise.
  for (const std::int64_t scanned : {length, job.key.exclusive ? length - 1 : length}) {
    selection.want_workspace(lane_scan_workspace(lanes, scanned, states, threads));
  }
  return {};
}

Status run_scan(const Run& run, const ScanJob& job) noexcept {
  if (job.loop->count() == 0) {
    scan::run_empty(job);
  } else if (job.backward) {
    job.key.exclusive ? run_exclusive_backward(run, job) : run_inclusive_backward(run, job, backward_cuttable(job));
  } else {
    job.key.exclusive ? run_exclusive(run, job) : run_inclusive(run, job);
  }
  return {};
}

bool run_small_scan(const Choice& choice, const ScanJob& job, void* const* operands, std::int64_t n) noexcept {
  const std::int64_t first = job.reverse ? (n - 1) * size_of(job.key.element) : 0;
  const LaneScanKernel& kernel = scan_kernel(choice);
  if (kernel.row == nullptr) return false;
  RowRun run{};
  run.input[0] = static_cast<const std::byte*>(operands[0]) + first;
  run.output[0] = static_cast<std::byte*>(operands[1]) + first;
  run.input_back[0] = run.output_back[0] = job.reverse;
  run.n = n;
  run.position = job.reverse ? n - 1 : 0;
  run.position_step = job.reverse ? -1 : 1;
  run.lag = kernel.lag_start;
  run.writes = true;
  kernel.row(run);
  return true;
}

}  // namespace planck::cpu
