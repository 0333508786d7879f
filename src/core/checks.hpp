// All argument checks, written once and free of backends. Each returns the first thing wrong, by name.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "core/error_texts.hpp"
#include "core/layout.hpp"
#include "core/limits.hpp"
#include "core/overlap.hpp"
#include "planck/plan.hpp"
#include "planck/tensor.hpp"

namespace planck::core {

/// Rank, extents and total size of a shape in a descriptor.
Status check_shape(std::string_view plan, std::string_view name, const Shape& shape) noexcept;

/// `small` repeats to `shape`: right-aligned, each extent equal or 1.
Status check_broadcast(std::string_view plan, std::string_view name, const Shape& small, const Shape& shape) noexcept;

/// A typed plan's parameter against the descriptor's field; nothing to do for an untyped plan.
Status check_type_parameter(std::string_view plan, std::string_view field, std::span<const ElementKind> expected,
                            std::size_t index, ElementKind element) noexcept;

/// Scale and zero point as docs/ops/quantize.md wants them; `compute` is C.
inline bool is_scale(double scale, ElementKind compute) noexcept {
  if (compute == ElementKind::F64) {
    return scale >= std::numeric_limits<double>::min() && scale <= std::numeric_limits<double>::max();
  }
  const auto rounded = static_cast<float>(scale);
  return rounded >= std::numeric_limits<float>::min() && rounded <= std::numeric_limits<float>::max();
}
constexpr bool is_zero_point(std::int64_t zero_point) noexcept {
  return zero_point >= -kMaxZeroPoint && zero_point <= kMaxZeroPoint;
}
/// The same, with what is wrong.
Status check_scale(std::string_view plan, double scale, ElementKind compute) noexcept;
Status check_zero_point(std::string_view plan, std::int64_t zero_point) noexcept;

/// How a tensor takes part in a run.
enum class Role {
  Input,
  Output,        ///< may be exactly the view of an input
  SummedOutput,  ///< made of many elements, as summed gradients are: shares no memory with anything
  LastingInput,  ///< read for every element: shares memory with no output
  CarryInput,    ///< read, and shares memory with nothing but a CarryOutput that is exactly the same view
  CarryOutput,
};

/// One tensor argument, with what the descriptor says of it.
struct Operand {
  std::string_view name;
  Role role;
  View view;
  ElementKind element;
  const Shape* shape;
};

/// A run's tensors: each on its own (element, shape, data, alignment, span, injectivity), then the outputs
/// against everything else.
class OperandChecks {
 public:
  explicit OperandChecks(std::string_view plan) noexcept : plan_(plan) {}

  Status add(const Operand& operand) noexcept;
  /// The aliasing rule over all tensors added.
  Status check_overlaps() const noexcept;
  /// Size and place of the workspace.
  Status check_workspace(const Workspace& workspace, std::size_t needed) const noexcept;

 private:
  struct Checked {
    std::string_view name;
    Role role;
    ElementKind element;
    bool empty;
    std::int64_t first;  ///< address of element (0, 0, …)
    std::int64_t begin;  ///< first byte touched
    std::int64_t end;    ///< one past the last
    const Shape* shape;
    const std::array<std::int64_t, kMaxRank>* stride;

    /// Only where two tensors come close: most never do.
    ByteView bytes() const noexcept;
  };
  static constexpr int kMaxTensors = 8;

  std::string_view plan_;
  std::array<Checked, kMaxTensors> tensors_;
  int count_ = 0;
};

/// The number of elements; the shape has passed check_shape.
std::int64_t numel(const Shape& shape) noexcept;

}  // namespace planck::core
