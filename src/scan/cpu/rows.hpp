// Scans along rows: an axis whose elements lie side by side, one row after the other or in pieces.
//
// The blocks of eight of one row stand beside each other in a register and are scanned together; then what stands
// before each of them is found from their totals. Like the lanes of columns.hpp, in the canonical order.
#pragma once

#include <cstdint>

#include "scan/cpu/columns.hpp"

namespace planck::cpu {

/// Elements of one row in scan order, from a multiple of kRowPiece on.
struct RowRun {
  const std::byte* input[kMaxScanInputs];  ///< the first element; null for what is not there
  std::byte* output[kMaxScanOutputs];
  bool input_back[kMaxScanInputs];  ///< the next element lies before the first
  bool output_back[kMaxScanOutputs];
  std::int64_t n;
  std::int64_t position;  ///< the first element's place along the axis
  std::int64_t position_step;
  const double* before;    ///< the state of everything before, part by part; null if there is nothing
  double* total;           ///< where the state of a run of kRowPiece elements is left, if it is wanted
  double lag;              ///< what the step before left; the last step's is put there
  bool writes;             ///< or states alone are wanted
  bool streamed;           ///< outputs are stored non-temporally; they are aligned to a cache line
  bool in_lanes;           ///< a feed's values stay as registers have them: runs of whole groups, one each way
  const std::byte* ahead;  ///< memory that is wanted soon, as much as the first input has; or null
  ScanEdge edge;           ///< at which end of the run an edge's operands stand, if it has any
  const std::byte* edge_input;
};

/// A run that begins elsewhere than at a row's start begins at a multiple of this.
inline constexpr std::int64_t kRowPiece = numerics::kCarryBlock;

/// What is read twice in a row that threads share, piece by piece: still in the last-level cache the second time.
inline constexpr std::int64_t kRowChunkBytes = 8 << 20;
/// The same as a variable, for tests of many chunks in short rows.
extern std::int64_t row_chunk_bytes;

}  // namespace planck::cpu
