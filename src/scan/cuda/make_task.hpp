// From a job to tasks for the kernels: the operands in the order of the scan, and where a ragged batch's segments are.
#pragma once

#include "scan/carry.hpp"
#include "scan/cuda/task.hpp"
#include "scan/job.hpp"

namespace planck::cuda {

using core::StridedLoop;
using scan::ScanJob;

inline constexpr std::int64_t kWordBytes = 8;

/// A task over the rows of a loop, without operands.
inline ScanTask make_task(const ScanJob& job, const StridedLoop& loop) {
  ScanTask task{};
  for (int d = 0; d < loop.rank; ++d) {
    if (d != job.axis) task.extent[task.rank++] = loop.extent[d];
  }
  task.rows = 1;
  for (int d = 0; d < task.rank; ++d) task.rows *= task.extent[d];
  task.length = loop.extent[job.axis];
  task.position_step = 1;
  return task;
}

/// One of a loop's operands, in the order of the scan.
inline void set_operand(ScanTask& task, int slot, const StridedLoop& loop, int axis, int operand, ElementKind element) {
  const core::LoopOperand& from = loop.operand[operand];
  ScanOperand& to = task.operand[slot];
  to.base = from.base;
  to.element = element;
  to.step = from.stride[axis];
  int lane_dim = 0;
  for (int d = 0; d < loop.rank; ++d) {
    if (d != axis) to.stride[lane_dim++] = from.stride[d];
  }
}

/// The same, from the scan's end on: step 0 is that of the last element that takes part.
inline void flip(ScanTask& task, int slot) {
  ScanOperand& operand = task.operand[slot];
  if (operand.base != nullptr) operand.base += (task.length - 1) * operand.step;
  operand.step = -operand.step;
}

/// Values of 8 bytes in the workspace for every step, where neighbouring threads find them side by side: columns next
/// to each other, or a row's steps.
inline ScanOperand fed_operand(const ScanJob& job, const StridedLoop& loop, const ScanTask& task, bool columns,
                               std::int64_t* values, ElementKind element) {
  ScanOperand fed{};
  fed.base = reinterpret_cast<std::byte*>(values);
  fed.element = element;
  std::int64_t next = kWordBytes;
  if (!columns) {
    fed.step = next;
    next *= task.length;
  }
  int lane_dim = task.rank;
  for (int d = loop.rank - 1; d >= 0; --d) {
    if (d == job.axis) {
      if (!columns) continue;
      fed.step = next;
      next *= task.length;
    } else {
      fed.stride[--lane_dim] = next;
      next *= loop.extent[d];
    }
  }
  return fed;
}

/// Drops dimensions of size 1 and makes neighbours one that all operands walk as one.
inline void collapse_lanes(ScanTask& task) {
  const auto erase = [&](int d) {
    --task.rank;
    for (int i = d; i < task.rank; ++i) {
      task.extent[i] = task.extent[i + 1];
      for (ScanOperand& operand : task.operand) operand.stride[i] = operand.stride[i + 1];
    }
  };
  for (int d = task.rank - 1; d >= 0; --d) {
    if (task.extent[d] == 1) erase(d);
  }
  for (int d = task.rank - 2; d >= 0; --d) {
    bool one = true;
    for (const ScanOperand& operand : task.operand) {
      one &= operand.base == nullptr || operand.stride[d] == operand.stride[d + 1] * task.extent[d + 1];
    }
    if (!one) continue;
    task.extent[d + 1] *= task.extent[d];
    erase(d);
  }
}

inline void set_forward(ScanTask& task, const ScanJob& job) {
  if (job.reverse) {
    task.position = task.length - 1;
    task.position_step = -1;
  }
  task.identity = scan::identity_word(job.key);
}

/// The segments of a ragged batch along a task's axis: that of the job, or its other end's (`mirrored`).
inline ScanSegments segments_along(const ScanJob& job, std::int64_t length, bool mirrored, bool exclusive_gradient) {
  const scan::Segments& segments = *job.segments;
  return {segments.offsets,
          segments.step,
          segments.element == ElementKind::S32,
          segments.count,
          length,
          job.reverse != mirrored,
          exclusive_gradient ? 1 : 0,
          segments.initial_step,
          segments.d_initial_step};
}

}  // namespace planck::cuda
