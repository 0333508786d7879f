// What the parts of the scan family tell each other: a kernel's place in the list, and the reference loops.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/scan.hpp"
#include "scan/cpu/columns.hpp"

namespace planck::scan {

constexpr bool is_extremum(ScanKind kind) { return kind == ScanKind::Cummax || kind == ScanKind::Cummin; }

/// A scan as kernels tell them apart.
struct ScanKey {
  ScanKind kind;
  ElementKind element;
  ScanTies ties = ScanTies::First;       ///< Cummax and Cummin only
  std::optional<ElementKind> indices{};  ///< of the winners, for those two
  bool initial = false;                  ///< LinearRecurrence from a given state
  bool exclusive = false;                ///< no kernel's business, but a carry's
};

/// The prefix before the first element of an exclusive scan.
constexpr double identity_of(ScanKind kind) {
  switch (kind) {
    case ScanKind::Cumprod:
      return 1.0;
    case ScanKind::LogCumsumExp:
      return -std::numeric_limits<double>::infinity();
    default:
      return 0.0;
  }
}

/// A kernel's place in the list: rows carry their functions, a plan's request is the same without.
constexpr cpu::KernelRow kernel_row(const ScanKey& key, const cpu::LaneScanKernel* scan = nullptr,
                                    bool backward = false) {
  const bool extremum = is_extremum(key.kind);
  const std::int32_t variant = extremum ? static_cast<std::int32_t>(key.ties) : (key.initial ? 1 : 0);
  return {OpCategory::Scan, static_cast<std::int32_t>(key.kind),   backward, variant, false,
          key.element,      extremum ? key.indices : std::nullopt, nullptr,  nullptr, scan};
}

/// The reference.
namespace reference {
/// The loop's views run forwards along the axis; `reverse` says whether positions count from its end. Operands: the
/// inputs, the output, the indices (if the key has them), and the initial state of a recurrence (or absent). `carries`,
/// if any, are read before and written after each lane; see carry.hpp.
void run(const core::StridedLoop& loop, int axis, bool reverse, const ScanKey& key,
         const core::StridedLoop* carries = nullptr);

/// The inputs of a backward pass: dy, and then what the kind needs of x (or the indices instead) and y; or dh, a, h.
/// All views run from the axis' end to its start, h one step ahead. Then the gradients, and the initial state (or
/// absent).
inline constexpr int kMaxInputs = cpu::kMaxScanInputs;
inline constexpr int kMaxOutputs = cpu::kMaxScanOutputs;
inline constexpr int kX = cpu::kFeedInput;
inline constexpr int kIndices = 1;
inline constexpr int kH = cpu::kEdgeInput;
inline constexpr int kDInitial = cpu::kEdgeOutput;  ///< among the outputs da, db, d_initial

struct BackwardPass {
  int inputs;
  int outputs;
  bool descends;  ///< the first step stands at the axis' last index
};

/// Memory for one lane at a time. Fewer values than the axis has elements make a pass slower, never wrong.
struct LaneMemory {
  double* values;
  std::int64_t count;
};
/// Every kind but Cumsum, for lanes first … last - 1: each is one walk from the axis' end to its start.
void backward(const core::StridedLoop& loop, int axis, const BackwardPass& pass, const ScanKey& key, std::int64_t first,
              std::int64_t last, const LaneMemory& memory);
}  // namespace reference

}  // namespace planck::scan
