// Dynamic-range quantisation of segments that lie side by side: lanes go across them, and rows of lanes share the
// elements of each, a few of which every thread can hold.
#pragma once

#include "dynamic_range/cuda/segments.cuh"

namespace planck::cuda {
namespace {

/// Calls body(x, n, to) for every row_lanes-th of the rows begin, …, end - 1 of a column, several loads at a time. x is
/// the nth that this thread sees of a run of rows, and its code belongs to `to`.
template <class C, class Body>
__device__ __forceinline__ void visit_column(const ColumnsJob<C>& job, const SegmentPlaces& place, std::int64_t begin,
                                             std::int64_t end, int row_lane, int row_lanes, const Body& body) {
  constexpr int kAtOnce = 4;
  const int last = job.loop.rank - 1;
#pragma unroll 1
  while (begin < end) {
    const std::int64_t run = begin / job.run;
    const std::int64_t first = begin - run * job.run;
    const std::int64_t count = job.run - first < end - begin ? job.run - first : end - begin;
    SegmentPlaces at = place;
    at.move(job.loop, job.kept, last, run);
    at.step(job.loop, last, first + row_lane);
    with_float_kind<C>(job.element, [&]<class T>(T) {
      int n = 0;
#pragma unroll 1
      for (std::int64_t rest = count - row_lane; rest > 0; rest -= kAtOnce * row_lanes) {
        const int left = static_cast<int>(rest < kAtOnce * row_lanes ? rest : kAtOnce * row_lanes);
        T x[kAtOnce];
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k * row_lanes < left) x[k] = *reinterpret_cast<const T*>(at.input);
          at.input += row_lanes * job.loop.operand[kInput].stride[last];
        }
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k * row_lanes < left) body(scalar::widen<C>(x[k]), n++, at.output);
          at.output += row_lanes * job.loop.operand[kOutput].stride[last];
        }
      }
    });
    begin += count;
  }
}

template <class C>
__global__ void __launch_bounds__(kColumnThreads, kResident<C> / kColumnThreads) dynamic_columns(ColumnsJob<C> job) {
  constexpr int kHeld = kSlots * kVectorBytes / static_cast<int>(sizeof(C));
  __shared__ C held[kHeld][kColumnThreads];
  __shared__ C lows[kColumnThreads];
  __shared__ C highs[kColumnThreads];
  __shared__ int sums[kColumnThreads];
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % job.lanes;
  const int row_lane = thread / job.lanes;
  const int row_lanes = kColumnThreads / job.lanes;

  for (std::int64_t unit = blockIdx.x; unit < job.units; unit += gridDim.x) {
    const std::int64_t block = unit / job.pieces;
    const std::int64_t piece = unit - block * job.pieces;
    const std::int64_t outer = block / job.tiles;
    const std::int64_t column = (block - outer * job.tiles) * job.lanes + lane;
    const std::int64_t segment = outer * job.columns + column;
    const bool present = column < job.columns;
    const bool first = present && row_lane == 0 && piece == 0;
    const std::int64_t begin = piece * job.rows;
    const std::int64_t end = begin + job.rows < job.length ? begin + job.rows : job.length;
    SegmentPlaces place{job.loop.operand[kInput].base, job.loop.operand[kOutput].base};
    if (present) place.move(job.loop, 0, job.kept, segment);

    Range<C> range;
    if (present && job.step != Step::Quantize) {
      visit_column(job, place, begin, end, row_lane, row_lanes, [&](C x, int n, std::byte*) {
        range.add(x);
        if (job.held) held[n][thread] = x;
      });
    } else if (present) {
      for (std::int64_t p = row_lane; p < job.pieces; p += row_lanes) {
        range.join(job.partials[p * job.segments + segment]);
      }
    }
    lows[thread] = range.lo;
    highs[thread] = range.hi;
    for (int apart = row_lanes / 2; apart > 0; apart /= 2) {
      __syncthreads();
      if (row_lane >= apart) continue;
      range.join({lows[thread + apart * job.lanes], highs[thread + apart * job.lanes]});
      lows[thread] = range.lo;
      highs[thread] = range.hi;
    }
    __syncthreads();
    range = Range<C>{lows[lane], highs[lane]};

    if (job.step == Step::Ranges) {
      if (present && row_lane == 0) job.partials[piece * job.segments + segment] = range;
      if (first && job.loop.operand[kRowSum].base != nullptr) write_sum(job, segment, 0);
    } else {
      const Quantizer<C> quantizer(qparams_of(job, range, segment, first), job.rule);
      int sum = 0;
      const auto write = [&](C x, int, std::byte* to) {
        const int code = quantizer.code(x);
        *to = static_cast<std::byte>(code & 0xFF);
        sum += code;
      };
      if (present && job.loop.operand[kOutput].base != nullptr) {
        if (job.held) {
          place.step(job.loop, job.loop.rank - 1, row_lane);
#pragma unroll 1
          for (int n = 0; row_lane + n * row_lanes < job.length; ++n) {
            write(held[n][thread], n, place.output);
            place.step(job.loop, job.loop.rank - 1, row_lanes);
          }
        } else {
          visit_column(job, place, begin, end, row_lane, row_lanes, write);
        }
      }
      if (job.loop.operand[kRowSum].base != nullptr) {
        sums[thread] = sum;
        for (int apart = row_lanes / 2; apart > 0; apart /= 2) {
          __syncthreads();
          if (row_lane < apart) sums[thread] += sums[thread + apart * job.lanes];
        }
        if (present && row_lane == 0) write_sum(job, segment, sums[thread]);
      }
    }
    __syncthreads();
  }
}

}  // namespace
}  // namespace planck::cuda
