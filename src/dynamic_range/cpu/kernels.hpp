// The rows of the kernel list that dynamic-range quantisation keeps, and their parameters.
#pragma once

#include <array>
#include <cstdint>

#include "cpu/sum_kernels.hpp"
#include "dynamic_range/job.hpp"
#include "quantize/cpu/kernel_row.hpp"

namespace planck::quantize {

/// Parameters of Formula::DynamicRows: segments of contiguous elements. Outputs that are not wanted are null.
struct DynamicRows {
  scalar::RangeRule rule;
  bool narrow_scale;  ///< scales are stored in the elements' own 16-bit kind
  std::int64_t count;
  std::array<std::int64_t, dynamic_operand::kOperands> stride;  ///< bytes from one row to the next
};

/// Parameters of Formula::ColumnRanges: rows that lie `stride` bytes apart.
struct RowsOfColumns {
  std::int64_t count;
  std::int64_t stride;
  bool symmetric;  ///< only the largest magnitude is asked for
};

}  // namespace planck::quantize

namespace planck::cpu {

using quantize::DynamicRangeJob;
using quantize::RowsOfColumns;
using scalar::Compute;
using scalar::Range;

/// What a plan has kept, by its slots.
struct DynamicKernels {
  const KernelRow& rows;
  const KernelRow& range;
  const KernelRow& column_ranges;
  const KernelRow& quantize;           ///< with one scale
  const KernelRow& quantize_segments;  ///< with a scale beside each element
  const SumKernels& sums;

  explicit DynamicKernels(const backend::Choice& choice)
      : rows(kernel_in(choice, 0)),
        range(kernel_in(choice, 1)),
        column_ranges(kernel_in(choice, 2)),
        quantize(kernel_in(choice, 3)),
        quantize_segments(kernel_in(choice, 4)),
        sums(sum_kernels(choice.arch)) {}
};

/// Elements of a row that are packed at a time where they lie apart.
inline constexpr std::int64_t kRowScratch = 1024;

}  // namespace planck::cpu
