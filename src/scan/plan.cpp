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

struct ScanParts {
  static constexpr std::string_view kPlan = "ScanPlan";
  static std::string_view name(const ScanDescriptor&) { return kPlan; }

  static Status check_descriptor(std::string_view plan, const ScanDescriptor& d, bool backward) noexcept {
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

  static Result<PlanChoice> select(const Stream& stream, const ScanDescriptor& d, const PlanPreference& preference,
                                   std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(check_descriptor(kPlan, d, false));
    return scan::select_scan(kPlan, problem_of(d), false, stream, preference);
  }

  /// One short row, from x to y alone.
  static bool run_small(const ScanDescriptor& d, const Choice& choice, const ScanArgs& a) noexcept {
    const auto run = choice.backend->scan.run_small;
    core::SmallOperands operands(d.input_shape);
    const int axis = front_axis(d.scan_axis, d.input_shape);
    if (run == nullptr || !operands.has_work() || d.input_shape[axis] != operands.elements() || d.exclusive ||
        d.index_element || a.indices || a.carry_in || a.carry_out) {
      return false;
    }
    if (!operands.add_input(a.x, d.element) || !operands.add_output(a.y, d.element)) return false;
    return run(choice, {{d.kind, d.element}, false, d.reverse, axis}, operands.data(), operands.elements());
  }

  static Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanArgs& a) noexcept {
    const ScanProblem p = problem_of(d);
    PLANCK_TRY(check_indices(kPlan, d, a.indices));
    PLANCK_TRY(scan::check_piece(kPlan, p, a.carry_in.has_value(), a.carry_out.has_value()));
    PLANCK_TRY(checks.add({"x", Role::Input, a.x, d.element, &d.input_shape}));
    PLANCK_TRY(checks.add({"y", Role::Output, a.y, d.element, &d.input_shape}));
    if (a.indices) {
      PLANCK_TRY(checks.add({"indices", Role::SummedOutput, *a.indices, *d.index_element, &d.input_shape}));
    }
    PLANCK_TRY(scan::add_carries(checks, kPlan, p, a));
    return checks.check_overlaps();
  }

  static Status check_contents(const ScanDescriptor& d, const ScanArgs& a) noexcept {
    return scan::check_carry_in(kPlan, problem_of(d), a);
  }

  static Status run(const backend::Run& run, const ScanDescriptor& d, const ScanArgs& a) noexcept {
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
    return scan::run_job(run, job);
  }
};

struct ScanBackwardParts {
  static constexpr std::string_view kPlan = "ScanBackwardPlan";
  static std::string_view name(const ScanDescriptor&) { return kPlan; }

  static Result<PlanChoice> select(const Stream& stream, const ScanDescriptor& d, const PlanPreference& preference,
                                   std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(ScanParts::check_descriptor(kPlan, d, true));
    return scan::select_scan(kPlan, problem_of(d), true, stream, preference);
  }

  static Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
    if (problem_of(d).key.reads_x() && !a.x) return fail(Text::ArgumentMissing, {kPlan, "x", to_string(d.kind)});
    if (problem_of(d).key.reads_y() && !a.y) return fail(Text::ArgumentMissing, {kPlan, "y", to_string(d.kind)});
    PLANCK_TRY(check_indices(kPlan, d, a.indices));
    PLANCK_TRY(checks.add({"dy", Role::Input, a.dy, d.element, &d.input_shape}));
    if (a.x) PLANCK_TRY(checks.add({"x", Role::Input, *a.x, d.element, &d.input_shape}));
    if (a.y) PLANCK_TRY(checks.add({"y", Role::Input, *a.y, d.element, &d.input_shape}));
    if (a.indices) PLANCK_TRY(checks.add({"indices", Role::Input, *a.indices, *d.index_element, &d.input_shape}));
    PLANCK_TRY(checks.add({"dx", Role::Output, a.dx, d.element, &d.input_shape}));
    return checks.check_overlaps();
  }

  static Status run(const backend::Run& run, const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
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
    return scan::run_job(run, job);
  }
};

}  // namespace

PLANCK_DEFINE_OP(Scan)
PLANCK_DEFINE_OP(ScanBackward)

}  // namespace planck
