// Columns whose axis is cut into canonical blocks that threads share, or that fill registers where columns are few.
#include <algorithm>
#include <cstring>

#include "cpu/streaming.hpp"
#include "numerics/canonical_order.hpp"
#include "scan/cpu/column_fold.hpp"
#include "scan/cpu/columns.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;

/// The cut at whose blocks a feed keeps its states.
Cut feed_cut(std::int64_t length) {
  constexpr int kLevel = 2;
  static_assert(numerics::block_size(kLevel) == kTileSteps);
  return {kLevel, (length - 1) / kTileSteps};
}

/// Scans an axis that was cut: the totals of all blocks, then the prefix before each of them, then the blocks.
class CutColumns {
 public:
  /// `states`: as many eight-byte values as states_needed says.
  CutColumns(const Stream& stream, const ScanPass& scan, const StridedLoop& loop, const Cut& cut, std::byte* states)
      : stream_(stream),
        scan_(scan),
        loop_(loop),
        streamed_(worth_streaming(stream, loop, scan.kernel.inputs, scan.kernel.outputs)),
        cut_(cut),
        states_(states) {
    // Slot q of a column holds the prefix before block q; before that the total of block q - 1. The last one is for a
    // carry that goes out.
    const std::int64_t column_states = slots(cut) * kPartBytes;
    std::int64_t columns = 1;
    for (int d = loop.rank - 2; d >= 0; --d) {
      column_states_[d] = columns * column_states;
      columns *= loop.extent[d];
    }
    columns_ = columns;
    part_ = columns * column_states;
  }

  static std::int64_t states_needed(std::int64_t columns, const Cut& cut, int parts, bool lags) {
    return columns * slots(cut) * (parts + (lags ? 1 : 0));
  }

  /// Finds the prefix before every block.
  void find_prefixes(const CutColumns* feed) noexcept {
    run_blocks(AxisSegment::Task::Total, feed);
    // With a carry going out, the segment after the last block is a whole block too.
    if (scan_.carry_out() >= 0) run(last(), AxisSegment::Task::Total, feed);
    for (std::int64_t column = 0; column < columns_; ++column) put_prefixes(column);
  }

  void run(const CutColumns* feed) noexcept {
    find_prefixes(feed);
    if (scan_.kernel.lags) run(last(), AxisSegment::Task::Lag, feed);
    run_blocks(AxisSegment::Task::Scan, feed);
    run(last(), AxisSegment::Task::Scan, feed);
  }

 private:
  static std::int64_t slots(const Cut& cut) { return cut.blocks + 2; }

  /// Every column from its block q on.
  ColumnLoop from_block(std::int64_t q) const {
    ColumnLoop columns{loop_, loop_.extent[loop_.rank - 1]};
    columns.streamed = streamed_;
    columns.start = q * cut_.size();
    columns.segment.begins = q == 0;
    columns.segment.ends = false;
    columns.segment.level = cut_.level;
    columns.outer_states = column_states_;
    const StateView slots = {states_ + q * kPartBytes, part_, column_states_[loop_.rank - 2]};
    columns.segment.prefix = columns.segment.totals = columns.segment.lags = slots;
    columns.segment.totals.base += kPartBytes;
    columns.segment.lags.base += scan_.kernel.parts * part_;
    for (int k = 0; k < loop_.operands; ++k) {
      auto& op = columns.loop.operand[k];
      if (op.base != nullptr) op.base += columns.start * op.stride[loop_.rank - 1];
    }
    return columns;
  }

  /// What follows the last block.
  ColumnLoop last() const {
    ColumnLoop columns = from_block(cut_.blocks);
    columns.segment.ends = true;
    columns.loop.extent[loop_.rank - 1] -= columns.start;
    return columns;
  }

  /// Blocks first … first + count - 1 of every column, side by side if the columns are few.
  ColumnLoop blocks(std::int64_t first, std::int64_t count) const {
    ColumnLoop columns = from_block(first);
    StridedLoop& loop = columns.loop;
    const int axis = loop.rank - 1;
    loop.extent[axis] = cut_.size();
    loop.extent[axis + 1] = count;
    for (int k = 0; k < loop.operands; ++k) {
      loop.operand[k].stride[axis + 1] = cut_.size() * loop.operand[k].stride[axis];
    }
    ++loop.rank;
    const bool as_columns = loop_.extent[axis - 1] < kFewColumns;
    const int dim = as_columns ? axis : 0;
    loop.move_dim(axis + 1, dim);
    std::copy_backward(columns.outer_states.begin() + dim, columns.outer_states.end() - 1, columns.outer_states.end());
    columns.outer_states[dim] = kPartBytes;
    for (StateView* view : {&columns.segment.prefix, &columns.segment.totals, &columns.segment.lags}) {
      view->stride = columns.outer_states[loop.rank - 2];
    }
    (as_columns ? columns.column_start : columns.outer_start[0]) = cut_.size();
    return columns;
  }

  /// The first block begins the axis, and in the last a feed may begin: neither has a prefix.
  void run_blocks(AxisSegment::Task task, const CutColumns* feed) const noexcept {
    const std::int64_t alone = feed == nullptr ? 0 : 1;
    run(blocks(0, 1), task, feed);
    run(blocks(1, cut_.blocks - 1 - alone), task, feed);
    if (alone > 0) run(blocks(cut_.blocks - 1, 1), task, feed);
  }

  void run(ColumnLoop columns, AxisSegment::Task task, const CutColumns* feed) const noexcept {
    columns.segment.task = task;
    if (columns.segment.begins && scan_.carry.before == 0) columns.segment.prefix = {};
    if (feed != nullptr) {
      // A feed's slots count from the axis' other end, and columns that are blocks have theirs in the same column.
      columns.segment.fed = true;
      columns.outer_feed = feed->column_states_;
      columns.segment.feed = {feed->states_, feed->part_, feed->column_states_[loop_.rank - 2]};
      if (columns.column_start != 0) {
        columns.segment.feed.stride = -columns.column_start / kTileSteps * kPartBytes;
      } else if (columns.loop.rank > loop_.rank) {
        std::copy_backward(columns.outer_feed.begin(), columns.outer_feed.end() - 1, columns.outer_feed.end());
        columns.outer_feed[0] = 0;
      }
    }
    run_columns(stream_, scan_, columns);
  }

  /// Replaces a column's totals by the prefix before the next block each.
  void put_prefixes(std::int64_t column) noexcept {
    OneColumnFold fold(scan_.kernel);
    const int in = scan_.carry_in();
    const int out = scan_.carry_out();
    const ScanCarry& carry = scan_.carry;
    if (in >= 0) fold->resume(carry.before, {at_column(in, column), carry.in_word, 0});
    const std::int64_t end = out >= 0 ? cut_.blocks + 1 : cut_.blocks;
    for (std::int64_t q = carry.before > 0 ? 0 : 1; q <= end; ++q) {
      std::byte* slot = states_ + (column * slots(cut_) + q) * kPartBytes;
      if (q > 0) {
        std::byte total[kMaxScanParts * kPartBytes];
        for (int k = 0; k < scan_.kernel.parts; ++k) std::memcpy(total + k * kPartBytes, slot + k * part_, kPartBytes);
        fold->push_block(cut_.level, total);
      }
      const std::byte* prefix = fold->prefix();
      for (int k = 0; k < scan_.kernel.parts; ++k) std::memcpy(slot + k * part_, prefix + k * kPartBytes, kPartBytes);
    }
    if (out >= 0) fold->save({at_column(out, column), carry.out_word, 0});
  }

  /// An operand's place in a column.
  std::byte* at_column(int operand, std::int64_t column) const {
    std::byte* at = loop_.operand[operand].base;
    for (int d = loop_.rank - 2; d >= 0; --d) {
      at += column % loop_.extent[d] * loop_.operand[operand].stride[d];
      column /= loop_.extent[d];
    }
    return at;
  }

  const Stream& stream_;
  const ScanPass& scan_;
  const StridedLoop& loop_;
  bool streamed_;
  Cut cut_;
  std::byte* states_;
  std::int64_t columns_ = 1;
  std::int64_t part_ = 0;
  ColumnStrides column_states_{};
};

}  // namespace

std::int64_t cut_column_values(std::int64_t columns, std::int64_t length, const Cut& cut,
                               const ScanStates& states) noexcept {
  std::int64_t needed = CutColumns::states_needed(columns, cut, states.parts, states.lags);
  if (states.feed_parts > 0) needed += CutColumns::states_needed(columns, feed_cut(length), states.feed_parts, false);
  return needed;
}

void run_cut_columns(const Stream& stream, const ScanPass& scan, const StridedLoop& loop, const Cut& cut,
                     std::byte* states) noexcept {
  CutColumns main(stream, scan, loop, cut, states);
  if (scan.kernel.feed == nullptr) return main.run(nullptr);
  const int axis = loop.rank - 1;
  const std::int64_t columns = loop.count() / loop.extent[axis];
  StridedLoop input = loop;
  input.operands = 1;
  input.operand[0] = loop.operand[kFeedInput];
  input.flip_dim(axis);
  // Totals alone are wanted, so there is no output.
  input.add_absent(ElementKind::F64);
  input.add_absent(ElementKind::F64);
  const ScanPass feed_scan{*scan.kernel.feed, input, axis, !scan.descends};
  std::byte* feed_states =
      states + CutColumns::states_needed(columns, cut, scan.kernel.parts, scan.kernel.lags) * kPartBytes;
  CutColumns feed(stream, feed_scan, feed_scan.loop, feed_cut(loop.extent[axis]), feed_states);
  feed.find_prefixes(nullptr);
  main.run(&feed);
}

}  // namespace planck::cpu
