// Later stages of canonical sums, and the workspace that stages need.
#include <algorithm>
#include <bit>

#include "cuda/entries.hpp"
#include "cuda/sums.cuh"

namespace planck::cuda {

std::int64_t split_values(std::int64_t sites, std::int64_t length) noexcept {
  std::int64_t values = 0;
  const auto cut = [&](std::int64_t most, int level) {
    const std::int64_t pieces = pieces_of(length, level, false);
    if (pieces > 1) values = std::max(values, std::min(sites, most) * (pieces - 1 + level));
  };
  cut(kSplitRowSites, kRowLevel);
  cut(kSplitColumnSites, kColumnLevel);
  return values;
}

unsigned reduced_dims(const core::StridedLoop& loop, const core::LoopOperand& sum) noexcept {
  unsigned dims = 0;
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.extent[d] != 1 && sum.stride[d] == 0) dims |= 1U << d;
  }
  return dims;
}

SumJob<PartialOp> partial_job(const core::StridedLoop& space, const PartialValues& from, int count,
                              const core::LoopOperand* to, const SumSpec& like) noexcept {
  SumJob<PartialOp> job{{{}, space, {}, {}}, like};
  job.job.kind.fill(ElementKind::F64);
  core::StridedLoop& loop = job.job.loop;
  loop.operands = 0;
  for (int k = 0; k < ElementwiseJob<PartialOp>::kOperands + kMaxSumOutputs; ++k) loop.add_absent(ElementKind::F64);
  for (int s = 0; s < count; ++s) {
    core::LoopOperand& values = loop.operand[s];
    values.base = reinterpret_cast<std::byte*>(from.values + s * from.plane);
    for (int d = 0; d < loop.rank; ++d) values.stride[d] = from.stride[d] * static_cast<int>(sizeof(double));
    loop.operand[ElementwiseJob<PartialOp>::kOperands + s] = to[s];
  }
  job.spec.summed = (1U << count) - 1U;
  return job;
}

core::Status run_partial_stage(const backend::Run& run, SumJob<PartialOp> job, int dim, double* split) noexcept {
  return run_stage(run, job, dim, split);
}

core::Status run_later_stages(const backend::Run& run, core::StridedLoop space, unsigned reduced, PartialValues from,
                              int count, const core::LoopOperand* to, const SumSpec& last, double* next,
                              double* split) noexcept {
  std::array<core::LoopOperand, kMaxSumOutputs> finals;
  std::copy_n(to, count, finals.begin());
  while (true) {
    int dim = space.rank - 1;
    while ((reduced >> dim & 1U) == 0) --dim;
    reduced &= ~(1U << dim);
    if (reduced == 0) return run_partial_stage(run, partial_job(space, from, count, finals.data(), last), dim, split);

    PartialValues results{next, 1, {}};
    for (int d = space.rank - 1; d >= 0; --d) {
      results.stride[d] = d == dim ? 0 : results.plane;
      if (d != dim) results.plane *= space.extent[d];
    }
    std::array<core::LoopOperand, kMaxSumOutputs> between{};
    for (int s = 0; s < count; ++s) {
      between[s].base = reinterpret_cast<std::byte*>(next + s * results.plane);
      between[s].element_bytes = sizeof(double);
      for (int d = 0; d < space.rank; ++d) between[s].stride[d] = results.stride[d] * between[s].element_bytes;
    }
    SumSpec spec = last;
    spec.element = ElementKind::F64;
    spec.factor = 1.0;
    PLANCK_TRY(run_partial_stage(run, partial_job(space, from, count, between.data(), spec), dim, split));

    drop_dim(results.stride, dim, space.rank);
    for (int s = 0; s < count; ++s) drop_dim(finals[s].stride, dim, space.rank);
    space.operands = 0;
    space.erase_dim(dim);
    next = from.values;
    from = results;
  }
}

std::size_t sums_workspace(const core::StridedLoop& loop, int sums) noexcept {
  const unsigned reduced = reduced_dims(loop, loop.operand[loop.operands - 1]);
  std::int64_t sites = loop.count();
  if (sites == 0 || sums == 0) return 0;
  std::int64_t results = 0;
  std::int64_t parts = 0;
  int stage = 0;
  const int stages = std::popcount(reduced);
  for (int d = loop.rank - 1; d >= 0; --d) {
    if ((reduced >> d & 1U) == 0) continue;
    sites /= loop.extent[d];
    parts = std::max(parts, split_values(sites, loop.extent[d]));
    if (++stage < stages && stage <= 2) results += sites;  // later ones take the places of these two
  }
  if (results + parts == 0) return 0;
  return static_cast<std::size_t>(sums * (results + parts)) * sizeof(double) + alignof(double) - 1;
}

}  // namespace planck::cuda
