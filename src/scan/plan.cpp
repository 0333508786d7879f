// The plans of ScanPlan and its gradient.
#include <limits>
#include <span>

#include "core/small_operands.hpp"
#include "scan/plan_common.hpp"

namespace planck {
namespace {

using backend::Choice;
using core::fail;
using core::OperandChecks;
using core::printable;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;
using scan::front_axis;
using scan::problem_of;
using scan::ScanJob;
using scan::ScanProblem;

/// Indices are given exactly when the descriptor says of which kind.
template <class AnyTensor>
Status check_indices(std::string_view plan, const ScanDescriptor& d, const std::optional<AnyTensor>& indices) noexcept {
  if (d.index_element && !indices) {
    return fail(Text::ArgumentMissing, {plan, "indices", "a descriptor with index_element"});
  }
  if (!d.index_element && indices) {
    return fail(Text::ArgumentUnexpected, {plan, "indices", "the descriptor has no index_element"});
  }
  return {};
}

constexpr std::string_view kForward = "ScanPlan";
constexpr std::string_view kBackward = "ScanBackwardPlan";

Status check_descriptor(std::string_view plan, const ScanDescriptor& d, bool backward) noexcept {
  const scan::ScanKindRow* const row = scan::find_kind(d.kind);
  const bool known = row != nullptr && d.kind != ScanKind::LinearRecurrence;  // which has plans of its own
  if (!known) return fail(Text::KindUnsupported, {plan, static_cast<std::int32_t>(d.kind)});
  const bool scanned = is_float(d.element) || (is_integer(d.element) && !backward && row->integers);
  if (!scanned) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
  if (d.exclusive && !row->exclusive) return fail(Text::ExclusiveUnsupported, {plan, to_string(d.kind)});
  PLANCK_TRY(core::check_shape(plan, "input_shape", d.input_shape));
  PLANCK_TRY(scan::check_axis(plan, "scan_axis", d.scan_axis, d.input_shape));
  if (d.ties != ScanTies::First && d.ties != ScanTies::Last) {
    return fail(Text::TiesUnknown, {plan, static_cast<std::int32_t>(d.ties)});
  }
  PLANCK_TRY(scan::check_segments(plan, problem_of(d)));
  if (!d.index_element) return {};
  if (!row->extremum) {
    return fail(Text::ArgumentUnexpected, {plan, "index_element", "only Cummax and Cummin have indices"});
  }
  if (!is_integer(*d.index_element)) {
    return fail(Text::ElementUnsupported, {plan, "index_element", printable(*d.index_element)});
  }
  const std::int64_t length = d.input_shape[front_axis(d.scan_axis, d.input_shape)];
  if (*d.index_element == ElementKind::S32 && length - 1 > std::numeric_limits<std::int32_t>::max()) {
    return fail(Text::IndicesTooLong, {plan, length});
  }
  return {};
}

/// One short row, if the plan has found it to be one.
[[gnu::always_inline]] inline bool run_small(const ScanDescriptor& d, const Choice& choice, bool reverse,
                                             const core::View& from, const core::View& to) noexcept {
  core::SmallOperands operands(d.input_shape, choice.small_elements);
  if (!operands.add_input(from, d.element) || !operands.add_output(to, d.element)) return false;
  const ScanJob job{{d.kind, d.element}, false, reverse, 0};
  return choice.backend->scan.run_small(choice, job, operands.data(), operands.elements());
}

Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanArgs& a) noexcept {
  const ScanProblem p = problem_of(d);
  PLANCK_TRY(check_indices(kForward, d, a.indices));
  PLANCK_TRY(scan::check_piece(kForward, p, a.carry_in.has_value(), a.carry_out.has_value()));
  PLANCK_TRY(checks.add({"x", Role::Input, a.x, d.element, &d.input_shape}));
  PLANCK_TRY(checks.add({"y", Role::Output, a.y, d.element, &d.input_shape}));
  if (a.indices) {
    PLANCK_TRY(checks.add({"indices", Role::SummedOutput, *a.indices, *d.index_element, &d.input_shape}));
  }
  PLANCK_TRY(scan::add_carries(checks, kForward, p, a));
  PLANCK_TRY(scan::add_offsets(checks, kForward, p, a.offsets));
  return checks.check_overlaps();
}

Status run_job(const backend::Run& run, const ScanDescriptor& d, const ScanArgs& a) noexcept {
  const ScanProblem p = problem_of(d);
  const std::optional<StridedLoop> carries = scan::carries_of(p, a);
  StridedLoop loop(d.input_shape);
  loop.add(a.x);
  loop.add(a.y);
  if (a.indices) loop.add(*a.indices);
  loop.add_absent(d.element);
  ScanJob job = scan::job_of(p, false, &loop);
  job.inputs = 1;
  job.outputs = a.indices ? 2 : 1;
  if (carries) job.carries = &*carries;
  return scan::hand_over(run, job, a.offsets);
}

Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
  if (problem_of(d).key.reads_x() && !a.x) return fail(Text::ArgumentMissing, {kBackward, "x", to_string(d.kind)});
  if (problem_of(d).key.reads_y() && !a.y) return fail(Text::ArgumentMissing, {kBackward, "y", to_string(d.kind)});
  PLANCK_TRY(check_indices(kBackward, d, a.indices));
  PLANCK_TRY(checks.add({"dy", Role::Input, a.dy, d.element, &d.input_shape}));
  if (a.x) PLANCK_TRY(checks.add({"x", Role::Input, *a.x, d.element, &d.input_shape}));
  if (a.y) PLANCK_TRY(checks.add({"y", Role::Input, *a.y, d.element, &d.input_shape}));
  if (a.indices) PLANCK_TRY(checks.add({"indices", Role::Input, *a.indices, *d.index_element, &d.input_shape}));
  PLANCK_TRY(checks.add({"dx", Role::Output, a.dx, d.element, &d.input_shape}));
  PLANCK_TRY(scan::add_offsets(checks, kBackward, problem_of(d), a.offsets));
  return checks.check_overlaps();
}

Status run_job(const backend::Run& run, const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
  const ScanProblem p = problem_of(d);
  StridedLoop loop(d.input_shape);
  loop.add(a.dy);
  if (p.key.reads_x()) loop.add(*a.x);
  if (a.indices) loop.add(*a.indices);
  if (p.key.reads_y()) loop.add(*a.y);
  ScanJob job = scan::job_of(p, true, &loop);
  job.inputs = loop.operands;
  job.outputs = 1;
  loop.add(a.dx);
  loop.add_absent(d.element);
  return scan::hand_over(run, job, a.offsets);
}

}  // namespace

Result<PlanChoice> ScanOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                  std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(kForward, "element", expected, 0, d.element));
  PLANCK_TRY(check_descriptor(kForward, d, false));
  return scan::select_scan(kForward, problem_of(d), false, stream, preference);
}

Result<void> ScanOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kForward);
  return check(checks, d, a);
}

Result<void> ScanOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream, Workspace workspace,
                         const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const Choice& chosen = backend::choice_of(choice);
  if (chosen.small_elements > 0 && backend::is_plain(choice, stream, workspace) && !a.indices && !a.offsets &&
      !a.carry_in && !a.carry_out && run_small(d, chosen, d.reverse, a.x, a.y)) {
    return {};
  }
  const backend::Run run = backend::run_of(kForward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  if (backend::reads_tensors(run)) PLANCK_TRY(scan::check_carry_in(run.plan, problem_of(d), a));
  PLANCK_TRY(scan::check_offsets_in(run, problem_of(d), a.offsets));
  return run_job(run, d, a);
}

Result<PlanChoice> ScanBackwardOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                          std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(kBackward, "element", expected, 0, d.element));
  PLANCK_TRY(check_descriptor(kBackward, d, true));
  return scan::select_scan(kBackward, problem_of(d), true, stream, preference);
}

Result<void> ScanBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kBackward);
  return check(checks, d, a);
}

Result<void> ScanBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                 Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const Choice& chosen = backend::choice_of(choice);
  // The gradient that is the same scan from the other end.
  if (chosen.small_elements > 0 && backend::is_plain(choice, stream, workspace) && !a.x && !a.y && !a.indices &&
      !a.offsets && run_small(d, chosen, !d.reverse, a.dy, a.dx)) {
    return {};
  }
  const backend::Run run = backend::run_of(kBackward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  PLANCK_TRY(scan::check_offsets_in(run, problem_of(d), a.offsets));
  return run_job(run, d, a);
}

}  // namespace planck
