// The quantise family's plans: checks, the choice of a kernel, and handing a strided loop to the engine.
#include "core/plan_parts.hpp"
#include "cpu/elementwise.hpp"
#include "quantize/quantize_ops.hpp"

namespace planck {
namespace {

using core::fail;
using core::OperandChecks;
using core::printable;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;

constexpr std::int64_t kMaxFakeCode = std::int64_t{1} << 20;

core::KernelRequest request_for(std::string_view plan, QuantizeKind kind, ElementKind element,
                                std::optional<ElementKind> aux, ScaleForm form) {
  core::KernelRequest request;
  request.plan = plan;
  request.rows = cpu::quantize_kernels;
  request.kernel = quantize::kernel_row(kind, element, aux, form);
  request.precision = core::precision_of(element, false);
  return request;
}

Result<PlanChoice> select_fake_quantize(std::string_view plan, QuantizeKind kind, const Stream& stream,
                                        const FakeQuantizeDescriptor& d, const PlanPreference& preference,
                                        std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(plan, "input_element", expected, 0, d.input_element));
  if (!is_float(d.input_element)) {
    return fail(Text::ElementUnsupported, {plan, "input_element", printable(d.input_element)});
  }
  PLANCK_TRY(core::check_shape(plan, "shape", d.shape));
  if (d.q_min > d.q_max) return fail(Text::CodeRangeEmpty, {plan, d.q_min, d.q_max});
  if (d.q_min < -kMaxFakeCode || d.q_max > kMaxFakeCode) {
    return fail(Text::CodeRangeTooWide, {plan, d.q_min, d.q_max, -kMaxFakeCode, kMaxFakeCode});
  }
  if (d.scale_form != ScaleForm::Divide && d.scale_form != ScaleForm::Reciprocal) {
    return fail(Text::ScaleFormUnknown, {plan, static_cast<std::int32_t>(d.scale_form)});
  }
  return core::choose_kernel(request_for(plan, kind, d.input_element, std::nullopt, d.scale_form), stream, preference);
}

Result<PlanChoice> select_dequantize(std::string_view plan, QuantizeKind kind, const Stream& stream,
                                     const DequantizePerTensorDescriptor& d, const PlanPreference& preference,
                                     std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(plan, "input_element", expected, 0, d.input_element));
  PLANCK_TRY(core::check_type_parameter(plan, "output_element", expected, 1, d.output_element));
  if (!is_quantized(d.input_element)) {
    return fail(Text::ElementUnsupported, {plan, "input_element", printable(d.input_element)});
  }
  if (!is_float(d.output_element)) {
    return fail(Text::ElementUnsupported, {plan, "output_element", printable(d.output_element)});
  }
  PLANCK_TRY(core::check_shape(plan, "shape", d.shape));
  // The backward pass never sees the codes, so one kernel serves both code kinds.
  const bool backward = kind == QuantizeKind::DequantizePerTensorBackward;
  const auto aux = backward ? std::nullopt : std::optional(d.input_element);
  auto choice =
      core::choose_kernel(request_for(plan, kind, d.output_element, aux, ScaleForm::Divide), stream, preference);
  if (choice) choice->sku.aux_element = d.input_element;
  return choice;
}

Status check_qparams(std::string_view plan, bool trusted, double scale, std::int64_t zero_point,
                     ElementKind element) noexcept {
  if (trusted) return {};
  PLANCK_TRY(core::check_scale(plan, scale, compute_of(element)));
  return core::check_zero_point(plan, zero_point);
}

/// Runs the chosen kernel, or `reference(params)`, with parameters in the float kind's compute type.
template <class Reference>
void execute_elementwise(const PlanChoice& choice, const Stream& stream, StridedLoop& loop, int inputs,
                         const quantize::Params<double>& params, const Reference& reference) noexcept {
  const auto with = [&](const auto& p) {
    if (choice.kernel != nullptr) {
      cpu::run_elementwise(stream, choice.kernel->span, &p, loop, inputs);
    } else {
      reference(static_cast<const void*>(&p));
    }
  };
  if (choice.sku.element == ElementKind::F64) {
    with(params);
  } else {
    with(quantize::Params<float>(params));
  }
}

struct FakeQuantizeParts {
  static constexpr std::string_view kPlan = "FakeQuantizePlan";

  static Result<PlanChoice> select(const Stream& stream, const FakeQuantizeDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_fake_quantize(kPlan, QuantizeKind::FakeQuantize, stream, d, preference, expected);
  }

  static Status check(OperandChecks& checks, const FakeQuantizeDescriptor& d, const FakeQuantizeArgs& a) noexcept {
    PLANCK_TRY(check_qparams(kPlan, d.trust_qparams, a.scale, a.zero_point, d.input_element));
    PLANCK_TRY(checks.add({"input", Role::Input, a.input, d.input_element, &d.shape}));
    PLANCK_TRY(checks.add({"output", Role::Output, a.output, d.input_element, &d.shape}));
    return checks.check_overlaps();
  }

  static void execute(const FakeQuantizeDescriptor& d, const PlanChoice& choice, const Stream& stream, const Workspace&,
                      const FakeQuantizeArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.input);
    loop.add(a.output);
    execute_elementwise(choice, stream, loop, 1, {a.scale, a.zero_point, d.q_min, d.q_max}, [&](const void* params) {
      quantize::reference::fake_quantize(loop, d.input_element, d.scale_form, params);
    });
  }
};

struct FakeQuantizeBackwardParts {
  static constexpr std::string_view kPlan = "FakeQuantizeBackwardPlan";

  static Result<PlanChoice> select(const Stream& stream, const FakeQuantizeDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_fake_quantize(kPlan, QuantizeKind::FakeQuantizeBackward, stream, d, preference, expected);
  }

  static Status check(OperandChecks& checks, const FakeQuantizeDescriptor& d,
                      const FakeQuantizeBackwardArgs& a) noexcept {
    PLANCK_TRY(check_qparams(kPlan, d.trust_qparams, a.scale, a.zero_point, d.input_element));
    PLANCK_TRY(checks.add({"input", Role::Input, a.input, d.input_element, &d.shape}));
    PLANCK_TRY(checks.add({"d_output", Role::Input, a.d_output, d.input_element, &d.shape}));
    PLANCK_TRY(checks.add({"d_input", Role::Output, a.d_input, d.input_element, &d.shape}));
    return checks.check_overlaps();
  }

  static void execute(const FakeQuantizeDescriptor& d, const PlanChoice& choice, const Stream& stream, const Workspace&,
                      const FakeQuantizeBackwardArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.input);
    loop.add(a.d_output);
    loop.add(a.d_input);
    execute_elementwise(choice, stream, loop, 2, {a.scale, a.zero_point, d.q_min, d.q_max}, [&](const void* params) {
      quantize::reference::fake_quantize_backward(loop, d.input_element, d.scale_form, params);
    });
  }
};

struct DequantizePerTensorParts {
  static constexpr std::string_view kPlan = "DequantizePerTensorPlan";

  static Result<PlanChoice> select(const Stream& stream, const DequantizePerTensorDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_dequantize(kPlan, QuantizeKind::DequantizePerTensor, stream, d, preference, expected);
  }

  static Status check(OperandChecks& checks, const DequantizePerTensorDescriptor& d,
                      const DequantizePerTensorArgs& a) noexcept {
    PLANCK_TRY(check_qparams(kPlan, d.trust_qparams, a.scale, a.zero_point, d.output_element));
    PLANCK_TRY(checks.add({"input", Role::Input, a.input, d.input_element, &d.shape}));
    PLANCK_TRY(checks.add({"output", Role::Output, a.output, d.output_element, &d.shape}));
    return checks.check_overlaps();
  }

  static void execute(const DequantizePerTensorDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace&, const DequantizePerTensorArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.input);
    loop.add(a.output);
    execute_elementwise(choice, stream, loop, 1, {a.scale, a.zero_point, 0, 0}, [&](const void* params) {
      quantize::reference::dequantize(loop, d.input_element, d.output_element, params);
    });
  }
};

struct DequantizePerTensorBackwardParts {
  static constexpr std::string_view kPlan = "DequantizePerTensorBackwardPlan";

  static Result<PlanChoice> select(const Stream& stream, const DequantizePerTensorDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_dequantize(kPlan, QuantizeKind::DequantizePerTensorBackward, stream, d, preference, expected);
  }

  static Status check(OperandChecks& checks, const DequantizePerTensorDescriptor& d,
                      const DequantizePerTensorBackwardArgs& a) noexcept {
    PLANCK_TRY(check_qparams(kPlan, d.trust_qparams, a.scale, 0, d.output_element));
    PLANCK_TRY(checks.add({"d_output", Role::Input, a.d_output, d.output_element, &d.shape}));
    PLANCK_TRY(checks.add({"d_input", Role::Output, a.d_input, d.output_element, &d.shape}));
    return checks.check_overlaps();
  }

  static void execute(const DequantizePerTensorDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace&, const DequantizePerTensorBackwardArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.d_output);
    loop.add(a.d_input);
    execute_elementwise(choice, stream, loop, 1, {a.scale, 0, 0, 0}, [&](const void* params) {
      quantize::reference::dequantize_backward(loop, d.output_element, params);
    });
  }
};

}  // namespace

PLANCK_DEFINE_OP(FakeQuantize)
PLANCK_DEFINE_OP(FakeQuantizeBackward)
PLANCK_DEFINE_OP(DequantizePerTensor)
PLANCK_DEFINE_OP(DequantizePerTensorBackward)

}  // namespace planck
