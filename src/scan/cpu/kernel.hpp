// What a scan's kernel is told, and what it tells its schedules.
//
// A kernel scans columns or a row, in the canonical order of src/numerics/canonical_order.hpp. Columns are independent
// and side by side: one call takes each of them up to eight elements further, to the end of a block. In rows
// the blocks of 64 lie side by side in a register and are scanned together; then the prefix before each of them is
// found from their totals.
//
// A backward pass is a scan from the axis' end to its start. Some need what a scan from the start, the feed, found at
// each element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "numerics/canonical_order.hpp"
#include "scan/kinds.hpp"

namespace planck::cpu {

using scan::kCarryLevel;
using scan::kMaxScanInputs;
using scan::kMaxScanOutputs;
using scan::kMaxScanParts;
/// States are kept part by part, eight bytes a column.
inline constexpr std::int64_t kPartBytes = 8;

/// The input that a feed reads.
inline constexpr int kFeedInput = scan::kX;
/// The input that has its own operand at one end of the axis, and the output that is written there alone.
inline constexpr int kEdgeInput = scan::kH;
inline constexpr int kEdgeOutput = scan::kDInitial;

/// A run that begins elsewhere than at a row's start begins at a multiple of this.
inline constexpr std::int64_t kRowSegment = numerics::kCarryBlock;
/// Or, where a kernel takes a row in tiles that fit the first-level cache, at a multiple of such a tile.
inline constexpr int kRowTileLevel = kCarryLevel - 1;
inline constexpr std::int64_t kRowTile = numerics::block_size(kRowTileLevel);

/// Elements that a lane has along a row.
inline constexpr std::int64_t kRowLane = numerics::block_size(2);

/// As many zeros, of any kind: an input that is absent.
alignas(64) inline constexpr std::byte kZeroLane[kRowLane * kPartBytes] = {};

/// The end of the axis that has operands of its own.
enum class ScanEdge { None, First, Last };

/// In the place of s32 or s64: a position along the axis, whose width a run's variant says.
struct Position {};

/// What kernels that share their compiled code differ in. Cummin is Cummax over elements whose order is reversed, and
/// both widths of indices are one kernel of columns: that took a third off the time to compile the scans.
struct ScanVariant {
  std::uint64_t flip = 0;  ///< bits of an element, as f64 or s64, that reverse the order; states have them flipped
  std::int64_t position_bytes = 0;
};

/// Up to eight steps of n columns.
struct ColumnSteps {
  const std::byte* input[kMaxScanInputs];  ///< the first step's elements; null for what is not there
  std::int64_t input_step[kMaxScanInputs];
  std::byte* output[kMaxScanOutputs];
  std::int64_t output_step[kMaxScanOutputs];
  std::int64_t position;  ///< column 0's place along the axis
  std::int64_t position_step;
  std::int64_t column_position;  ///< and what each column adds to it
  std::byte* own;                ///< each column's state within its block of eight; `first` starts a new one
  const std::byte* prefix;       ///< and of everything before that block; null if there is nothing
  std::byte* lag;                ///< what each column's last step left for the next
  bool first;
  bool edge;      ///< the one step whose edge input is another
  bool writes;    ///< or states alone are wanted
  bool streamed;  ///< outputs are stored non-temporally; they are aligned to a cache line, and so are their steps
  bool lag_only;  ///< one step for what it leaves
  std::int64_t steps;
  std::int64_t n;
  std::int64_t part_stride;  ///< bytes from a state's first part to its second
  ScanVariant variant;
};

/// Elements of rows in scan order: of one row, from a multiple of kRowSegment on, or whole rows one after the other.
struct RowRun {
  const std::byte* input[kMaxScanInputs];  ///< the first element; null for what is not there
  std::byte* output[kMaxScanOutputs];
  bool input_back[kMaxScanInputs];  ///< the next element lies before the first: for all but a feed's, or for none
  bool output_back;                 ///< for all or for none
  std::int64_t n;
  std::int64_t rows = 1;                     ///< of n elements each; several have neither prefix nor total
  std::int64_t input_row[kMaxScanInputs];    ///< bytes from row to row
  std::int64_t output_row[kMaxScanOutputs];  ///< the edge's output too
  std::int64_t edge_row;
  std::int64_t position;  ///< the first element's place along the axis
  std::int64_t position_step;
  const double* prefix;    ///< the state of everything before, part by part, integers by their bits; null if none
  double* total;           ///< where the state of kRowSegment or kRowTile elements is left, if it is wanted
  double lag;              ///< what the step before a row left; the last step's is put there, after whole blocks of 64
  bool writes;             ///< or states alone are wanted
  bool streamed;           ///< outputs are stored non-temporally; they are aligned to a cache line
  bool in_lanes;           ///< a feed's values stay as registers have them: runs of whole batches, one each way
  const std::byte* ahead;  ///< memory that is wanted soon, as much as the first input has; or null
  ScanEdge edge;           ///< the end of the run that has an edge's operands, if one has
  const std::byte* edge_input;
  ScanVariant variant;
};

/// A scan for one element kind on one instruction set: its functions, and what schedules have to know.
struct ScanKernel {
  int inputs;  ///< in memory; a fed one comes after them
  int outputs;
  int parts;
  bool lags;  ///< whether steps leave something for the next
  double lag_start;
  void (*step)(const ColumnSteps& steps);
  /// into = left before right, for n columns; `into` may be one of them.
  void (*combine)(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                  std::int64_t part_stride);
  const ScanKernel* feed = nullptr;
  bool states_need_feed = false;  ///< or only the outputs do
  /// The same along rows; null for states that registers do not have.
  void (*row)(RowRun& run) = nullptr;
  std::int64_t row_batch = 0;  ///< elements that registers take at a time along rows
  ScanVariant variant{};
};

/// A run along a row with what the kernel itself says about it.
constexpr RowRun row_run(const ScanKernel& kernel) {
  RowRun run{};
  run.lag = kernel.lag_start;
  run.variant = kernel.variant;
  return run;
}

}  // namespace planck::cpu
