// Dynamic-range quantisation of segments whose elements are neighbours: some lanes, or a block, for each of them. What
// a thread has read waits in its own slots of shared memory until the range is known.
#pragma once

#include "dynamic_range/cuda/segments.cuh"

namespace planck::cuda {
namespace {

/// The lanes of a segment within one warp, and what they visit.
template <class C, int Threads, Runs kRuns>
struct RowLanes {
  const RowsJob<C>& job;
  Vector (&slots)[kSlots][Threads];
  int width;  ///< lanes of the segment in this warp
  int lane;   ///< among them
  int warp;   ///< of the segment
  int warps;

  /// Shows the elements of a piece of the segment at `place`, with the places of their codes: on_vector(v, to) for
  /// whole vectors, on_element(x, to) for others.
  template <class OnVector, class OnElement>
  __device__ __forceinline__ void visit(const SegmentPlaces& place, int piece, bool from_slots,
                                        const OnVector& on_vector, const OnElement& on_element) const {
    const std::int64_t begin = piece * job.items;
    if constexpr (kRuns == Runs::One) {
      // So many chunks that they need 64 bits, of 64 bytes or more, are not in any memory.
      const auto left = static_cast<int>(job.all_items - begin < job.items ? job.all_items - begin : job.items);
#pragma unroll 1
      for (int item = warp; item < left; item += warps) {
        visit_vectors(place, begin + item, from_slots, on_vector, on_element);
      }
    } else {
      const std::int64_t end = begin + job.items < job.all_items ? begin + job.items : job.all_items;
#pragma unroll 1
      for (std::int64_t item = begin + warp; item < end; item += warps) {
        const std::int64_t run = item / job.chunks;
        SegmentPlaces at = place;
        at.move(job.loop, job.kept, job.loop.rank - 1, run);
        if (job.vectors) {
          visit_vectors(at, item - run * job.chunks, from_slots, on_vector, on_element);
        } else {
          visit_elements(at, item - run * job.chunks, on_element);
        }
      }
    }
  }

 private:
  template <class OnVector, class OnElement>
  __device__ __forceinline__ void visit_vectors(const SegmentPlaces& at, std::int64_t chunk, bool from_slots,
                                                const OnVector& on_vector, const OnElement& on_element) const {
    const std::int64_t stride = job.loop.operand[kOutput].stride[job.loop.rank - 1];
    const int count = kVectorBytes >> job.shift;
    const int past = static_cast<int>(reinterpret_cast<std::uintptr_t>(at.input) & (kVectorBytes - 1));
    int head = ((kVectorBytes - past) & (kVectorBytes - 1)) >> job.shift;
    if (head > job.run) head = static_cast<int>(job.run);
    const std::int64_t whole = (job.run - head) / count;
    if (chunk == 0) {
      // At most 7 elements in front of the vectors and 7 behind.
      const int edges = static_cast<int>(job.run - whole * count);
#pragma unroll 1
      for (int e = lane; e < edges; e += width) {
        const std::int64_t i = e < head ? e : e + whole * count;
        on_element(load_float<C>(at.input + (i << job.shift), job.element), at.output + i * stride);
      }
    }
    const std::int64_t first = chunk * (kSlots * width) + lane;
    const int left = static_cast<int>(whole - first < kSlots * width ? whole - first : kSlots * width);
    if (!from_slots) {
      const std::byte* const body = at.input + (head << job.shift) + first * kVectorBytes;
      Vector read[kSlots];
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        if (s * width < left) read[s] = *reinterpret_cast<const Vector*>(body + s * width * kVectorBytes);
      }
#pragma unroll
      for (int s = 0; s < kSlots; ++s) {
        if (s * width < left) slots[s][threadIdx.x] = read[s];
      }
    }
    std::byte* to = at.output + (head + first * count) * stride;
#pragma unroll 1
    for (int s = 0; s * width < left; ++s) {
      on_vector(slots[s][threadIdx.x], to);
      to += width * count * stride;
    }
  }

  template <class OnElement>
  __device__ __forceinline__ void visit_elements(SegmentPlaces at, std::int64_t chunk,
                                                 const OnElement& on_element) const {
    const std::int64_t first = chunk * (kElements * width) + lane;
    at.step(job.loop, job.loop.rank - 1, first);
#pragma unroll 1
    for (int k = 0; k < kElements && first + k * width < job.run; ++k) {
      on_element(load_float<C>(at.input, job.element), at.output);
      at.step(job.loop, job.loop.rank - 1, width);
    }
  }
};

template <class C, int Threads, Runs kRuns>
__global__ void __launch_bounds__(Threads, kResident<C, kRuns> / Threads) dynamic_rows(RowsJob<C> job) {
  __shared__ Vector slots[kSlots][Threads];
  __shared__ C lows[Threads / kWarp];
  __shared__ C highs[Threads / kWarp];
  __shared__ int sums[Threads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const bool block_wide = job.lanes == Threads;
  const int width = job.lanes < kWarp ? job.lanes : kWarp;
  const int in_segment = thread % job.lanes;
  const RowLanes<C, Threads, kRuns> lanes{job, slots, width, in_segment % width, in_segment / width, job.lanes / width};
  const int together = Threads / job.lanes;

  for (std::int64_t unit = blockIdx.x; unit < job.units; unit += gridDim.x) {
    const std::int64_t index = unit * together + thread / job.lanes;
    const std::int64_t segment = index / job.pieces;
    const auto piece = static_cast<int>(index - segment * job.pieces);
    const bool present = segment < job.segments;
    const bool first = present && in_segment == 0 && piece == 0;
    SegmentPlaces place{job.loop.operand[kInput].base, job.loop.operand[kOutput].base};
    if (present) place.move(job.loop, 0, job.kept, segment);

    Range<C> range;
    if (present && job.step != Step::Quantize) {
      lanes.visit(
          place, piece, false,
          [&](const Vector& v, std::byte*) { for_each_in<C>(v, job.element, [&](int, C x) { range.add(x); }); },
          [&](C x, std::byte*) { range.add(x); });
    } else if (present) {
      for (std::int64_t p = in_segment; p < job.pieces; p += job.lanes) {
        range.join(job.partials[segment * job.pieces + p]);
      }
    }
    for (int apart = width / 2; apart > 0; apart /= 2) {
      range.join({__shfl_xor_sync(kAllLanes, range.lo, apart), __shfl_xor_sync(kAllLanes, range.hi, apart)});
    }
    if (block_wide) {
      if (thread % kWarp == 0) {
        lows[thread / kWarp] = range.lo;
        highs[thread / kWarp] = range.hi;
      }
      __syncthreads();
#pragma unroll 1
      for (int w = 0; w < Threads / kWarp; ++w) range.join({lows[w], highs[w]});
    }

    if (job.step == Step::Ranges) {
      if (present && in_segment == 0) job.partials[index] = range;
      if (first && job.loop.operand[kRowSum].base != nullptr) write_sum(job, segment, 0);
    } else {
      const Quantizer<C> quantizer(qparams_of(job, range, segment, first), job.rule);
      int sum = 0;
      if (present && job.loop.operand[kOutput].base != nullptr) {
        lanes.visit(
            place, piece, job.held,
            [&](const Vector& v, std::byte* to) {
              PackedCodes codes;
              for_each_in<C>(v, job.element, [&](int i, C x) {
                const int code = quantizer.code(x);
                codes.set(i, code);
                sum += code;
              });
              codes.store(to, job.loop.operand[kOutput].stride[job.loop.rank - 1], kVectorBytes >> job.shift);
            },
            [&](C x, std::byte* to) {
              const int code = quantizer.code(x);
              *to = static_cast<std::byte>(code & 0xFF);
              sum += code;
            });
      }
      if (job.loop.operand[kRowSum].base != nullptr) {
        for (int apart = width / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(kAllLanes, sum, apart);
        if (block_wide) {
          if (thread % kWarp == 0) sums[thread / kWarp] = sum;
          __syncthreads();
          sum = 0;
#pragma unroll 1
          for (int w = 0; w < Threads / kWarp; ++w) sum += sums[w];
        }
        if (present && in_segment == 0) write_sum(job, segment, sum);
      }
    }
    if (block_wide) __syncthreads();
  }
}

}  // namespace
}  // namespace planck::cuda
