// The quantise family's plans: checks, the choice of a backend, and the jobs of a run, written once for six operations.
#include <limits>

#include "backend/plan_run.hpp"
#include "core/small_operands.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"
#include "quantize/contents.hpp"
#include "quantize/descriptor_checks.hpp"
#include "quantize/float_codes.hpp"
#include "quantize/granularity.hpp"
#include "quantize/spec.hpp"

namespace planck {
namespace {

using backend::Choice;
using core::fail;
using core::OperandChecks;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;
using quantize::Formula;
using quantize::QuantizeJob;
using quantize::QuantizeOperands;
using quantize::QuantizeSpec;
using quantize::SegmentSpace;

constexpr std::int64_t kMaxFakeCode = core::kMaxZeroPoint;

// ---- select ----

Status check_codes(const QuantizeSpec& p) noexcept {
  if (!quantize::reads_floats(p.formula)) return {};
  if (p.formula == Formula::FakeQuantize || p.formula == Formula::FakeQuantizeBackward) {
    return quantize::check_code_range(p.plan(), p.q_min, p.q_max, quantize::CodeLimits{-kMaxFakeCode, kMaxFakeCode});
  }
  PLANCK_TRY(quantize::check_code_range(p.plan(), p.q_min, p.q_max, p.codes));
  if (p.saturate) return {};
  if (!is_float_code(p.codes)) return fail(Text::SaturateUnsupported, {p.plan(), to_string(p.codes)});
  const auto [lowest, highest] = quantize::limits_of(p.codes);
  if (p.q_min == lowest && p.q_max == highest) return {};
  return fail(Text::SaturateRange, {p.plan(), p.q_min, p.q_max, to_string(p.codes), lowest, highest});
}

Status check_descriptor(const QuantizeSpec& p) noexcept {
  const std::string_view plan = p.plan();
  PLANCK_TRY(quantize::check_elements(plan, {p.element_field, p.element, p.codes_field, p.codes, p.scale_element}));
  PLANCK_TRY(core::check_shape(plan, "shape", p.shape));
  PLANCK_TRY(quantize::check_granularity(plan, p.shape, p.granularity));
  PLANCK_TRY(check_codes(p));
  if (p.form != ScaleForm::Divide && p.form != ScaleForm::Reciprocal) {
    return fail(Text::ScaleFormUnknown, {plan, static_cast<std::int32_t>(p.form)});
  }
  return {};
}

/// The range of float codes as the formulas take it, which need not end in codes. Apart, so that a short run of other
/// codes has a job that stays in registers.
[[gnu::noinline]] void set_float_range(const QuantizeSpec& p, QuantizeJob& job) noexcept {
  if (p.formula == Formula::Quantize && !p.saturate) {
    job.q_max = std::numeric_limits<double>::infinity();
    job.q_min = -job.q_max;
  } else if (p.formula == Formula::QuantizeBackward) {
    quantize::with_float_codes(p.codes, [&]<class Q>(Q) {
      const auto last = [&](double q) -> double {
        return p.element == ElementKind::F64 ? quantize::last_rounding_to<Q, double>(q)
                                             : quantize::last_rounding_to<Q, float>(q);
      };
      job.q_max = last(job.q_max);
      job.q_min = -last(-job.q_min);
    });
  }
}

/// Without operands, sums and numbers. Inline: a short run notices the call.
[[gnu::always_inline]] inline QuantizeJob job_of(const QuantizeSpec& p) {
  QuantizeJob job{p.formula,
                  p.element,
                  p.codes,
                  p.scale_element,
                  p.form,
                  static_cast<double>(p.q_min),
                  static_cast<double>(p.q_max),
                  p.per_tensor()};
  if (is_float_code(p.codes)) set_float_range(p, job);
  return job;
}

/// Every loop's job, as far as `prepare` asks.
Status prepare(const QuantizeSpec& p, backend::Selection& selection) noexcept {
  QuantizeJob job = job_of(p);
  if (p.learnable) job.sums.count = 2;
  const AnyTensorMut sum = core::sum_of_shape(qparams_shape(p.shape, p.granularity), p.scale_element);
  const SegmentSpace space(p.shape, p.granularity);
  return space.for_each_part([&](StridedLoop& loop, int part) -> Status {
    if (p.learnable) space.add_qparams(loop, part, sum);
    job.loop = &loop;
    return selection.choice.backend->quantize.prepare(job, selection);
  });
}

Result<PlanChoice> select_spec(const QuantizeSpec& p, const Stream& stream, const PlanPreference& preference) noexcept {
  PLANCK_TRY(check_descriptor(p));
  backend::Request request{p.plan(), stream, preference};
  request.sku.category = OpCategory::Quantization;
  request.sku.op = static_cast<std::int32_t>(p.kind());
  request.sku.backward = quantize::is_backward(p.formula);
  request.sku.element = p.element;
  if (!p.codes_field.empty()) request.sku.aux_element = p.codes;
  request.sku.precision_guarantee = backend::precision_of(p.element, p.learnable);
  Result<backend::Selection> selection = backend::choose(request);
  if (!selection) return tl::unexpected(selection.error());
  PLANCK_TRY(prepare(p, *selection));
  return backend::settle(*selection);
}

// ---- checks of a run ----

/// As far as it needs no tensor's contents. Float codes have none, trusted or not.
Status check_zero_point(const QuantizeSpec& p, const ZeroPointArg& zero_point) noexcept {
  const bool tensor = zero_point.tensor() != nullptr;
  if (is_float_code(p.codes)) {
    if (tensor) {
      return fail(Text::ArgumentUnexpected, {p.plan(), "the tensor zero_point", "float codes have no zero points"});
    }
    if (zero_point.number() == 0) return {};
    return fail(Text::NoZeroPoint, {p.plan(), zero_point.number(), to_string(p.codes)});
  }
  return tensor || p.trusted ? Status() : core::check_zero_point(p.plan(), zero_point.number());
}

Status check_operands(OperandChecks& checks, const QuantizeSpec& p, const QuantizeOperands& o) noexcept {
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
  if (o.zero_point != nullptr) PLANCK_TRY(check_zero_point(p, *o.zero_point));
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

Status check_scale_tensor(const QuantizeSpec& p, const AnyTensorRef& view) noexcept {
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

Status check_zero_point_tensor(const QuantizeSpec& p, const AnyTensorRef& view) noexcept {
  const auto bad = quantize::first_bad<std::int32_t>(
      view, [](std::int32_t zp) { return zp >= -kMaxFakeCode && zp <= kMaxFakeCode; });
  if (!bad) return {};
  return fail(Text::BadZeroPointAt, {p.plan(), bad->first, bad->second});
}

Status check_qparam_tensors(const QuantizeSpec& p, const QuantizeOperands& o) noexcept {
  if (p.trusted) return {};
  if (o.scale.tensor() != nullptr) PLANCK_TRY(check_scale_tensor(p, *o.scale.tensor()));
  if (o.zero_point != nullptr && o.zero_point->tensor() != nullptr) {
    PLANCK_TRY(check_zero_point_tensor(p, *o.zero_point->tensor()));
  }
  return {};
}

// ---- the job ----

/// One job for the whole tensor, or for whole groups and for the shorter last one.
Status run_jobs(const backend::Run& run, const QuantizeSpec& p, const QuantizeOperands& o) noexcept {
  const bool sums = o.d_scale != nullptr || o.d_zero_point != nullptr;
  if (sums && core::numel(qparams_shape(p.shape, p.granularity)) == 0) return {};
  const AnyTensorRef* const zero_points = o.zero_point != nullptr ? o.zero_point->tensor() : nullptr;
  QuantizeJob job = job_of(p);
  job.scale = o.scale.number();
  if (o.zero_point != nullptr) job.zero_point = o.zero_point->number();
  const SegmentSpace space(p.shape, p.granularity);
  return space.for_each_part([&](StridedLoop& loop, int part) -> Status {
    const auto add_qparams = [&](const auto* view, ElementKind element) {
      view != nullptr ? space.add_qparams(loop, part, *view) : loop.add_absent(element);
    };
    for (int i = 0; i < o.input_count; ++i) space.add(loop, part, *o.inputs[i].view);
    add_qparams(o.scale.tensor(), p.scale_element);
    add_qparams(zero_points, ElementKind::S32);
    o.output != nullptr ? space.add(loop, part, *o.output) : loop.add_absent(p.element);
    job.sums = {0, {}, p.scale_element, o.grad_factor};
    const auto add_sum = [&](const AnyTensorMut* to, int term) {
      if (to == nullptr) return;
      space.add_qparams(loop, part, *to);
      job.sums.add(term);
    };
    add_sum(o.d_scale, quantize::kDScale);
    add_sum(o.d_zero_point, quantize::kDZeroPoint);
    job.loop = &loop;
    return run.choice.backend->quantize.run(run, job);
  });
}

/// Numbers for scale and zero point, and tensors as most are: no loop to describe, and nothing to share among threads.
template <class Descriptor, class Args>
[[gnu::always_inline]] inline bool run_small(Formula formula, const Descriptor& d, const Choice& choice,
                                             const Args& a) noexcept {
  const QuantizeSpec p = quantize::spec_of(formula, d);
  const QuantizeOperands o = quantize::operands_of(p, a);
  const auto run = choice.backend->quantize.run_small;
  core::SmallOperands operands(p.shape);
  if (run == nullptr || !operands.has_work() || !p.per_tensor() || o.output == nullptr || o.d_scale != nullptr ||
      o.d_zero_point != nullptr || o.scale.tensor() != nullptr) {
    return false;
  }
  if (o.zero_point != nullptr && o.zero_point->tensor() != nullptr) return false;
  const std::int64_t zero_point = o.zero_point != nullptr ? o.zero_point->number() : 0;
  if (zero_point != 0 && is_float_code(p.codes)) return false;
  if (!p.trusted && !(core::is_scale(o.scale.number(), compute_of(p.element)) && core::is_zero_point(zero_point))) {
    return false;
  }
  for (int i = 0; i < o.input_count; ++i) {
    if (!operands.add_input(*o.inputs[i].view, o.inputs[i].element)) return false;
  }
  if (!operands.add_output(*o.output, o.output_element)) return false;
  QuantizeJob job = job_of(p);
  job.scale = o.scale.number();
  job.zero_point = zero_point;
  return run(choice, job, operands.data(), operands.elements());
}

// ---- what the six have in common ----

template <class Descriptor>
Result<PlanChoice> select(Formula formula, const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                          std::span<const ElementKind> expected) noexcept {
  const QuantizeSpec p = quantize::spec_of(formula, d);
  PLANCK_TRY(core::check_type_parameter(p.plan(), "input_element", expected, 0, d.input_element));
  if constexpr (requires { d.output_element; }) {
    PLANCK_TRY(core::check_type_parameter(p.plan(), "output_element", expected, 1, d.output_element));
  }
  return select_spec(p, stream, preference);
}

template <class Descriptor, class Args>
Status can_implement(Formula formula, const Descriptor& d, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;  // scalars are rounded to C
  const QuantizeSpec p = quantize::spec_of(formula, d);
  OperandChecks checks(p.plan());
  return check_operands(checks, p, quantize::operands_of(p, a));
}

/// Inline: each has one caller, and a short run notices the call.
template <class Descriptor, class Args>
[[gnu::always_inline]] inline Status run_formula(Formula formula, const Descriptor& d, const PlanChoice& choice,
                                                 const Stream& stream, const Workspace& workspace,
                                                 const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;  // from here on: scalars are rounded to C in the right environment too
  if (backend::is_plain(choice, stream, workspace) && run_small(formula, d, backend::choice_of(choice), a)) return {};
  const QuantizeSpec p = quantize::spec_of(formula, d);
  const QuantizeOperands operands = quantize::operands_of(p, a);
  const backend::Run run = backend::run_of(p.plan(), choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check_operands(checks, p, operands));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  if (backend::reads_tensors(run)) PLANCK_TRY(check_qparam_tensors(p, operands));
  return run_jobs(run, p, operands);
}

}  // namespace

Result<PlanChoice> QuantizeOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                      std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::Quantize, stream, d, preference, expected);
}
Result<void> QuantizeOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::Quantize, d, a);
}
Result<void> QuantizeOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream, Workspace workspace,
                             const Args& a) noexcept {
  return run_formula(Formula::Quantize, d, choice, stream, workspace, a);
}

Result<PlanChoice> QuantizeBackwardOp::select(const Stream& stream, const Descriptor& d,
                                              const PlanPreference& preference,
                                              std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::QuantizeBackward, stream, d, preference, expected);
}
Result<void> QuantizeBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::QuantizeBackward, d, a);
}
Result<void> QuantizeBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                     Workspace workspace, const Args& a) noexcept {
  return run_formula(Formula::QuantizeBackward, d, choice, stream, workspace, a);
}

Result<PlanChoice> DequantizeOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                        std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::Dequantize, stream, d, preference, expected);
}
Result<void> DequantizeOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::Dequantize, d, a);
}
Result<void> DequantizeOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream, Workspace workspace,
                               const Args& a) noexcept {
  return run_formula(Formula::Dequantize, d, choice, stream, workspace, a);
}

Result<PlanChoice> DequantizeBackwardOp::select(const Stream& stream, const Descriptor& d,
                                                const PlanPreference& preference,
                                                std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::DequantizeBackward, stream, d, preference, expected);
}
Result<void> DequantizeBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::DequantizeBackward, d, a);
}
Result<void> DequantizeBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                       Workspace workspace, const Args& a) noexcept {
  return run_formula(Formula::DequantizeBackward, d, choice, stream, workspace, a);
}

Result<PlanChoice> FakeQuantizeOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                          std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::FakeQuantize, stream, d, preference, expected);
}
Result<void> FakeQuantizeOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::FakeQuantize, d, a);
}
Result<void> FakeQuantizeOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                 Workspace workspace, const Args& a) noexcept {
  return run_formula(Formula::FakeQuantize, d, choice, stream, workspace, a);
}

Result<PlanChoice> FakeQuantizeBackwardOp::select(const Stream& stream, const Descriptor& d,
                                                  const PlanPreference& preference,
                                                  std::span<const ElementKind> expected) noexcept {
  return planck::select(Formula::FakeQuantizeBackward, stream, d, preference, expected);
}
Result<void> FakeQuantizeBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  return planck::can_implement(Formula::FakeQuantizeBackward, d, a);
}
Result<void> FakeQuantizeBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                         Workspace workspace, const Args& a) noexcept {
  return run_formula(Formula::FakeQuantizeBackward, d, choice, stream, workspace, a);
}

namespace detail {
Error other_granularity(std::string_view op, std::size_t wanted, const Granularity& got) noexcept {
  static constexpr std::string_view kOps[] = {QuantizeOp::kName,     QuantizeBackwardOp::kName,
                                              DequantizeOp::kName,   DequantizeBackwardOp::kName,
                                              FakeQuantizeOp::kName, FakeQuantizeBackwardOp::kName};
  int formula = 0;
  while (kOps[formula] != op) ++formula;
  return core::make_error(Text::GranularityDiffers,
                          {quantize::plan_name(static_cast<Formula>(formula), wanted),
                           quantize::granularity_name(wanted), quantize::granularity_name(got.index())});
}
}  // namespace detail

}  // namespace planck
