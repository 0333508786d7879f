// The plans of the parameterised binary family: checks, and the jobs of a run.
#include <algorithm>
#include <array>

#include "backend/plan_run.hpp"
#include "binary/job.hpp"
#include "core/small_operands.hpp"

namespace planck {
namespace {

using backend::Choice;
using binary::BinaryJob;
using binary::Weight;
using core::fail;
using core::OperandChecks;
using core::printable;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;

Weight weight_of(const BinaryParamDescriptor& d) { return d.weight_shape ? Weight::Tensor : Weight::Scalar; }
const Shape& a_shape(const BinaryParamDescriptor& d) { return d.a_shape ? *d.a_shape : d.shape; }
const Shape& b_shape(const BinaryParamDescriptor& d) { return d.b_shape ? *d.b_shape : d.shape; }

/// A gradient of this shape is a sum: it has fewer elements than the result (or some where that has none).
bool summed(const BinaryParamDescriptor& d, const Shape& shape) { return core::numel(shape) != core::numel(d.shape); }

BinaryJob job_of(const BinaryParamDescriptor& d, bool backward, StridedLoop* loop = nullptr) {
  BinaryJob job{d.kind, backward, weight_of(d), d.element, d.param};
  job.sums.element = d.element;
  job.loop = loop;
  return job;
}

/// The job that sums gradients of this shape, as far as `prepare` asks: any of them may come together.
Status prepare_sums(const BinaryParamDescriptor& d, const Shape& shape, backend::Selection& selection) noexcept {
  if (!summed(d, shape)) return {};
  StridedLoop loop(d.shape);
  loop.add(core::sum_of_shape(shape, d.element));
  BinaryJob job = job_of(d, true, &loop);
  job.sums.count = core::kMaxSums;
  return selection.choice.backend->binary.prepare(job, selection);
}

Result<PlanChoice> select_binary_param(std::string_view plan, bool backward, const Stream& stream,
                                       const BinaryParamDescriptor& d, const PlanPreference& preference,
                                       std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(plan, "element", expected, 0, d.element));
  if (!is_float(d.element)) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
  if (d.kind != BinaryKind::Lerp && d.kind != BinaryKind::AddScaled) {
    return fail(Text::KindUnsupported, {plan, static_cast<std::int32_t>(d.kind)});
  }
  PLANCK_TRY(core::check_shape(plan, "shape", d.shape));
  PLANCK_TRY(core::check_broadcast(plan, "a_shape", a_shape(d), d.shape));
  PLANCK_TRY(core::check_broadcast(plan, "b_shape", b_shape(d), d.shape));
  if (d.weight_shape) PLANCK_TRY(core::check_broadcast(plan, "weight_shape", *d.weight_shape, d.shape));

  const bool sums = backward && (summed(d, a_shape(d)) || summed(d, b_shape(d)) ||
                                 (d.weight_shape.has_value() && summed(d, *d.weight_shape)));
  backend::Request request{plan, stream, preference};
  request.sku.category = OpCategory::BinaryElementwise;
  request.sku.op = static_cast<std::int32_t>(d.kind);
  request.sku.backward = backward;
  request.sku.element = d.element;
  request.sku.precision_guarantee = backend::precision_of(d.element, sums);
  Result<backend::Selection> selection = backend::choose(request);
  if (!selection) return tl::unexpected(selection.error());
  PLANCK_TRY(selection->choice.backend->binary.prepare(job_of(d, backward), *selection));
  if (sums) {
    PLANCK_TRY(prepare_sums(d, a_shape(d), *selection));
    PLANCK_TRY(prepare_sums(d, b_shape(d), *selection));
    if (d.weight_shape) PLANCK_TRY(prepare_sums(d, *d.weight_shape, *selection));
  }
  return backend::settle(*selection);
}

Status check_weight(std::string_view plan, OperandChecks& checks, const BinaryParamDescriptor& d,
                    const std::optional<AnyTensorRef>& weight) noexcept {
  if (d.weight_shape && !weight) return fail(Text::ArgumentMissing, {plan, "weight", "a descriptor with weight_shape"});
  if (!d.weight_shape && weight) {
    return fail(Text::ArgumentUnexpected, {plan, "weight", "the descriptor has no weight_shape"});
  }
  if (!weight) return {};
  return checks.add({"weight", Role::Input, *weight, d.element, &*d.weight_shape});
}

// ---- forward ----

constexpr std::string_view kForward = "BinaryParamPlan";

bool run_small(const BinaryParamDescriptor& d, const Choice& choice, const BinaryParamArgs& a) noexcept {
  const auto run = choice.backend->binary.run_small;
  core::SmallOperands operands(d.shape);
  if (run == nullptr || !operands.has_work() || d.weight_shape.has_value() != a.weight.has_value()) return false;
  // What broadcasts has another shape than d.shape, or is refused for it.
  if (!operands.add_input(a.a, d.element) || a.a.shape != a_shape(d)) return false;
  if (!operands.add_input(a.b, d.element) || a.b.shape != b_shape(d)) return false;
  if (a.weight && (!operands.add_input(*a.weight, d.element) || a.weight->shape != *d.weight_shape)) return false;
  if (!operands.add_output(a.y, d.element)) return false;
  return run(choice, job_of(d, false), operands.data(), operands.elements());
}

Status check(OperandChecks& checks, const BinaryParamDescriptor& d, const BinaryParamArgs& a) noexcept {
  PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &a_shape(d)}));
  PLANCK_TRY(checks.add({"b", Role::Input, a.b, d.element, &b_shape(d)}));
  PLANCK_TRY(check_weight(kForward, checks, d, a.weight));
  PLANCK_TRY(checks.add({"y", Role::Output, a.y, d.element, &d.shape}));
  return checks.check_overlaps();
}

// ---- backward ----

constexpr std::string_view kBackward = "BinaryParamBackwardPlan";
constexpr int kDa = 0;
constexpr int kDb = 1;
constexpr int kDw = 2;
using Wanted = std::array<bool, 3>;

const std::optional<AnyTensorMut>& gradient(const BinaryParamBackwardArgs& a, int g) {
  return g == kDa ? a.da : g == kDb ? a.db : a.d_weight;
}
const Shape& gradient_shape(const BinaryParamDescriptor& d, int g) {
  return g == kDa ? a_shape(d) : g == kDb ? b_shape(d) : *d.weight_shape;
}

Status check(OperandChecks& checks, const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a) noexcept {
  if (!a.da && !a.db && !a.d_weight) return fail(Text::NoOutput, {kBackward, "da, db, d_weight"});
  if (a.d_weight && !d.weight_shape) {
    return fail(Text::ArgumentUnexpected, {kBackward, "d_weight", "the descriptor has no weight_shape"});
  }
  if (a.d_weight && !a.b) return fail(Text::ArgumentMissing, {kBackward, "b", "d_weight"});
  if (a.d_weight && !a.a && d.kind == BinaryKind::Lerp) {
    return fail(Text::ArgumentMissing, {kBackward, "a", "d_weight"});
  }
  PLANCK_TRY(checks.add({"dy", Role::Input, a.dy, d.element, &d.shape}));
  if (a.a) PLANCK_TRY(checks.add({"a", Role::Input, *a.a, d.element, &a_shape(d)}));
  if (a.b) PLANCK_TRY(checks.add({"b", Role::Input, *a.b, d.element, &b_shape(d)}));
  PLANCK_TRY(check_weight(kBackward, checks, d, a.weight));
  static constexpr std::string_view kNames[] = {"da", "db", "d_weight"};
  for (const int g : {kDa, kDb, kDw}) {
    if (!gradient(a, g)) continue;
    const Shape& shape = gradient_shape(d, g);
    const Role role = summed(d, shape) ? Role::SummedOutput : Role::Output;
    PLANCK_TRY(checks.add({kNames[g], role, *gradient(a, g), d.element, &shape}));
  }
  return checks.check_overlaps();
}

/// The loop with the inputs that the wanted gradients read; the others are absent and cost nothing.
StridedLoop input_loop(const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a, const Wanted& wanted) {
  const auto add = [&](StridedLoop& loop, const std::optional<AnyTensorRef>& view, bool needed) {
    if (needed) {
      loop.add(*view);
    } else {
      loop.add_absent(d.element);
    }
  };
  const bool lerp = d.kind == BinaryKind::Lerp;
  StridedLoop loop(d.shape);
  loop.add(a.dy);
  if (d.weight_shape) {
    add(loop, a.a, wanted[kDw] && lerp);
    add(loop, a.b, wanted[kDw]);
    add(loop, a.weight, wanted[kDb] || (wanted[kDa] && lerp));
  }
  return loop;
}

/// One pass over the inputs for sums of one shape, and for elementwise gradients beside them.
Status run_pass(const backend::Run& run, const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a,
                const Wanted& sums, const Wanted& elementwise) noexcept {
  Wanted wanted{};
  for (const int g : {kDa, kDb, kDw}) wanted[g] = sums[g] || elementwise[g];
  StridedLoop loop = input_loop(d, a, wanted);
  BinaryJob job = job_of(d, true, &loop);
  for (int g = 0; g < job.outputs(); ++g) {
    if (elementwise[g]) {
      loop.add(*gradient(a, g));
    } else {
      loop.add_absent(d.element);
    }
  }
  for (const int g : {kDa, kDb, kDw}) {
    if (!sums[g]) continue;
    loop.add(*gradient(a, g));
    job.sums.add(g);
  }
  return run.choice.backend->binary.run(run, job);
}

/// The next sums of one shape, which come from one reading; none when all are taken.
Wanted take_sums(const BinaryParamDescriptor& d, Wanted& sums) {
  Wanted together{};
  int first = kDa;
  while (first <= kDw && !sums[first]) ++first;
  for (int g = first; g <= kDw; ++g) {
    together[g] = sums[g] && gradient_shape(d, g) == gradient_shape(d, first);
    if (together[g]) sums[g] = false;
  }
  return together;
}

/// Sums first: they touch no input, while an elementwise gradient may overwrite one in place. So those come with the
/// last of the sums.
Status run_passes(const backend::Run& run, const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a) noexcept {
  Wanted elementwise{};
  Wanted sums{};
  for (const int g : {kDa, kDb, kDw}) {
    if (gradient(a, g)) (summed(d, gradient_shape(d, g)) ? sums : elementwise)[g] = true;
  }
  do {
    const Wanted together = take_sums(d, sums);
    const bool last = sums == Wanted{};
    PLANCK_TRY(run_pass(run, d, a, together, last ? elementwise : Wanted{}));
  } while (sums != Wanted{});
  return {};
}

}  // namespace

Result<PlanChoice> BinaryParamOp::select(const Stream& stream, const Descriptor& d, const PlanPreference& preference,
                                         std::span<const ElementKind> expected) noexcept {
  return select_binary_param(kForward, false, stream, d, preference, expected);
}

Result<void> BinaryParamOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kForward);
  return check(checks, d, a);
}

Result<void> BinaryParamOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  if (backend::is_plain(choice, stream, workspace) && run_small(d, backend::choice_of(choice), a)) return {};
  const backend::Run run = backend::run_of(kForward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  StridedLoop loop =
      a.weight ? StridedLoop(d.shape, {a.a, a.b, *a.weight, a.y}) : StridedLoop(d.shape, {a.a, a.b, a.y});
  return run.choice.backend->binary.run(run, job_of(d, false, &loop));
}

Result<PlanChoice> BinaryParamBackwardOp::select(const Stream& stream, const Descriptor& d,
                                                 const PlanPreference& preference,
                                                 std::span<const ElementKind> expected) noexcept {
  return select_binary_param(kBackward, true, stream, d, preference, expected);
}

Result<void> BinaryParamBackwardOp::can_implement(const Descriptor& d, const PlanChoice&, const Args& a) noexcept {
  OperandChecks checks(kBackward);
  return check(checks, d, a);
}

Result<void> BinaryParamBackwardOp::run(const Descriptor& d, const PlanChoice& choice, const Stream& stream,
                                        Workspace workspace, const Args& a) noexcept {
  const numerics::FpEnvironmentGuard guard;
  const backend::Run run = backend::run_of(kBackward, choice, stream, workspace);
  PLANCK_TRY(backend::check_device(run));
  OperandChecks checks(run.plan);
  PLANCK_TRY(check(checks, d, a));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  return run_passes(run, d, a);
}

}  // namespace planck
