// The six operations of the quantise family in one form: what a descriptor says, and a run's arguments under names that
// all of them share. Checks and jobs are written once over these.
#pragma once

#include <cstdint>
#include <string_view>

#include "planck/quantize.hpp"
#include "quantize/job.hpp"

namespace planck::quantize {

/// "QuantizePerTensorPlan", … of a formula and an index of Granularity.
std::string_view plan_name(Formula formula, std::size_t granularity) noexcept;

struct QuantizeSpec {
  Formula formula;
  const Shape& shape;
  const Granularity& granularity;
  ElementKind element;  ///< the floats
  ElementKind codes;
  std::string_view element_field;  ///< what the descriptor calls them
  std::string_view codes_field;
  ElementKind scale_element;
  ScaleForm form;
  std::int64_t q_min;
  std::int64_t q_max;
  bool trusted;
  bool learnable;
  bool saturate = true;

  bool per_tensor() const { return std::holds_alternative<PerTensor>(granularity); }
  std::string_view plan() const { return plan_name(formula, granularity.index()); }
  QuantizeKind kind() const noexcept;
};

inline QuantizeSpec spec_of(Formula formula, const QuantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.scope,
          d.input_element,
          d.output_element,
          "input_element",
          "output_element",
          d.scale_element.value_or(compute_of(d.input_element)),
          d.scale_form,
          d.q_min,
          d.q_max,
          d.trust_qparams,
          false,
          d.saturate};
}
inline QuantizeSpec spec_of(Formula formula, const DequantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.scope,
          d.output_element,
          d.input_element,
          "output_element",
          "input_element",
          d.scale_element.value_or(compute_of(d.output_element)),
          ScaleForm::Divide,
          0,
          0,
          d.trust_qparams,
          false};
}
inline QuantizeSpec spec_of(Formula formula, const FakeQuantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.scope,
          d.input_element,
          ElementKind::S8,
          "input_element",
          "",
          d.scale_element.value_or(compute_of(d.input_element)),
          d.scale_form,
          d.q_min,
          d.q_max,
          d.trust_qparams,
          d.learnable && formula == Formula::FakeQuantizeBackward};
}

/// One tensor that is read, under its name in the arguments.
struct NamedInput {
  std::string_view name;
  const AnyTensorRef* view;
  ElementKind element;
};

/// A run's arguments under names that all six operations share.
struct QuantizeOperands {
  NamedInput inputs[2];
  int input_count;
  const ScaleArg& scale;
  const ZeroPointArg* zero_point;  ///< null where the formula has none
  std::string_view output_name;
  const AnyTensorMut* output;  ///< null: not wanted
  ElementKind output_element;
  const AnyTensorMut* d_scale = nullptr;
  const AnyTensorMut* d_zero_point = nullptr;
  double grad_factor = 1.0;
};

inline QuantizeOperands operands_of(const QuantizeSpec& p, const QuantizeArgs& a) {
  return {{{"input", &a.input, p.element}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.codes};
}
inline QuantizeOperands operands_of(const QuantizeSpec& p, const QuantizeBackwardArgs& a) {
  return {{{"input", &a.input, p.element}, {"d_output", &a.d_output, p.element}},
          2,
          a.scale,
          &a.zero_point,
          "d_input",
          &a.d_input,
          p.element};
}
inline QuantizeOperands operands_of(const QuantizeSpec& p, const DequantizeArgs& a) {
  return {{{"input", &a.input, p.codes}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.element};
}
inline QuantizeOperands operands_of(const QuantizeSpec& p, const DequantizeBackwardArgs& a) {
  return {{{"d_output", &a.d_output, p.element}, {}}, 1, a.scale, nullptr, "d_input", &a.d_input, p.element};
}
inline QuantizeOperands operands_of(const QuantizeSpec& p, const FakeQuantizeArgs& a) {
  return {{{"input", &a.input, p.element}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.element};
}
inline QuantizeOperands operands_of(const QuantizeSpec& p, const FakeQuantizeBackwardArgs& a) {
  const auto wanted = [](const std::optional<AnyTensorMut>& view) { return view ? &*view : nullptr; };
  return {{{"input", &a.input, p.element}, {"d_output", &a.d_output, p.element}},
          2,
          a.scale,
          &a.zero_point,
          "d_input",
          wanted(a.d_input),
          p.element,
          wanted(a.d_scale),
          wanted(a.d_zero_point),
          a.grad_factor};
}

}  // namespace planck::quantize
