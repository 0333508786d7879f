// Collapses the loop, cuts its last two dimensions into units of about 64 KiB, and deals ranges of units to
// threads. Which thread gets which unit changes nothing: elements do not know their neighbours.
#include "cpu/elementwise.hpp"

#include <algorithm>
#include <cstdlib>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "cpu/strided/span_runner.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;

constexpr std::int64_t kUnitBytes = 64 << 10;
/// One long span has a multiple of this many units: five and a scrap would be dealt to two threads as three to two.
constexpr std::int64_t kUnitsDealt = 8;

/// Moves next to last the dimension along which a packed operand is nearest to contiguous, so that tiles
/// use whole cache lines of it.
void bring_tile_dim_inwards(StridedLoop& loop) {
  if (loop.rank < 3) return;
  int best = loop.rank - 2;
  std::int64_t best_stride = 0;
  for (int k = 0; k < loop.operands; ++k) {
    const auto& op = loop.operand[k];
    const std::int64_t inner = std::abs(op.stride[loop.rank - 1]);
    if (op.base == nullptr || inner == 0 || inner == op.element_bytes) continue;
    for (int d = 0; d + 1 < loop.rank; ++d) {
      const std::int64_t stride = std::abs(op.stride[d]);
      if (stride != 0 && stride < inner && (best_stride == 0 || stride < best_stride)) {
        best = d;
        best_stride = stride;
      }
    }
  }
  if (best != loop.rank - 2) loop.move_dim(best, loop.rank - 2);
}

/// A small contiguous problem goes straight to the kernel: the cutting below costs as much as 64 elements do.
bool run_if_small(SpanKernel kernel, const void* params, const StridedLoop& loop) {
  const std::int64_t n = loop.rank == 0 ? 1 : loop.extent[0];
  if (loop.rank > 1 || n > kInlineBytes / 64) return false;
  void* operands[core::kMaxLoopOperands];
  for (int k = 0; k < loop.operands; ++k) {
    const auto& op = loop.operand[k];
    if (op.base == nullptr || (n > 1 && op.stride[0] != op.element_bytes)) return false;
    operands[k] = op.base;
  }
  kernel(params, operands, n, 0);
  return true;
}

}  // namespace

void run_elementwise(const Stream& stream, const KernelRow& kernel, const void* params, StridedLoop& loop,
                     int inputs) noexcept {
  if (loop.count() == 0) return;
  collapse(loop);
  if (run_if_small(kernel.span, params, loop)) return;
  bring_tile_dim_inwards(loop);
  const int column_dim = loop.rank - 1;
  const int row_dim = loop.rank - 2;
  const std::int64_t columns = loop.rank > 0 ? loop.extent[column_dim] : 1;
  const std::int64_t rows = loop.rank > 1 ? loop.extent[row_dim] : 1;
  const std::int64_t element_bytes = loop.element_bytes();

  // Multiples of 64 elements keep unit borders off shared cache lines for every element size.
  const std::int64_t unit_elements = std::max<std::int64_t>(SpanRunner::kScratch, kUnitBytes / element_bytes & ~63);
  std::int64_t unit_columns = std::min(columns, unit_elements);
  if (columns > unit_columns) {
    const std::int64_t multiple = rows == 1 ? kUnitsDealt : 1;
    const std::int64_t wanted = ceil_div(ceil_div(columns, unit_elements), multiple) * multiple;
    unit_columns = (ceil_div(columns, wanted) + 63) & ~63;
  }
  std::int64_t unit_rows =
      std::min(rows, std::max<std::int64_t>(1, unit_elements / std::max<std::int64_t>(1, columns)));
  if (unit_rows > SpanRunner::kTileRows) unit_rows -= unit_rows % SpanRunner::kTileRows;
  if (rows > 1 && unit_rows < SpanRunner::kTileRows) unit_rows = std::min(rows, SpanRunner::kTileRows);
  const std::int64_t column_units = ceil_div(columns, unit_columns);
  const std::int64_t row_units = ceil_div(rows, unit_rows);
  std::int64_t units = column_units * row_units;
  for (int d = 0; d < row_dim; ++d) units *= loop.extent[d];
  const bool streaming = worth_streaming(stream, loop, inputs, loop.operands - inputs);

  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    SpanRunner runner(kernel, params, loop, inputs, loop.operands - inputs, column_dim, row_dim, streaming ? ~0U : 0U);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t column = unit % column_units * unit_columns;
      std::int64_t rest = unit / column_units;
      const std::int64_t row = rest % row_units * unit_rows;
      rest /= row_units;
      core::LoopPointers at;
      for (int k = 0; k < loop.operands; ++k) {
        const auto& op = loop.operand[k];
        at[k] = op.base;
        if (column_dim >= 0) at[k] += column * op.stride[column_dim];
        if (row_dim >= 0) at[k] += row * op.stride[row_dim];
      }
      for (int d = row_dim - 1; d >= 0; --d) {
        const std::int64_t index = rest % loop.extent[d];
        rest /= loop.extent[d];
        for (int k = 0; k < loop.operands; ++k) at[k] += index * loop.operand[k].stride[d];
      }
      runner.run(at, std::min(unit_rows, rows - row), std::min(unit_columns, columns - column));
    }
    if (streaming) stream_fence();
  };
  for_each_range(stream, units, unit_columns * unit_rows * element_bytes, body);
}

}  // namespace planck::cpu
