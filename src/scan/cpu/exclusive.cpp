// Exclusive scans: operands moved by one place, and the element that the inclusive scan leaves over.
#include "scan/cpu/exclusive.hpp"

#include <cstring>

#include "core/reference_loop.hpp"
#include "scan/carry.hpp"
#include "scan/cpu/inclusive.hpp"
#include "scan/scalar.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;
using scan::ScanJob;

/// Moves n elements one place on, all but the last.
void move_on(std::byte* row, std::int64_t n, std::int64_t step, std::int64_t element_bytes) {
  for (std::int64_t t = n - 1; t > 0; --t) {
    std::memcpy(row + t * step, row + (t - 1) * step, static_cast<std::size_t>(element_bytes));
  }
}

}  // namespace

/// Inclusive over all but the last element, one place further on; the prefix before comes first. In place, where the
/// results' places still hold elements, they are moved on afterwards; so they are if there are carries, as the next
/// piece needs the last element too.
void run_exclusive(const backend::Run& run, const ScanJob& job) noexcept {
  StridedLoop& loop = *job.loop;
  const int axis = job.axis;
  const std::int64_t n = loop.extent[axis];
  auto& y = loop.operand[1];
  const std::int64_t step = y.stride[axis];
  const bool moved = job.carries != nullptr || loop.operand[0].base == y.base;
  std::byte* const first = y.base;
  if (job.carries == nullptr) loop.extent[axis] = n - 1;
  if (!moved) y.base += step;
  run_inclusive(run, job);
  y.base = first;
  loop.extent[axis] = 1;
  scan::with_element(job.key.element, [&]<class T>(T) {
    core::for_each_loop_index(loop, [&](core::LoopIndex index) {
      const core::Cell to = core::cell_at(loop, index, 1);
      T prefix = scan::from_word<T>(scan::identity_word(job.key));
      index[axis] = scan::kCarryValue;
      if (scan::has_carry(job.carries, scan::kCarryIn)) {
        prefix = scan::from_word<T>(core::cell_at(*job.carries, index, scan::kCarryIn).get<std::int64_t>());
      }
      if (scan::has_carry(job.carries, scan::kCarryOut)) {
        const T last = core::Cell(to.address() + (n - 1) * step).get<T>();
        core::cell_at(*job.carries, index, scan::kCarryOut).set(scan::to_word(last));
      }
      if (moved) move_on(to.address(), n, step, sizeof(T));
      to.set(prefix);
    });
  });
}

/// y[t + 1] is made of x[0] … x[t]: the inclusive pass with dy and y one place further on. Nothing uses the last x.
void run_exclusive_backward(const backend::Run& run, const ScanJob& job) noexcept {
  StridedLoop& loop = *job.loop;
  const int axis = job.axis;
  StridedLoop ends = loop;
  const bool cuttable = backward_cuttable(job);
  const std::int64_t n = loop.extent[axis]--;
  const std::int64_t element_bytes = loop.operand[job.inputs].element_bytes;
  const auto moves = [&](int k) { loop.operand[k].base += loop.operand[k].stride[axis]; };
  // In place dx moves on too, as a place before still holds what a later step reads, and is moved back afterwards.
  bool in_place = false;
  for (int k = 0; k < job.inputs; ++k) in_place |= loop.operand[k].base == loop.operand[job.inputs].base;
  moves(0);
  if (job.key.reads_y()) moves(job.inputs - 1);
  if (in_place) moves(job.inputs);
  run_inclusive_backward(run, job, cuttable);
  ends.flip_dim(axis);
  ends.extent[axis] = 1;
  const std::int64_t step = ends.operand[job.inputs].stride[axis];
  core::for_each_index(ends, [&](const auto& cell) {
    std::byte* const last = cell(job.inputs).address();
    if (in_place) move_on(last, n, step, element_bytes);
    std::memset(last, 0, static_cast<std::size_t>(element_bytes));  // +0 of every kind
  });
}

}  // namespace planck::cpu
