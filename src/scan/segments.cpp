#include "scan/segments.hpp"

#include "scan/job.hpp"

namespace planck::scan {

core::Status check_offsets(std::string_view plan, const Segments& segments, std::int64_t length) noexcept {
  std::int64_t least = 0;
  for (std::int64_t i = 0; i <= segments.count; ++i) {
    const std::int64_t offset = segments.offset(i);
    if (i == segments.count) least = length;
    const std::int64_t most = i == 0 && i < segments.count ? 0 : length;
    if (offset < least || offset > most) {
      return core::fail(core::Text::BadOffsetAt, {plan, i, offset, least, most, length});
    }
    least = offset;
  }
  return {};
}

ScanJob job_of_segment(const ScanJob& job, std::int64_t i, core::StridedLoop* loop) noexcept {
  const Segments& segments = *job.segments;
  const std::int64_t begin = segments.offset(i);
  const std::int64_t end = segments.offset(i + 1);
  // The axis runs in scan order.
  const std::int64_t start = job.reverse ? loop->extent[job.axis] - end : begin;
  loop->extent[job.axis] = end - begin;
  for (int k = 0; k < loop->operands; ++k) {
    core::LoopOperand& op = loop->operand[k];
    std::int64_t moved = start * op.stride[job.axis];
    if (k == job.initial_operand()) moved = i * segments.initial_step;
    if (job.backward && k == job.inputs + kDInitial && k < job.initial_operand()) moved = i * segments.d_initial_step;
    if (op.base != nullptr) op.base += moved;
  }
  ScanJob own = job;
  own.loop = loop;
  own.segments.reset();
  return own;
}

}  // namespace planck::scan
