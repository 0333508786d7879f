// The kernels of dynamic-range quantisation, for dynamic_range_cuda.cu, which says how segments are shared out.
#pragma once

#include "core/layout.hpp"
#include "cuda/access.cuh"
#include "quantize/dynamic_range_ops.hpp"
#include "quantize/quantize_scalar.hpp"

namespace planck::cuda {
namespace {

using core::StridedLoop;
using scalar::Range;

using namespace quantize::dynamic_operand;

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xFFFFFFFFU;
constexpr int kVectorBytes = 16;
/// Vectors that a thread holds: with 64 bytes for each, shared memory lets every architecture run all its threads.
constexpr int kSlots = 4;
constexpr int kShortThreads = 256;
constexpr int kLongThreads = 512;
constexpr int kColumnThreads = 256;
/// Threads of a multiprocessor that registers must suffice for: each has four loads of 16 bytes under way.
template <class C>
constexpr int kResident = sizeof(C) == 4 ? 768 : 512;
/// Elements of a run, not in order in memory, that a lane takes at a time.
constexpr int kElements = 8;

using Vector = detail::Words<kVectorBytes / 4>;

enum class Step { All, Ranges, Quantize };

/// What both kernels are told. The loop has the kept dimensions first, then the segment's own, nearest neighbours last.
template <class C>
struct Job {
  StridedLoop loop;
  int kept;
  Step step;
  ElementKind element;
  ElementKind scale_element;
  scalar::RangeRule rule;
  std::int64_t segments;
  std::int64_t length;  ///< elements of a segment
  std::int64_t run;     ///< of them along the loop's last dimension
  std::int64_t pieces;  ///< of a segment
  std::int64_t units;   ///< of work, one for a block at a time
  bool held;            ///< what was read for the range still is there for the codes
  int lanes;            ///< rows: threads for one segment; columns: threads side by side
  Range<C>* partials;   ///< of pieces; rows: [segment][piece], columns: [piece][segment]
};

template <class C>
struct RowsJob : Job<C> {
  std::int64_t chunks;  ///< of a run, each for one warp or less
  std::int64_t items;   ///< chunks in a piece
  std::int64_t all_items;
  bool vectors;  ///< neighbours touch
  int shift;     ///< log2 of an element's bytes
};

template <class C>
struct ColumnsJob : Job<C> {
  std::int64_t columns;  ///< segments side by side
  std::int64_t tiles;    ///< of `lanes` columns
  std::int64_t rows;     ///< elements of a segment in a piece
};

/// Input and output at one place, or a chunk's way through them.
struct Places {
  std::byte* input;
  std::byte* output;

  /// To an index over the loop's dimensions first, …, last - 1.
  __device__ __forceinline__ void move(const StridedLoop& loop, int first, int last, std::int64_t index) {
#pragma unroll 1
    for (int d = last - 1; d > first; --d) {
      const std::int64_t rest = index / loop.extent[d];
      step(loop, d, index - rest * loop.extent[d]);
      index = rest;
    }
    if (first < last) step(loop, first, index);
  }
  __device__ __forceinline__ void step(const StridedLoop& loop, int dim, std::int64_t count) {
    input += count * loop.operand[kInput].stride[dim];
    output += count * loop.operand[kOutput].stride[dim];
  }
};

/// Where an operand with one element for each segment has that of a segment.
template <class C>
__device__ __forceinline__ std::byte* of_segment(const Job<C>& job, int operand, std::int64_t segment) {
  const core::LoopOperand& what = job.loop.operand[operand];
  std::byte* at = what.base;
#pragma unroll 1
  for (int d = job.kept - 1; d > 0; --d) {
    const std::int64_t rest = segment / job.loop.extent[d];
    at += (segment - rest * job.loop.extent[d]) * what.stride[d];
    segment = rest;
  }
  return job.kept > 0 ? at + segment * what.stride[0] : at;
}

/// Calls body(T{}) for the type of an element kind that computes in C.
template <class C, class Body>
__device__ __forceinline__ void with_float_kind(ElementKind kind, const Body& body) {
  if constexpr (std::is_same_v<C, double>) {
    body(double{});
  } else if (kind == ElementKind::F16) {
    body(f16{});
  } else if (kind == ElementKind::Bf16) {
    body(bf16{});
  } else {
    body(float{});
  }
}

template <class C>
__device__ __forceinline__ C load_float(const std::byte* from, ElementKind kind) {
  C x{};
  with_float_kind<C>(kind, [&]<class T>(T) { x = scalar::widen<C>(*reinterpret_cast<const T*>(from)); });
  return x;
}

/// Calls body(i, x) for the elements of a vector.
template <class C, class Body>
__device__ __forceinline__ void for_each_in(const Vector& v, ElementKind kind, const Body& body) {
  with_float_kind<C>(kind, [&]<class T>(T) {
#pragma unroll
    for (int i = 0; i < kVectorBytes / static_cast<int>(sizeof(T)); ++i) {
      body(i, scalar::widen<C>(detail::element_in<T>(v.word, i)));
    }
  });
}

/// A segment's formula. Codes are small integers: their lowest byte is what either kind stores.
template <class C>
struct Quantizer {
  scalar::DivideScale<C> scale;
  scalar::CodeRange<C> range;
  C zero_point;

  __device__ __forceinline__ Quantizer(const scalar::DynamicQParams<C>& qparams, const scalar::RangeRule& rule)
      : scale{qparams.scale}, zero_point(static_cast<C>(qparams.zero_point)) {
    range = {static_cast<C>(rule.q_min) - zero_point, static_cast<C>(rule.q_max) - zero_point};
  }
  __device__ __forceinline__ int code(C x) const {
    return static_cast<int>(scalar::quantize(x, scale, range, zero_point));
  }
};

/// Codes of a vector's elements, on their way to memory.
struct PackedCodes {
  std::uint32_t word[2] = {0, 0};

  __device__ __forceinline__ void set(int i, int code) {
    word[i / 4] |= static_cast<std::uint32_t>(code & 0xFF) << 8 * (i % 4);
  }
  /// All `count` of them, 2, 4 or 8, at once where they touch and their address allows it.
  __device__ __forceinline__ void store(std::byte* to, std::int64_t stride, int count) const {
    if (stride == 1 && (reinterpret_cast<std::uintptr_t>(to) & static_cast<std::uintptr_t>(count - 1)) == 0) {
      if (count == 8) {
        *reinterpret_cast<detail::Words<2>*>(to) = {{word[0], word[1]}};
      } else if (count == 4) {
        *reinterpret_cast<std::uint32_t*>(to) = word[0];
      } else {
        *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(word[0]);
      }
      return;
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      if (i < count) to[i * stride] = static_cast<std::byte>(detail::element_in<std::uint8_t>(word, i));
    }
  }
};

/// The parameters of a segment's range, written by those who are asked to.
template <class C>
__device__ __forceinline__ scalar::DynamicQParams<C> qparams_of(const Job<C>& job, const Range<C>& range,
                                                                std::int64_t segment, bool write) {
  scalar::DynamicQParams<C> qparams;
  with_float_kind<C>(job.scale_element, [&]<class S>(S) {
    qparams = scalar::dynamic_qparams<S>(range, job.rule);
    if (write) *reinterpret_cast<S*>(of_segment(job, kScale, segment)) = scalar::narrow<S>(qparams.scale);
  });
  if (write && job.loop.operand[kZeroPoint].base != nullptr) {
    *reinterpret_cast<std::int32_t*>(of_segment(job, kZeroPoint, segment)) = qparams.zero_point;
  }
  return qparams;
}

/// A segment's sum of codes: from one block, or from those of all its pieces.
template <class C>
__device__ __forceinline__ void write_sum(const Job<C>& job, std::int64_t segment, int sum) {
  auto* const to = reinterpret_cast<std::int32_t*>(of_segment(job, kRowSum, segment));
  if (job.step == Step::Quantize) {
    atomicAdd(to, sum);
  } else {
    *to = sum;
  }
}

// ---- rows ----

/// The lanes of a segment within one warp, and what they visit.
template <class C, int Threads>
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
  __device__ __forceinline__ void visit(const Places& place, std::int64_t piece, bool from_slots,
                                        const OnVector& on_vector, const OnElement& on_element) const {
    const std::int64_t begin = piece * job.items;
    const std::int64_t end = begin + job.items < job.all_items ? begin + job.items : job.all_items;
#pragma unroll 1
    for (std::int64_t item = begin + warp; item < end; item += warps) {
      const std::int64_t run = item / job.chunks;
      Places at = place;
      at.move(job.loop, job.kept, job.loop.rank - 1, run);
      if (job.vectors) {
        visit_vectors(at, item - run * job.chunks, from_slots, on_vector, on_element);
      } else {
        visit_elements(at, item - run * job.chunks, on_element);
      }
    }
  }

 private:
  template <class OnVector, class OnElement>
  __device__ __forceinline__ void visit_vectors(const Places& at, std::int64_t chunk, bool from_slots,
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
    const int left = static_cast<int>(whole - first < kSlots * kWarp ? whole - first : kSlots * kWarp);
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
    for (int s = 0; s < kSlots && s * width < left; ++s) {
      on_vector(slots[s][threadIdx.x], to);
      to += width * count * stride;
    }
  }

  template <class OnElement>
  __device__ __forceinline__ void visit_elements(Places at, std::int64_t chunk, const OnElement& on_element) const {
    const std::int64_t first = chunk * (kElements * width) + lane;
    at.step(job.loop, job.loop.rank - 1, first);
#pragma unroll 1
    for (int k = 0; k < kElements && first + k * width < job.run; ++k) {
      on_element(load_float<C>(at.input, job.element), at.output);
      at.step(job.loop, job.loop.rank - 1, width);
    }
  }
};

template <class C, int Threads>
__global__ void __launch_bounds__(Threads, kResident<C> / Threads) dynamic_rows(RowsJob<C> job) {
  __shared__ Vector slots[kSlots][Threads];
  __shared__ C lows[Threads / kWarp];
  __shared__ C highs[Threads / kWarp];
  __shared__ int sums[Threads / kWarp];
  const int thread = static_cast<int>(threadIdx.x);
  const bool block_wide = job.lanes == Threads;
  const int width = job.lanes < kWarp ? job.lanes : kWarp;
  const int in_segment = thread % job.lanes;
  const RowLanes<C, Threads> lanes{job, slots, width, in_segment % width, in_segment / width, job.lanes / width};
  const int together = Threads / job.lanes;

  for (std::int64_t unit = blockIdx.x; unit < job.units; unit += gridDim.x) {
    const std::int64_t index = unit * together + thread / job.lanes;
    const std::int64_t segment = index / job.pieces;
    const std::int64_t piece = index - segment * job.pieces;
    const bool present = segment < job.segments;
    const bool first = present && in_segment == 0 && piece == 0;
    Places place{job.loop.operand[kInput].base, job.loop.operand[kOutput].base};
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

// ---- columns ----

/// Calls body(x, i, to) for every row_lanes-th of the rows begin, …, end - 1 of a column, several loads at a time. x is
/// number i of a run, and its code belongs to `to`.
template <class C, class Body>
__device__ __forceinline__ void visit_column(const ColumnsJob<C>& job, const Places& place, std::int64_t begin,
                                             std::int64_t end, int row_lane, int row_lanes, const Body& body) {
  constexpr int kAtOnce = 4;
  const int last = job.loop.rank - 1;
  const std::int64_t input_step = row_lanes * job.loop.operand[kInput].stride[last];
  const std::int64_t output_step = row_lanes * job.loop.operand[kOutput].stride[last];
#pragma unroll 1
  while (begin < end) {
    const std::int64_t run = begin / job.run;
    const std::int64_t first = begin - run * job.run;
    const std::int64_t count = job.run - first < end - begin ? job.run - first : end - begin;
    Places at = place;
    at.move(job.loop, job.kept, last, run);
    at.step(job.loop, last, first + row_lane);
    with_float_kind<C>(job.element, [&]<class T>(T) {
#pragma unroll 1
      for (std::int64_t i = row_lane; i < count; i += kAtOnce * row_lanes) {
        T x[kAtOnce];
        const int left = static_cast<int>(count - i < kAtOnce * row_lanes ? count - i : kAtOnce * row_lanes);
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k * row_lanes < left) x[k] = *reinterpret_cast<const T*>(at.input + k * input_step);
        }
#pragma unroll
        for (int k = 0; k < kAtOnce; ++k) {
          if (k * row_lanes < left) body(scalar::widen<C>(x[k]), i + k * row_lanes, at.output);
          at.output += output_step;
        }
        at.input += kAtOnce * input_step;
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
    Places place{job.loop.operand[kInput].base, job.loop.operand[kOutput].base};
    if (present) place.move(job.loop, 0, job.kept, segment);

    Range<C> range;
    if (present && job.step != Step::Quantize) {
      visit_column(job, place, begin, end, row_lane, row_lanes, [&](C x, std::int64_t i, std::byte*) {
        range.add(x);
        if (job.held) held[static_cast<int>(i) / row_lanes][thread] = x;
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
      const auto write = [&](C x, std::int64_t, std::byte* to) {
        const int code = quantizer.code(x);
        *to = static_cast<std::byte>(code & 0xFF);
        sum += code;
      };
      if (present && job.loop.operand[kOutput].base != nullptr) {
        if (job.held) {
          place.step(job.loop, job.loop.rank - 1, row_lane);
#pragma unroll 1
          for (int i = row_lane; i < static_cast<int>(job.length); i += row_lanes) {
            write(held[i / row_lanes][thread], i, place.output);
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
