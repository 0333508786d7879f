// What the two kernels of dynamic-range quantisation share: what they are told, ways through memory, a segment's
// parameters and codes. launch.cu says how segments are shared out.
#pragma once

#include "core/layout.hpp"
#include "cuda/access.cuh"
#include "dynamic_range/job.hpp"
#include "quantize/scalar.hpp"

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
/// Which segments a kernel of rows knows: those of touching neighbours, or any.
enum class Runs { One, Any };

/// Threads of a multiprocessor that registers must suffice for; each has four loads of 16 bytes under way. The compiler
/// wants more registers from sm_100 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
constexpr int kFloatResident = 512;
#else
constexpr int kFloatResident = 1024;
#endif
template <class C, Runs kRuns = Runs::One>
constexpr int kResident = sizeof(C) == 4 && kRuns == Runs::One ? kFloatResident : 512;
/// Elements of a run, not in order in memory, that a lane takes at a time.
constexpr int kElements = 8;

using Vector = detail::Words<kVectorBytes / 4>;

enum class Step { All, Ranges, Quantize };

/// What both kernels are told. The loop has the kept dimensions first, then the segment's own, nearest neighbours last.
template <class C>
struct SegmentsJob {
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
struct RowsJob : SegmentsJob<C> {
  std::int64_t chunks;  ///< of a run, each for one warp or less
  std::int64_t items;   ///< chunks in a piece
  std::int64_t all_items;
  bool vectors;  ///< neighbours touch
  int shift;     ///< log2 of an element's bytes
};

template <class C>
struct ColumnsJob : SegmentsJob<C> {
  std::int64_t columns;  ///< segments side by side
  std::int64_t tiles;    ///< of `lanes` columns
  std::int64_t rows;     ///< elements of a segment in a piece
};

/// Input and output at one place, or a chunk's way through them.
struct SegmentPlaces {
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
__device__ __forceinline__ std::byte* of_segment(const SegmentsJob<C>& job, int operand, std::int64_t segment) {
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
  } else {
    with_type_here(FloatTypes(), kind, [&]<class T>(T element) {
      if constexpr (std::is_same_v<scalar::Compute<T>, C>) body(element);
    });
  }
}

template <class C>
__device__ __forceinline__ C load_float(const std::byte* from, ElementKind kind) {
  C x{};
  with_float_kind<C>(kind, [&]<class T>(T) { x = scalar::widen<C>(*reinterpret_cast<const T*>(from)); });
  return x;
}

/// Calls body(i, x) for the elements of a vector in shared memory; no more than 4 at a time, as each is a division's
/// worth of registers.
template <class C, class Body>
__device__ __forceinline__ void for_each_in(const Vector& v, ElementKind kind, const Body& body) {
  with_float_kind<C>(kind, [&]<class T>(T) {
#pragma unroll 4
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
  std::uint64_t bits = 0;

  __device__ __forceinline__ void set(int i, int code) { bits |= static_cast<std::uint64_t>(code & 0xFF) << 8 * i; }
  /// All `count` of them, 2, 4 or 8, at once where they touch and their address allows it.
  __device__ __forceinline__ void store(std::byte* to, std::int64_t stride, int count) const {
    if (stride == 1 && (reinterpret_cast<std::uintptr_t>(to) & static_cast<std::uintptr_t>(count - 1)) == 0) {
      if (count == 8) {
        *reinterpret_cast<std::uint64_t*>(to) = bits;
      } else if (count == 4) {
        *reinterpret_cast<std::uint32_t*>(to) = static_cast<std::uint32_t>(bits);
      } else {
        *reinterpret_cast<std::uint16_t*>(to) = static_cast<std::uint16_t>(bits);
      }
      return;
    }
#pragma unroll 1
    for (int i = 0; i < count; ++i) to[i * stride] = static_cast<std::byte>(bits >> 8 * i & 0xFFU);
  }
};

/// The parameters of a segment's range, written by those who are asked to.
template <class C>
__device__ __forceinline__ scalar::DynamicQParams<C> qparams_of(const SegmentsJob<C>& job, const Range<C>& range,
                                                                std::int64_t segment, bool write) {
  scalar::DynamicQParams<C> qparams;
  with_float_kind<C>(job.scale_element, [&]<class S>(S) { qparams = scalar::dynamic_qparams<S>(range, job.rule); });
  if (write) {
    store_one(of_segment(job, kScale, segment), job.scale_element, qparams.scale);
    if (job.loop.operand[kZeroPoint].base != nullptr) {
      *reinterpret_cast<std::int32_t*>(of_segment(job, kZeroPoint, segment)) = qparams.zero_point;
    }
  }
  return qparams;
}

/// A segment's sum of codes: from one block, or from those of all its pieces.
template <class C>
__device__ __forceinline__ void write_sum(const SegmentsJob<C>& job, std::int64_t segment, int sum) {
  auto* const to = reinterpret_cast<std::int32_t*>(of_segment(job, kRowSum, segment));
  if (job.step == Step::Quantize) {
    atomicAdd(to, sum);
  } else {
    *to = sum;
  }
}

}  // namespace
}  // namespace planck::cuda
