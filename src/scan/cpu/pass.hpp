// A pass of a scan on the CPU: its kernel, its operands, and where it goes on from.
#pragma once

#include <cstdint>

#include "core/layout.hpp"
#include "scan/cpu/kernel.hpp"

namespace planck::cpu {

/// A scan that goes on where another ended, or is gone on with: at a multiple of 8^kCarryLevel elements, with two words
/// for each level from kCarryLevel on.
struct ScanCarry {
  std::int64_t before = 0;   ///< elements before, which also are added to positions
  std::int64_t in_word = 0;  ///< bytes from word to word
  std::int64_t out_word = 0;
};

/// One pass of a kernel over an axis: what the schedules of rows and of columns run.
struct ScanPass {
  const ScanKernel& kernel;
  /// Operands: the kernel's inputs, its outputs, the edge's input (or absent), and perhaps the carries' words, coming
  /// in and going out (or absent), which are broadcast along the axis. The axis runs in scan order.
  const core::StridedLoop& loop;
  int axis;
  bool descends;  ///< positions count from the axis' end
  ScanEdge edge = ScanEdge::None;
  /// No output replaces an input that other steps read: then the axis may be cut.
  bool cuttable = true;
  ScanCarry carry{};

  int carry_in() const { return carry_operand(0); }
  int carry_out() const { return carry_operand(1); }

 private:
  /// -1 if there is none.
  int carry_operand(int k) const {
    const int operand = kernel.inputs + kernel.outputs + 1 + k;
    return operand < loop.operands && loop.operand[operand].base != nullptr ? operand : -1;
  }
};

/// What a scan keeps for each row or column, in eight-byte values.
struct ScanStates {
  int parts;
  bool lags = false;
  int feed_parts = 0;
};

}  // namespace planck::cpu
