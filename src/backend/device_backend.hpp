// What a device library offers to the plans: a table of entry points, in the words that the plans share with the
// reference loops. libplanck knows no CUDA; planck::cuda fills in the table when it is loaded and puts it here.
//
// Every entry only launches: nothing is allocated, waited for, or read from device memory. A failure keeps the
// backend's own code.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "binary/ops.hpp"
#include "core/error_texts.hpp"
#include "core/layout.hpp"
#include "dynamic_range/ops.hpp"
#include "planck/plan.hpp"
#include "quantize/ops.hpp"
#include "scan/ops.hpp"

namespace planck::core {

/// One run on a device: where, for whom, and what memory it may use.
struct DeviceRun {
  std::string_view plan;
  void* stream;
  Workspace workspace;
};

inline constexpr int kMaxDeviceSums = 3;

/// Sums of terms over the dimensions in which their operands, the loop's last `count` ones, are broadcast.
struct DeviceSums {
  int count = 0;
  std::array<int, kMaxDeviceSums> term{};  ///< which of the formula's outputs each of them sums
  ElementKind element = ElementKind::F32;  ///< what they are stored as
  double factor = 1.0;                     ///< multiplies each finished sum, in f64, before it is rounded
};

/// The quantise family. Operands: the formula's tensors that are read (x or q; x and dy), scale, zero point, the tensor
/// that is written (dx may be absent where sums are wanted), and the sums (d_scale: term 1, d_zero_point: term 2).
/// Where scale or zero point is absent, the number stands for it.
struct DeviceQuantize {
  quantize::reference::Problem problem;
  double scale = 1.0;
  std::int64_t zero_point = 0;
  DeviceSums sums{};
};

/// The parameterised binary family. Operands as those of the reference loops: inputs, outputs (da, db and, with a
/// weight tensor, dw; absent where not wanted or summed), and the sums.
struct DeviceBinary {
  BinaryKind kind;
  bool backward;
  elementwise::Weight weight;
  ElementKind element;
  double param;
  DeviceSums sums{};
};

/// A scan or its gradient. The axis of every operand runs in scan order: forwards, or backwards for `reverse`, which
/// only says how positions are counted. Operands forward: as those of scan::reference::run. Backward: `inputs` tensors
/// (dy, then x or indices, then y, as far as the kind needs them; or dh, a, h, which may be absent), `outputs`
/// gradients (dx; or da, db, d_initial, which may be absent), and the initial state (or absent). Exclusive scans are
/// told by the key: operands are not moved. Outputs may be an input's view.
struct DeviceScan {
  scan::ScanKey key;
  bool backward;
  bool reverse;
  int axis;
  int inputs;
  int outputs;
  const StridedLoop* carries = nullptr;  ///< forward only, as scan::reference::run takes them
};

/// What a sum's workspace depends on: a loop's extents and which dimensions are reduced.
struct SumShape {
  int rank = 0;
  std::array<std::int64_t, kMaxLoopRank> extent{};
  std::array<bool, kMaxLoopRank> reduced{};
};

/// A sum without memory behind it, for its shape alone: where its strides are 0 in a loop, that dimension is reduced.
inline AnyTensorMut sum_of_shape(const Shape& shape, ElementKind element) noexcept {
  AnyTensorMut sum;
  sum.element = element;
  sum.shape = shape;
  sum.stride.fill(1);
  return sum;
}

/// Of the sums that are a loop's last operand.
inline SumShape sum_shape(const StridedLoop& loop) noexcept {
  SumShape shape{loop.rank};
  for (int d = 0; d < loop.rank; ++d) {
    shape.extent[d] = loop.extent[d];
    shape.reduced[d] = loop.operand[loop.operands - 1].stride[d] == 0;
  }
  return shape;
}

struct DeviceBackend {
  /// The architecture of the current device; fails where there is no driver or no device.
  Status (*probe)(std::string_view plan, ArchSku& arch) noexcept;

  Status (*quantize)(const DeviceRun& run, const DeviceQuantize& job, const StridedLoop& loop) noexcept;
  Status (*binary)(const DeviceRun& run, const DeviceBinary& job, const StridedLoop& loop) noexcept;
  Status (*dynamic_range)(const DeviceRun& run, const quantize::DynamicRun& job) noexcept;
  Status (*scan)(const DeviceRun& run, const DeviceScan& job, const StridedLoop& loop) noexcept;

  /// Bytes of workspace, of any alignment, that the calls above need for any strides.
  std::size_t (*sums_workspace)(const SumShape& shape, int sums) noexcept;
  std::size_t (*dynamic_range_workspace)(const Shape& shape, const Granularity& scope, ElementKind element) noexcept;
  std::size_t (*scan_workspace)(const DeviceScan& job, const Shape& shape) noexcept;
};

/// The CUDA library's table, or null where it is not loaded.
const DeviceBackend* cuda_backend() noexcept;

/// Called by the CUDA library when it is loaded; null takes it away again.
PLANCK_API void register_cuda_backend(const DeviceBackend* backend) noexcept;

}  // namespace planck::core
