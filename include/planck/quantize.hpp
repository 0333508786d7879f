// Quantisation plans: quantise, dequantise and fake-quantise at every granularity, forward and backward.
//
// Three operations and their gradients are one family with one formula. The reference system's names
// (QuantizePerTokenPlan, DequantizePerGroupBackwardPlan, …) are the same plans held to one granularity.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <variant>

#include "planck/plan.hpp"

namespace planck {

/// How x is brought to code units: x / scale (ONNX), or x * (1 / scale) with the reciprocal rounded once (PyTorch).
enum class ScaleForm : std::int32_t { Divide = 0, Reciprocal = 1 };

PLANCK_API std::string_view to_string(ScaleForm form) noexcept;

// Which elements share one scale and zero point (a segment), and so the shape of the scale tensor.

/// One for the whole tensor: a number, or a tensor of rank 0.
struct PerTensor {
  bool operator==(const PerTensor&) const = default;
};
/// One for each index along `axis` (negative counts from the end): shape [shape[axis]].
struct PerChannel {
  int axis = 0;
  bool operator==(const PerChannel&) const = default;
};
/// One for each row along the last axis: `shape` without its last axis.
struct PerToken {
  bool operator==(const PerToken&) const = default;
};
/// One for every `group_size` neighbours along `axis`, the last group perhaps shorter: `shape` with shape[axis]
/// replaced by the number of groups.
struct PerGroup {
  int axis = -1;
  std::int64_t group_size = 1;
  bool operator==(const PerGroup&) const = default;
};

using Granularity = std::variant<PerTensor, PerChannel, PerToken, PerGroup>;

/// The shape of a scale or zero-point tensor; the granularity must fit the shape, as `select` checks.
PLANCK_API Shape qparams_shape(const Shape& shape, const Granularity& granularity) noexcept;

/// A scale or zero point of a run: one number for every segment, or a tensor with one each.
template <class Number>
class QParam {
 public:
  constexpr QParam(Number number = {}) noexcept : number_(number) {}
  template <class View>
  requires(!std::is_arithmetic_v<View> &&
           std::convertible_to<const View&, AnyTensorRef>) constexpr QParam(const View& view) noexcept
      : tensor_(AnyTensorRef(view)) {}

  Number number() const noexcept { return number_; }
  const AnyTensorRef* tensor() const noexcept { return tensor_ ? &*tensor_ : nullptr; }

 private:
  Number number_{};
  std::optional<AnyTensorRef> tensor_;
};

/// Finite, at least C's smallest normal number. A number is rounded to C and serves PerTensor only; a tensor holds
/// the descriptor's scale_element.
using ScaleArg = QParam<double>;
/// |zp| <= 2^20; a number, or a tensor of s32. Left out, it is 0.
using ZeroPointArg = QParam<std::int64_t>;

/// What quantise does, forward and backward: floats of `input_element` to codes of `output_element`.
struct QuantizeDescriptor {
  Shape shape;
  std::int64_t q_min = -128;  ///< q_min <= q_max, both inside the codes' type
  std::int64_t q_max = 127;
  ElementKind input_element = ElementKind::F32;
  ElementKind output_element = ElementKind::S8;
  Granularity granularity = PerTensor{};
  ScaleForm scale_form = ScaleForm::Divide;
  std::optional<ElementKind> scale_element{};  ///< of a scale tensor: C (the default) or input_element
  bool trust_qparams = false;  ///< skip the check of scales and zero points; bad values then give unspecified codes

  bool operator==(const QuantizeDescriptor&) const = default;

  // The reference system's fields, for the named plans.
  static QuantizeDescriptor flat(std::int64_t numel, std::int64_t q_min, std::int64_t q_max, ElementKind input_element,
                                 ElementKind output_element) noexcept {
    return of({numel}, PerTensor{}, q_min, q_max, input_element, output_element);
  }
  static QuantizeDescriptor channels(const Shape& shape, int axis, std::int64_t q_min, std::int64_t q_max,
                                     ElementKind input_element, ElementKind output_element) noexcept {
    return of(shape, PerChannel{axis}, q_min, q_max, input_element, output_element);
  }
  static QuantizeDescriptor rows(std::int64_t n, std::int64_t d, std::int64_t q_min, std::int64_t q_max,
                                 ElementKind input_element, ElementKind output_element) noexcept {
    return of({n, d}, PerToken{}, q_min, q_max, input_element, output_element);
  }
  static QuantizeDescriptor groups(std::int64_t outer_size, std::int64_t axis_size, std::int64_t group_size,
                                   std::int64_t q_min, std::int64_t q_max, ElementKind input_element,
                                   ElementKind output_element) noexcept {
    return of({outer_size, axis_size}, PerGroup{1, group_size}, q_min, q_max, input_element, output_element);
  }

 private:
  static QuantizeDescriptor of(const Shape& shape, const Granularity& granularity, std::int64_t q_min,
                               std::int64_t q_max, ElementKind input_element, ElementKind output_element) noexcept {
    return {shape, q_min, q_max, input_element, output_element, granularity, ScaleForm::Divide, {}, false};
  }
};

/// q = clamp(rne(x / scale), q_min - zp, q_max - zp) + zp; NaN gives zp, limited to the range.
struct QuantizeArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorMut output;
};

using QuantizeBackwardDescriptor = QuantizeDescriptor;

/// dx = dy / scale where q_min - zp <= rne(x / scale) <= q_max - zp, else +0; NaN x is outside. The gradients hold
/// input_element. `d_input` may be the same view as `input` or `d_output`.
struct QuantizeBackwardArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorRef d_output;
  AnyTensorMut d_input;
};

/// What dequantise does, forward and backward: codes of `input_element` to floats of `output_element`.
struct DequantizeDescriptor {
  Shape shape;
  ElementKind input_element = ElementKind::S8;
  ElementKind output_element = ElementKind::F32;
  Granularity granularity = PerTensor{};
  std::optional<ElementKind> scale_element{};  ///< of a scale tensor: C (the default) or output_element
  bool trust_qparams = false;

  bool operator==(const DequantizeDescriptor&) const = default;

  static DequantizeDescriptor flat(std::int64_t numel, ElementKind input_element, ElementKind output_element) noexcept {
    return {{numel}, input_element, output_element, PerTensor{}, {}, false};
  }
  static DequantizeDescriptor channels(const Shape& shape, int axis, ElementKind input_element,
                                       ElementKind output_element) noexcept {
    return {shape, input_element, output_element, PerChannel{axis}, {}, false};
  }
  static DequantizeDescriptor rows(std::int64_t n, std::int64_t d, ElementKind input_element,
                                   ElementKind output_element) noexcept {
    return {{n, d}, input_element, output_element, PerToken{}, {}, false};
  }
  static DequantizeDescriptor groups(std::int64_t outer_size, std::int64_t axis_size, std::int64_t group_size,
                                     ElementKind input_element, ElementKind output_element) noexcept {
    return {{outer_size, axis_size}, input_element, output_element, PerGroup{1, group_size}, {}, false};
  }
};

/// x = scale * (q - zp).
struct DequantizeArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorMut output;
};

using DequantizeBackwardDescriptor = DequantizeDescriptor;

/// dq = dy * scale, in the float kind. `d_input` may be the same view as `d_output`.
struct DequantizeBackwardArgs {
  ScaleArg scale = 1.0;
  AnyTensorRef d_output;
  AnyTensorMut d_input;
};

/// What fake-quantise does, forward and backward.
struct FakeQuantizeDescriptor {
  Shape shape;
  std::int64_t q_min = -128;  ///< q_min <= q_max, both inside ±2^20
  std::int64_t q_max = 127;
  ElementKind input_element = ElementKind::F32;
  Granularity granularity = PerTensor{};
  ScaleForm scale_form = ScaleForm::Divide;
  std::optional<ElementKind> scale_element{};  ///< of a scale tensor: C (the default) or input_element
  bool trust_qparams = false;
  bool learnable = false;  ///< the backward plan also gives d_scale and d_zero_point, which takes a workspace

  bool operator==(const FakeQuantizeDescriptor&) const = default;

  static FakeQuantizeDescriptor flat(std::int64_t numel, std::int64_t q_min, std::int64_t q_max,
                                     ElementKind input_element) noexcept {
    return of({numel}, PerTensor{}, q_min, q_max, input_element);
  }
  static FakeQuantizeDescriptor channels(const Shape& shape, int axis, std::int64_t q_min, std::int64_t q_max,
                                         ElementKind input_element) noexcept {
    return of(shape, PerChannel{axis}, q_min, q_max, input_element);
  }
  static FakeQuantizeDescriptor rows(std::int64_t n, std::int64_t d, std::int64_t q_min, std::int64_t q_max,
                                     ElementKind input_element) noexcept {
    return of({n, d}, PerToken{}, q_min, q_max, input_element);
  }
  static FakeQuantizeDescriptor groups(std::int64_t outer_size, std::int64_t axis_size, std::int64_t group_size,
                                       std::int64_t q_min, std::int64_t q_max, ElementKind input_element) noexcept {
    return of({outer_size, axis_size}, PerGroup{1, group_size}, q_min, q_max, input_element);
  }

 private:
  static FakeQuantizeDescriptor of(const Shape& shape, const Granularity& granularity, std::int64_t q_min,
                                   std::int64_t q_max, ElementKind input_element) noexcept {
    return {shape, q_min, q_max, input_element, granularity, ScaleForm::Divide, {}, false, false};
  }
};

/// y = scale * clamp(rne(x / scale), q_min - zp, q_max - zp); NaN stays NaN, a zero is +0.
/// `output` may be the same view as `input`.
struct FakeQuantizeArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorMut output;
};

using FakeQuantizeBackwardDescriptor = FakeQuantizeDescriptor;

/// dx = dy where q_min - zp <= rne(x / scale) <= q_max - zp, else +0; NaN x is outside.
/// `d_input` may be the same view as `input` or `d_output`.
///
/// d_scale and d_zero_point have the shape of the scale, hold scale_element, and are sums over each segment, times
/// grad_factor; they need a descriptor that says `learnable`. Outputs that are not wanted are absent.
struct FakeQuantizeBackwardArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorRef d_output;
  std::optional<AnyTensorMut> d_input{};
  std::optional<AnyTensorMut> d_scale{};
  std::optional<AnyTensorMut> d_zero_point{};
  double grad_factor = 1.0;
};

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

  /// The reference system's fields: n rows of d elements.
  static DynamicRangeQuantizeDescriptor rows(std::int64_t n, std::int64_t d, std::int64_t q_min, std::int64_t q_max,
                                             DynamicRangeMode mode, const Granularity& scope, ElementKind input_element,
                                             ElementKind output_element) noexcept {
    return {{n, d}, q_min, q_max, mode, scope, input_element, output_element, {}, true, NonFinite::Saturate, false};
  }
};

/// Outputs that are not wanted are absent: `zero_point` may be for Symmetric, `output` is for qparams_only.
struct DynamicRangeQuantizeArgs {
  AnyTensorRef input;
  AnyTensorMut scale;                        ///< of the scope's shape
  std::optional<AnyTensorMut> output{};      ///< the codes
  std::optional<AnyTensorMut> zero_point{};  ///< s32, of the scope's shape
  std::optional<AnyTensorMut> row_sum{};     ///< s32, of the scope's shape: the sum of each segment's codes
};

PLANCK_DECLARE_OP(DynamicRangeQuantize, 2);
PLANCK_DECLARE_OP(Quantize, 2);
PLANCK_DECLARE_OP(QuantizeBackward, 2);
PLANCK_DECLARE_OP(Dequantize, 2);
PLANCK_DECLARE_OP(DequantizeBackward, 2);
PLANCK_DECLARE_OP(FakeQuantize, 1);
PLANCK_DECLARE_OP(FakeQuantizeBackward, 1);

namespace detail {
/// The error of a named plan whose descriptor has another granularity: `wanted` is an index of Granularity.
PLANCK_API Error other_granularity(std::string_view op, std::size_t wanted, const Granularity& got) noexcept;

/// A plan of the family held to granularity G.
template <class Op, class G>
struct WithGranularity : Op {
  static Result<PlanChoice> select(const Stream& stream, const typename Op::Descriptor& descriptor,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    if (!std::holds_alternative<G>(descriptor.granularity)) {
      return tl::unexpected(other_granularity(Op::kName, Granularity(G{}).index(), descriptor.granularity));
    }
    return Op::select(stream, descriptor, preference, expected);
  }
};
}  // namespace detail

// The reference system's names: Family##PerTensorPlan and so on, with their descriptors and arguments.
#define PLANCK_NAME_GRANULARITY(Family, Kind)                                       \
  using Family##Kind##Descriptor = Family##Descriptor;                              \
  using Family##Kind##Args = Family##Args;                                          \
  template <class... T>                                                             \
  using Family##Kind##Plan = Plan<detail::WithGranularity<Family##Op, Kind>, T...>; \
  using Family##Kind##BackwardDescriptor = Family##Descriptor;                      \
  using Family##Kind##BackwardArgs = Family##BackwardArgs;                          \
  template <class... T>                                                             \
  using Family##Kind##BackwardPlan = Plan<detail::WithGranularity<Family##BackwardOp, Kind>, T...>
#define PLANCK_NAME_GRANULARITIES(Family)      \
  PLANCK_NAME_GRANULARITY(Family, PerTensor);  \
  PLANCK_NAME_GRANULARITY(Family, PerChannel); \
  PLANCK_NAME_GRANULARITY(Family, PerToken);   \
  PLANCK_NAME_GRANULARITY(Family, PerGroup)
PLANCK_NAME_GRANULARITIES(Quantize);
PLANCK_NAME_GRANULARITIES(Dequantize);
PLANCK_NAME_GRANULARITIES(FakeQuantize);
#undef PLANCK_NAME_GRANULARITIES
#undef PLANCK_NAME_GRANULARITY

}  // namespace planck
