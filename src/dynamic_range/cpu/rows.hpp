// Dynamic-range quantisation segment by segment: a row is ranged and then quantised while it is in the cache, rows
// shared out among threads.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "cpu/strided/rectangle.hpp"
#include "dynamic_range/cpu/kernels.hpp"

namespace planck::cpu {

/// Copies n elements, `from_stride` bytes apart, to a place where they are `to_stride` apart.
template <class T>
void copy_strided(std::byte* to, std::int64_t to_stride, const std::byte* from, std::int64_t from_stride,
                  std::int64_t n) {
  copy_rectangle(sizeof(T), from, 0, from_stride, to, 0, to_stride, 1, n);
}

using namespace quantize::dynamic_operand;

/// Rows whose elements do not lie side by side, packed piece by piece.
template <class T, class Q, class S>
class StridedRows {
 public:
  using C = Compute<T>;

  StridedRows(const DynamicKernels& kernels, const scalar::RangeRule& rule, std::int64_t length,
              std::int64_t input_stride, std::int64_t output_stride)
      : range_(kernels.range.span),
        quantize_(kernels.quantize.span),
        sums_(kernels.sums),
        rule_(rule),
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

    const quantize::Params<C> params(static_cast<double>(qparams.scale), qparams.zero_point,
                                     static_cast<double>(rule_.q_min), static_cast<double>(rule_.q_max));
    std::int32_t sum = 0;
    for_each_piece(at[kInput], [&](T* x, std::int64_t first, std::int64_t n) {
      Q codes[kRowScratch];
      void* const operands[] = {x, codes};
      quantize_(&params, operands, n, 0);
      if constexpr (std::is_integral_v<Q>) {
        if (at[kRowSum] != nullptr) sum += static_cast<std::int32_t>(sums_.sum_codes(codes, n));
      }
      copy_strided<Q>(at[kOutput] + first * output_stride_, output_stride_, reinterpret_cast<std::byte*>(codes),
                      sizeof(Q), n);
    });
    if (at[kRowSum] != nullptr) std::memcpy(at[kRowSum], &sum, sizeof sum);
  }

 private:
  /// Calls body(x, first, n) for packed pieces of the row.
  template <class Body>
  void for_each_piece(const std::byte* row, const Body& body) const {
    T packed[kRowScratch];
    for (std::int64_t i = 0; i < length_; i += kRowScratch) {
      const std::int64_t n = std::min(kRowScratch, length_ - i);
      copy_strided<T>(reinterpret_cast<std::byte*>(packed), sizeof(T), row + i * input_stride_, input_stride_, n);
      body(packed, i, n);
    }
  }

  SpanKernel range_;
  SpanKernel quantize_;
  const SumKernels& sums_;
  scalar::RangeRule rule_;
  std::int64_t length_;
  std::int64_t input_stride_;
  std::int64_t output_stride_;
};

/// Calls body(at, count) for runs of rows that are a stride apart: rows begin to end of the loop, whose last dimension
/// is within a row.
template <class Body>
void for_each_run(const core::StridedLoop& loop, std::int64_t begin, std::int64_t end, const Body& body) {
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
void run_rows(const Stream& stream, const DynamicKernels& kernels, const DynamicRangeJob& job, core::StridedLoop loop,
              int row_dim) noexcept {
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
      length == 1 || (input_stride == sizeof(T) && (job.output == nullptr || output_stride == sizeof(Q)));
  quantize::DynamicRows rows{job.rule, std::is_same_v<S, T>, 0, {}};
  for (int k = 0; k < kOperands; ++k) rows.stride[k] = last > 0 ? loop.operand[k].stride[last - 1] : 0;
  const SpanKernel kernel = kernels.rows.span;
  const StridedRows<T, Q, S> strided(kernels, job.rule, length, input_stride, output_stride);

  std::int64_t count = 1;
  for (int d = 0; d < last; ++d) count *= loop.extent[d];
  // Codes that are summed are read again at once.
  const bool streaming = job.row_sum == nullptr && worth_streaming(stream, loop, 1, kOperands - 1);
  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    for_each_run(loop, begin, end, [&](std::array<std::byte*, kOperands> at, std::int64_t run_count) {
      if (contiguous) {
        quantize::DynamicRows here = rows;
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
    if (streaming) stream_fence();
  };
  for_each_range(stream, count, length * static_cast<std::int64_t>(2 * sizeof(T)) + 64, body);
}

}  // namespace planck::cpu
