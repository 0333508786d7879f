// A scan as its kernels get it, by value: rows, operands, where the axis is cut, and places in the workspace.
//
// Steps s = 0 … length - 1 are positions of the canonical order: forwards along the scan for values, from its other end
// for gradients. An axis that is cut has segments of 8^level steps. A first kernel finds each segment's total and saves
// what neighbours read of it, since results may overwrite elements; a second one finds the prefix before each segment;
// a third one scans the segments. Every block of threads writes the places of its own steps alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "planck/element.hpp"

namespace planck::cuda {

inline constexpr int kScanInputs = 3;
inline constexpr int kScanOutputs = 3;

/// Where the operands of a task are.
enum ScanSlot : int { kScanIn = 0, kScanOut = 3, kScanInitial = 6, kScanCarryIn, kScanCarryOut, kScanSlots };

struct ScanOperand {
  std::byte* base;    ///< row 0's first step; null if absent
  std::int64_t step;  ///< bytes, along the axis
  ElementKind element;
  std::int64_t stride[core::kMaxLoopRank];  ///< bytes, along the dimensions of the rows
};

/// Which value a step of a scan stores.
enum class ScanValue : std::int32_t {
  Inclusive,
  Exclusive,  ///< the inclusive one of the step before
  Before,     ///< of everything before the step, whole blocks closed
};

enum class ScanMode : std::int32_t {
  Whole,   ///< a row from its first step to its last
  Totals,  ///< the first kernel of a cut axis
  Finish,  ///< the third one
};

struct ScanTask {
  int rank;  ///< of the rows
  std::int64_t extent[core::kMaxLoopRank];
  std::int64_t rows;
  std::int64_t length;
  ScanOperand operand[kScanSlots];
  std::int64_t position;  ///< of step 0; a carry adds to it
  std::int64_t position_step;
  ScanValue value;
  bool moved_dy;  ///< inputs 0 and perhaps 2 are those of the step before; step 0 has some before it
  bool moved_y;
  std::int64_t identity;  ///< the prefix before everything, as the bits of a V
  std::int64_t carry_id;
  bool carries_value;     ///< exclusive: a carry holds the last value
  int level;              ///< of the segments
  std::int64_t segments;  ///< of a row

  // In the workspace, in words of 64 bits.
  std::int64_t* states;     ///< [row][segment][part]: totals, then the prefix before
  std::int64_t* ends;       ///< [row][segment][level][part]: open blocks at a segment's last step, then its value
  std::int64_t* edges;      ///< [row][segment][input]: elements that neighbouring segments read
  std::int64_t* row_words;  ///< [row][2]: the elements before a row, and the value
};

inline constexpr int kRowWords = 2;

/// Where the segments of a ragged batch are along a task's axis, whose offsets only the device reads.
struct ScanSegments {
  const std::byte* offsets;
  std::int64_t offset_step;  ///< bytes
  bool narrow;               ///< s32, not s64
  std::int64_t count;
  std::int64_t length;    ///< of the axis
  bool mirrored;          ///< steps go from the axis' end
  std::int64_t left_out;  ///< of the first steps of each: an exclusive gradient has one less
  std::int64_t initial_step;
  std::int64_t d_initial_step;
};

}  // namespace planck::cuda
