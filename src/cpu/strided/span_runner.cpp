#include "cpu/strided/span_runner.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "cpu/strided/rectangle.hpp"

namespace planck::cpu {
namespace {

/// From this length on a row is worth a call of its own if that saves spreading its scale and zero point out.
constexpr std::int64_t kSegmentColumns = 64;

/// n copies of the element at `from`, and some more, for which scratch has room: whole cache lines are written.
void repeat_element(std::int64_t size, const std::byte* from, std::byte* to, std::int64_t n) {
  std::uint64_t pattern = 0;
  std::memcpy(&pattern, from, static_cast<std::size_t>(size));
  for (std::int64_t filled = size; filled < 8; filled *= 2) pattern |= pattern << (8 * filled);
  const std::uint64_t both[] = {pattern, pattern};  // what one instruction of any machine stores
  constexpr std::int64_t kLine = 64;
  for (std::byte* const end = to + n * size; to < end; to += kLine) {
    for (std::size_t i = 0; i < kLine; i += sizeof both) std::memcpy(to + i, both, sizeof both);
  }
}

}  // namespace

SpanRunner::SpanRunner(const KernelRow& kernel, const void* params, const core::StridedLoop& loop, int inputs,
                       int outputs, int column_dim, int row_dim, unsigned streamed) noexcept
    : kernel_(kernel), params_(params), inputs_(inputs), operands_(inputs + outputs) {
  for (int k = 0; k < operands_; ++k) {
    const core::LoopOperand& op = loop.operand[k];
    size_[k] = op.element_bytes;
    column_stride_[k] = column_dim < 0 ? op.element_bytes : op.stride[column_dim];
    row_stride_[k] = row_dim < 0 ? 0 : op.stride[row_dim];
    if (op.base == nullptr) {
      form_[k] = OperandForm::Absent;
      if (k < inputs_) std::memset(scratch(k), 0, kScratch * static_cast<std::size_t>(size_[k]));
    } else if (column_stride_[k] == size_[k]) {
      form_[k] = OperandForm::Direct;
    } else if (column_stride_[k] == 0 && k < inputs_) {
      form_[k] = OperandForm::Repeat;
    } else {
      form_[k] = OperandForm::Pack;
      // Worth a tile only if the rows lie closer together in memory than the columns do.
      tiled_ |= row_dim >= 0 && std::abs(row_stride_[k]) < std::abs(column_stride_[k]);
    }
    // An output that goes through scratch must stay in the cache.
    if (k >= inputs_ && form_[k] == OperandForm::Direct) streamed_ |= streamed & 1U << (k - inputs_);
  }
  segments_ = kernel.segments != nullptr && form_[inputs_ - 2] == OperandForm::Repeat &&
              form_[inputs_ - 1] == OperandForm::Repeat;
}

bool SpanRunner::rows_are_one_span(std::int64_t columns) const noexcept {
  for (int k = 0; k < operands_; ++k) {
    if (form_[k] == OperandForm::Pack) return false;
    if (form_[k] == OperandForm::Direct && row_stride_[k] != columns * size_[k]) return false;
  }
  return true;
}

void SpanRunner::run_as_spans(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  filled_from_ = {};
  const std::int64_t span_rows = kScratch / columns;
  for (std::int64_t r = 0; r < rows; r += span_rows) {
    const std::int64_t count = std::min(span_rows, rows - r);
    void* operands[core::kMaxLoopOperands];
    for (int k = 0; k < operands_; ++k) {
      const std::byte* first = at[k] + r * row_stride_[k];
      operands[k] = form_[k] == OperandForm::Direct ? const_cast<std::byte*>(first) : scratch(k);
      if (form_[k] != OperandForm::Repeat) continue;
      for (std::int64_t i = 0; i < count; ++i) {
        repeat_element(size_[k], first + i * row_stride_[k], scratch(k) + i * columns * size_[k], columns);
      }
    }
    kernel_.span(params_, operands, count * columns, streamed_);
  }
}

void SpanRunner::run(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  run_segments_ = segments_ && columns >= kSegmentColumns;
  // Many short rows in one call: a call costs as much as some hundred elements do.
  if (!run_segments_ && rows > 1 && columns <= kScratch / 2 && rows_are_one_span(columns)) {
    return run_as_spans(at, rows, columns);
  }
  bool scratch_used = false;
  for (int k = 0; k < operands_; ++k) scratch_used |= form_[k] != OperandForm::Direct && !read_in_place(k);
  const std::int64_t untiled_rows = scratch_used ? 1 : rows;
  const std::int64_t tile_rows = tiled_ ? kTileRows : untiled_rows;
  const std::int64_t tile_columns = !scratch_used ? columns : tiled_ ? kTileColumns : kScratch;
  core::LoopPointers tile;
  for (std::int64_t r = 0; r < rows; r += tile_rows) {
    for (std::int64_t c = 0; c < columns; c += tile_columns) {
      for (int k = 0; k < operands_; ++k) tile[k] = at[k] + r * row_stride_[k] + c * column_stride_[k];
      run_tile(tile, std::min(tile_rows, rows - r), std::min(tile_columns, columns - c));
    }
  }
}

void SpanRunner::pack_inputs(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  for (int k = 0; k < inputs_; ++k) {
    if (read_in_place(k)) continue;
    if (form_[k] == OperandForm::Repeat) {
      if (rows == 1 && filled_from_[k] == at[k] && filled_columns_[k] >= columns) continue;
      filled_from_[k] = rows == 1 ? at[k] : nullptr;  // a tile holds other values in its other rows
      filled_columns_[k] = columns;
      if (rows == 1) {
        repeat_element(size_[k], at[k], scratch(k), columns);
        continue;
      }
    }
    if (form_[k] == OperandForm::Pack || form_[k] == OperandForm::Repeat) {
      copy_rectangle(size_[k], at[k], row_stride_[k], column_stride_[k], scratch(k), columns * size_[k], size_[k], rows,
                     columns);
    }
  }
}

void SpanRunner::run_tile(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept {
  pack_inputs(at, rows, columns);
  void* operands[core::kMaxLoopOperands];
  std::int64_t row_strides[core::kMaxLoopOperands];
  for (int k = 0; k < operands_; ++k) {
    const OperandForm form = read_in_place(k) ? OperandForm::Direct : form_[k];
    const std::int64_t scratch_stride = form == OperandForm::Absent ? 0 : columns * size_[k];
    operands[k] = form == OperandForm::Direct ? at[k] : scratch(k);
    row_strides[k] = form == OperandForm::Direct ? row_stride_[k] : scratch_stride;
  }
  if (run_segments_) {
    kernel_.segments(params_, operands, row_strides, rows, columns, streamed_);
  } else {
    for (std::int64_t r = 0; r < rows; ++r) {
      kernel_.span(params_, operands, columns, streamed_);
      for (int k = 0; k < operands_; ++k) operands[k] = static_cast<std::byte*>(operands[k]) + row_strides[k];
    }
  }
  for (int k = inputs_; k < operands_; ++k) {
    if (form_[k] == OperandForm::Pack) {
      copy_rectangle(size_[k], scratch(k), columns * size_[k], size_[k], at[k], row_stride_[k], column_stride_[k], rows,
                     columns);
    }
  }
}

}  // namespace planck::cpu
