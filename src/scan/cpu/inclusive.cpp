// From a job to a pass: the operands in scan order, the edge, and the carries.
#include "scan/cpu/inclusive.hpp"

#include "core/reference_loop.hpp"
#include "scan/carry.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

using backend::Choice;
using backend::Run;
using core::StridedLoop;
using scan::ScanJob;

ScanPass inclusive_scan(const Choice& choice, const ScanJob& job, const StridedLoop& loop) {
  ScanPass scan{scan_kernel(choice), loop, job.axis, job.reverse};
  if (job.key.initial) scan.edge = ScanEdge::First;
  return scan;
}

/// The engine goes on from totals and leaves totals; what else a carry holds is put beside them.
void run_with_carries(const Run& run, const ScanJob& job) noexcept {
  const StridedLoop& carries = *job.carries;
  StridedLoop loop = *job.loop;
  ScanPass scan = inclusive_scan(run.choice, job, loop);
  const std::int64_t length = loop.extent[job.axis];
  for (const int k : {scan::kCarryIn, scan::kCarryOut}) {
    core::LoopOperand& totals = loop.operand[loop.operands++] = carries.operand[k];
    const std::int64_t word = totals.stride[job.axis];
    if (totals.base != nullptr) totals.base += scan::kCarryTotals * word;
    totals.stride[job.axis] = 0;
    (k == scan::kCarryIn ? scan.carry.in_word : scan.carry.out_word) = word;
  }
  scan.carry.before = scan::carry_before(&carries, job.axis, {}, job.key)[scan::kCarryBefore];
  run_scan_pass(run.stream, scan, run.workspace);
  if (!scan::has_carry(&carries, scan::kCarryOut)) return;
  scan::for_each_row(carries, job.axis, [&](core::LoopIndex row) {
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
  run_scan_pass(run.stream, inclusive_scan(run.choice, job, *job.loop), run.workspace);
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
  ScanPass scan{scan_kernel(run.choice), loop, job.axis, !job.reverse};
  if (recurrence) scan.edge = ScanEdge::Last;
  scan.cuttable = cuttable;
  run_scan_pass(run.stream, scan, run.workspace);
}

}  // namespace planck::cpu
