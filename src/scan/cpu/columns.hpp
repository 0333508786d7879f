// The scan engine: independent lanes side by side, each scanned in the canonical order of
// src/numerics/canonical_order.hpp.
//
// All lanes stand at the same position, so one call of a kernel takes each of them up to eight elements further, to the
// end of a block. Lanes are the elements of an inner dimension, or rows that are turned into columns tile by tile, or
// whole blocks of one long row. None of this changes a bit.
//
// A backward pass is such a scan from the axis' end to its start. Some need what a scan from the start found at each
// element: that one, the feed, runs first and keeps its states every kTileSteps elements, from where each tile of it is
// found again.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "numerics/canonical_order.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"
#include "scan/kinds.hpp"

namespace planck::cpu {

using scan::kCarryLevel;
using scan::kMaxScanInputs;
using scan::kMaxScanOutputs;
using scan::kMaxScanParts;
/// States are kept part by part, eight bytes a lane.
inline constexpr std::int64_t kPartBytes = 8;

/// The input that a feed reads.
inline constexpr int kFeedInput = scan::kX;
/// The input that has its own operand at one end of the axis, and the output that is written there alone.
inline constexpr int kEdgeInput = scan::kH;
inline constexpr int kEdgeOutput = scan::kDInitial;

/// Up to eight steps of n lanes.
struct LaneSteps {
  const std::byte* input[kMaxScanInputs];  ///< the first step's elements; null for what is not there
  std::int64_t input_step[kMaxScanInputs];
  std::byte* output[kMaxScanOutputs];
  std::int64_t output_step[kMaxScanOutputs];
  std::int64_t position;  ///< lane 0's place along the axis
  std::int64_t position_step;
  std::int64_t lane_position;  ///< and what each lane adds to it
  std::byte* own;              ///< each lane's state within its block of eight; `first` starts a new one
  const std::byte* before;     ///< and of everything before that block; null if there is nothing
  std::byte* lag;              ///< what each lane's last step left for the next
  bool first;
  bool edge;      ///< the one step whose edge input is another
  bool writes;    ///< or states alone are wanted
  bool streamed;  ///< outputs are stored non-temporally; they are aligned to a cache line, and so are their steps
  bool lag_only;  ///< one step for what it leaves
  std::int64_t steps;
  std::int64_t n;
  std::int64_t part_stride;  ///< bytes from a state's first part to its second
};

struct RowRun;

struct LaneScanKernel {
  int inputs;  ///< in memory; a fed one comes after them
  int outputs;
  int parts;
  bool lags;  ///< whether steps leave something for the next
  double lag_start;
  void (*step)(const LaneSteps& steps);
  /// into = left before right, for n lanes; `into` may be one of them.
  void (*combine)(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                  std::int64_t part_stride);
  const LaneScanKernel* feed = nullptr;
  bool states_need_feed = false;  ///< or only the outputs do
  /// The same along one row, for scans whose steps are cheap; null for others. See rows.hpp.
  void (*row)(RowRun& run) = nullptr;
};

enum class ScanEdge { None, First, Last };

/// A scan that goes on where another ended, or is gone on with: at a multiple of 8^kCarryLevel elements, with two words
/// for each level from kCarryLevel on.
struct LaneCarry {
  std::int64_t before = 0;   ///< elements before, which also are added to positions
  std::int64_t in_word = 0;  ///< bytes from word to word
  std::int64_t out_word = 0;
};

struct LaneScan {
  const LaneScanKernel& kernel;
  /// Operands: the kernel's inputs, its outputs, the edge's input (or absent), and perhaps the carries' words, coming
  /// in and going out (or absent), which are broadcast along the axis. The axis runs in scan order.
  const core::StridedLoop& loop;
  int axis;
  bool descends;  ///< positions count from the axis' end
  ScanEdge edge = ScanEdge::None;
  /// No output replaces an input that other steps read: then the axis may be cut.
  bool cuttable = true;
  LaneCarry carry{};

  int carry_in() const { return carry_operand(0); }
  int carry_out() const { return carry_operand(1); }

 private:
  /// -1 if there is none.
  int carry_operand(int k) const {
    const int operand = kernel.inputs + kernel.outputs + 1 + k;
    return operand < loop.operands && loop.operand[operand].base != nullptr ? operand : -1;
  }
};

/// What a scan keeps for each lane.
struct LaneStates {
  int parts;
  bool lags = false;
  int feed_parts = 0;
};

}  // namespace planck::cpu
