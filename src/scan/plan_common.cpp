#include "scan/plan_common.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace planck::scan {

using core::fail;
using core::printable;

Status check_axis(std::string_view plan, std::string_view name, int axis, const Shape& shape) noexcept {
  const int counted = front_axis(axis, shape);
  if (counted >= 0 && counted < shape.rank()) return {};
  return fail(Text::AxisOutOfRange, {plan, name, axis, shape});
}

namespace {

PrecisionGuarantee precision_of(const ScanKey& key) {
  PrecisionGuarantee guarantee = backend::precision_of(key.element, true);
  if (!is_float(key.element)) guarantee.accumulator = ElementKind::S64;
  return guarantee;
}

}  // namespace

Result<detail::PlanChoice> select_scan(std::string_view plan, const ScanProblem& p, bool backward, const Stream& stream,
                                       const PlanPreference& preference) noexcept {
  backend::Request request{plan, stream, preference};
  request.sku.category = OpCategory::Scan;
  request.sku.op = static_cast<std::int32_t>(p.key.kind);
  request.sku.backward = backward;
  request.sku.element = p.key.element;
  if (is_extremum(p.key.kind)) request.sku.aux_element = p.key.indices;
  request.sku.precision_guarantee = precision_of(p.key);
  Result<backend::Selection> selection = backend::choose(request);
  if (!selection) return tl::unexpected(selection.error());
  StridedLoop loop(p.shape);
  PLANCK_TRY(selection->choice.backend->scan.prepare(job_of(p, backward, &loop), *selection));
  return backend::settle(*selection);
}

namespace {

/// Without their count.
Segments segments_in(const AnyTensorRef& offsets) {
  Segments segments{.element = offsets.element};
  const std::int64_t bytes = size_of(offsets.element);
  segments.offsets = static_cast<const std::byte*>(offsets.data) + offsets.offset * bytes;
  segments.step = offsets.shape[0] > 1 ? offsets.stride[0] * bytes : 0;
  return segments;
}

}  // namespace

Status check_segments(std::string_view plan, const ScanProblem& p) noexcept {
  if (!p.offset_element) {
    if (p.segments == 0) return {};
    return fail(Text::ArgumentUnexpected, {plan, "segments", "the descriptor has no offset_element"});
  }
  if (!is_integer(*p.offset_element)) {
    return fail(Text::ElementUnsupported, {plan, "offset_element", printable(*p.offset_element)});
  }
  const std::int64_t length = p.shape[p.axis];
  const std::int64_t least = length > 0 ? 1 : 0;
  if (p.segments < least) return fail(Text::TooFewSegments, {plan, p.segments, least, length});
  PLANCK_TRY(
      core::check_shape(plan, "offsets", {std::min(p.segments, std::numeric_limits<std::int64_t>::max() - 1) + 1}));
  if (p.key.initial) PLANCK_TRY(core::check_shape(plan, "initial", with_extent(p.shape, p.axis, p.segments)));
  const bool narrow = *p.offset_element == ElementKind::S32;
  if (narrow && length > std::numeric_limits<std::int32_t>::max()) return fail(Text::OffsetsTooLong, {plan, length});
  return {};
}

Status add_offsets(OperandChecks& checks, std::string_view plan, const ScanProblem& p,
                   const std::optional<AnyTensorRef>& offsets) noexcept {
  if (p.offset_element && !offsets) {
    return fail(Text::ArgumentMissing, {plan, "offsets", "a descriptor with offset_element"});
  }
  if (!p.offset_element) {
    if (!offsets) return {};
    return fail(Text::ArgumentUnexpected, {plan, "offsets", "the descriptor has no offset_element"});
  }
  const Shape shape{p.segments + 1};
  return checks.add({"offsets", Role::LastingInput, *offsets, *p.offset_element, &shape});
}

Status check_offsets_in(const Run& run, const ScanProblem& p, const std::optional<AnyTensorRef>& offsets) noexcept {
  if (!offsets || !backend::reads_tensors(run)) return {};
  Segments segments = segments_in(*offsets);
  segments.count = p.segments;
  return check_offsets(run.plan, segments, p.shape[p.axis]);
}

Status hand_over(const Run& run, ScanJob& job, const std::optional<AnyTensorRef>& offsets) noexcept {
  if (offsets) {
    const std::int64_t count = job.segments->count;
    job.segments = segments_in(*offsets);
    job.segments->count = count;
    // What has an element for each segment does not move along the axis.
    const auto step_of = [&](int k) { return std::exchange(job.loop->operand[k].stride[job.axis], 0); };
    if (job.key.initial) job.segments->initial_step = step_of(job.initial_operand());
    if (job.key.initial && job.backward) job.segments->d_initial_step = step_of(job.inputs + kDInitial);
  }
  if (job.reverse) job.loop->flip_dim(job.axis);
  return run.choice.backend->scan.run(run, job);
}

Status check_piece(std::string_view plan, const ScanProblem& p, bool carry_in, bool carry_out) noexcept {
  if ((carry_in || carry_out) && p.offset_element) {
    return fail(Text::ArgumentUnexpected,
                {plan, carry_in ? "carry_in" : "carry_out", "the descriptor has an offset_element"});
  }
  if ((carry_in || carry_out) && p.reverse && p.key.indices) {
    return fail(Text::CarryUnsupported, {plan, carry_in ? "carry_in" : "carry_out"});
  }
  const std::int64_t length = p.shape[p.axis];
  if (carry_out && length % kCarryBlock != 0) return fail(Text::PieceLength, {plan, kCarryBlock, length});
  return {};
}

}  // namespace planck::scan
