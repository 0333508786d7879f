// Dynamic-range quantisation on CUDA. Minima, maxima and integer sums do not depend on order, so segments may be cut
// and shared out in any way.
//
// Rows: a few lanes, or a block, take a segment whose elements are neighbours. One of up to 32 KiB is read once and
// held in shared memory, 64 bytes a thread; longer ones are read twice. Columns: where segments lie side by side, lanes
// go across them. Few long segments are cut into pieces: one launch writes the pieces' ranges to the workspace, a
// second one joins those of each segment, in every block that needs them, and quantises.
#include <algorithm>
#include <bit>

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "cuda/entries.hpp"
#include "cuda/launch.hpp"
#include "dynamic_range/cuda/columns.cuh"
#include "dynamic_range/cuda/rows.cuh"
#include "quantize/descriptor_checks.hpp"
#include "quantize/granularity.hpp"

namespace planck::cuda {
namespace {

using core::Status;
using quantize::DynamicRangeJob;

/// Blocks that keep a GPU busy: few long segments are cut into about as many pieces.
constexpr std::int64_t kEnoughBlocks = 1024;

std::int64_t pieces_of_rows(std::int64_t segments, std::int64_t length) {
  if (segments >= kEnoughBlocks / 2 || length <= 16384) return 1;
  return std::min(kEnoughBlocks / segments, length / 4096);
}
std::int64_t pieces_of_columns(std::int64_t segments, std::int64_t length) {
  const std::int64_t tiles = std::max<std::int64_t>(segments / kWarp, 1);
  if (tiles >= kEnoughBlocks / 2 || length <= 256) return 1;
  return std::min(kEnoughBlocks / tiles, length / 128);
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }
int power_of_two(std::int64_t at_least, int least, int most) {
  const auto n = static_cast<std::uint64_t>(std::clamp<std::int64_t>(at_least, least, most));
  return static_cast<int>(std::bit_ceil(n));
}

/// Kept dimensions first, forwards in the input, nearest neighbours last, as few of each as possible. Returns how many
/// are kept.
int arrange(StridedLoop& loop) {
  loop.erase_unit_dims(loop.rank);
  const auto kept = [&](int d) { return loop.operand[kScale].stride[d] != 0; };
  const auto stride = [&](int d) { return loop.operand[kInput].stride[d]; };
  for (int d = 0; d < loop.rank; ++d) {
    if (stride(d) < 0) loop.flip_dim(d);
    int to = d;
    while (to > 0 && (kept(d) != kept(to - 1) ? kept(d) : stride(d) > stride(to - 1))) --to;
    if (to != d) loop.move_dim(d, to);
  }
  for (int d = loop.rank - 2; d >= 0; --d) {
    if (kept(d) == kept(d + 1)) loop.merge_dims(d);
  }
  int count = 0;
  while (count < loop.rank && kept(count)) ++count;
  return count;
}

template <class C>
struct Planner {
  const backend::Run& run;
  const DynamicRangeJob& what;

  Status launch_part(StridedLoop loop) const {
    const int kept = arrange(loop);
    std::int64_t segments = 1;
    std::int64_t length = 1;
    for (int d = 0; d < loop.rank; ++d) (d < kept ? segments : length) *= loop.extent[d];
    if (segments == 0) return {};
    const auto& stride = loop.operand[kInput].stride;
    const bool columns = kept > 0 && (kept == loop.rank || stride[kept - 1] < stride[loop.rank - 1]);
    // A last dimension within the segment, if only of one element.
    if (kept == loop.rank) loop.append_unit_dim();
    const std::int64_t along = loop.extent[loop.rank - 1];
    const SegmentsJob<C> job{loop,      kept,     Step::All, what.element, what.scale_element,
                             what.rule, segments, length,    along,        1,
                             0,         false,    0,         nullptr};
    return columns ? launch_columns({job, 0, 0, 0}) : launch_rows({job, 0, 0, 0, false, 0});
  }

 private:
  Status launch_rows(RowsJob<C> job) const {
    job.shift = std::countr_zero(static_cast<std::uint64_t>(size_of(what.element)));
    job.vectors = job.loop.operand[kInput].stride[job.loop.rank - 1] == size_of(what.element);
    use_pieces(job, pieces_of_rows(job.segments, job.length));
    const bool one_run = job.run == job.length && job.pieces == 1;
    const std::int64_t vectors = (job.run << job.shift) / kVectorBytes;
    const std::int64_t turns = job.vectors ? ceil_div(vectors, kSlots) : ceil_div(job.run, kElements);
    // A warp or less for short segments, a block for others, a larger one where that can hold what it reads.
    const int threads = one_run && job.vectors && turns > kShortThreads ? kLongThreads : kShortThreads;
    job.lanes = one_run && turns <= kWarp ? power_of_two(turns, 2, kWarp) : threads;
    const int width = std::min(job.lanes, kWarp);
    const int warps = job.lanes / width;
    job.chunks = std::max<std::int64_t>(ceil_div(turns, width), 1);
    job.all_items = job.run == 0 ? 0 : job.length / job.run * job.chunks;
    job.items = ceil_div(job.all_items, job.pieces);
    job.held = one_run && job.vectors && job.all_items <= warps;
    job.units = ceil_div(job.segments * job.pieces, threads / job.lanes);
    if (job.run != job.length || !job.vectors)
      return launch_steps(job, threads, dynamic_rows<C, kShortThreads, Runs::Any>);
    return launch_steps(job, threads,
                        threads == kShortThreads ? dynamic_rows<C, kShortThreads, Runs::One>
                                                 : dynamic_rows<C, kLongThreads, Runs::One>);
  }

  Status launch_columns(ColumnsJob<C> job) const {
    constexpr std::int64_t kHeld = kSlots * kVectorBytes / static_cast<int>(sizeof(C));
    use_pieces(job, pieces_of_columns(job.segments, job.length));
    job.columns = job.loop.extent[job.kept - 1];
    const int row_lanes = power_of_two(ceil_div(job.length, kHeld), 1, kColumnThreads / kWarp);
    job.lanes = power_of_two(job.columns, 1, kColumnThreads / row_lanes);
    job.tiles = ceil_div(job.columns, job.lanes);
    job.rows = ceil_div(job.length, job.pieces);
    job.held = job.pieces == 1 && job.run == job.length && job.length <= kHeld * (kColumnThreads / job.lanes);
    job.units = job.segments / job.columns * job.tiles * job.pieces;
    return launch_steps(job, kColumnThreads, dynamic_columns<C>);
  }

  /// As many pieces as the workspace has room for.
  void use_pieces(SegmentsJob<C>& job, std::int64_t wanted) const {
    const auto room = core::values_in<Range<C>>(run.workspace);
    job.partials = room.data();
    job.pieces = std::clamp<std::int64_t>(std::ssize(room) / job.segments, 1, std::max<std::int64_t>(wanted, 1));
  }

  template <class AnyJob>
  Status launch_steps(AnyJob job, int threads, void (*kernel)(AnyJob)) const {
    if (job.pieces == 1) return launch(run, job.units, threads, kernel, job);
    job.step = Step::Ranges;
    PLANCK_TRY(launch(run, job.units, threads, kernel, job));
    job.step = Step::Quantize;
    return launch(run, job.units, threads, kernel, job);
  }
};

}  // namespace

Status run_dynamic_range(const Run& run, const DynamicRangeJob& job) noexcept {
  const quantize::SegmentSpace space(job.shape, job.scope);
  if (core::numel(job.scale.shape) == 0) return {};
  return space.for_each_part([&](StridedLoop& loop, int part) -> Status {
    const auto add_qparams = [&](const AnyTensorMut* view) {
      view != nullptr ? space.add_qparams(loop, part, *view) : loop.add_absent(ElementKind::S32);
    };
    space.add(loop, part, job.input);
    job.output != nullptr ? space.add(loop, part, *job.output) : loop.add_absent(job.codes);
    add_qparams(job.zero_point);
    add_qparams(job.row_sum);
    add_qparams(&job.scale);
    return job.element == ElementKind::F64 ? Planner<double>{run, job}.launch_part(loop)
                                           : Planner<float>{run, job}.launch_part(loop);
  });
}

std::size_t dynamic_range_workspace(const DynamicRangeJob& job) noexcept {
  const Shape& shape = job.shape;
  const Granularity& scope = job.scope;
  const std::int64_t elements = core::numel(shape);
  if (elements == 0) return 0;
  std::int64_t partials = 0;
  const auto count = [&](std::int64_t segments, std::int64_t length) {
    if (segments == 0 || length == 0) return;
    const std::int64_t pieces = std::max(pieces_of_rows(segments, length), pieces_of_columns(segments, length));
    if (pieces > 1) partials = std::max(partials, segments * pieces);
  };
  if (const auto* group = std::get_if<PerGroup>(&scope)) {
    const std::int64_t axis = shape[quantize::axis_of(shape, scope)];
    count(elements / axis * (axis / group->group_size), group->group_size);
    count(elements / axis, axis % group->group_size);
  } else {
    const std::int64_t segments = core::numel(qparams_shape(shape, scope));
    count(segments, elements / segments);
  }
  const std::size_t bytes = job.element == ElementKind::F64 ? sizeof(Range<double>) : sizeof(Range<float>);
  return partials == 0 ? 0 : static_cast<std::size_t>(partials) * bytes + alignof(double);
}

Status prepare_dynamic_range(const DynamicRangeJob& job, Selection& selection) noexcept {
  PLANCK_TRY(quantize::check_device_codes(selection.request.plan, job.codes));
  selection.want_workspace(dynamic_range_workspace(job));
  return {};
}

}  // namespace planck::cuda
