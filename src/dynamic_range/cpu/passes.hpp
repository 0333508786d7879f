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
/// So many that what they give is seldom merged, and few enough to be fetched ahead.
inline constexpr std::int64_t kRowsAtOnce = 16;

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

/// Shows every element of the loop's last operand to gatherers, one per task, which merge into the operands before it:
/// those are broadcast along a segment.
template <class Gatherer>
class GatherLoop {
 public:
  using Element = typename Gatherer::Element;

  /// The loop has elements, and is collapsed.
  explicit GatherLoop(const core::StridedLoop& loop)
      : loop_(loop),
        inner_(loop.rank - 1),
        columns_(inner_ < 0 ? 1 : loop.extent[inner_]),
        step_(stride(kSource)),
        rows_(stride(0) == 0),
        packed_(columns_ > 1 && step_ != sizeof(Element)),
        several_(!rows_ && !packed_ && inner_ > 0 && loop.operand[0].stride[inner_ - 1] == 0) {
    const std::int64_t in_place_width = rows_ ? 16 * kRowScratch : kRangeColumns;
    width_ = packed_ ? kRowScratch : in_place_width;
    chunks_ = ceil_div(columns_, width_);
    for (int d = 0; d < inner_; ++d) outer_ *= loop.extent[d];
  }

  template <class MakeGatherer>
  void run(const Stream& stream, const MakeGatherer& make_gatherer) const noexcept {
    // What a task found in columns is merged one by one, as long as it takes: of 16 rows each, tasks merged most of the
    // time.
    const std::int64_t units = outer_ * chunks_;
    const std::int64_t pieces = rows_ ? units : std::min<std::int64_t>(units, kTasksPerThread * stream.threads());
    const std::int64_t unit_bytes = std::min(width_, columns_) * static_cast<std::int64_t>(sizeof(Element));
    for_each_range(stream, pieces, units * unit_bytes / pieces, [&](std::int64_t begin, std::int64_t end) noexcept {
      Gatherer gatherer = make_gatherer();
      run_units(gatherer, core::share_begin(units, pieces, begin), core::share_begin(units, pieces, end));
    });
  }

 private:
  static constexpr int kTargets = Gatherer::kTargets;
  static constexpr int kSource = kTargets;
  using GatherPlaces = std::array<std::byte*, kTargets + 1>;

  std::int64_t stride(int operand) const { return inner_ < 0 ? 0 : loop_.operand[operand].stride[inner_]; }

  /// Neighbouring units share segments: runs of a row one after the other, rows of a column block likewise.
  void run_units(Gatherer& gatherer, std::int64_t begin, std::int64_t end) const noexcept {
    Element scratch[kRowScratch];
    GatherPlaces current{};
    std::int64_t current_width = 0;
    std::int64_t taken = 1;
    for (std::int64_t unit = begin; unit < end; unit += taken) {
      const std::int64_t chunk = rows_ ? unit % chunks_ : unit / outer_;
      const std::int64_t index = rows_ ? unit / chunks_ : unit % outer_;
      if (several_) {
        taken = std::min({kRowsAtOnce, end - unit, loop_.extent[inner_ - 1] - index % loop_.extent[inner_ - 1]});
      }
      const GatherPlaces at = places_of(chunk, index);
      const std::int64_t n = std::min(width_, columns_ - chunk * width_);
      if (at[0] != current[0]) {
        merge(gatherer, current, current_width);
        current = at;
        current_width = rows_ ? 1 : n;
        gatherer.reset(current_width);
      }
      const auto* x = reinterpret_cast<const Element*>(at[kSource]);
      if (packed_) {
        copy_strided<Element>(reinterpret_cast<std::byte*>(scratch), sizeof(Element), at[kSource], step_, n);
        x = scratch;
      }
      if (rows_) {
        gatherer.add_row(x, n);
      } else {
        gatherer.add_columns(x, n, {taken, several_ ? loop_.operand[kSource].stride[inner_ - 1] : 0, false});
      }
    }
    merge(gatherer, current, current_width);
  }

  GatherPlaces places_of(std::int64_t chunk, std::int64_t index) const {
    GatherPlaces at;
    for (int k = 0; k <= kSource; ++k) at[k] = loop_.operand[k].base + chunk * width_ * stride(k);
    for (int d = inner_ - 1; d >= 0; --d) {
      for (int k = 0; k <= kSource; ++k) at[k] += index % loop_.extent[d] * loop_.operand[k].stride[d];
      index /= loop_.extent[d];
    }
    return at;
  }

  void merge(const Gatherer& gatherer, const GatherPlaces& at, std::int64_t width) const {
    for (std::int64_t i = 0; at[0] != nullptr && i < width; ++i) {
      std::array<std::byte*, kTargets> targets;
      for (int k = 0; k < kTargets; ++k) targets[k] = at[k] + i * stride(k);
      gatherer.merge(targets.data(), i);
    }
  }

  const core::StridedLoop& loop_;
  int inner_;
  std::int64_t columns_;
  std::int64_t step_;
  bool rows_;     ///< a run along the inner dimension belongs to one segment
  bool packed_;   ///< elements lie apart, and are put together first
  bool several_;  ///< columns take several rows at a time, as these belong to the same segments
  std::int64_t width_;
  std::int64_t chunks_;
  std::int64_t outer_ = 1;
};

template <class MakeGatherer>
void gather(const Stream& stream, core::StridedLoop& loop, const MakeGatherer& make_gatherer) noexcept {
  if (loop.count() == 0) return;
  core::collapse(loop);
  GatherLoop<decltype(make_gatherer())>(loop).run(stream, make_gatherer);
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

template <class Q>
void sum_segments(const Stream& stream, const DynamicKernels& kernels, const DynamicRangeJob& job,
                  const quantize::SegmentSpace& space) noexcept {
  core::StridedLoop sums(job.scale.shape);
  sums.add(*job.row_sum);
  core::for_each_index(sums, [](const auto& cell) { cell(0).set(std::int32_t{0}); });
  space.for_each_part([&](core::StridedLoop& loop, int part) {
    space.add_qparams(loop, part, *job.row_sum);
    space.add(loop, part, *job.output);
    gather(stream, loop, [&] { return CodeSummer<Q>(kernels.sums); });
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

  const quantize::Params<C> params(1.0, 0, static_cast<double>(job.rule.q_min), static_cast<double>(job.rule.q_max));
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
  if constexpr (std::is_integral_v<Q>) {
    if (job.row_sum != nullptr) sum_segments<Q>(stream, kernels, job, space);
  }
}

}  // namespace planck::cpu
