// Dynamic-range quantisation on the CPU: how segments are walked. Each of the two schedules gives the same bits,
// because minima, maxima and integer sums do not depend on order.
//
// Segment by segment: a row is ranged and then quantised while it is in the cache, rows shared out among threads.
// In passes: all threads range pieces of all segments, then the static quantiser runs over the whole tensor with the
// scales just written; for segments that are few and long, or whose elements lie apart.
#include <algorithm>
#include <atomic>
#include <cstring>

#include "core/checks.hpp"
#include "core/reference_loop.hpp"
#include "core/workspace.hpp"
#include "cpu/elementwise.hpp"
#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "cpu/strided/rectangle.hpp"
#include "cpu/sum_kernels.hpp"
#include "dynamic_range/ops.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/granularity.hpp"
#include "quantize/ops.hpp"

namespace planck::quantize::cpu_backend {
namespace {

using core::StridedLoop;
using cpu::SpanKernel;
using scalar::Compute;
using scalar::Range;

/// Ranges of this many segments are kept on the stack, those of more in the workspace.
constexpr std::int64_t kStackSegments = 2048;
constexpr std::int64_t kScratch = 1024;
/// Columns that are gathered side by side: in wide blocks memory is read in long runs.
constexpr std::int64_t kColumns = 4096;
/// Few enough that lines of rows a power of two apart do not drive each other out of the first-level cache.
constexpr std::int64_t kRowsAtOnce = 4;

template <class T>
const cpu::KernelRow& find(ArchSku arch, Formula formula, std::optional<ElementKind> codes = {},
                           QParamsFrom from = QParamsFrom::Run) {
  const auto like = kernel_row(formula, element_of<T>, codes, variant_of(ScaleForm::Divide, from), false);
  return *cpu::find_kernel(cpu::quantize_kernels<T>(arch), like);
}

/// Copies n elements, `from_stride` bytes apart, to a place where they are `to_stride` apart.
template <class T>
void copy_strided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                  std::int64_t n) {
  cpu::copy_rectangle(sizeof(T), from, 0, from_stride, to, 0, to_stride, 1, n);
}

// ---- segment by segment ----

using namespace dynamic_operand;

/// Rows whose elements do not lie side by side, packed piece by piece.
template <class T, class Q, class S>
class StridedRows {
 public:
  using C = Compute<T>;

  StridedRows(ArchSku arch, const DynamicRun& run, std::int64_t length, std::int64_t input_stride,
              std::int64_t output_stride)
      : range_(find<T>(arch, Formula::Range).span),
        quantize_(find<T>(arch, Formula::Quantize, run.codes).span),
        sums_(cpu::sum_kernels(arch)),
        rule_(run.rule),
        length_(length),
        input_stride_(input_stride),
        output_stride_(output_stride) {}

  void quantize(const std::array<std::byte*, kOperands>& at) const noexcept {
    Range<C> range;
    for_each_piece(at[kInput], [&](T* x, std::int64_t, std::int64_t n) {
      void* const operands[] = {x, &range};
      range_(&rule_, operands, n, 0);
    });
    const auto qparams = scalar::dynamic_qparams<S>(range, rule_);
    const S scale = scalar::narrow<S>(qparams.scale);
    std::memcpy(at[kScale], &scale, sizeof scale);
    if (at[kZeroPoint] != nullptr) std::memcpy(at[kZeroPoint], &qparams.zero_point, sizeof qparams.zero_point);
    if (at[kOutput] == nullptr) return;

    const Params<C> params(static_cast<double>(qparams.scale), qparams.zero_point, rule_.q_min, rule_.q_max);
    std::int32_t sum = 0;
    for_each_piece(at[kInput], [&](T* x, std::int64_t first, std::int64_t n) {
      Q codes[kScratch];
      void* const operands[] = {x, codes};
      quantize_(&params, operands, n, 0);
      if (at[kRowSum] != nullptr) sum += static_cast<std::int32_t>(sums_.sum_codes(codes, n));
      copy_strided<Q>(at[kOutput] + first * output_stride_, output_stride_, reinterpret_cast<std::byte*>(codes),
                      sizeof(Q), n);
    });
    if (at[kRowSum] != nullptr) std::memcpy(at[kRowSum], &sum, sizeof sum);
  }

 private:
  /// Calls body(x, first, n) for packed pieces of the row.
  template <class Body>
  void for_each_piece(const std::byte* row, const Body& body) const {
    T packed[kScratch];
    for (std::int64_t i = 0; i < length_; i += kScratch) {
      const std::int64_t n = std::min(kScratch, length_ - i);
      copy_strided<T>(reinterpret_cast<std::byte*>(packed), sizeof(T), row + i * input_stride_, input_stride_, n);
      body(packed, i, n);
    }
  }

  SpanKernel range_;
  SpanKernel quantize_;
  const cpu::SumKernels& sums_;
  scalar::RangeRule rule_;
  std::int64_t length_;
  std::int64_t input_stride_;
  std::int64_t output_stride_;
};

/// Calls body(at, count) for runs of rows that are a stride apart: rows begin to end of the loop, whose last dimension
/// is within a row.
template <class Body>
void for_each_run(const StridedLoop& loop, std::int64_t begin, std::int64_t end, const Body& body) {
  const int inner = loop.rank - 2;
  const std::int64_t extent = inner < 0 ? 1 : loop.extent[inner];
  for (std::int64_t row = begin, count = 0; row < end; row += count) {
    count = std::min(end - row, extent - row % extent);
    std::array<std::byte*, kOperands> at;
    for (int k = 0; k < kOperands; ++k) at[k] = loop.operand[k].base;
    std::int64_t rest = row;
    for (int d = inner; d >= 0; --d) {
      for (int k = 0; k < kOperands; ++k) {
        if (at[k] != nullptr) at[k] += rest % loop.extent[d] * loop.operand[k].stride[d];
      }
      rest /= loop.extent[d];
    }
    body(at, count);
  }
}

/// A part's loop as rows: kept dimensions in front, the segment's own one last.
template <class T, class Q, class S>
void run_rows(const Stream& stream, ArchSku arch, const DynamicRun& run, StridedLoop loop, int row_dim) noexcept {
  loop.move_dim(row_dim, loop.rank - 1);
  for (int d = loop.rank - 3; d >= 0; --d) {
    // Only the dimensions in front of the row are merged, where all operands walk them as one.
    loop.merge_dims(d);
  }
  const int last = loop.rank - 1;
  const std::int64_t length = loop.extent[last];
  const std::int64_t input_stride = loop.operand[kInput].stride[last];
  const std::int64_t output_stride = loop.operand[kOutput].stride[last];
  const bool contiguous =
      length == 1 || (input_stride == sizeof(T) && (run.output == nullptr || output_stride == sizeof(Q)));
  DynamicRows rows{run.rule, std::is_same_v<S, T>, 0, {}};
  for (int k = 0; k < kOperands; ++k) rows.stride[k] = last > 0 ? loop.operand[k].stride[last - 1] : 0;
  const SpanKernel kernel = find<T>(arch, Formula::DynamicRows, run.codes).span;
  const StridedRows<T, Q, S> strided(arch, run, length, input_stride, output_stride);

  std::int64_t count = 1;
  for (int d = 0; d < last; ++d) count *= loop.extent[d];
  // Codes that are summed are read again at once.
  const bool streaming = run.row_sum == nullptr && cpu::worth_streaming(loop, 1, kOperands - 1);
  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    for_each_run(loop, begin, end, [&](std::array<std::byte*, kOperands> at, std::int64_t run_count) {
      if (contiguous) {
        DynamicRows here = rows;
        here.count = run_count;
        const std::array<void*, kOperands> operands{at[0], at[1], at[2], at[3], at[4]};
        return kernel(&here, operands.data(), length, streaming ? 1U : 0U);
      }
      for (std::int64_t r = 0; r < run_count; ++r) {
        strided.quantize(at);
        for (int k = 0; k < kOperands; ++k) {
          if (at[k] != nullptr) at[k] += rows.stride[k];
        }
      }
    });
    if (streaming) cpu::stream_fence();
  };
  cpu::for_each_range(stream, count, length * static_cast<std::int64_t>(2 * sizeof(T)) + 64, body);
}

// ---- in passes ----

/// The ranges of a piece's segments, merged into the shared ones when the piece moves on.
template <class T>
class RangeGatherer {
 public:
  using C = Compute<T>;
  using Element = T;
  static constexpr int kTargets = 2;  // lo, hi

  RangeGatherer(ArchSku arch, const scalar::RangeRule& rule)
      : range_(find<T>(arch, Formula::Range).span), columns_(find<T>(arch, Formula::ColumnRanges).span), rule_(rule) {}

  void reset(std::int64_t width) {
    std::fill_n(lo_, width, Range<C>{}.lo);
    std::fill_n(hi_, width, Range<C>{}.hi);
  }
  void add_row(const T* x, std::int64_t n) {
    Range<C> range{lo_[0], hi_[0]};
    void* const operands[] = {const_cast<T*>(x), &range};
    range_(&rule_, operands, n, 0);
    lo_[0] = range.lo;
    hi_[0] = range.hi;
  }
  void add_columns(const T* x, std::int64_t width, Rows rows) {
    rows.symmetric = rule_.symmetric;
    void* const operands[] = {const_cast<T*>(x), lo_, hi_};
    columns_(&rows, operands, width, 0);
  }
  void merge(std::byte* const* targets, std::int64_t i) const {
    merge_if(targets[0], lo_[i], [](C a, C b) { return a < b; });
    merge_if(targets[1], hi_[i], [](C a, C b) { return a > b; });
  }

 private:
  template <class Better>
  static void merge_if(std::byte* target, C value, const Better& better) {
    std::atomic_ref<C> shared(*reinterpret_cast<C*>(target));
    C seen = shared.load(std::memory_order_relaxed);
    while (better(value, seen) && !shared.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
    }
  }

  SpanKernel range_;
  SpanKernel columns_;
  const scalar::RangeRule& rule_;
  C lo_[kColumns];
  C hi_[kColumns];
};

template <class Q>
class CodeSummer {
 public:
  using Element = Q;
  static constexpr int kTargets = 1;

  explicit CodeSummer(ArchSku arch) : sums_(cpu::sum_kernels(arch)) {}

  void reset(std::int64_t width) { std::fill_n(sum_, width, 0); }
  void add_row(const Q* codes, std::int64_t n) { sum_[0] += static_cast<std::int32_t>(sums_.sum_codes(codes, n)); }
  void add_columns(const Q* codes, std::int64_t width, const Rows& rows) {
    sums_.add_code_columns(codes, rows.stride, rows.count, width, sum_);
  }
  void merge(std::byte* const* targets, std::int64_t i) const {
    std::atomic_ref<std::int32_t>(*reinterpret_cast<std::int32_t*>(targets[0]))
        .fetch_add(sum_[i], std::memory_order_relaxed);
  }

 private:
  const cpu::SumKernels& sums_;
  std::int32_t sum_[kColumns];
};

/// Shows every element of the loop's last operand to gatherers, one per piece, which merge into the operands before
/// it: those are broadcast along a segment.
template <class MakeGatherer>
void gather(const Stream& stream, StridedLoop& loop, const MakeGatherer& make_gatherer) noexcept {
  using Gatherer = decltype(make_gatherer());
  using Element = typename Gatherer::Element;
  if (loop.count() == 0) return;
  core::collapse(loop);
  const int inner = loop.rank - 1;
  const int source = Gatherer::kTargets;
  const std::int64_t columns = inner < 0 ? 1 : loop.extent[inner];
  const std::int64_t step = inner < 0 ? 0 : loop.operand[source].stride[inner];
  const std::int64_t target_step = inner < 0 ? 0 : loop.operand[0].stride[inner];
  const bool rows = target_step == 0;  // a run along the inner dimension belongs to one segment
  const bool packed = columns > 1 && step != sizeof(Element);
  // Columns take several rows at a time where these belong to the same segments.
  const bool several = !rows && !packed && inner > 0 && loop.operand[0].stride[inner - 1] == 0;
  const std::int64_t in_place_width = rows ? 16 * kScratch : kColumns;
  const std::int64_t width = packed ? kScratch : in_place_width;
  const std::int64_t chunks = cpu::ceil_div(columns, width);
  std::int64_t outer = 1;
  for (int d = 0; d < inner; ++d) outer *= loop.extent[d];

  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    Gatherer gatherer = make_gatherer();
    Element scratch[kScratch];
    std::array<std::byte*, Gatherer::kTargets> current{};
    std::int64_t current_width = 0;
    const auto merge = [&] {
      for (std::int64_t i = 0; current[0] != nullptr && i < current_width; ++i) {
        std::array<std::byte*, Gatherer::kTargets> targets;
        for (int k = 0; k < Gatherer::kTargets; ++k) {
          targets[k] = current[k] + i * (inner < 0 ? 0 : loop.operand[k].stride[inner]);
        }
        gatherer.merge(targets.data(), i);
      }
    };
    std::int64_t taken = 1;
    for (std::int64_t unit = begin; unit < end; unit += taken) {
      // Neighbouring units share segments: runs of a row one after the other, rows of a column block likewise.
      const std::int64_t chunk = rows ? unit % chunks : unit / outer;
      std::int64_t rest = rows ? unit / chunks : unit % outer;
      taken = several ? std::min({kRowsAtOnce, end - unit, loop.extent[inner - 1] - rest % loop.extent[inner - 1]}) : 1;
      std::array<std::byte*, Gatherer::kTargets + 1> at;
      for (int k = 0; k <= source; ++k) {
        at[k] = loop.operand[k].base + (inner < 0 ? 0 : chunk * width * loop.operand[k].stride[inner]);
      }
      for (int d = inner - 1; d >= 0; --d) {
        for (int k = 0; k <= source; ++k) at[k] += rest % loop.extent[d] * loop.operand[k].stride[d];
        rest /= loop.extent[d];
      }
      const std::int64_t n = std::min(width, columns - chunk * width);
      if (at[0] != current[0]) {
        merge();
        std::copy_n(at.begin(), Gatherer::kTargets, current.begin());
        current_width = rows ? 1 : n;
        gatherer.reset(current_width);
      }
      const auto* x = reinterpret_cast<const Element*>(at[source]);
      if (packed) {
        copy_strided<Element>(reinterpret_cast<std::byte*>(scratch), sizeof(Element), at[source], step, n);
        x = scratch;
      }
      if (rows) {
        gatherer.add_row(x, n);
      } else {
        gatherer.add_columns(x, n, {taken, several ? loop.operand[source].stride[inner - 1] : 0, false});
      }
    }
    merge();
  };
  cpu::for_each_range(stream, outer * chunks, std::min(width, columns) * static_cast<std::int64_t>(sizeof(Element)),
                      body);
}

/// A row-major view of one value per segment.
AnyTensorMut dense(void* data, ElementKind element, const Shape& shape) {
  AnyTensorMut view{data, core::numel(shape), 0, element, shape, {}};
  std::int64_t step = 1;
  for (int d = shape.rank() - 1; d >= 0; --d) {
    view.stride[d] = step;
    step *= shape[d];
  }
  return view;
}

template <class T, class S>
void write_qparams(const DynamicRun& run, const Compute<T>* lo, const Compute<T>* hi) {
  StridedLoop loop(run.scale.shape);
  loop.add(run.scale);
  if (run.zero_point != nullptr) loop.add(*run.zero_point);
  std::int64_t i = 0;
  core::for_each_index(loop, [&](const auto& cell) {
    const auto qparams = scalar::dynamic_qparams<S>(Range<Compute<T>>{lo[i], hi[i]}, run.rule);
    cell(0).set(scalar::narrow<S>(qparams.scale));
    if (run.zero_point != nullptr) cell(1).set(qparams.zero_point);
    ++i;
  });
}

template <class T, class Q, class S>
void run_passes(const Stream& stream, ArchSku arch, const DynamicRun& run, Compute<T>* lo, Compute<T>* hi) noexcept {
  using C = Compute<T>;
  const Shape& segments = run.scale.shape;
  const std::int64_t count = core::numel(segments);
  const SegmentSpace space(run.shape, run.scope);
  std::fill_n(lo, count, Range<C>{}.lo);
  std::fill_n(hi, count, Range<C>{}.hi);
  space.for_each_part([&](StridedLoop& loop, int part) {
    space.add_qparams(loop, part, dense(lo, element_of<C>, segments));
    space.add_qparams(loop, part, dense(hi, element_of<C>, segments));
    space.add(loop, part, run.input);
    gather(stream, loop, [&] { return RangeGatherer<T>(arch, run.rule); });
  });
  write_qparams<T, S>(run, lo, hi);
  if (run.output == nullptr) return;

  const Params<C> params(1.0, 0, run.rule.q_min, run.rule.q_max);
  const std::int32_t no_zero_point = 0;
  const cpu::KernelRow& kernel = find<T>(arch, Formula::Quantize, run.codes,
                                         std::is_same_v<S, C> ? QParamsFrom::Operands : QParamsFrom::NarrowOperands);
  space.for_each_part([&](StridedLoop& loop, int part) {
    space.add(loop, part, run.input);
    space.add_qparams(loop, part, run.scale);
    if (run.zero_point != nullptr) {
      space.add_qparams(loop, part, *run.zero_point);
    } else {
      SegmentSpace::add_number(loop, &no_zero_point, ElementKind::S32);
    }
    space.add(loop, part, *run.output);
    cpu::run_elementwise(stream, kernel, &params, loop, 3);
  });
  if (run.row_sum == nullptr) return;

  StridedLoop sums(segments);
  sums.add(*run.row_sum);
  core::for_each_index(sums, [](const auto& cell) { cell(0).set(std::int32_t{0}); });
  space.for_each_part([&](StridedLoop& loop, int part) {
    space.add_qparams(loop, part, *run.row_sum);
    space.add(loop, part, *run.output);
    gather(stream, loop, [arch] { return CodeSummer<Q>(arch); });
  });
}

// ---- the choice ----

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
StridedLoop row_loop(const SegmentSpace& space, StridedLoop loop, int part, const DynamicRun& run) {
  const auto add_qparams = [&](const AnyTensorMut* view, ElementKind element) {
    view != nullptr ? space.add_qparams(loop, part, *view) : loop.add_absent(element);
  };
  space.add(loop, part, run.input);
  run.output != nullptr ? space.add(loop, part, *run.output) : loop.add_absent(run.codes);
  add_qparams(run.zero_point, ElementKind::S32);
  add_qparams(run.row_sum, ElementKind::S32);
  add_qparams(&run.scale, run.scale_element);
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

template <class T, class Q, class S>
void run_typed(const Stream& stream, ArchSku arch, const DynamicRun& run, const Workspace& workspace) noexcept {
  using C = Compute<T>;
  const std::int64_t segments = core::numel(run.scale.shape);
  const std::int64_t elements = core::numel(run.shape);
  if (segments == 0) return;
  if (elements == 0) return reference::dynamic_range(run);

  const std::span<C> memory = core::values_in<C>(workspace);
  const bool on_stack = segments <= kStackSegments;
  const bool passes_possible = on_stack || std::ssize(memory) >= 2 * segments;
  const std::int64_t bytes = elements * static_cast<std::int64_t>(sizeof(T));
  bool by_rows = segments >= 2 * stream.threads() || bytes < cpu::kInlineBytes;
  const SegmentSpace space(run.shape, run.scope);
  space.for_each_part([&](const StridedLoop& empty, int part) {
    const StridedLoop loop = row_loop(space, empty, part, run);
    const int dim = only_row_dim(loop);
    by_rows &= dim >= 0 && !(passes_possible && scattered(loop, dim));
  });
  if (by_rows) {
    space.for_each_part([&](const StridedLoop& empty, int part) {
      const StridedLoop loop = row_loop(space, empty, part, run);
      run_rows<T, Q, S>(stream, arch, run, loop, only_row_dim(loop));
    });
  } else if (on_stack) {
    C lo[kStackSegments];
    C hi[kStackSegments];
    run_passes<T, Q, S>(stream, arch, run, lo, hi);
  } else if (passes_possible) {
    run_passes<T, Q, S>(stream, arch, run, memory.data(), memory.data() + segments);
  } else {
    reference::dynamic_range(run);
  }
}

}  // namespace

std::size_t dynamic_range_workspace(const Shape& shape, const Granularity& scope, ElementKind element) noexcept {
  // Tokens and groups are rows, whatever their strides; only long or scattered channels need their ranges kept.
  const std::int64_t segments = core::numel(qparams_shape(shape, scope));
  if (!std::holds_alternative<PerChannel>(scope) || segments <= kStackSegments) return 0;
  return static_cast<std::size_t>(2 * segments * size_of(compute_of(element)) + 16);
}

void dynamic_range(const Stream& stream, ArchSku arch, const DynamicRun& run, const Workspace& workspace) noexcept {
  numerics::with_float(run.element, [&]<class T>(T) {
    numerics::with_codes(run.codes, [&]<class Q>(Q) {
      if (run.scale_element == element_of<Compute<T>>) {
        run_typed<T, Q, Compute<T>>(stream, arch, run, workspace);
      } else {
        run_typed<T, Q, T>(stream, arch, run, workspace);
      }
    });
  });
}

}  // namespace planck::quantize::cpu_backend
