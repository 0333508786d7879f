// Dynamic-range quantisation on the CPU: which kernels a plan keeps, and how segments are walked: row by row, in passes
// over all of them, or in passes over some at a time where memory is short. All give the same bits, because minima,
// maxima and integer sums do not depend on order.
#include <algorithm>

#include "core/checks.hpp"
#include "core/workspace.hpp"
#include "cpu/entries.hpp"
#include "dynamic_range/cpu/passes.hpp"
#include "dynamic_range/cpu/rows.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;
using quantize::Formula;
using quantize::QParamsFrom;
using quantize::SegmentSpace;

/// Ranges of this many segments are kept on the stack, those of more in the workspace.
constexpr std::int64_t kStackSegments = 2048;

constexpr int kNoRowDim = -1;
constexpr int kManyRowDims = -2;

/// The only dimension in which the scale is broadcast.
int only_row_dim(const StridedLoop& loop) {
  int found = kNoRowDim;
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.operand[kScale].stride[d] != 0) continue;
    if (found >= 0) return kManyRowDims;
    found = d;
  }
  return found;
}

/// All operands of a part; a segment of one element gets a row dimension of that length.
StridedLoop row_loop(const SegmentSpace& space, StridedLoop loop, int part, const DynamicRangeJob& job) {
  const auto add_qparams = [&](const AnyTensorMut* view, ElementKind element) {
    view != nullptr ? space.add_qparams(loop, part, *view) : loop.add_absent(element);
  };
  space.add(loop, part, job.input);
  job.output != nullptr ? space.add(loop, part, *job.output) : loop.add_absent(job.codes);
  add_qparams(job.zero_point, ElementKind::S32);
  add_qparams(job.row_sum, ElementKind::S32);
  add_qparams(&job.scale, job.scale_element);
  loop.erase_unit_dims(loop.rank);
  if (only_row_dim(loop) == kNoRowDim && loop.rank < core::kMaxLoopRank) loop.append_unit_dim();
  return loop;
}

/// Whether a row's elements lie further apart in memory than its neighbours: such rows are better ranged side by side.
bool scattered(const StridedLoop& loop, int row_dim) {
  const auto& stride = loop.operand[kInput].stride;
  for (int d = 0; d < loop.rank; ++d) {
    if (d != row_dim && loop.extent[row_dim] > 1 && std::abs(stride[d]) < std::abs(stride[row_dim])) return true;
  }
  return false;
}

/// Segments without elements: the scale of an empty range, and a sum of 0.
template <class C, class S>
void write_empty(const DynamicRangeJob& job) {
  const auto qparams = scalar::dynamic_qparams<S>(Range<C>{}, job.rule);
  const auto fill = [&](const AnyTensorMut& view, auto value) {
    StridedLoop loop(view.shape);
    loop.add(view);
    core::for_each_index(loop, [&](const auto& cell) { cell(0).set(value); });
  };
  fill(job.scale, scalar::narrow<S>(qparams.scale));
  if (job.zero_point != nullptr) fill(*job.zero_point, qparams.zero_point);
  if (job.row_sum != nullptr) fill(*job.row_sum, std::int32_t{0});
}

/// Channels whose ranges find no memory: as many at a time as the stack holds.
template <class T, class Q, class S>
void run_slices(const Stream& stream, const DynamicKernels& kernels, const DynamicRangeJob& job) noexcept {
  using C = Compute<T>;
  const int axis = quantize::axis_of(job.shape, job.scope);
  const std::int64_t channels = job.shape[axis];
  for (std::int64_t begin = 0; begin < channels; begin += kStackSegments) {
    const auto slice = [&](auto view, int dim) {
      view.offset += begin * view.stride[dim];
      view.shape[dim] = std::min(kStackSegments, channels - begin);
      return view;
    };
    const auto slice_wanted = [&](const AnyTensorMut* view, int dim) {
      return view == nullptr ? AnyTensorMut{} : slice(*view, dim);
    };
    const AnyTensorRef input = slice(job.input, axis);
    const AnyTensorMut scale = slice(job.scale, 0);
    const AnyTensorMut zero_point = slice_wanted(job.zero_point, 0);
    const AnyTensorMut output = slice_wanted(job.output, axis);
    const AnyTensorMut row_sum = slice_wanted(job.row_sum, 0);
    C lo[kStackSegments];
    C hi[kStackSegments];
    run_passes<T, Q, S>(stream, kernels,
                        {input.shape, job.scope, job.element, job.codes, job.scale_element, job.rule, input, scale,
                         job.zero_point == nullptr ? nullptr : &zero_point, job.output == nullptr ? nullptr : &output,
                         job.row_sum == nullptr ? nullptr : &row_sum},
                        lo, hi);
  }
}

template <class T, class Q, class S>
void run_typed(const Run& run, const DynamicRangeJob& job) noexcept {
  using C = Compute<T>;
  const Stream& stream = run.stream;
  const DynamicKernels kernels(run.choice);
  const std::int64_t segments = core::numel(job.scale.shape);
  const std::int64_t elements = core::numel(job.shape);
  if (segments == 0) return;
  if (elements == 0) return write_empty<C, S>(job);

  const std::span<C> memory = core::values_in<C>(run.workspace);
  const bool on_stack = segments <= kStackSegments;
  const bool in_memory = std::ssize(memory) >= 2 * segments;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
  bool by_rows = segments >= 2 * stream.threads() || bytes < kInlineBytes;
  const SegmentSpace space(job.shape, job.scope);
  space.for_each_part([&](const StridedLoop& empty, int part) {
    const StridedLoop loop = row_loop(space, empty, part, job);
    const int dim = only_row_dim(loop);
    by_rows &= dim >= 0 && !((on_stack || in_memory) && scattered(loop, dim));
  });
  if (by_rows) {
    space.for_each_part([&](const StridedLoop& empty, int part) {
      const StridedLoop loop = row_loop(space, empty, part, job);
      run_rows<T, Q, S>(stream, kernels, job, loop, only_row_dim(loop));
    });
  } else if (on_stack) {
    C lo[kStackSegments];
    C hi[kStackSegments];
    run_passes<T, Q, S>(stream, kernels, job, lo, hi);
  } else if (in_memory) {
    run_passes<T, Q, S>(stream, kernels, job, memory.data(), memory.data() + segments);
  } else {
    // Tokens and groups are rows, so these are channels.
    run_slices<T, Q, S>(stream, kernels, job);
  }
}

}  // namespace

Status prepare_dynamic_range(const DynamicRangeJob& job, Selection& selection) noexcept {
  const auto quantizers = quantize::kernels_for(job.element, selection.choice.arch);
  std::span<const KernelRow> steps;
  numerics::with_float(job.element, [&]<class T>(T) { steps = dynamic_range_kernels<T>(selection.choice.arch); });
  const auto take = [&](std::size_t slot, std::span<const KernelRow> rows, Formula formula,
                        std::optional<ElementKind> codes, QParamsFrom from = QParamsFrom::Run) {
    const auto variant = quantize::variant_of(ScaleForm::Divide, from);
    return take_kernel(selection, slot, rows, quantize::kernel_row(formula, job.element, codes, variant, false));
  };
  const bool narrow = job.scale_element != compute_of(job.element);
  // In the order of DynamicKernels.
  PLANCK_TRY(take(0, steps, Formula::DynamicRows, job.codes));
  PLANCK_TRY(take(1, steps, Formula::Range, std::nullopt));
  PLANCK_TRY(take(2, steps, Formula::ColumnRanges, std::nullopt));
  PLANCK_TRY(take(3, quantizers, Formula::Quantize, job.codes));
  PLANCK_TRY(
      take(4, quantizers, Formula::Quantize, job.codes, narrow ? QParamsFrom::NarrowOperands : QParamsFrom::Operands));
  // Tokens and groups are rows, whatever their strides; only long or scattered channels need their ranges kept.
  const std::int64_t segments = core::numel(qparams_shape(job.shape, job.scope));
  if (std::holds_alternative<PerChannel>(job.scope) && segments > kStackSegments) {
    selection.want_workspace(static_cast<std::size_t>(2 * segments * size_of(compute_of(job.element)) + 16));
  }
  return {};
}

Status run_dynamic_range(const Run& run, const DynamicRangeJob& job) noexcept {
  numerics::with_float(job.element, [&]<class T>(T) {
    numerics::with_codes(job.codes, [&]<class Q>(Q) {
      if (job.scale_element == element_of<Compute<T>>) {
        run_typed<T, Q, Compute<T>>(run, job);
      } else {
        run_typed<T, Q, T>(run, job);
      }
    });
  });
  return {};
}

}  // namespace planck::cpu
