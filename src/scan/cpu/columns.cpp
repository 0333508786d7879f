#include "scan/cpu/columns.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "numerics/canonical_order.hpp"
#include "scan/cpu/column_strip.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;

/// Whether neighbouring lanes lie side by side for every operand that is walked along the axis.
bool lanes_are_contiguous(const LaneScan& scan, const StridedLoop& loop) {
  const int lane_dim = loop.rank - 2;
  if (loop.extent[lane_dim] == 1) return true;
  for (int k = 0; k < scan.kernel.inputs + std::min(scan.kernel.outputs, kEdgeOutput); ++k) {
    const core::LoopOperand& op = loop.operand[k];
    if (op.base != nullptr && op.stride[lane_dim] != op.element_bytes) return false;
  }
  return true;
}

Pointers move(const StridedLoop& loop, Pointers at, int dim, std::int64_t by) {
  for (int k = 0; k < loop.operands; ++k) {
    if (at[k] != nullptr) at[k] += by * loop.operand[k].stride[dim];
  }
  return at;
}

using Strides = std::array<std::int64_t, core::kMaxLoopRank>;

/// One walk over lanes: the whole scan, or some of the blocks that its axis was cut into.
struct Walk {
  StridedLoop loop;             ///< lane and axis last
  std::int64_t axis_length;     ///< of which the loop may have a piece
  std::int64_t start = 0;       ///< where lane 0 begins along the axis
  std::int64_t lane_start = 0;  ///< and what each lane adds: lanes can be blocks of one row
  Strides outer_start{};        ///< and each index of an outer dimension
  bool streamed = false;        ///< outputs are stored non-temporally
  Piece piece{};                ///< states of the first lane
  Strides outer_states{};       ///< bytes between neighbours in outer dimensions
  Strides outer_feed{};
};

void run_walk(const Stream& stream, const LaneScan& scan, const Walk& walk, std::span<std::byte> memory = {}) noexcept {
  const StridedLoop& loop = walk.loop;
  const int lane_dim = loop.rank - 2;
  const std::int64_t length = loop.extent[lane_dim + 1];
  std::int64_t outer = 1;
  for (int d = 0; d < lane_dim; ++d) outer *= loop.extent[d];

  const std::int64_t lanes = loop.extent[lane_dim];
  const bool direct = lanes_are_contiguous(scan, loop);
  std::int64_t width = std::min(lanes, Strip::max_width(scan, length, direct));
  // Narrower strips where threads would go without.
  while (width > kFewLanes && outer * ceil_div(lanes, width) < stream.threads()) {
    width = Strip::whole_lines(width / 2);
  }
  const bool feeds = scan.kernel.feed != nullptr && !walk.piece.fed;
  const std::int64_t shares = std::min<std::int64_t>(outer * lanes, stream.threads());
  const std::int64_t share_bytes = std::ssize(memory) / shares / kPartBytes * kPartBytes;
  if (feeds) {
    const std::int64_t lane_bytes = Strip::feed_bytes(length, scan.kernel.feed->parts);
    // One lane at least: of a longer one the feed keeps what there is room for, and is walked again for the rest.
    if (lane_bytes > 0) {
      width = std::clamp<std::int64_t>(std::max(share_bytes, kStackFeedBytes) / lane_bytes, 1, width);
    }
  }
  const std::int64_t strips = ceil_div(lanes, width);
  const auto run_units = [&](std::int64_t begin, std::int64_t end, std::span<std::byte> feed_memory) noexcept {
    Strip strip(scan, loop, direct, walk.streamed, feed_memory);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t lane = unit % strips * width;
      std::int64_t rest = unit / strips;
      Pointers at;
      for (int k = 0; k < loop.operands; ++k) at[k] = loop.operand[k].base;
      at = move(loop, at, lane_dim, lane);
      Piece piece = walk.piece;
      std::int64_t start = walk.start + lane * walk.lane_start;
      std::int64_t states = lane * piece.lags.stride;
      piece.feed.base += lane * (walk.lane_start == 0 ? piece.feed.stride : 0);
      for (int d = lane_dim - 1; d >= 0; --d) {
        const std::int64_t index = rest % loop.extent[d];
        rest /= loop.extent[d];
        at = move(loop, at, d, index);
        start += index * walk.outer_start[d];
        states += index * walk.outer_states[d];
        piece.feed.base += index * walk.outer_feed[d];
      }
      if (piece.before.base != nullptr) piece.before.base += states;
      piece.totals.base += states;
      piece.lags.base += states;
      piece.position_step = scan.descends ? -1 : 1;
      piece.position = scan.carry.before + (scan.descends ? walk.axis_length - 1 - start : start);
      piece.lane_position = walk.lane_start * piece.position_step;
      piece.behind = walk.axis_length - start - length;
      strip.run(at, std::min(width, lanes - lane), piece);
    }
    if (walk.streamed) stream_fence();
  };
  const std::int64_t units = outer * strips;
  const std::int64_t unit_bytes = width * length * loop.element_bytes();
  if (feeds) {
    // Memory for each share, and so no more shares than there are threads.
    const std::int64_t used = std::min(units, shares);
    for_each_range(stream, used, units / used * unit_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
      alignas(kPartBytes) std::byte stack[kStackFeedBytes];
      for (std::int64_t i = begin; i < end; ++i) {
        const std::span<std::byte> own =
            share_bytes > kStackFeedBytes
                ? memory.subspan(static_cast<std::size_t>(i * share_bytes), static_cast<std::size_t>(share_bytes))
                : std::span<std::byte>(stack);
        run_units(units * i / used, units * (i + 1) / used, own);
      }
    });
  } else {
    for_each_range(stream, units, unit_bytes,
                   [&](std::int64_t begin, std::int64_t end) noexcept { run_units(begin, end, {}); });
  }
}

/// The cut at whose blocks a feed keeps its states.
Cut feed_cut(std::int64_t length) {
  constexpr int kLevel = 2;
  static_assert(numerics::block_size(kLevel) == kTileSteps);
  return {kLevel, (length - 1) / kTileSteps};
}

/// Scans an axis that was cut: the totals of all blocks, then the prefix before each of them, then the blocks.
class CutScan {
 public:
  /// `states`: as many eight-byte values as states_needed says.
  CutScan(const Stream& stream, const LaneScan& scan, const StridedLoop& loop, const Cut& cut, std::byte* states)
      : stream_(stream),
        scan_(scan),
        loop_(loop),
        streamed_(worth_streaming(loop, scan.kernel.inputs, scan.kernel.outputs)),
        cut_(cut),
        states_(states) {
    // Slot q of a row holds the prefix before block q; before that the total of block q - 1. The last one is for a
    // carry that goes out.
    const std::int64_t row_states = slots(cut) * kPartBytes;
    std::int64_t rows = 1;
    for (int d = loop.rank - 2; d >= 0; --d) {
      row_states_[d] = rows * row_states;
      rows *= loop.extent[d];
    }
    rows_ = rows;
    part_ = rows * row_states;
  }

  static std::int64_t states_needed(std::int64_t rows, const Cut& cut, int parts, bool lags) {
    return rows * slots(cut) * (parts + (lags ? 1 : 0));
  }

  /// Finds the prefix before every block.
  void find_befores(const CutScan* feed) noexcept {
    walk_blocks(Piece::Task::Total, feed);
    // With a carry going out, the piece after the last block is a whole block too.
    if (scan_.carry_out() >= 0) walk(last(), Piece::Task::Total, feed);
    for (std::int64_t row = 0; row < rows_; ++row) put_befores(row);
  }

  void run(const CutScan* feed) noexcept {
    find_befores(feed);
    if (scan_.kernel.lags) walk(last(), Piece::Task::Lag, feed);
    walk_blocks(Piece::Task::Scan, feed);
    walk(last(), Piece::Task::Scan, feed);
  }

 private:
  static std::int64_t slots(const Cut& cut) { return cut.blocks + 2; }

  /// A walk that begins with block q of every row.
  Walk from_block(std::int64_t q) const {
    Walk walk{loop_, loop_.extent[loop_.rank - 1]};
    walk.streamed = streamed_;
    walk.start = q * cut_.size();
    walk.piece.begins = q == 0;
    walk.piece.ends = false;
    walk.piece.level = cut_.level;
    walk.outer_states = row_states_;
    const StateView slots = {states_ + q * kPartBytes, part_, row_states_[loop_.rank - 2]};
    walk.piece.before = walk.piece.totals = walk.piece.lags = slots;
    walk.piece.totals.base += kPartBytes;
    walk.piece.lags.base += scan_.kernel.parts * part_;
    for (int k = 0; k < loop_.operands; ++k) {
      auto& op = walk.loop.operand[k];
      if (op.base != nullptr) op.base += walk.start * op.stride[loop_.rank - 1];
    }
    return walk;
  }

  /// What follows the last block.
  Walk last() const {
    Walk walk = from_block(cut_.blocks);
    walk.piece.ends = true;
    walk.loop.extent[loop_.rank - 1] -= walk.start;
    return walk;
  }

  /// Blocks first … first + count - 1 of every row, side by side if the rows are few.
  Walk blocks(std::int64_t first, std::int64_t count) const {
    Walk walk = from_block(first);
    StridedLoop& loop = walk.loop;
    const int axis = loop.rank - 1;
    loop.extent[axis] = cut_.size();
    loop.extent[axis + 1] = count;
    for (int k = 0; k < loop.operands; ++k) {
      loop.operand[k].stride[axis + 1] = cut_.size() * loop.operand[k].stride[axis];
    }
    ++loop.rank;
    const bool as_lanes = loop_.extent[axis - 1] < kFewLanes;
    const int dim = as_lanes ? axis : 0;
    loop.move_dim(axis + 1, dim);
    std::copy_backward(walk.outer_states.begin() + dim, walk.outer_states.end() - 1, walk.outer_states.end());
    walk.outer_states[dim] = kPartBytes;
    for (StateView* view : {&walk.piece.before, &walk.piece.totals, &walk.piece.lags}) {
      view->stride = walk.outer_states[loop.rank - 2];
    }
    (as_lanes ? walk.lane_start : walk.outer_start[0]) = cut_.size();
    return walk;
  }

  /// The first block begins the axis, and in the last a feed may begin: neither has a prefix.
  void walk_blocks(Piece::Task task, const CutScan* feed) const noexcept {
    const std::int64_t alone = feed == nullptr ? 0 : 1;
    walk(blocks(0, 1), task, feed);
    walk(blocks(1, cut_.blocks - 1 - alone), task, feed);
    if (alone > 0) walk(blocks(cut_.blocks - 1, 1), task, feed);
  }

  void walk(Walk walk, Piece::Task task, const CutScan* feed) const noexcept {
    walk.piece.task = task;
    if (walk.piece.begins && scan_.carry.before == 0) walk.piece.before = {};
    if (feed != nullptr) {
      // A feed's slots count from the axis' other end, and lanes that are blocks have theirs in the same row.
      walk.piece.fed = true;
      walk.outer_feed = feed->row_states_;
      walk.piece.feed = {feed->states_, feed->part_, feed->row_states_[loop_.rank - 2]};
      if (walk.lane_start != 0) {
        walk.piece.feed.stride = -walk.lane_start / kTileSteps * kPartBytes;
      } else if (walk.loop.rank > loop_.rank) {
        std::copy_backward(walk.outer_feed.begin(), walk.outer_feed.end() - 1, walk.outer_feed.end());
        walk.outer_feed[0] = 0;
      }
    }
    run_walk(stream_, scan_, walk);
  }

  /// Replaces a row's totals by the prefix before the next block each.
  void put_befores(std::int64_t row) noexcept {
    OneColumnFold fold(scan_.kernel);
    const int in = scan_.carry_in();
    const int out = scan_.carry_out();
    const LaneCarry& carry = scan_.carry;
    if (in >= 0) fold->resume(carry.before, {at_row(in, row), carry.in_word, 0});
    const std::int64_t end = out >= 0 ? cut_.blocks + 1 : cut_.blocks;
    for (std::int64_t q = carry.before > 0 ? 0 : 1; q <= end; ++q) {
      std::byte* slot = states_ + (row * slots(cut_) + q) * kPartBytes;
      if (q > 0) {
        std::byte total[kMaxScanParts * kPartBytes];
        for (int k = 0; k < scan_.kernel.parts; ++k) std::memcpy(total + k * kPartBytes, slot + k * part_, kPartBytes);
        fold->push_block(cut_.level, total);
      }
      const std::byte* before = fold->before();
      for (int k = 0; k < scan_.kernel.parts; ++k) std::memcpy(slot + k * part_, before + k * kPartBytes, kPartBytes);
    }
    if (out >= 0) fold->save({at_row(out, row), carry.out_word, 0});
  }

  /// An operand's place in a row.
  std::byte* at_row(int operand, std::int64_t row) const {
    std::byte* at = loop_.operand[operand].base;
    for (int d = loop_.rank - 2; d >= 0; --d) {
      at += row % loop_.extent[d] * loop_.operand[operand].stride[d];
      row /= loop_.extent[d];
    }
    return at;
  }

  const Stream& stream_;
  const LaneScan& scan_;
  const StridedLoop& loop_;
  bool streamed_;
  Cut cut_;
  std::byte* states_;
  std::int64_t rows_ = 1;
  std::int64_t part_ = 0;
  Strides row_states_{};
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
  // The lanes: the dimension nearest to contiguous that can fill registers, or else the largest.
  int lane = loop.rank - 2;
  for (int d = loop.rank - 3; d >= 0 && loop.extent[lane] < kFewLanes; --d) {
    if (loop.extent[d] > loop.extent[lane]) lane = d;
  }
  if (lane >= 0) loop.move_dim(lane, loop.rank - 2);
  if (loop.rank == 1) {
    loop.append_unit_dim();
    loop.move_dim(1, 0);
  }
}

std::int64_t cut_column_values(std::int64_t rows, std::int64_t length, const Cut& cut,
                               const LaneStates& states) noexcept {
  std::int64_t needed = CutScan::states_needed(rows, cut, states.parts, states.lags);
  if (states.feed_parts > 0) needed += CutScan::states_needed(rows, feed_cut(length), states.feed_parts, false);
  return needed;
}

void run_cut_columns(const Stream& stream, const LaneScan& scan, const StridedLoop& loop, const Cut& cut,
                     std::byte* states) noexcept {
  CutScan main(stream, scan, loop, cut, states);
  if (scan.kernel.feed == nullptr) return main.run(nullptr);
  const int axis = loop.rank - 1;
  const std::int64_t rows = loop.count() / loop.extent[axis];
  StridedLoop input = loop;
  input.operands = 1;
  input.operand[0] = loop.operand[kFeedInput];
  input.flip_dim(axis);
  // Totals alone are wanted, so there is no output.
  input.add_absent(ElementKind::F64);
  input.add_absent(ElementKind::F64);
  const LaneScan feed_scan{*scan.kernel.feed, input, axis, !scan.descends};
  std::byte* feed_states = states + CutScan::states_needed(rows, cut, scan.kernel.parts, scan.kernel.lags) * kPartBytes;
  CutScan feed(stream, feed_scan, feed_scan.loop, feed_cut(loop.extent[axis]), feed_states);
  feed.find_befores(nullptr);
  main.run(&feed);
}

void run_whole_columns(const Stream& stream, const LaneScan& scan, const StridedLoop& loop,
                       std::span<std::byte> memory) noexcept {
  Walk walk{loop, loop.extent[loop.rank - 1]};
  walk.streamed = worth_streaming(loop, scan.kernel.inputs, scan.kernel.outputs);
  run_walk(stream, scan, walk, memory);
}

}  // namespace planck::cpu
