#include "cpu/reduce_schedule.hpp"

#include <algorithm>

#include "core/layout.hpp"
#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;

void arrange_dims(ReductionSchedule& p) {
  StridedLoop& loop = p.loop;
  loop.erase_unit_dims(loop.rank);
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.operand[p.last_operand()].stride[d] != 0) loop.move_dim(d, p.kept++);
  }
  // Where every sum has one term, that term still passes through a dimension of its own.
  const bool one_term = p.kept == loop.rank;
  if (one_term) loop.append_unit_dim();
  for (int d = p.kept - 2; d >= 0; --d) p.kept -= loop.merge_dims(d) ? 1 : 0;
  for (int d = 0; d < p.kept; ++d) p.sums *= loop.extent[d];
  if (p.kept == 0) return;
  // The kept dimension nearest to contiguous goes last, and is walked as columns if it is nearer than the
  // innermost reduced one.
  const auto total_stride = [&](int d) { return loop.total_stride(d, p.gradient(0)); };
  int best = 0;
  for (int d = 1; d < p.kept; ++d) {
    if (total_stride(d) <= total_stride(best)) best = d;
  }
  loop.move_dim(best, p.kept - 1);
  p.columns = one_term || total_stride(p.kept - 1) < total_stride(loop.rank - 1);
}

/// As many columns as the arena holds, in blocks of one size that keep off each other's cache lines.
std::int64_t columns_at_once(const ReductionSchedule& p, std::int64_t count) {
  std::int64_t bytes = p.levels * std::int64_t{sizeof(double)};
  for (int o = 0; o < p.outputs(); ++o) bytes += p.has_panel(o) ? kPanelRows * p.compute_bytes() : 0;
  const std::int64_t limit = std::min(kPanelColumns, (kPanelArena - core::kMaxSums * kPanelGap) / bytes) & ~63;
  const std::int64_t share = ceil_div(count, ceil_div(count, limit));
  return (share + 63) & ~63;
}

void choose_width(ReductionSchedule& p) {
  const std::int64_t length = p.loop.extent[p.loop.rank - 1];
  p.short_rows = !p.columns && p.kept == p.loop.rank - 1 && length <= CanonicalSums::kShortRow;
  for (int d = p.kept; d < p.loop.rank; ++d) {
    p.levels += p.gradients() * (CanonicalSums::storage_for(p.loop.extent[d], 1) + 1);
  }
  const std::int64_t count = p.side_by_side() ? p.loop.extent[p.kept - 1] : 1;
  if (p.side_by_side()) {
    p.width = std::min(count, p.columns ? columns_at_once(p, count) : CanonicalSums::kShortRows / length);
  }
  p.row_tasks = p.sums / count;
  p.tasks = p.row_tasks * ceil_div(count, p.width);
}

}  // namespace

ReductionSchedule schedule_reduction(const Stream& stream, const Reduction& reduction) noexcept {
  ReductionSchedule p{&reduction, reduction.loop};
  arrange_dims(p);
  if (p.loop.count() == 0) return p;
  choose_width(p);
  p.streamed = worth_streaming(stream, p.loop, reduction.inputs, p.outputs());
  return p;
}

void split_reduction(ReductionSchedule& p, int threads, std::int64_t room) noexcept {
  p.split_dim = p.kept;
  const std::int64_t wanted = threads <= 1 ? 1 : ceil_div(4 * threads, p.tasks);
  if (wanted <= 1 || p.short_rows) return;
  ReductionSchedule cut = p;
  while (cut.split_dim + 1 < p.loop.rank && cut.outer < wanted &&
         cut.outer * p.loop.extent[cut.split_dim] <= std::min<std::int64_t>(room, 4096)) {
    cut.outer *= p.loop.extent[cut.split_dim++];
  }
  const std::int64_t extent = p.loop.extent[cut.split_dim];
  for (cut.split_level = numerics::levels_for(extent); cut.split_level >= 1; --cut.split_level) {
    cut.parts = ceil_div(extent, numerics::block_size(cut.split_level));
    if (cut.outer * cut.slots() > room) break;
    p = cut;
    if (cut.outer * cut.parts >= wanted) break;
  }
}

}  // namespace planck::cpu
