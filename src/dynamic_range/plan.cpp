// The plan of dynamic-range quantisation: checks, and the job of a run.
#include <algorithm>

#include "backend/plan_run.hpp"
#include "dynamic_range/job.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/contents.hpp"
#include "quantize/descriptor_checks.hpp"
#include "quantize/granularity.hpp"

namespace planck {
namespace {

using core::fail;
using core::OperandChecks;
using core::Role;
using core::Status;
using core::Text;
using detail::PlanChoice;
using Descriptor = DynamicRangeQuantizeDescriptor;
using Args = DynamicRangeQuantizeArgs;

constexpr std::string_view kPlan = "DynamicRangeQuantizePlan";

ElementKind scale_element(const Descriptor& d) { return d.scale_element.value_or(compute_of(d.input_element)); }

/// Without the outputs that may be absent.
quantize::DynamicRangeJob job_of(const Descriptor& d, const AnyTensorRef& input, const AnyTensorMut& scale) noexcept {
  const scalar::RangeRule rule{d.mode == DynamicRangeMode::Symmetric, d.zero_in_range, d.q_min, d.q_max};
  return {d.shape, d.scope, d.input_element, d.output_element, scale_element(d), rule, input, scale};
}

Status check_codes(const Descriptor& d) noexcept {
  PLANCK_TRY(quantize::check_code_range(kPlan, d.q_min, d.q_max, d.output_element));
  switch (d.mode) {
    case DynamicRangeMode::Symmetric:
      return d.q_max > 0 ? Status() : Status(fail(Text::SymmetricRange, {kPlan, d.q_max}));
    case DynamicRangeMode::Asymmetric:
      if (is_float_code(d.output_element)) {
        return fail(Text::AsymmetricCodes, {kPlan, to_string(d.output_element)});
      }
      return d.q_max > d.q_min ? Status() : Status(fail(Text::AsymmetricRange, {kPlan, d.q_max}));
  }
  return fail(Text::ModeUnknown, {kPlan, static_cast<std::int32_t>(d.mode)});
}

/// The longest segment's sum must fit 32 bits.
Status check_row_sum(const Descriptor& d, const Shape& segments) noexcept {
  const std::int64_t count = core::numel(segments);
  if (count == 0) return {};
  const auto* group = std::get_if<PerGroup>(&d.scope);
  const std::int64_t axis = group != nullptr ? d.shape[quantize::axis_of(d.shape, d.scope)] : 0;
  const std::int64_t length = group != nullptr ? std::min(group->group_size, axis) : core::numel(d.shape) / count;
  const std::int64_t largest = std::max(std::abs(d.q_min), std::abs(d.q_max));
  if (largest == 0 || length <= ((std::int64_t{1} << 31) - 1) / largest) return {};  // no product: it may overflow
  return fail(Text::RowSumTooLong, {kPlan, length, d.q_min, d.q_max});
}

Status check(OperandChecks& checks, const Descriptor& d, const Args& a) noexcept {
  if (!d.qparams_only && !a.output) return fail(Text::ArgumentMissing, {kPlan, "output", "the codes"});
  if (d.qparams_only && a.output) {
    return fail(Text::ArgumentUnexpected, {kPlan, "output", "the descriptor says qparams_only"});
  }
  if (d.qparams_only && a.row_sum) {
    return fail(Text::ArgumentUnexpected, {kPlan, "row_sum", "the descriptor says qparams_only"});
  }
  if (a.row_sum && is_float_code(d.output_element)) {
    return fail(Text::ArgumentUnexpected, {kPlan, "row_sum", "the codes are no integers"});
  }
  if (d.mode == DynamicRangeMode::Asymmetric && !a.zero_point_out) {
    return fail(Text::ArgumentMissing, {kPlan, "zero_point_out", "Asymmetric"});
  }
  const Shape segments = qparams_shape(d.shape, d.scope);
  if (a.row_sum) PLANCK_TRY(check_row_sum(d, segments));
  PLANCK_TRY(checks.add({"input", Role::Input, a.input, d.input_element, &d.shape}));
  PLANCK_TRY(checks.add({"scale_out", Role::SummedOutput, a.scale_out, scale_element(d), &segments}));
  if (a.output) PLANCK_TRY(checks.add({"output", Role::SummedOutput, *a.output, d.output_element, &d.shape}));
  if (a.zero_point_out) {
    PLANCK_TRY(checks.add({"zero_point_out", Role::SummedOutput, *a.zero_point_out, ElementKind::S32, &segments}));
  }
  if (a.row_sum) PLANCK_TRY(checks.add({"row_sum", Role::SummedOutput, *a.row_sum, ElementKind::S32, &segments}));
  return checks.check_overlaps();
}

Status check_contents(const Descriptor& d, const Args& a) noexcept {
  if (d.nonfinite == NonFinite::Saturate) return {};
  std::optional<std::pair<std::int64_t, double>> infinite;
  numerics::with_float(d.input_element, [&]<class T>(T) {
    using C = scalar::Compute<T>;
    const auto found = quantize::first_bad<T>(a.input, [](T stored) {
      const C x = scalar::widen<C>(stored);
      return !(scalar::abs(x) > std::numeric_limits<C>::max());
    });
    if (found) infinite.emplace(found->first, scalar::widen<double>(found->second));
  });
  if (!infinite) return {};
  return fail(Text::InfiniteInput, {kPlan, infinite->first, infinite->second});
}

}  // namespace

Result<PlanChoice> DynamicRangeQuantizeOp::select(const Stream& stream, const Descriptor& d,
                                                  const PlanPreference& preference,
                                                  std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(kPlan, "input_element", expected, 0, d.input_element));
  PLANCK_TRY(core::check_type_parameter(kPlan, "output_element", expected, 1, d.output_element));
  PLANCK_TRY(quantize::check_elements(
      kPlan, {"input_element", d.input_element, "output_element", d.output_element, scale_element(d)}));
  PLANCK_TRY(core::check_shape(kPlan, "shape", d.shape));
  PLANCK_TRY(quantize::check_granularity(kPlan, d.shape, d.scope));
  PLANCK_TRY(check_codes(d));
  if (d.nonfinite != NonFinite::Saturate && d.nonfinite != NonFinite::Error) {
    return fail(Text::NonFiniteUnknown, {kPlan, static_cast<std::int32_t>(d.nonfinite)});
  }
  backend::Request request{kPlan, stream, preference};
  request.sku.category = OpCategory::Quantization;
  request.sku.op = static_cast<std::int32_t>(QuantizeKind::DynamicRange);
  request.sku.element = d.input_element;
  request.sku.aux_element = d.output_element;
  request.sku.precision_guarantee = backend::precision_of(d.input_element, false);
  Result<backend::Selection> selection = backend::choose(request);
  if (!selection) return tl::unexpected(selection.error());
  const backend::Backend& backend = *selection->choice.backend;
  if (d.nonfinite == NonFinite::Error && !backend.reads_tensors) {
    return fail(Text::NonFiniteOnDevice, {kPlan, "CUDA"});
  }
  PLANCK_TRY(backend.dynamic_range.prepare(job_of(d, AnyTensorRef{}, AnyTensorMut{}), *selection));
  return backend::settle(*selection);
}

Result<void> DynamicRangeQuantizeOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kPlan);
  return check(checks, d, a);
}

Result<void> DynamicRangeQuantizeOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                         Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const backend::Run run = backend::run_of(kPlan, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  if (backend::reads_tensors(run)) PLANCK_TRY(check_contents(d, a));
  const auto wanted = [](const std::optional<AnyTensorMut>& view) { return view ? &*view : nullptr; };
  quantize::DynamicRangeJob job = job_of(d, a.input, a.scale_out);
  job.zero_point = wanted(a.zero_point_out);
  job.output = wanted(a.output);
  job.row_sum = wanted(a.row_sum);
  return run.choice.backend->dynamic_range.run(run, job);
}

}  // namespace planck
