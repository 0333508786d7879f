// Dynamic-range quantisation in passes: all threads range pieces of all segments, then the static quantiser runs over
// the whole tensor with the scales just written; for segments that are few and long, or whose elements lie apart.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/reference_loop.hpp"
#include "cpu/elementwise.hpp"
#include "cpu/parallel.hpp"
#include "dynamic_range/cpu/kernels.hpp"
#include "dynamic_range/cpu/rows.hpp"
#include "quantize/granularity.hpp"

namespace planck::cpu {

/// Columns that are gathered side by side: in wide blocks memory is read in long runs.
inline constexpr std::int64_t kRangeColumns = 4096;
/// Few enough that lines of rows a power of two apart do not drive each other out of the first-level cache.
inline constexpr std::int64_t kRowsAtOnce = 4;

/// The ranges of a piece's segments, merged into the shared ones when the piece moves on.
template <class T>
class RangeGatherer {
 public:
  using C = Compute<T>;
  using Element = T;
  static constexpr int kTargets = 2;  // lo, hi

  RangeGatherer(const DynamicKernels& kernels, const scalar::RangeRule& rule)
      : range_(kernels.range.span), columns_(kernels.column_ranges.span), rule_(rule) {}

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
  void add_columns(const T* x, std::int64_t width, RowsOfColumns rows) {
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
  C lo_[kRangeColumns];
  C hi_[kRangeColumns];
};

template <class Q>
class CodeSummer {
 public:
  using Element = Q;
  static constexpr int kTargets = 1;

  explicit CodeSummer(const SumKernels& sums) : sums_(sums) {}

  void reset(std::int64_t width) { std::fill_n(sum_, width, 0); }
  void add_row(const Q* codes, std::int64_t n) { sum_[0] += static_cast<std::int32_t>(sums_.sum_codes(codes, n)); }
  void add_columns(const Q* codes, std::int64_t width, const RowsOfColumns& rows) {
    sums_.add_code_columns(codes, rows.stride, rows.count, width, sum_);
  }
  void merge(std::byte* const* targets, std::int64_t i) const {
    std::atomic_ref<std::int32_t>(*reinterpret_cast<std::int32_t*>(targets[0]))
        .fetch_add(sum_[i], std::memory_order_relaxed);
  }

 private:
  const SumKernels& sums_;
  std::int32_t sum_[kRangeColumns];
};

/// Shows every element of the loop's last operand to gatherers, one per piece, which merge into the operands before
/// it: those are broadcast along a segment.
template <class MakeGatherer>
void gather(const Stream& stream, core::StridedLoop& loop, const MakeGatherer& make_gatherer) noexcept {
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
  const std::int64_t in_place_width = rows ? 16 * kRowScratch : kRangeColumns;
  const std::int64_t width = packed ? kRowScratch : in_place_width;
  const std::int64_t chunks = ceil_div(columns, width);
  std::int64_t outer = 1;
  for (int d = 0; d < inner; ++d) outer *= loop.extent[d];

  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    Gatherer gatherer = make_gatherer();
    Element scratch[kRowScratch];
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
  for_each_range(stream, outer * chunks, std::min(width, columns) * static_cast<std::int64_t>(sizeof(Element)), body);
}

template <class T, class S>
void write_qparams(const DynamicRangeJob& job, const Compute<T>* lo, const Compute<T>* hi) {
  core::StridedLoop loop(job.scale.shape);
  loop.add(job.scale);
  if (job.zero_point != nullptr) loop.add(*job.zero_point);
  std::int64_t i = 0;
  core::for_each_index(loop, [&](const auto& cell) {
    const auto qparams = scalar::dynamic_qparams<S>(Range<Compute<T>>{lo[i], hi[i]}, job.rule);
    cell(0).set(scalar::narrow<S>(qparams.scale));
    if (job.zero_point != nullptr) cell(1).set(qparams.zero_point);
    ++i;
  });
}

template <class T, class Q, class S>
void run_passes(const Stream& stream, const DynamicKernels& kernels, const DynamicRangeJob& job, Compute<T>* lo,
                Compute<T>* hi) noexcept {
  using C = Compute<T>;
  const Shape& segments = job.scale.shape;
  const std::int64_t count = core::numel(segments);
  const quantize::SegmentSpace space(job.shape, job.scope);
  std::fill_n(lo, count, Range<C>{}.lo);
  std::fill_n(hi, count, Range<C>{}.hi);
  space.for_each_part([&](core::StridedLoop& loop, int part) {
    space.add_qparams(loop, part, AnyTensorMut::contiguous(lo, element_of<C>, segments));
    space.add_qparams(loop, part, AnyTensorMut::contiguous(hi, element_of<C>, segments));
    space.add(loop, part, job.input);
    gather(stream, loop, [&] { return RangeGatherer<T>(kernels, job.rule); });
  });
  write_qparams<T, S>(job, lo, hi);
  if (job.output == nullptr) return;

  const quantize::Params<C> params(1.0, 0, job.rule.q_min, job.rule.q_max);
  const std::int32_t no_zero_point = 0;
  space.for_each_part([&](core::StridedLoop& loop, int part) {
    space.add(loop, part, job.input);
    space.add_qparams(loop, part, job.scale);
    if (job.zero_point != nullptr) {
      space.add_qparams(loop, part, *job.zero_point);
    } else {
      quantize::SegmentSpace::add_number(loop, &no_zero_point, ElementKind::S32);
    }
    space.add(loop, part, *job.output);
    run_elementwise(stream, kernels.quantize_segments, &params, loop, 3);
  });
  if (job.row_sum == nullptr) return;

  core::StridedLoop sums(segments);
  sums.add(*job.row_sum);
  core::for_each_index(sums, [](const auto& cell) { cell(0).set(std::int32_t{0}); });
  space.for_each_part([&](core::StridedLoop& loop, int part) {
    space.add_qparams(loop, part, *job.row_sum);
    space.add(loop, part, *job.output);
    gather(stream, loop, [&] { return CodeSummer<Q>(kernels.sums); });
  });
}

}  // namespace planck::cpu
