// The quantise family's plans. Six operations become one Problem (what) and one set of Operands (this run's tensors);
// checks, the choice of a kernel and the work are written once over these.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/plan_parts.hpp"
#include "core/small_operands.hpp"
#include "cpu/elementwise.hpp"
#include "cpu/reduce.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"
#include "quantize/contents.hpp"
#include "quantize/descriptor_checks.hpp"
#include "quantize/granularity.hpp"
#include "quantize/ops.hpp"

namespace planck {
namespace {

using core::fail;
using core::OperandChecks;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;
using quantize::Formula;
using quantize::QParamsFrom;
using quantize::SegmentSpace;

constexpr std::int64_t kMaxFakeCode = std::int64_t{1} << 20;

struct Problem {
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

  bool per_tensor() const { return std::holds_alternative<PerTensor>(granularity); }
  std::string_view plan() const;
};

std::string_view plan_name(Formula formula, std::size_t granularity) {
  static constexpr std::string_view kNames[6][4] = {
      {"QuantizePerTensorPlan", "QuantizePerChannelPlan", "QuantizePerTokenPlan", "QuantizePerGroupPlan"},
      {"QuantizePerTensorBackwardPlan", "QuantizePerChannelBackwardPlan", "QuantizePerTokenBackwardPlan",
       "QuantizePerGroupBackwardPlan"},
      {"DequantizePerTensorPlan", "DequantizePerChannelPlan", "DequantizePerTokenPlan", "DequantizePerGroupPlan"},
      {"DequantizePerTensorBackwardPlan", "DequantizePerChannelBackwardPlan", "DequantizePerTokenBackwardPlan",
       "DequantizePerGroupBackwardPlan"},
      {"FakeQuantizePlan", "FakeQuantizePerChannelPlan", "FakeQuantizePerTokenPlan", "FakeQuantizePerGroupPlan"},
      {"FakeQuantizeBackwardPlan", "FakeQuantizePerChannelBackwardPlan", "FakeQuantizePerTokenBackwardPlan",
       "FakeQuantizePerGroupBackwardPlan"},
  };
  return kNames[static_cast<int>(formula)][granularity];
}

std::string_view Problem::plan() const { return plan_name(formula, granularity.index()); }

QuantizeKind kind_of(Formula formula, std::size_t granularity) {
  using K = QuantizeKind;
  static constexpr K kKinds[6][4] = {
      {K::PerTensor, K::PerChannel, K::PerToken, K::PerGroup},
      {K::PerTensorBackward, K::PerChannelBackward, K::PerTokenBackward, K::PerGroupBackward},
      {K::DequantizePerTensor, K::DequantizePerChannel, K::DequantizePerToken, K::DequantizePerGroup},
      {K::DequantizePerTensorBackward, K::DequantizePerChannelBackward, K::DequantizePerTokenBackward,
       K::DequantizePerGroupBackward},
      {K::FakeQuantize, K::FakeQuantize, K::FakeQuantize, K::FakeQuantize},
      {K::FakeQuantizeBackward, K::FakeQuantizeBackward, K::FakeQuantizeBackward, K::FakeQuantizeBackward},
  };
  return kKinds[static_cast<int>(formula)][granularity];
}

Problem problem_of(Formula formula, const QuantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.granularity,
          d.input_element,
          d.output_element,
          "input_element",
          "output_element",
          d.scale_element.value_or(compute_of(d.input_element)),
          d.scale_form,
          d.q_min,
          d.q_max,
          d.trust_qparams,
          false};
}
Problem problem_of(Formula formula, const DequantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.granularity,
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
Problem problem_of(Formula formula, const FakeQuantizeDescriptor& d) {
  return {formula,
          d.shape,
          d.granularity,
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
struct Operands {
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

Operands operands_of(const Problem& p, const QuantizeArgs& a) {
  return {{{"input", &a.input, p.element}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.codes};
}
Operands operands_of(const Problem& p, const QuantizeBackwardArgs& a) {
  return {{{"input", &a.input, p.element}, {"d_output", &a.d_output, p.element}},
          2,
          a.scale,
          &a.zero_point,
          "d_input",
          &a.d_input,
          p.element};
}
Operands operands_of(const Problem& p, const DequantizeArgs& a) {
  return {{{"input", &a.input, p.codes}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.element};
}
Operands operands_of(const Problem& p, const DequantizeBackwardArgs& a) {
  return {{{"d_output", &a.d_output, p.element}, {}}, 1, a.scale, nullptr, "d_input", &a.d_input, p.element};
}
Operands operands_of(const Problem& p, const FakeQuantizeArgs& a) {
  return {{{"input", &a.input, p.element}, {}}, 1, a.scale, &a.zero_point, "output", &a.output, p.element};
}
Operands operands_of(const Problem& p, const FakeQuantizeBackwardArgs& a) {
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

// ---- select ----

std::size_t device_sums_workspace(const core::DeviceBackend& backend, const Problem& p) noexcept;

Status check_codes(const Problem& p) noexcept {
  if (!quantize::reads_floats(p.formula)) return {};
  const bool fake = p.formula == Formula::FakeQuantize || p.formula == Formula::FakeQuantizeBackward;
  return quantize::check_code_range(
      p.plan(), p.q_min, p.q_max,
      fake ? quantize::CodeLimits{-kMaxFakeCode, kMaxFakeCode} : quantize::limits_of(p.codes));
}

Result<PlanChoice> select(const Problem& p, const Stream& stream, const PlanPreference& preference) noexcept {
  const std::string_view plan = p.plan();
  PLANCK_TRY(quantize::check_elements(plan, {p.element_field, p.element, p.codes_field, p.codes, p.scale_element}));
  PLANCK_TRY(core::check_shape(plan, "shape", p.shape));
  PLANCK_TRY(quantize::check_granularity(plan, p.shape, p.granularity));
  PLANCK_TRY(check_codes(p));
  if (p.form != ScaleForm::Divide && p.form != ScaleForm::Reciprocal) {
    return fail(Text::ScaleFormUnknown, {plan, static_cast<std::int32_t>(p.form)});
  }
  // Only these two formulas touch codes: one kernel of the others serves both kinds.
  const bool codes = p.formula == Formula::Quantize || p.formula == Formula::Dequantize;
  // One scale for all is a number in the compute type, whatever it was stored as.
  const bool narrow = !p.per_tensor() && p.scale_element != compute_of(p.element);
  const auto operands = narrow ? QParamsFrom::NarrowOperands : QParamsFrom::Operands;
  const auto from = p.per_tensor() ? QParamsFrom::Run : operands;
  core::KernelRequest request;
  request.plan = plan;
  request.rows = quantize::kernels_for(p.element);
  request.kernel = quantize::kernel_row(p.formula, p.element, codes ? std::optional(p.codes) : std::nullopt,
                                        quantize::variant_of(p.form, from), false);
  if (p.learnable) {
    request.term_kernel =
        quantize::kernel_row(p.formula, p.element, std::nullopt, quantize::variant_of(p.form, operands), true);
    const core::DeviceBackend* const device = core::device_backend(stream);
    request.workspace_bytes = device != nullptr ? device_sums_workspace(*device, p)
                                                : cpu::reduce_workspace(core::numel(p.shape), 2 * size_of(p.element));
  }
  request.precision = core::precision_of(p.element, p.learnable);
  Result<PlanChoice> choice = core::choose_kernel(request, stream, preference);
  if (choice) {
    choice->sku.op = static_cast<std::int32_t>(kind_of(p.formula, p.granularity.index()));
    if (!p.codes_field.empty()) choice->sku.aux_element = p.codes;
  }
  return choice;
}

// ---- checks of a run ----

Status check_operands(OperandChecks& checks, const Problem& p, const Operands& o) noexcept {
  const std::string_view plan = p.plan();
  if (o.scale.tensor() == nullptr && !p.per_tensor()) {
    return fail(Text::ArgumentMissing, {plan, "the tensor scale", quantize::granularity_name(p.granularity.index())});
  }
  if (!p.learnable && (o.d_scale != nullptr || o.d_zero_point != nullptr)) {
    return fail(Text::ArgumentUnexpected,
                {plan, o.d_scale != nullptr ? "d_scale" : "d_zero_point", "the descriptor does not say learnable"});
  }
  if (o.output == nullptr && o.d_scale == nullptr && o.d_zero_point == nullptr) {
    return fail(Text::NoOutput, {plan, p.learnable ? "d_input, d_scale, d_zero_point" : "d_input"});
  }
  if (o.scale.tensor() == nullptr && !p.trusted) {
    PLANCK_TRY(core::check_scale(plan, o.scale.number(), compute_of(p.element)));
  }
  if (o.zero_point != nullptr && o.zero_point->tensor() == nullptr && !p.trusted) {
    PLANCK_TRY(core::check_zero_point(plan, o.zero_point->number()));
  }
  for (int i = 0; i < o.input_count; ++i) {
    PLANCK_TRY(checks.add({o.inputs[i].name, Role::Input, *o.inputs[i].view, o.inputs[i].element, &p.shape}));
  }
  if (o.output != nullptr) {
    PLANCK_TRY(checks.add({o.output_name, Role::Output, *o.output, o.output_element, &p.shape}));
  }
  const bool zero_points = o.zero_point != nullptr && o.zero_point->tensor() != nullptr;
  if (o.scale.tensor() == nullptr && !zero_points && o.d_scale == nullptr && o.d_zero_point == nullptr) {
    return checks.check_overlaps();
  }
  const Shape segments = qparams_shape(p.shape, p.granularity);
  if (o.scale.tensor() != nullptr) {
    PLANCK_TRY(checks.add({"scale", Role::Input, *o.scale.tensor(), p.scale_element, &segments}));
  }
  if (zero_points) {
    PLANCK_TRY(checks.add({"zero_point", Role::Input, *o.zero_point->tensor(), ElementKind::S32, &segments}));
  }
  if (o.d_scale != nullptr) {
    PLANCK_TRY(checks.add({"d_scale", Role::SummedOutput, *o.d_scale, p.scale_element, &segments}));
  }
  if (o.d_zero_point != nullptr) {
    PLANCK_TRY(checks.add({"d_zero_point", Role::SummedOutput, *o.d_zero_point, p.scale_element, &segments}));
  }
  return checks.check_overlaps();
}

Status check_scale_tensor(const Problem& p, const AnyTensorRef& view) noexcept {
  const ElementKind compute = compute_of(p.element);
  const bool wide = compute == ElementKind::F64;
  const double smallest = wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  std::optional<std::pair<std::int64_t, double>> bad;
  numerics::with_float(p.scale_element, [&]<class S>(S) {
    using Widened = scalar::Compute<S>;
    const auto least = static_cast<Widened>(smallest);
    const auto found = quantize::first_bad<S>(view, [least](S stored) {
      const auto scale = scalar::widen<Widened>(stored);
      return scale >= least && scale <= std::numeric_limits<Widened>::max();
    });
    if (found) bad.emplace(found->first, scalar::widen<double>(found->second));
  });
  if (!bad) return {};
  return fail(Text::BadScaleAt, {p.plan(), bad->first, bad->second, smallest, to_string(compute)});
}

Status check_zero_point_tensor(const Problem& p, const AnyTensorRef& view) noexcept {
  const auto bad = quantize::first_bad<std::int32_t>(
      view, [](std::int32_t zp) { return zp >= -kMaxFakeCode && zp <= kMaxFakeCode; });
  if (!bad) return {};
  return fail(Text::BadZeroPointAt, {p.plan(), bad->first, bad->second});
}

Status check_qparam_tensors(const Problem& p, const Operands& o) noexcept {
  if (p.trusted) return {};
  if (o.scale.tensor() != nullptr) PLANCK_TRY(check_scale_tensor(p, *o.scale.tensor()));
  if (o.zero_point != nullptr && o.zero_point->tensor() != nullptr) {
    PLANCK_TRY(check_zero_point_tensor(p, *o.zero_point->tensor()));
  }
  return {};
}

// ---- the work ----

/// The one element of a tensor of rank 0.
template <class T>
T only_element(const AnyTensorRef& view) {
  T value;
  std::memcpy(&value, static_cast<const T*>(view.data) + view.offset, sizeof value);
  return value;
}

/// The parameters of a run that has one scale, and the zero point where it is one for all: in all the types in which
/// kernels and the reference read them.
struct Numbers {
  double f64 = 1.0;
  float f32 = 1.0F;
  std::int64_t s64 = 0;
  std::int32_t s32 = 0;

  Numbers(const Problem& p, const Operands& o) {
    f64 = o.scale.number();
    if (p.per_tensor() && o.scale.tensor() != nullptr) {
      numerics::with_float(p.scale_element,
                           [&]<class S>(S) { f64 = scalar::widen<double>(only_element<S>(*o.scale.tensor())); });
    }
    f32 = static_cast<float>(f64);
    if (o.zero_point != nullptr) {
      const AnyTensorRef* tensor = o.zero_point->tensor();
      s64 = p.per_tensor() && tensor != nullptr ? only_element<std::int32_t>(*tensor) : o.zero_point->number();
      s32 = static_cast<std::int32_t>(s64);
    }
  }
};

void add_inputs(StridedLoop& loop, int part, const SegmentSpace& space, const Operands& o) {
  for (int i = 0; i < o.input_count; ++i) space.add(loop, part, *o.inputs[i].view);
}

/// Scale and zero point as operands: tensors, or numbers that are broadcast.
void add_qparams(StridedLoop& loop, int part, const SegmentSpace& space, const Problem& p, const Operands& o,
                 const Numbers& numbers) {
  if (!p.per_tensor()) {
    space.add_qparams(loop, part, *o.scale.tensor());
  } else if (p.element == ElementKind::F64) {
    SegmentSpace::add_number(loop, &numbers.f64, ElementKind::F64);
  } else {
    SegmentSpace::add_number(loop, &numbers.f32, ElementKind::F32);
  }
  if (!p.per_tensor() && o.zero_point != nullptr && o.zero_point->tensor() != nullptr) {
    space.add_qparams(loop, part, *o.zero_point->tensor());
  } else {
    SegmentSpace::add_number(loop, &numbers.s32, ElementKind::S32);
  }
}

/// Calls body(params) in the compute type of the floats.
template <class Body>
void with_params(const Problem& p, double scale, std::int64_t zero_point, const Body& body) {
  if (p.element == ElementKind::F64) {
    body(quantize::Params<double>(scale, zero_point, p.q_min, p.q_max));
  } else {
    body(quantize::Params<float>(scale, zero_point, p.q_min, p.q_max));
  }
}

quantize::reference::Problem reference_problem(const Problem& p) {
  const ElementKind scale = p.per_tensor() ? compute_of(p.element) : p.scale_element;
  return {p.formula, p.element, p.codes, scale, p.form, p.q_min, p.q_max};
}

/// The reference takes a pass for each gradient.
void sum_gradient(const Problem& p, const Operands& o, const Numbers& numbers, int gradient,
                  const AnyTensorMut* to) noexcept {
  if (to == nullptr || core::numel(to->shape) == 0) return;
  const SegmentSpace space(p.shape, p.granularity);
  space.for_each_part([&](StridedLoop& loop, int part) {
    add_inputs(loop, part, space, o);
    add_qparams(loop, part, space, p, o, numbers);
    space.add_qparams(loop, part, *to);
    quantize::reference::sum_gradient(loop, reference_problem(p), p.scale_element, gradient, o.grad_factor);
  });
}

/// d_scale, d_zero_point and dx, as far as they are wanted, in one pass.
void run_learnable(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                   const Operands& o, const Numbers& numbers) noexcept {
  const ElementKind compute = compute_of(p.element);
  const SegmentSpace space(p.shape, p.granularity);
  if (core::numel(qparams_shape(p.shape, p.granularity)) == 0) return;
  space.for_each_part([&](StridedLoop& loop, int part) {
    add_inputs(loop, part, space, o);
    add_qparams(loop, part, space, p, o, numbers);
    const int inputs = loop.operands;
    o.output != nullptr ? space.add(loop, part, *o.output) : loop.add_absent(p.element);
    loop.add_absent(compute);
    loop.add_absent(compute);
    int gradients = 0;
    std::array<int, cpu::kMaxGradients> term{};
    const auto add_gradient = [&](const AnyTensorMut* to, int output) {
      if (to == nullptr) return;
      space.add_qparams(loop, part, *to);
      term[gradients++] = output;
    };
    add_gradient(o.d_scale, quantize::kDScale);
    add_gradient(o.d_zero_point, quantize::kDZeroPoint);
    with_params(p, 1.0, 0, [&](const auto& params) {
      cpu::run_reduction(stream,
                         {*choice.term_kernel, choice.sku.arch, &params, loop, inputs, gradients, term, compute,
                          p.scale_element, o.grad_factor},
                         workspace);
    });
  });
}

void run_elementwise(const Problem& p, const PlanChoice& choice, const Stream& stream, const Operands& o,
                     const Numbers& numbers) noexcept {
  if (p.per_tensor() && choice.kernel != nullptr) {
    StridedLoop loop = o.input_count == 1 ? StridedLoop(p.shape, {*o.inputs[0].view, *o.output})
                                          : StridedLoop(p.shape, {*o.inputs[0].view, *o.inputs[1].view, *o.output});
    with_params(p, numbers.f64, numbers.s64, [&](const auto& params) {
      cpu::run_elementwise(stream, *choice.kernel, &params, loop, o.input_count);
    });
    return;
  }
  const SegmentSpace space(p.shape, p.granularity);
  space.for_each_part([&](StridedLoop& loop, int part) {
    add_inputs(loop, part, space, o);
    add_qparams(loop, part, space, p, o, numbers);
    if (choice.kernel == nullptr) {
      space.add(loop, part, *o.output);
      quantize::reference::run(loop, reference_problem(p));
    } else {
      const int inputs = loop.operands;
      space.add(loop, part, *o.output);
      with_params(p, 1.0, 0,
                  [&](const auto& params) { cpu::run_elementwise(stream, *choice.kernel, &params, loop, inputs); });
    }
  });
}

void execute(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
             const Operands& o) noexcept {
  const Numbers numbers(p, o);
  const bool sums = o.d_scale != nullptr || o.d_zero_point != nullptr;
  if (sums && choice.kernel != nullptr) return run_learnable(p, choice, stream, workspace, o, numbers);
  // Sums first: they touch no input, while an elementwise gradient may overwrite one in place.
  sum_gradient(p, o, numbers, quantize::kDScale, o.d_scale);
  sum_gradient(p, o, numbers, quantize::kDZeroPoint, o.d_zero_point);
  if (o.output != nullptr) run_elementwise(p, choice, stream, o, numbers);
}

// ---- the same on a device ----

/// What the sums of a learnable backward pass need for any strides.
std::size_t device_sums_workspace(const core::DeviceBackend& backend, const Problem& p) noexcept {
  const AnyTensorMut sum = core::sum_of_shape(qparams_shape(p.shape, p.granularity), p.scale_element);
  std::size_t bytes = 0;
  const SegmentSpace space(p.shape, p.granularity);
  space.for_each_part([&](StridedLoop& loop, int part) {
    space.add_qparams(loop, part, sum);
    bytes = std::max(bytes, backend.sums_workspace(core::sum_shape(loop), 2));
  });
  return bytes;
}

Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const Problem& p,
              const Operands& o) noexcept {
  const bool sums = o.d_scale != nullptr || o.d_zero_point != nullptr;
  if (sums && core::numel(qparams_shape(p.shape, p.granularity)) == 0) return {};
  const AnyTensorRef* const zero_points = o.zero_point != nullptr ? o.zero_point->tensor() : nullptr;
  core::DeviceQuantize job{{p.formula, p.element, p.codes,
                            o.scale.tensor() != nullptr ? p.scale_element : compute_of(p.element), p.form, p.q_min,
                            p.q_max}};
  job.scale = o.scale.number();
  if (o.zero_point != nullptr) job.zero_point = o.zero_point->number();
  const SegmentSpace space(p.shape, p.granularity);
  Status status;
  space.for_each_part([&](StridedLoop& loop, int part) {
    if (!status) return;
    const auto add_qparams = [&](const auto* view, ElementKind element) {
      view != nullptr ? space.add_qparams(loop, part, *view) : loop.add_absent(element);
    };
    add_inputs(loop, part, space, o);
    add_qparams(o.scale.tensor(), p.scale_element);
    add_qparams(zero_points, ElementKind::S32);
    o.output != nullptr ? space.add(loop, part, *o.output) : loop.add_absent(p.element);
    job.sums = {0, {}, p.scale_element, o.grad_factor};
    const auto add_sum = [&](const AnyTensorMut* to, int term) {
      if (to == nullptr) return;
      space.add_qparams(loop, part, *to);
      job.sums.term[job.sums.count++] = term;
    };
    add_sum(o.d_scale, quantize::kDScale);
    add_sum(o.d_zero_point, quantize::kDZeroPoint);
    status = backend.quantize(run, job, loop);
  });
  return status;
}

/// Numbers for scale and zero point, and tensors as most are: no loop to describe, and nothing to share among threads.
[[gnu::always_inline]] inline bool run_small(const Problem& p, const cpu::KernelRow& kernel,
                                             const Operands& o) noexcept {
  core::SmallOperands operands(p.shape);
  if (!operands.has_work() || !p.per_tensor() || o.output == nullptr || o.d_scale != nullptr ||
      o.d_zero_point != nullptr || o.scale.tensor() != nullptr) {
    return false;
  }
  if (o.zero_point != nullptr && o.zero_point->tensor() != nullptr) return false;
  const std::int64_t zero_point = o.zero_point != nullptr ? o.zero_point->number() : 0;
  if (!p.trusted && !(core::is_scale(o.scale.number(), compute_of(p.element)) && core::is_zero_point(zero_point))) {
    return false;
  }
  for (int i = 0; i < o.input_count; ++i) {
    if (!operands.add_input(*o.inputs[i].view, o.inputs[i].element)) return false;
  }
  if (!operands.add_output(*o.output, o.output_element)) return false;
  with_params(p, o.scale.number(), zero_point,
              [&](const auto& params) { kernel.span(&params, operands.data(), operands.elements(), 0); });
  return true;
}

/// One operation of the family, in the form of core/plan_parts.hpp.
template <class Op, Formula formula>
struct FamilyParts {
  using Descriptor = typename Op::Descriptor;
  using Args = typename Op::Args;

  static std::string_view name(const Descriptor& d) { return plan_name(formula, d.granularity.index()); }

  static Result<PlanChoice> select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                   std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(name(d), "input_element", expected, 0, d.input_element));
    if constexpr (requires { d.output_element; }) {
      PLANCK_TRY(core::check_type_parameter(name(d), "output_element", expected, 1, d.output_element));
    }
    return planck::select(problem_of(formula, d), stream, preference);
  }

  static bool run_small(const Descriptor& d, const cpu::KernelRow& kernel, const Args& a) noexcept {
    const Problem p = problem_of(formula, d);
    return planck::run_small(p, kernel, operands_of(p, a));
  }

  static Status check(OperandChecks& checks, const Descriptor& d, const Args& a) noexcept {
    const Problem p = problem_of(formula, d);
    return check_operands(checks, p, operands_of(p, a));
  }

  static Status check_contents(const Descriptor& d, const Args& a) noexcept {
    bool tensors = a.scale.tensor() != nullptr;
    if constexpr (requires { a.zero_point; }) tensors |= a.zero_point.tensor() != nullptr;
    if (!tensors) return {};  // a short run is long enough
    const Problem p = problem_of(formula, d);
    return check_qparam_tensors(p, operands_of(p, a));
  }

  static void execute(const Descriptor& d, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                      const Args& a) noexcept {
    const Problem p = problem_of(formula, d);
    planck::execute(p, choice, stream, workspace, operands_of(p, a));
  }

  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const Descriptor& d,
                       const Args& a) noexcept {
    const Problem p = problem_of(formula, d);
    return planck::launch(backend, run, p, operands_of(p, a));
  }
};

using QuantizeParts = FamilyParts<QuantizeOp, Formula::Quantize>;
using QuantizeBackwardParts = FamilyParts<QuantizeBackwardOp, Formula::QuantizeBackward>;
using DequantizeParts = FamilyParts<DequantizeOp, Formula::Dequantize>;
using DequantizeBackwardParts = FamilyParts<DequantizeBackwardOp, Formula::DequantizeBackward>;
using FakeQuantizeParts = FamilyParts<FakeQuantizeOp, Formula::FakeQuantize>;
using FakeQuantizeBackwardParts = FamilyParts<FakeQuantizeBackwardOp, Formula::FakeQuantizeBackward>;

}  // namespace

PLANCK_DEFINE_OP(Quantize)
PLANCK_DEFINE_OP(QuantizeBackward)
PLANCK_DEFINE_OP(Dequantize)
PLANCK_DEFINE_OP(DequantizeBackward)
PLANCK_DEFINE_OP(FakeQuantize)
PLANCK_DEFINE_OP(FakeQuantizeBackward)

namespace detail {
Error other_granularity(std::string_view op, std::size_t wanted, const Granularity& got) noexcept {
  static constexpr std::string_view kOps[] = {QuantizeOp::kName,     QuantizeBackwardOp::kName,
                                              DequantizeOp::kName,   DequantizeBackwardOp::kName,
                                              FakeQuantizeOp::kName, FakeQuantizeBackwardOp::kName};
  int formula = 0;
  while (kOps[formula] != op) ++formula;
  return core::make_error(Text::GranularityDiffers,
                          {plan_name(static_cast<Formula>(formula), wanted), quantize::granularity_name(wanted),
                           quantize::granularity_name(got.index())});
}
}  // namespace detail

}  // namespace planck
