// The plans of LinearRecurrencePlan and its gradient.
#include <span>

#include "core/small_operands.hpp"
#include "scan/plan_common.hpp"

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
using scan::problem_of;
using scan::ScanJob;
using scan::ScanProblem;

constexpr std::string_view kForward = "LinearRecurrencePlan";
constexpr std::string_view kBackward = "LinearRecurrenceBackwardPlan";

Status check_descriptor(std::string_view plan, const LinearRecurrenceDescriptor& d) noexcept {
  if (!is_float(d.element)) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
  PLANCK_TRY(core::check_shape(plan, "input_shape", d.input_shape));
  PLANCK_TRY(scan::check_axis(plan, "scan_axis", d.scan_axis, d.input_shape));
  return scan::check_segments(plan, problem_of(d));
}

Shape initial_shape(const LinearRecurrenceDescriptor& d) {
  return scan::with_extent(d.input_shape, problem_of(d).axis, d.offset_element ? d.segments : 1);
}

Status check(OperandChecks& checks, const LinearRecurrenceDescriptor& d, const LinearRecurrenceArgs& a) noexcept {
  if (d.initial && !a.initial)
    return fail(Text::ArgumentMissing, {kForward, "initial", "a descriptor that says initial"});
  if (!d.initial && a.initial) {
    return fail(Text::ArgumentUnexpected, {kForward, "initial", "the descriptor does not say initial"});
  }
  if (d.initial && a.carry_in) {
    return fail(Text::ArgumentUnexpected,
                {kForward, "carry_in", "the descriptor says initial, which is the first piece's"});
  }
  const ScanProblem p = problem_of(d);
  PLANCK_TRY(scan::check_piece(kForward, p, a.carry_in.has_value(), a.carry_out.has_value()));
  PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &d.input_shape}));
  PLANCK_TRY(checks.add({"b", Role::Input, a.b, d.element, &d.input_shape}));
  const Shape start = initial_shape(d);
  if (a.initial) PLANCK_TRY(checks.add({"initial", Role::Input, *a.initial, d.element, &start}));
  PLANCK_TRY(checks.add({"h", Role::Output, a.h, d.element, &d.input_shape}));
  PLANCK_TRY(scan::add_carries(checks, kForward, p, a));
  PLANCK_TRY(scan::add_offsets(checks, kForward, p, a.offsets));
  return checks.check_overlaps();
}

/// One short row, if the plan has found it to be one.
bool run_small(const LinearRecurrenceDescriptor& d, const backend::Choice& choice,
               const LinearRecurrenceArgs& a) noexcept {
  core::SmallOperands operands(d.input_shape, choice.small_elements);
  if (a.initial || a.offsets || a.carry_in || a.carry_out || !operands.add_input(a.a, d.element) ||
      !operands.add_input(a.b, d.element) || !operands.add_output(a.h, d.element)) {
    return false;
  }
  const ScanJob job{{ScanKind::LinearRecurrence, d.element}, false, d.reverse, 0};
  return choice.backend->scan.run_small(choice, job, operands.data(), operands.elements());
}

Status run_job(const backend::Run& run, const LinearRecurrenceDescriptor& d, const LinearRecurrenceArgs& a) noexcept {
  const ScanProblem p = problem_of(d);
  const std::optional<StridedLoop> carries = scan::carries_of(p, a);
  StridedLoop loop(d.input_shape);
  loop.add(a.a);
  loop.add(a.b);
  loop.add(a.h);
  scan::add_or_absent(loop, a.initial, d.element);
  ScanJob job = scan::job_of(p, false, &loop);
  job.inputs = 2;
  job.outputs = 1;
  if (carries) job.carries = &*carries;
  return scan::hand_over(run, job, a.offsets);
}

Status check(OperandChecks& checks, const LinearRecurrenceDescriptor& d,
             const LinearRecurrenceBackwardArgs& a) noexcept {
  if (!a.da && !a.db && !a.d_initial) return fail(Text::NoOutput, {kBackward, "da, db, d_initial"});
  if (a.da && !a.h) return fail(Text::ArgumentMissing, {kBackward, "h", "da"});
  if (a.da && d.initial && !a.initial) return fail(Text::ArgumentMissing, {kBackward, "initial", "da"});
  if (!d.initial && (a.initial || a.d_initial)) {
    return fail(Text::ArgumentUnexpected,
                {kBackward, a.initial ? "initial" : "d_initial", "the descriptor does not say initial"});
  }
  const Shape start = initial_shape(d);
  PLANCK_TRY(checks.add({"dh", Role::Input, a.dh, d.element, &d.input_shape}));
  PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &d.input_shape}));
  if (a.h) PLANCK_TRY(checks.add({"h", Role::Input, *a.h, d.element, &d.input_shape}));
  if (a.initial) PLANCK_TRY(checks.add({"initial", Role::Input, *a.initial, d.element, &start}));
  if (a.da) PLANCK_TRY(checks.add({"da", Role::Output, *a.da, d.element, &d.input_shape}));
  if (a.db) PLANCK_TRY(checks.add({"db", Role::Output, *a.db, d.element, &d.input_shape}));
  if (a.d_initial) PLANCK_TRY(checks.add({"d_initial", Role::SummedOutput, *a.d_initial, d.element, &start}));
  PLANCK_TRY(scan::add_offsets(checks, kBackward, problem_of(d), a.offsets));
  return checks.check_overlaps();
}

Status run_job(const backend::Run& run, const LinearRecurrenceDescriptor& d,
               const LinearRecurrenceBackwardArgs& a) noexcept {
  StridedLoop loop(d.input_shape);
  loop.add(a.dh);
  loop.add(a.a);
  scan::add_or_absent(loop, a.da ? a.h : std::nullopt, d.element);
  scan::add_or_absent(loop, a.da, d.element);
  scan::add_or_absent(loop, a.db, d.element);
  scan::add_or_absent(loop, a.d_initial, d.element);
  scan::add_or_absent(loop, a.da ? a.initial : std::nullopt, d.element);
  ScanJob job = scan::job_of(problem_of(d), true, &loop);
  job.inputs = 3;
  job.outputs = 3;
  return scan::hand_over(run, job, a.offsets);
}

}  // namespace

Result<PlanChoice> LinearRecurrenceOp::select(const Stream& stream, const Descriptor& d,
                                              const PlanPreference& preference,
                                              std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(kForward, "element", expected, 0, d.element));
  PLANCK_TRY(check_descriptor(kForward, d));
  return scan::select_scan(kForward, problem_of(d), false, stream, preference);
}

Result<void> LinearRecurrenceOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kForward);
  return check(checks, d, a);
}

Result<void> LinearRecurrenceOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                     Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const backend::Choice& chosen = backend::choice_of(choice);
  if (chosen.small_elements > 0 && backend::is_plain(choice, stream, workspace) && run_small(d, chosen, a)) return {};
  const backend::Run run = backend::run_of(kForward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  if (backend::reads_tensors(run)) PLANCK_TRY(scan::check_carry_in(run.plan, problem_of(d), a));
  PLANCK_TRY(scan::check_offsets_in(run, problem_of(d), a.offsets));
  return run_job(run, d, a);
}

Result<PlanChoice> LinearRecurrenceBackwardOp::select(const Stream& stream, const Descriptor& d,
                                                      const PlanPreference& preference,
                                                      std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(kBackward, "element", expected, 0, d.element));
  PLANCK_TRY(check_descriptor(kBackward, d));
  return scan::select_scan(kBackward, problem_of(d), true, stream, preference);
}

Result<void> LinearRecurrenceBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kBackward);
  return check(checks, d, a);
}

Result<void> LinearRecurrenceBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                             Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const backend::Run run = backend::run_of(kBackward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  PLANCK_TRY(scan::check_offsets_in(run, problem_of(d), a.offsets));
  return run_job(run, d, a);
}

}  // namespace planck
