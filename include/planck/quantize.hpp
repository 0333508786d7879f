// Quantisation plans: fake-quantise and dequantise, per tensor, forward and backward.
#pragma once

#include <cstdint>

#include "planck/plan.hpp"

namespace planck {

/// How x is brought to code units: x / scale (ONNX), or x * (1 / scale) with the reciprocal rounded once (PyTorch).
enum class ScaleForm : std::int32_t { Divide = 0, Reciprocal = 1 };

PLANCK_API std::string_view to_string(ScaleForm form) noexcept;

/// What fake-quantise does, forward and backward.
struct FakeQuantizeDescriptor {
  Shape shape;
  std::int64_t q_min = -128;  ///< q_min <= q_max, both inside ±2^20
  std::int64_t q_max = 127;
  ElementKind input_element = ElementKind::F32;
  ScaleForm scale_form = ScaleForm::Divide;
  bool trust_qparams = false;  ///< skip the check of scale and zero point; bad values then give unspecified codes

  /// The reference system's fields: a tensor of `numel` elements.
  static FakeQuantizeDescriptor flat(std::int64_t numel, std::int64_t q_min, std::int64_t q_max,
                                     ElementKind input_element) noexcept {
    return {Shape{numel}, q_min, q_max, input_element, ScaleForm::Divide, false};
  }
};

/// y = scale * clamp(rne(x / scale), q_min - zp, q_max - zp); NaN stays NaN, a zero is +0.
/// `output` may be the same view as `input`.
struct FakeQuantizeArgs {
  AnyTensorRef input;
  double scale = 1.0;           ///< rounded to C; finite, at least C's smallest normal number
  std::int64_t zero_point = 0;  ///< |zp| <= 2^20
  AnyTensorMut output;
};

using FakeQuantizeBackwardDescriptor = FakeQuantizeDescriptor;

/// dx = dy where q_min - zp <= rne(x / scale) <= q_max - zp, else +0; NaN x is outside.
/// `d_input` may be the same view as `input` or `d_output`.
struct FakeQuantizeBackwardArgs {
  AnyTensorRef input;
  double scale = 1.0;
  std::int64_t zero_point = 0;
  AnyTensorRef d_output;
  AnyTensorMut d_input;
};

/// What dequantise does, forward and backward: codes of `input_element` to floats of `output_element`.
struct DequantizePerTensorDescriptor {
  Shape shape;
  ElementKind input_element = ElementKind::S8;
  ElementKind output_element = ElementKind::F32;
  bool trust_qparams = false;

  static DequantizePerTensorDescriptor flat(std::int64_t numel, ElementKind input_element,
                                            ElementKind output_element) noexcept {
    return {Shape{numel}, input_element, output_element, false};
  }
};

/// x = scale * (q - zp).
struct DequantizePerTensorArgs {
  AnyTensorRef input;
  double scale = 1.0;
  std::int64_t zero_point = 0;
  AnyTensorMut output;
};

using DequantizePerTensorBackwardDescriptor = DequantizePerTensorDescriptor;

/// dq = dy * scale, in the float kind. `d_input` may be the same view as `d_output`.
struct DequantizePerTensorBackwardArgs {
  double scale = 1.0;
  AnyTensorRef d_output;
  AnyTensorMut d_input;
};

/// FakeQuantizePlan<T> or, with the element as a value, FakeQuantizePlan<>.
PLANCK_DECLARE_OP(FakeQuantize, 1);
PLANCK_DECLARE_OP(FakeQuantizeBackward, 1);
/// DequantizePerTensorPlan<TIn, TOut>, TIn the codes.
PLANCK_DECLARE_OP(DequantizePerTensor, 2);
PLANCK_DECLARE_OP(DequantizePerTensorBackward, 2);

}  // namespace planck
