// Quantisation plans: quantise, dequantise and fake-quantise at every granularity, forward and backward.
//
// Three operations and their gradients are one family with one formula. planck/quantize_granularities.hpp has the same
// plans held to one granularity each (QuantizePerTokenPlan, DequantizePerGroupBackwardPlan, …).
#pragma once

#include <cstdint>
#include <optional>

#include "planck/granularity.hpp"
#include "planck/plan.hpp"

namespace planck {

/// How x is brought to code units: x / scale (ONNX), or x * (1 / scale) with the reciprocal rounded once (PyTorch).
enum class ScaleForm : std::int32_t { Divide = 0, Reciprocal = 1 };

PLANCK_API std::string_view to_string(ScaleForm form) noexcept;

/// What quantise does, forward and backward: floats of `input_element` to codes of `output_element`.
struct QuantizeDescriptor {
  Shape shape;
  std::int64_t q_min = -128;  ///< q_min <= q_max, both numbers of the codes' type: ±448 of f8e4m3, ±57344 of f8e5m2
  std::int64_t q_max = 127;
  ElementKind input_element = ElementKind::F32;
  ElementKind output_element = ElementKind::S8;
  Granularity scope = PerTensor{};
  ScaleForm scale_form = ScaleForm::Divide;
  std::optional<ElementKind> scale_element{};  ///< of a scale tensor: C (the default) or input_element
  bool trust_qparams = false;  ///< skip the check of scales and zero points; bad values then give unspecified codes
  /// False: codes of f8e4m3 and f8e5m2 overflow, to NaN and to infinities, in place of becoming q_min or q_max.
  bool saturate = true;

  bool operator==(const QuantizeDescriptor&) const = default;

  // For the plans held to one granularity.
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
  static QuantizeDescriptor of(const Shape& shape, const Granularity& scope, std::int64_t q_min, std::int64_t q_max,
                               ElementKind input_element, ElementKind output_element) noexcept {
    return {shape, q_min, q_max, input_element, output_element, scope, ScaleForm::Divide, {}, false, true};
  }
};

/// q = clamp(rne(x / scale), q_min - zp, q_max - zp) + zp; NaN gives zp, limited to the range. Codes of f8e4m3 and
/// f8e5m2: q = clamp(x / scale, q_min, q_max), rounded once; NaN gives NaN, and there is no zero point.
struct QuantizeArgs {
  AnyTensorRef input;
  ScaleArg scale = 1.0;
  ZeroPointArg zero_point = 0;
  AnyTensorMut output;
};

using QuantizeBackwardDescriptor = QuantizeDescriptor;

/// dx = dy / scale where q_min - zp <= rne(x / scale) <= q_max - zp, else +0; NaN x is outside. Codes of f8e4m3 and
/// f8e5m2 are rounded to their own numbers in place of integers. The gradients hold input_element. `d_input` may be the
/// same view as `input` or `d_output`.
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
  Granularity scope = PerTensor{};
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
  Granularity scope = PerTensor{};
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
  static FakeQuantizeDescriptor of(const Shape& shape, const Granularity& scope, std::int64_t q_min, std::int64_t q_max,
                                   ElementKind input_element) noexcept {
    return {shape, q_min, q_max, input_element, scope, ScaleForm::Divide, {}, false, false};
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

/// QuantizePlan<Input, Output> with the floats' and the codes' types or, with elements as values, QuantizePlan<>.
struct PLANCK_API QuantizeOp {
  using Descriptor = QuantizeDescriptor;
  using Args = QuantizeArgs;
  static constexpr std::string_view kName = "Quantize";
  static constexpr std::size_t kElements = 2;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using QuantizePlan = Plan<QuantizeOp, T...>;

struct PLANCK_API QuantizeBackwardOp {
  using Descriptor = QuantizeBackwardDescriptor;
  using Args = QuantizeBackwardArgs;
  static constexpr std::string_view kName = "QuantizeBackward";
  static constexpr std::size_t kElements = 2;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using QuantizeBackwardPlan = Plan<QuantizeBackwardOp, T...>;

/// DequantizePlan<Input, Output> with the codes' and the floats' types, or DequantizePlan<>.
struct PLANCK_API DequantizeOp {
  using Descriptor = DequantizeDescriptor;
  using Args = DequantizeArgs;
  static constexpr std::string_view kName = "Dequantize";
  static constexpr std::size_t kElements = 2;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using DequantizePlan = Plan<DequantizeOp, T...>;

struct PLANCK_API DequantizeBackwardOp {
  using Descriptor = DequantizeBackwardDescriptor;
  using Args = DequantizeBackwardArgs;
  static constexpr std::string_view kName = "DequantizeBackward";
  static constexpr std::size_t kElements = 2;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using DequantizeBackwardPlan = Plan<DequantizeBackwardOp, T...>;

/// FakeQuantizePlan<T> or FakeQuantizePlan<>.
struct PLANCK_API FakeQuantizeOp {
  using Descriptor = FakeQuantizeDescriptor;
  using Args = FakeQuantizeArgs;
  static constexpr std::string_view kName = "FakeQuantize";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using FakeQuantizePlan = Plan<FakeQuantizeOp, T...>;

struct PLANCK_API FakeQuantizeBackwardOp {
  using Descriptor = FakeQuantizeBackwardDescriptor;
  using Args = FakeQuantizeBackwardArgs;
  static constexpr std::string_view kName = "FakeQuantizeBackward";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using FakeQuantizeBackwardPlan = Plan<FakeQuantizeBackwardOp, T...>;

}  // namespace planck
