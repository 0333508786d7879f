// Loops over columns, which are cut into strips that threads take one after the other.
//
// Columns are the elements of an inner dimension, or rows that are transposed tile by tile, or whole blocks of one long
// row. None of this changes a bit.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "core/layout.hpp"
#include "planck/stream.hpp"
#include "scan/cpu/column_tiles.hpp"
#include "scan/cpu/pass.hpp"

namespace planck::cpu {

using ColumnStrides = std::array<std::int64_t, core::kMaxLoopRank>;

/// Columns that are scanned together: the whole scan, or some of the blocks that its axis was cut into.
struct ColumnLoop {
  core::StridedLoop loop;         ///< column and axis last
  std::int64_t axis_length;       ///< of which the loop may have a segment
  std::int64_t start = 0;         ///< where column 0 begins along the axis
  std::int64_t column_start = 0;  ///< and what each column adds: blocks of one row can be columns
  ColumnStrides outer_start{};    ///< and each index of an outer dimension
  bool streamed = false;          ///< outputs are stored non-temporally
  AxisSegment segment{};          ///< states of the first column
  ColumnStrides outer_states{};   ///< bytes between neighbours in outer dimensions
  ColumnStrides outer_feed{};
};

/// `memory` is for a feed's states, and may be less than all of them need.
void run_columns(const Stream& stream, const ScanPass& scan, const ColumnLoop& columns,
                 std::span<std::byte> memory = {}) noexcept;

}  // namespace planck::cpu
