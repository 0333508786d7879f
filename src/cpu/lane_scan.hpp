// The scan engine: independent lanes side by side, each scanned in the canonical order of
// src/numerics/canonical_order.hpp.
//
// All lanes stand at the same position, so one step of a kernel takes each of them one element further, and every
// eighth step closes a block for all of them at once. Lanes are the elements of an inner dimension, or rows that are
// turned into columns tile by tile, or whole blocks of one long row. None of this changes a bit.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"

namespace planck::cpu {

inline constexpr int kMaxScanInputs = 3;
inline constexpr int kMaxScanParts = 2;
/// States are kept part by part, eight bytes a lane.
inline constexpr std::int64_t kPartBytes = 8;

/// One step of n lanes.
struct LaneStep {
  const void* input[kMaxScanInputs];
  void* output;                ///< the value of each lane, or null
  void* indices;               ///< where its winner stands, for kernels that know
  std::int64_t position;       ///< lane 0's place along the axis
  std::int64_t lane_position;  ///< and what each lane adds to it
  std::byte* own;              ///< each lane's state within its block of eight; `first` starts a new one
  const std::byte* before;     ///< and of everything before that block; null if there is nothing
  bool first;
  bool begin;  ///< the axis' first element, where some scans start from a given state
  std::int64_t n;
  std::int64_t part_stride;  ///< bytes from a state's first part to its second
};

struct LaneScanKernel {
  int inputs;
  int parts;
  void (*step)(const LaneStep& step);
  /// into = left before right, for n lanes; `into` may be one of them.
  void (*combine)(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                  std::int64_t part_stride);
};

struct LaneScan {
  const LaneScanKernel& kernel;
  /// Operands: the kernel's inputs, the output, the indices (or absent). The axis runs in scan order.
  core::StridedLoop loop;
  int axis;
  bool reverse;  ///< the views were flipped along the axis: positions count from its end
};

/// Bytes that let a few long lanes be shared among threads; the engine is content with less.
std::size_t lane_scan_workspace(std::int64_t lanes, std::int64_t length, int parts, int threads) noexcept;

/// The output may be an input's view.
void run_lane_scan(const Stream& stream, const LaneScan& scan, const Workspace& workspace) noexcept;

}  // namespace planck::cpu
