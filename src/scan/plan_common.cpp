#include "scan/plan_common.hpp"

namespace planck::scan {

using core::fail;

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

Status hand_over(const Run& run, const ScanJob& job) noexcept {
  if (job.reverse) job.loop->flip_dim(job.axis);
  return run.choice.backend->scan.run(run, job);
}

Status check_piece(std::string_view plan, const ScanProblem& p, bool carry_in, bool carry_out) noexcept {
  if ((carry_in || carry_out) && p.reverse && p.key.indices) {
    return fail(Text::CarryUnsupported, {plan, carry_in ? "carry_in" : "carry_out"});
  }
  const std::int64_t length = p.shape[p.axis];
  if (carry_out && length % kCarryBlock != 0) return fail(Text::PieceLength, {plan, kCarryBlock, length});
  return {};
}

}  // namespace planck::scan
