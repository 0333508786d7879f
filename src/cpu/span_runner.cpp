#include "cpu/span_runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace planck::cpu {
namespace {

/// Copies a rows × columns rectangle of elements of type T, walking the source or destination along its
/// smaller stride.
template <class T>
void copy_rectangle(const std::byte* from, std::int64_t from_row, std::int64_t from_column, std::byte* to,
                    std::int64_t to_row, std::int64_t to_column, std::int64_t rows, std::int64_t columns) {
  const std::int64_t by_rows = std::abs(from_row) + std::abs(to_row);
  const std::int64_t by_columns = std::abs(from_column) + std::abs(to_column);
  if (rows > 1 && by_rows < by_columns + static_cast<std::int64_t>(64 * sizeof(T)) &&
      std::min(std::abs(from_row), std::abs(to_row)) == static_cast<std::int64_t>(sizeof(T))) {
    std::swap(rows, columns);
    std::swap(from_row, from_column);
    std::swap(to_row, to_column);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* source = from + r * from_row;
    std::byte* target = to + r * to_row;
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(target + c * to_column, source + c * from_column, sizeof(T));
    }
  }
}

void copy_rectangle(std::int64_t size, const std::byte* from, std::int64_t from_row, std::int64_t from_column,
                    std::byte* to, std::int64_t to_row, std::int64_t to_column, std::int64_t rows,
                    std::int64_t columns) {
  switch (size) {
    case 1:
      return copy_rectangle<std::uint8_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    case 2:
      return copy_rectangle<std::uint16_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    case 4:
      return copy_rectangle<std::uint32_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    default:
      return copy_rectangle<std::uint64_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
  }
}

}  // namespace

SpanRunner::SpanRunner(SpanKernel kernel, const void* params, const core::StridedLoop& loop, int inputs, int outputs,
                       int column_dim, int row_dim, bool streamed) noexcept
    : kernel_(kernel), params_(params), inputs_(inputs), operands_(inputs + outputs) {
  for (int k = 0; k < operands_; ++k) {
    const core::LoopOperand& op = loop.operand[k];
    size_[k] = op.element_bytes;
    column_stride_[k] = column_dim < 0 ? op.element_bytes : op.stride[column_dim];
    row_stride_[k] = row_dim < 0 ? 0 : op.stride[row_dim];
    if (op.base == nullptr) {
      access_[k] = Access::Absent;
      if (k < inputs_) std::memset(scratch(k), 0, kScratch * static_cast<std::size_t>(size_[k]));
    } else if (column_stride_[k] == size_[k]) {
      access_[k] = Access::Direct;
    } else if (column_stride_[k] == 0 && k < inputs_) {
      access_[k] = Access::Repeat;
    } else {
      access_[k] = Access::Pack;
      // Worth a tile only if the rows lie closer together in memory than the columns do.
      tiled_ |= row_dim >= 0 && std::abs(row_stride_[k]) < std::abs(column_stride_[k]);
    }
    scratch_used_ |= access_[k] != Access::Direct;
    // An output that goes through scratch must stay in the cache.
    if (streamed && k >= inputs_ && access_[k] == Access::Direct) streamed_ |= 1U << (k - inputs_);
  }
}

void SpanRunner::run(const Pointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  const std::int64_t tile_rows = tiled_ ? kTileRows : 1;
  const std::int64_t tile_columns = !scratch_used_ ? columns : tiled_ ? kTileColumns : kScratch;
  Pointers tile;
  for (std::int64_t r = 0; r < rows; r += tile_rows) {
    for (std::int64_t c = 0; c < columns; c += tile_columns) {
      for (int k = 0; k < operands_; ++k) tile[k] = at[k] + r * row_stride_[k] + c * column_stride_[k];
      run_tile(tile, std::min(tile_rows, rows - r), std::min(tile_columns, columns - c));
    }
  }
}

void SpanRunner::pack_inputs(const Pointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  for (int k = 0; k < inputs_; ++k) {
    if (access_[k] == Access::Repeat) {
      if (rows == 1 && filled_from_[k] == at[k] && filled_columns_[k] >= columns) continue;
      filled_from_[k] = rows == 1 ? at[k] : nullptr;  // a tile holds other values in its other rows
      filled_columns_[k] = columns;
    }
    if (access_[k] == Access::Pack || access_[k] == Access::Repeat) {
      copy_rectangle(size_[k], at[k], row_stride_[k], column_stride_[k], scratch(k), columns * size_[k], size_[k], rows,
                     columns);
    }
  }
}

void SpanRunner::run_tile(const Pointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  pack_inputs(at, rows, columns);
  for (std::int64_t r = 0; r < rows; ++r) {
    void* operands[core::kMaxLoopOperands];
    for (int k = 0; k < operands_; ++k) {
      switch (access_[k]) {
        case Access::Direct:
          operands[k] = at[k] + r * row_stride_[k];
          break;
        case Access::Repeat:
        case Access::Pack:
          operands[k] = scratch(k) + r * columns * size_[k];
          break;
        case Access::Absent:
          operands[k] = scratch(k);
          break;
      }
    }
    kernel_(params_, operands, columns, streamed_);
  }
  for (int k = inputs_; k < operands_; ++k) {
    if (access_[k] == Access::Pack) {
      copy_rectangle(size_[k], scratch(k), columns * size_[k], size_[k], at[k], row_stride_[k], column_stride_[k], rows,
                     columns);
    }
  }
}

}  // namespace planck::cpu
