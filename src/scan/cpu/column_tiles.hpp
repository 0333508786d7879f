// One thread's strip of columns (as many as are scanned side by side), from one end of the axis to the other, tile by
// tile.
#pragma once

#include <algorithm>
#include <span>

#include "scan/cpu/column_fold.hpp"
#include "scan/cpu/pass.hpp"

namespace planck::cpu {

/// A segment of the axis, the same for all columns of a strip: everything, or one of the blocks that it was cut into.
struct AxisSegment {
  std::int64_t position = 0;  ///< of column 0's first element
  std::int64_t position_step = 1;
  std::int64_t column_position = 0;  ///< from column to column: columns can be blocks of one row
  bool begins = true;                ///< with the axis' first element in scan order
  bool ends = true;                  ///< with its last
  std::int64_t behind = 0;           ///< how many of column 0's elements come after the segment
  enum class Task { Scan, Total, Lag } task = Task::Scan;
  int level = 0;       ///< of the totals
  StateView prefix{};  ///< where a scan that does not begin starts from
  StateView totals{};  ///< where the states of the whole block that this is are left
  StateView lags{};    ///< where scans find, and other tasks leave, what the step before left
  StateView feed{};    ///< a feed's states every kTileSteps elements, if they were found before,
  bool fed = false;    ///< and whether they were
};

/// The elements from one state that a feed keeps to the next.
inline constexpr std::int64_t kTileSteps = 64;

/// Scans strips of columns of a loop whose last two dimensions are column and axis.
class ColumnTiles {
 public:
  /// `direct`: neighbouring columns lie side by side, so that steps work where they are. `streamed`: outputs are stored
  /// non-temporally if their alignment allows it; the caller fences.
  ColumnTiles(const ScanPass& scan, const core::StridedLoop& loop, bool direct, bool streamed,
              std::span<std::byte> feed_memory);

  /// The most columns that a strip of such elements can have.
  static std::int64_t max_width(const ScanPass& scan, std::int64_t length, bool direct);
  static constexpr std::int64_t kLine = 32;
  /// Fewer columns, but such as fill registers and cache lines: at least 1.
  static std::int64_t whole_lines(std::int64_t columns) {
    return columns > kLine ? columns / kLine * kLine : std::max<std::int64_t>(1, columns);
  }
  /// The most that have a feed: one fed tile may take all the scratch.
  static constexpr std::int64_t kFedColumns = 256;
  /// What a feed keeps for one column.
  static std::int64_t feed_bytes(std::int64_t length, int feed_parts) {
    return (length - 1) / kTileSteps * feed_parts * kPartBytes;
  }

  /// n columns from `at` on.
  void run(const core::LoopPointers& at, std::int64_t n, const AxisSegment& segment);

 private:
  static constexpr std::int64_t kStateBytes = 256 << 10;  ///< for the states of all columns
  static constexpr std::int64_t kMaxColumns = 2048;
  // A tile of columns whose elements lie apart is transposed in scratch. Few columns and long runs of each: processors
  // fetch only so many rows ahead. As many as a kernel takes at once with AVX-512: with half of them it went column by
  // column.
  static constexpr std::int64_t kTileElements = 4096;
  static constexpr std::int64_t kTileBytes = kTileElements * 8;
  static constexpr std::int64_t kTileColumns = 32;
  static constexpr int kTiles = 6;

  /// Whether this segment's task needs the feed's values.
  bool feeds() const {
    return kernel_.feed != nullptr && (segment_.task == AxisSegment::Task::Scan || kernel_.states_need_feed);
  }
  /// Steps s … s + m - 1: for outputs or for states alone.
  void tile(ColumnFold& fold, std::int64_t s, std::int64_t m);
  /// The step before the first, for what it leaves.
  void step_for_lag();
  bool has_last_edge(std::int64_t end) const { return scan_.edge == ScanEdge::Last && segment_.ends && end == length_; }
  /// The operands of steps s … s + m - 1.
  ColumnSteps tile_steps(std::int64_t s, std::int64_t m);
  /// The one step whose edge input, and perhaps output, is another.
  void step_over_edge(ColumnFold& fold, ColumnSteps& steps);
  /// Outputs of steps s … s + m - 1 that are not where they belong yet.
  void store_tile(std::byte* const* outputs, std::int64_t s, std::int64_t m) const;
  /// An operand's rows from step s on, packed if they have to be, and how far apart they are.
  std::byte* rows(int operand, std::int64_t s, std::int64_t m, std::int64_t& step);
  StateView carry_view(int operand, std::int64_t word) const;
  const std::byte* edge_row();
  /// The feed's values for the elements of steps s … s + m - 1, in their order.
  std::byte* feed(std::int64_t s, std::int64_t m, const std::byte* input, std::int64_t input_step);
  /// The feed's states that the memory has room for: the last ones before tile `end` of its own order.
  void keep_feed_states(std::int64_t end);
  /// Whole tiles of the feed before the element of step s - 1.
  std::int64_t feed_tiles(std::int64_t s) const { return (segment_.behind + length_ - s) / kTileSteps; }
  ColumnSteps feed_steps(std::int64_t s, const std::byte* input, std::int64_t input_step) const;
  std::byte* copy_states(const StateView& from, int parts, std::byte* to) const;
  void leave_states(const std::byte* states, int parts, const StateView& to) const;

  const ScanPass& scan_;
  const ScanKernel& kernel_;
  const core::StridedLoop& loop_;
  std::int64_t length_;
  bool direct_;
  bool streamed_;
  std::span<std::byte> feed_memory_;
  std::int64_t first_kept_ = 0;  ///< the tile whose state lies first there

  core::LoopPointers at_{};
  std::int64_t n_ = 0;
  AxisSegment segment_;

  alignas(64) std::byte states_[kStateBytes];
  alignas(64) std::byte prefix_[2][kMaxScanParts * kMaxColumns * kPartBytes];
  alignas(64) std::byte lag_[kMaxColumns * kPartBytes];
  alignas(64) std::byte edge_[2][kMaxColumns * kPartBytes];
  alignas(64) std::byte scratch_[kTiles * kTileBytes];
};

}  // namespace planck::cpu
