// The inner half of the scan engine: one thread's strip of lanes, scanned from one end to the other.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "scan/cpu/column_fold.hpp"
#include "scan/cpu/columns.hpp"

namespace planck::cpu {

using Pointers = std::array<std::byte*, core::kMaxLoopOperands>;

/// A piece of the axis, the same for all lanes of a strip: everything, or one of the blocks that it was cut into.
struct Piece {
  std::int64_t position = 0;  ///< of lane 0's first element
  std::int64_t position_step = 1;
  std::int64_t lane_position = 0;  ///< from lane to lane: lanes can be blocks of one row
  bool begins = true;              ///< with the axis' first element in scan order
  bool ends = true;                ///< with its last
  std::int64_t behind = 0;         ///< how many of lane 0's elements come after the piece
  enum class Task { Scan, Total, Lag } task = Task::Scan;
  int level = 0;       ///< of the totals
  StateView before{};  ///< where a scan that does not begin starts from
  StateView totals{};  ///< where the states of the whole block that this is are left
  StateView lags{};    ///< where scans find, and other tasks leave, what the step before left
  StateView feed{};    ///< a feed's states every kTileSteps elements, if they were found before,
  bool fed = false;    ///< and whether they were
};

/// The elements from one state that a feed keeps to the next.
inline constexpr std::int64_t kTileSteps = 64;

/// Scans strips of lanes of a loop whose last two dimensions are lane and axis.
class Strip {
 public:
  /// `direct`: neighbouring lanes lie side by side, so that steps work where they are. `streamed`: outputs go past the
  /// caches if their alignment allows it; the caller fences.
  Strip(const LaneScan& scan, const core::StridedLoop& loop, bool direct, bool streamed,
        std::span<std::byte> feed_memory);

  /// The most lanes that a strip of such elements can have.
  static std::int64_t max_width(const LaneScan& scan, std::int64_t length, bool direct);
  /// Fewer lanes, but such as fill registers and cache lines: at least 1.
  static std::int64_t whole_lines(std::int64_t lanes) {
    constexpr std::int64_t kLanes = 32;
    return lanes > kLanes ? lanes / kLanes * kLanes : std::max<std::int64_t>(1, lanes);
  }
  /// The most that have a feed: one fed tile may take all the scratch.
  static constexpr std::int64_t kFedLanes = 256;
  /// What a feed keeps for one lane.
  static std::int64_t feed_bytes(std::int64_t length, int feed_parts) {
    return (length - 1) / kTileSteps * feed_parts * kPartBytes;
  }

  /// n lanes from `at` on.
  void run(const Pointers& at, std::int64_t n, const Piece& piece);

 private:
  static constexpr std::int64_t kStateBytes = 256 << 10;  ///< for the states of all lanes
  static constexpr std::int64_t kMaxLanes = 2048;
  // A tile of lanes whose elements lie apart is transposed in scratch. Few lanes and long runs of each: processors
  // fetch only so many rows ahead. As many as a kernel takes at once with AVX-512: with half of them it went lane by
  // lane.
  static constexpr std::int64_t kTileElements = 4096;
  static constexpr std::int64_t kTileBytes = kTileElements * 8;
  static constexpr std::int64_t kTileLanes = 32;
  static constexpr int kTiles = 6;

  /// Whether this piece's task needs the feed's values.
  bool feeds() const {
    return kernel_.feed != nullptr && (piece_.task == Piece::Task::Scan || kernel_.states_need_feed);
  }
  /// Steps s … s + m - 1: for outputs, for states alone, or (m = 1) for what the step leaves.
  void tile(ColumnFold& fold, std::int64_t s, std::int64_t m, bool lag_only);
  /// An operand's rows from step s on, packed if they have to be, and how far apart they are.
  std::byte* rows(int operand, std::int64_t s, std::int64_t m, std::int64_t& step);
  StateView carry_view(int operand, std::int64_t word) const;
  const std::byte* edge_row();
  /// The feed's values for the elements of steps s … s + m - 1, in their order.
  std::byte* feed(std::int64_t s, std::int64_t m, const std::byte* input, std::int64_t input_step);
  /// The feed's states that the memory has room for: the last ones before tile `end` of its own order.
  void keep_feed_states(std::int64_t end);
  /// Whole tiles of the feed before the element of step s - 1.
  std::int64_t feed_tiles(std::int64_t s) const { return (piece_.behind + length_ - s) / kTileSteps; }
  LaneSteps feed_steps(std::int64_t s, const std::byte* input, std::int64_t input_step) const;
  std::byte* copy_states(const StateView& from, int parts, std::byte* to) const;
  void leave_states(const std::byte* states, int parts, const StateView& to) const;

  const LaneScan& scan_;
  const LaneScanKernel& kernel_;
  const core::StridedLoop& loop_;
  std::int64_t length_;
  bool direct_;
  bool streamed_;
  std::span<std::byte> feed_memory_;
  std::int64_t first_kept_ = 0;  ///< the tile whose state lies first there

  Pointers at_{};
  std::int64_t n_ = 0;
  Piece piece_;

  alignas(64) std::byte states_[kStateBytes];
  alignas(64) std::byte before_[2][kMaxScanParts * kMaxLanes * kPartBytes];
  alignas(64) std::byte lag_[kMaxLanes * kPartBytes];
  alignas(64) std::byte edge_[2][kMaxLanes * kPartBytes];
  alignas(64) std::byte scratch_[kTiles * kTileBytes];
};

}  // namespace planck::cpu
