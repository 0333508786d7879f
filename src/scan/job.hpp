// A scan or its gradient as its plan hands it to a backend.
#pragma once

#include <optional>

#include "core/layout.hpp"
#include "scan/kinds.hpp"
#include "scan/segments.hpp"

namespace planck::scan {

/// The axis of every operand runs in scan order: forwards, or backwards for `reverse`, which only says how positions
/// are counted. Outputs may be an input's view. Exclusive scans are told by the key: operands are not moved.
struct ScanJob {
  ScanKey key;
  bool backward;
  bool reverse;
  int axis;
  int inputs = 0;
  int outputs = 0;
  /// Forward only: carries that come in and go out (or absent), whose axis counts words; see carry.hpp.
  const core::StridedLoop* carries = nullptr;
  /// Operands forward: `inputs` tensors, the output, the indices (if the key has them), and the initial state (or
  /// absent). Backward: `inputs` tensors as kX, kIndices and kH place them (h may be absent), `outputs` gradients (dx;
  /// or da, db, d_initial, which may be absent), and the initial state (or absent). A backend may rewrite the loop.
  core::StridedLoop* loop = nullptr;
  /// Of a ragged batch, which has no carries: the axis' segments, whose initial states, and the gradients of those, do
  /// not move along the axis.
  std::optional<Segments> segments{};

  /// The operand of the initial state.
  int initial_operand() const { return inputs + outputs; }
};

}  // namespace planck::scan
