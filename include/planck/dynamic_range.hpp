// Dynamic-range quantisation: scales and zero points are found from the tensor itself.
#pragma once

#include <cstdint>
#include <optional>

#include "planck/granularity.hpp"
#include "planck/plan.hpp"

namespace planck {

/// How a range becomes a scale and a zero point: max|x| / q_max and 0, or (hi - lo) / (q_max - q_min) and the code
/// that lo is one range below.
enum class DynamicRangeMode : std::int32_t { Symmetric = 0, Asymmetric = 1 };
/// What infinities do: the range is that of the finite elements and they saturate, or the run fails.
enum class NonFinite : std::int32_t { Saturate = 0, Error = 1 };

PLANCK_API std::string_view to_string(DynamicRangeMode mode) noexcept;
PLANCK_API std::string_view to_string(NonFinite nonfinite) noexcept;

/// What dynamic-range quantisation does: finds each segment's range, writes the scale and zero point that follow from
/// it, and quantises with them.
struct DynamicRangeQuantizeDescriptor {
  Shape shape;
  std::int64_t q_min = -127;  ///< Symmetric needs q_max > 0, Asymmetric q_max > q_min
  std::int64_t q_max = 127;
  DynamicRangeMode mode = DynamicRangeMode::Symmetric;
  Granularity scope = PerToken{};
  ElementKind input_element = ElementKind::F32;
  ElementKind output_element = ElementKind::S8;
  std::optional<ElementKind> scale_element{};  ///< C (the default) or input_element
  bool zero_in_range = true;                   ///< Asymmetric: widen the range to contain 0
  NonFinite nonfinite = NonFinite::Saturate;
  bool qparams_only = false;  ///< write scales and zero points, no codes

  bool operator==(const DynamicRangeQuantizeDescriptor&) const = default;

  /// n rows of d elements.
  static DynamicRangeQuantizeDescriptor rows(std::int64_t n, std::int64_t d, std::int64_t q_min, std::int64_t q_max,
                                             DynamicRangeMode mode, const Granularity& scope, ElementKind input_element,
                                             ElementKind output_element) noexcept {
    return {{n, d}, q_min, q_max, mode, scope, input_element, output_element, {}, true, NonFinite::Saturate, false};
  }
};

/// Outputs that are not wanted are absent: `zero_point_out` may be for Symmetric, `output` is for qparams_only.
struct DynamicRangeQuantizeArgs {
  AnyTensorRef input;
  AnyTensorMut scale_out;                        ///< of the scope's shape
  std::optional<AnyTensorMut> output{};          ///< the codes
  std::optional<AnyTensorMut> zero_point_out{};  ///< s32, of the scope's shape
  std::optional<AnyTensorMut> row_sum{};         ///< s32, of the scope's shape: the sum of each segment's codes
};

/// DynamicRangeQuantizePlan<Input, Output> with the floats' and the codes' types, or DynamicRangeQuantizePlan<>.
struct PLANCK_API DynamicRangeQuantizeOp {
  using Descriptor = DynamicRangeQuantizeDescriptor;
  using Args = DynamicRangeQuantizeArgs;
  static constexpr std::string_view kName = "DynamicRangeQuantize";
  static constexpr std::size_t kElements = 2;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using DynamicRangeQuantizePlan = Plan<DynamicRangeQuantizeOp, T...>;

}  // namespace planck
