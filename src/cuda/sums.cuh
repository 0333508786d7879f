// Canonical sums of an operation's outputs: one reduced dimension after the other, innermost logical one first.
//
// The first stage evaluates the operation, stores the outputs that are no sums, and sums the innermost reduced
// dimension; later stages sum its f64 results, which lie dense in the workspace. The last stage multiplies by the
// factor and rounds. Every element is read once, by the thread that also writes its outputs, so those may be in place.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cuda/sum_kernels.cuh"

namespace planck::cuda {

/// Values of f64 in the workspace for one sum of a stage's `sites` sums of `length` terms, if it is cut into parts.
/// Grows with both, so that a run over a smaller part of the shape never needs more.
std::int64_t split_values(std::int64_t sites, std::int64_t length) noexcept;

/// Sites up to which long sums are cut into parts: beyond, they fill a device by themselves.
inline constexpr std::int64_t kSplitRowSites = 512;
inline constexpr std::int64_t kSplitColumnSites = 16384;

/// The dimensions of a loop over which an operand's sums go, without those of size 1.
unsigned reduced_dims(const core::StridedLoop& loop, const core::LoopOperand& sum) noexcept;

/// Sums that were begun: terms are values of f64 in planes, `count` of them.
struct PartialOp {
  using Compute = double;
  static constexpr int kTensors = kMaxSumOutputs;
  static constexpr int kParams = 0;
  static constexpr int kOutputs = kMaxSumOutputs;
  static constexpr int kStored = 0;
  static constexpr int kFirstSummed = 0;
  struct State {};
  __device__ __forceinline__ State state(const double (&)[1]) const { return {}; }
  __device__ __forceinline__ void operator()(const State&, const double (&in)[kTensors],
                                             double (&out)[kOutputs]) const {
    for (int k = 0; k < kOutputs; ++k) out[k] = in[k];
  }
};

/// Where a stage's results of f64 lie: `stride` values apart along each dimension of its loop.
struct PartialValues {
  double* values;
  std::int64_t plane;
  std::array<std::int64_t, core::kMaxLoopRank> stride;
};

/// The loop's values as terms of a job whose sums go to the operands `to` (one for each of `count`).
SumJob<PartialOp> partial_job(const core::StridedLoop& space, const PartialValues& from, int count,
                              const core::LoopOperand* to, const SumSpec& like) noexcept;

core::Status run_partial_stage(const backend::Run& run, SumJob<PartialOp> job, int dim, double* split) noexcept;
core::Status run_later_stages(const backend::Run& run, core::StridedLoop space, unsigned reduced, PartialValues from,
                              int count, const core::LoopOperand* to, const SumSpec& last, double* next,
                              double* split) noexcept;

/// Strides without one of `rank` dimensions.
inline void drop_dim(std::array<std::int64_t, core::kMaxLoopRank>& stride, int dim, int rank) {
  std::rotate(stride.begin() + dim, stride.begin() + dim + 1, stride.begin() + rank);
}

/// The sums' operands of a job that has any, in the order of its outputs; how many.
template <class Op>
int summed_operands(const SumJob<Op>& job, core::LoopOperand (&to)[kMaxSumOutputs]) {
  int count = 0;
  for (int o = 0; o < Op::kOutputs; ++o) {
    if (job.spec.sums(o)) to[count++] = job.job.loop.operand[ElementwiseJob<Op>::kOperands + o];
  }
  return count;
}

/// The rest of a stage that was cut: a closed sum over the whole parts' totals, and the E parts of the last one after
/// it.
template <class Op>
core::Status sum_parts(const backend::Run& run, const SumJob<Op>& job, int level, std::int64_t pieces) noexcept {
  const SumSpec& spec = job.spec;
  core::StridedLoop loop = job.job.loop;
  SumSpec rest = spec;
  rest.closed = true;
  rest.tail = level;
  rest.last = spec.length - 1;
  rest.parts = nullptr;
  core::LoopOperand to[kMaxSumOutputs];
  const int count = summed_operands(job, to);
  PartialValues from{spec.parts, spec.plane, {}};
  std::int64_t dense = spec.site_stride;
  for (int d = loop.rank - 2; d >= 0; --d) {
    from.stride[d] = dense;
    dense *= loop.extent[d];
  }
  from.stride[loop.rank - 1] = spec.part_stride;
  loop.extent[loop.rank - 1] = pieces - 1;
  return run_partial_stage(run, partial_job(loop, from, count, to, rest), loop.rank - 1, nullptr);
}

/// Sums dimension `dim` for every index of the others. `split` is workspace for parts, or null for none.
template <class Op>
core::Status run_stage(const backend::Run& run, SumJob<Op> job, int dim, double* split) noexcept {
  core::StridedLoop& loop = job.job.loop;
  SumSpec& spec = job.spec;
  spec.length = loop.extent[dim];
  loop.move_dim(dim, loop.rank - 1);
  spec.sites = 1;
  int fastest = loop.rank - 1;
  for (int d = loop.rank - 2; d >= 0; --d) {
    spec.sites *= loop.extent[d];
    constexpr int kAll = ElementwiseJob<Op>::kOperands;
    if (loop.total_stride(d, kAll) < loop.total_stride(fastest, kAll)) fastest = d;
  }
  if (spec.sites == 0) return {};
  const bool columns = fastest != loop.rank - 1 && spec.sites >= 16;
  if (columns) loop.move_dim(fastest, loop.rank - 2);
  for (int d = loop.rank - 3; d >= 0; --d) loop.merge_dims(d);

  const int level = columns ? kColumnLevel : kRowLevel;
  const std::int64_t pieces = pieces_of(spec.length, level, spec.closed);
  const bool cut = split != nullptr && pieces > 1 && spec.sites <= (columns ? kSplitColumnSites : kSplitRowSites);
  if (cut) {
    spec.parts = split;
    spec.plane = spec.sites * (pieces - 1 + level);
    spec.part_stride = columns ? spec.sites : 1;
    spec.site_stride = columns ? 1 : pieces - 1 + level;
  }
  if (columns) {
    spec.threads = 1;
    while (spec.threads < 8 && 64 * spec.threads < spec.length) spec.threads *= 2;
    const std::int64_t wide = kSumColumnThreads / spec.threads;
    const std::int64_t blocks = (spec.sites + wide - 1) / wide * (cut ? pieces : 1);
    PLANCK_TRY(launch(run, blocks, kSumColumnThreads, sum_columns<Op>, job));
  } else {
    const std::int64_t needed = spec.closed ? spec.length / 8 + 1 : (spec.length + 7) / 8;
    spec.threads = 1;
    while (spec.threads < 8 && spec.threads < needed) spec.threads *= 2;
    if (needed > 8) spec.threads = needed < kSumRowThreads ? static_cast<int>((needed + 7) / 8 * 8) : kSumRowThreads;
    const int slots = kSumRowThreads / spec.threads;
    const std::int64_t blocks = cut ? spec.sites * pieces : (spec.sites + slots - 1) / slots;
    PLANCK_TRY(launch(run, blocks, kSumRowThreads, sum_rows<Op>, job));
  }
  return cut ? sum_parts(run, job, level, pieces) : core::Status();
}

/// Takes away dimensions of one element and, where sums go over nothing, all reduced ones; at least one to reduce is
/// left. Returns those that are.
inline unsigned drop_trivial_dims(core::StridedLoop& loop, unsigned reduced, bool empty) {
  for (int d = loop.rank - 1; d >= 0; --d) {
    if (loop.extent[d] != 1 && !(empty && (reduced >> d & 1U) != 0)) continue;
    loop.erase_dim(d);
    const unsigned below = reduced & ((1U << d) - 1U);
    reduced = below | (reduced >> (d + 1) << d);
  }
  if (reduced != 0) return reduced;
  loop.append_unit_dim();
  loop.extent[loop.rank - 1] = empty ? 0 : 1;
  return 1U << (loop.rank - 1);
}

/// The job that sums those of `sums` whose bit is set.
template <class Op>
SumJob<Op> job_of_sums(const ElementwiseJob<Op>& job, const core::Sums& sums, const core::LoopOperand* to,
                       unsigned chosen) {
  SumJob<Op> summed{job, {}};
  core::StridedLoop& loop = summed.job.loop;
  summed.spec.element = sums.element;
  summed.spec.factor = sums.factor;
  for (int o = 0; o < Op::kOutputs; ++o) loop.add_absent(ElementKind::F64);
  for (int s = 0; s < sums.count; ++s) {
    if ((chosen >> s & 1U) == 0) continue;
    loop.operand[ElementwiseJob<Op>::kOperands + sums.term[s]] = to[s];
    summed.spec.summed |= 1U << sums.term[s];
  }
  return summed;
}

/// The sums of one reading: those of `sums` whose bit is set go over the dimensions `reduced`.
template <class Op>
core::Status run_sums_together(const backend::Run& run, const ElementwiseJob<Op>& job, const core::Sums& sums,
                               const core::LoopOperand* to, unsigned chosen, unsigned reduced) noexcept {
  SumJob<Op> first = job_of_sums(job, sums, to, chosen);
  core::StridedLoop& loop = first.job.loop;
  SumSpec& spec = first.spec;
  bool empty = false;
  for (int d = loop.rank - 1; d >= 0; --d) {
    const bool sum = (reduced >> d & 1U) != 0;
    empty |= sum && loop.extent[d] == 0;
    if (!sum && loop.extent[d] == 0) return {};  // no sums, no elements
  }
  reduced = drop_trivial_dims(loop, reduced, empty);
  if (empty) {
    // Sums over nothing are +0, and no input has an element.
    for (int k = 0; k < ElementwiseJob<Op>::kOperands; ++k) loop.operand[k].base = nullptr;
  }
  int dim = loop.rank - 1;
  while ((reduced >> dim & 1U) == 0) --dim;
  reduced &= ~(1U << dim);

  core::LoopOperand finals[kMaxSumOutputs];
  const int count = summed_operands(first, finals);
  const auto space = reinterpret_cast<std::uintptr_t>(run.workspace.data);
  auto* const values = reinterpret_cast<double*>((space + alignof(double) - 1) & ~(alignof(double) - 1));
  // One stage can do without workspace: nothing is cut into parts.
  if (reduced == 0) return run_stage(run, first, dim, run.workspace.data != nullptr ? values : nullptr);

  core::StridedLoop rest = loop;
  PartialValues partial{values, 1, {}};
  for (int d = loop.rank - 1; d >= 0; --d) {
    partial.stride[d] = d == dim ? 0 : partial.plane;
    if (d != dim) partial.plane *= loop.extent[d];
  }
  spec.element = ElementKind::F64;
  spec.factor = 1.0;
  for (int o = 0; o < Op::kOutputs; ++o) {
    if (!spec.sums(o)) continue;
    core::LoopOperand& operand = loop.operand[ElementwiseJob<Op>::kOperands + o];
    operand.base = reinterpret_cast<std::byte*>(values + spec.index_of(o) * partial.plane);
    for (int d = 0; d < loop.rank; ++d) operand.stride[d] = partial.stride[d] * static_cast<int>(sizeof(double));
  }
  // Two areas for results, used in turn, and the parts: sums_workspace counts the same.
  int second = dim;
  while ((reduced >> --second & 1U) == 0) {
  }
  double* const next = values + count * partial.plane;
  const bool third = (reduced & ~(1U << second)) != 0;
  double* const split = next + (third ? count * (partial.plane / loop.extent[second]) : 0);
  PLANCK_TRY(run_stage(run, first, dim, split));

  rest.move_dim(dim, rest.rank - 1);
  for (int s = 0; s < count; ++s) drop_dim(finals[s].stride, dim, rest.rank);
  drop_dim(partial.stride, dim, rest.rank);
  const unsigned below = reduced & ((1U << dim) - 1U);
  --rest.rank;
  SumSpec last = spec;
  last.element = sums.element;
  last.factor = sums.factor;
  return run_later_stages(run, rest, below, partial, count, finals, last, next, split);
}

/// Stores the outputs of a job that are present, and sums: sum s, into to[s], is that of output sums.term[s].
template <class Op>
core::Status run_sums(const backend::Run& run, const ElementwiseJob<Op>& job, const core::Sums& sums,
                      const core::LoopOperand* to) noexcept {
  unsigned pending = (1U << sums.count) - 1U;
  while (pending != 0) {
    int s = 0;
    while ((pending >> s & 1U) == 0) ++s;
    const unsigned reduced = reduced_dims(job.loop, to[s]);
    unsigned chosen = 0;
    for (int other = s; other < sums.count; ++other) {
      if ((pending >> other & 1U) != 0 && reduced_dims(job.loop, to[other]) == reduced) chosen |= 1U << other;
    }
    pending &= ~chosen;
    ElementwiseJob<Op> part = job;
    if (pending != 0) {
      // Outputs may be in place: they come with the last reading.
      for (int k = ElementwiseJob<Op>::kInputs; k < ElementwiseJob<Op>::kOperands; ++k)
        part.loop.operand[k].base = nullptr;
    }
    PLANCK_TRY(run_sums_together(run, part, sums, to, chosen, reduced));
  }
  return {};
}

}  // namespace planck::cuda
