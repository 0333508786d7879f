// Columns in strips: how wide, which thread takes which, and where each begins.
#include "scan/cpu/columns.hpp"

#include <algorithm>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

using core::LoopPointers;
using core::StridedLoop;

/// Whether neighbouring columns lie side by side for every operand that is not broadcast along the axis.
bool columns_are_contiguous(const ScanPass& scan, const StridedLoop& loop) {
  const int column_dim = loop.rank - 2;
  if (loop.extent[column_dim] == 1) return true;
  for (int k = 0; k < scan.kernel.inputs + std::min(scan.kernel.outputs, kEdgeOutput); ++k) {
    const core::LoopOperand& op = loop.operand[k];
    if (op.base != nullptr && op.stride[column_dim] != op.element_bytes) return false;
  }
  return true;
}

LoopPointers move(const StridedLoop& loop, LoopPointers at, int dim, std::int64_t by) {
  for (int k = 0; k < loop.operands; ++k) {
    if (at[k] != nullptr) at[k] += by * loop.operand[k].stride[dim];
  }
  return at;
}

/// The strips of a loop's columns: units of work, those side by side first.
class StripLoop {
 public:
  StripLoop(const Stream& stream, const ScanPass& scan, const ColumnLoop& columns, std::span<std::byte> memory)
      : stream_(stream),
        scan_(scan),
        columns_(columns),
        loop_(columns.loop),
        memory_(memory),
        dim_(loop_.rank - 2),
        length_(loop_.extent[dim_ + 1]),
        direct_(columns_are_contiguous(scan, loop_)),
        feeds_(scan.kernel.feed != nullptr && !columns.segment.fed) {
    std::int64_t outer = 1;
    for (int d = 0; d < dim_; ++d) outer *= loop_.extent[d];
    shares_ = std::min<std::int64_t>(outer * loop_.extent[dim_], stream.threads());
    share_bytes_ = std::ssize(memory) / shares_ / kPartBytes * kPartBytes;
    width_ = choose_width(outer);
    strips_ = ceil_div(loop_.extent[dim_], width_);
    units_ = outer * strips_;
  }

  void run() const noexcept {
    const std::int64_t unit_bytes = width_ * length_ * loop_.element_bytes();
    if (!feeds_) {
      return for_each_range(stream_, units_, unit_bytes,
                            [&](std::int64_t begin, std::int64_t end) noexcept { run_units(begin, end, {}); });
    }
    // Memory for each share, and so no more shares than there are threads.
    const std::int64_t used = std::min(units_, shares_);
    for_each_range(stream_, used, units_ / used * unit_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
      alignas(kPartBytes) std::byte stack[kStackFeedBytes];
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span<std::byte> own =
            share_bytes_ > kStackFeedBytes
                ? memory_.subspan(static_cast<std::size_t>(i * share_bytes_), static_cast<std::size_t>(share_bytes_))
                : std::span<std::byte>(stack);
        run_units(units_ * i / used, units_ * (i + 1) / used, own);
      }
    });
  }

 private:
  std::int64_t choose_width(std::int64_t outer) const {
    const std::int64_t columns = loop_.extent[dim_];
    std::int64_t width = std::min(columns, ColumnTiles::max_width(scan_, length_, direct_));
    // Few strips are as many for each thread: of three for two, one thread would wait for the other.
    const std::int64_t threads = stream_.threads();
    std::int64_t strips = ceil_div(columns, width);
    if (strips > 1 && strips < 4 * threads) {
      while (outer * strips % threads != 0) ++strips;
      width = std::min(width, ColumnTiles::whole_lines(ceil_div(columns, strips) + ColumnTiles::kLine - 1));
    }
    // Narrower ones where threads would go without.
    while (width > kFewColumns && outer * ceil_div(columns, width) < threads) {
      width = ColumnTiles::whole_lines(width / 2);
    }
    if (!feeds_) return width;
    const std::int64_t column_bytes = ColumnTiles::feed_bytes(length_, scan_.kernel.feed->parts);
    // One column at least: of a longer one the feed keeps what there is room for, and is scanned again for the rest.
    if (column_bytes == 0) return width;
    return std::clamp<std::int64_t>(std::max(share_bytes_, kStackFeedBytes) / column_bytes, 1, width);
  }

  void run_units(std::int64_t begin, std::int64_t end, std::span<std::byte> feed_memory) const noexcept {
    ColumnTiles strip(scan_, loop_, direct_, columns_.streamed, feed_memory);
    for (std::int64_t unit = begin; unit < end; ++unit) run_unit(strip, unit);
    if (columns_.streamed) stream_fence();
  }

  void run_unit(ColumnTiles& strip, std::int64_t unit) const noexcept {
    const std::int64_t column = unit % strips_ * width_;
    std::int64_t rest = unit / strips_;
    LoopPointers at;
    for (int k = 0; k < loop_.operands; ++k) at[k] = loop_.operand[k].base;
    at = move(loop_, at, dim_, column);
    AxisSegment segment = columns_.segment;
    std::int64_t start = columns_.start + column * columns_.column_start;
    std::int64_t states = column * segment.lags.stride;
    segment.feed.base += column * (columns_.column_start == 0 ? segment.feed.stride : 0);
    for (int d = dim_ - 1; d >= 0; --d) {
      const std::int64_t index = rest % loop_.extent[d];
      rest /= loop_.extent[d];
      at = move(loop_, at, d, index);
      start += index * columns_.outer_start[d];
      states += index * columns_.outer_states[d];
      segment.feed.base += index * columns_.outer_feed[d];
    }
    if (segment.prefix.base != nullptr) segment.prefix.base += states;
    segment.totals.base += states;
    segment.lags.base += states;
    segment.position_step = scan_.descends ? -1 : 1;
    segment.position = scan_.carry.before + (scan_.descends ? columns_.axis_length - 1 - start : start);
    segment.column_position = columns_.column_start * segment.position_step;
    segment.behind = columns_.axis_length - start - length_;
    strip.run(at, std::min(width_, loop_.extent[dim_] - column), segment);
  }

  const Stream& stream_;
  const ScanPass& scan_;
  const ColumnLoop& columns_;
  const StridedLoop& loop_;
  std::span<std::byte> memory_;
  int dim_;              ///< of the columns
  std::int64_t length_;  ///< of each
  bool direct_;
  bool feeds_;
  std::int64_t shares_;  ///< of the memory, for a thread each
  std::int64_t share_bytes_;
  std::int64_t width_;   ///< columns of a strip
  std::int64_t strips_;  ///< side by side
  std::int64_t units_;   ///< strips in all
};

}  // namespace

void arrange_columns(StridedLoop& loop, int axis) noexcept {
  loop.move_dim(axis, loop.rank - 1);
  loop.erase_unit_dims(loop.rank - 1);
  const auto total_stride = [&](int d) { return loop.total_stride(d, loop.operands); };
  for (int d = 1; d < loop.rank - 1; ++d) {
    int to = d;
    while (to > 0 && total_stride(to - 1) < total_stride(d)) --to;
    if (to != d) loop.move_dim(d, to);
  }
  for (int d = loop.rank - 3; d >= 0; --d) loop.merge_dims(d);
  // The columns: the dimension nearest to contiguous that can fill registers, or else the largest.
  int column = loop.rank - 2;
  for (int d = loop.rank - 3; d >= 0 && loop.extent[column] < kFewColumns; --d) {
    if (loop.extent[d] > loop.extent[column]) column = d;
  }
  if (column >= 0) loop.move_dim(column, loop.rank - 2);
  if (loop.rank == 1) {
    loop.append_unit_dim();
    loop.move_dim(1, 0);
  }
}

void run_columns(const Stream& stream, const ScanPass& scan, const ColumnLoop& columns,
                 std::span<std::byte> memory) noexcept {
  StripLoop(stream, scan, columns, memory).run();
}

void run_whole_columns(const Stream& stream, const ScanPass& scan, const StridedLoop& loop,
                       std::span<std::byte> memory) noexcept {
  ColumnLoop columns{loop, loop.extent[loop.rank - 1]};
  columns.streamed = worth_streaming(stream, loop, scan.kernel.inputs, scan.kernel.outputs);
  run_columns(stream, scan, columns, memory);
}

}  // namespace planck::cpu
