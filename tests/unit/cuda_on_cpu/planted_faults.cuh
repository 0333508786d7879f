// Small kernels with one mistake each, and the same without it, which the harness must tell apart.
#pragma once

#include <cstdint>

#include "cuda/platform.hpp"

namespace planted {

inline constexpr int kThreads = 128;  // four warps

/// Every thread writes its place of an array and reads that of a thread of another warp, round after round. The barrier
/// after writing keeps readers from running before writers, the one after reading keeps writers from overwriting what
/// is still to be read.
template <bool kAfterWriting, bool kAfterReading>
__global__ void pass_on(std::int64_t* sums) {
  __shared__ std::int64_t values[kThreads];
  const auto t = static_cast<int>(threadIdx.x);
  std::int64_t sum = 0;
  for (int round = 0; round < 3; ++round) {
    values[t] = 100 * round + t;
    if constexpr (kAfterWriting) __syncthreads();
    sum += values[(t + 33) % kThreads];
    if constexpr (kAfterReading) __syncthreads();
  }
  sums[blockIdx.x * kThreads + t] = sum;
}

/// What pass_on gives.
inline std::int64_t passed_on(int t) { return 300 + 3 * ((t + 33) % kThreads); }

/// The same between the lanes of a warp.
template <bool kSync>
__global__ void pass_on_in_warp(std::int64_t* sums) {
  __shared__ std::int64_t values[kThreads];
  const auto t = static_cast<int>(threadIdx.x);
  values[t] = t;
  if constexpr (kSync) __syncwarp();
  sums[blockIdx.x * kThreads + t] = values[t ^ 1];
}

/// Threads past the end return before a barrier that the others wait at.
template <bool kEarly>
__global__ void return_early(std::int64_t* out, int count) {
  __shared__ std::int64_t first;
  const auto t = static_cast<int>(threadIdx.x);
  if (kEarly && t >= count) return;
  if (t == 0) first = 7;
  __syncthreads();
  if (t < count) out[t] = first;
}

/// The two halves of a block wait at different barriers.
__global__ void barriers_apart(int half) {
  if (static_cast<int>(threadIdx.x) < half) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

/// A shuffle among all lanes, in which those of `missing` take no part: they have returned, or wait elsewhere.
enum class Missing { None, Returned, AtBarrier, InAnother };

template <Missing kMissing>
__global__ void shuffle_without(std::int64_t* out, unsigned mask) {
  const unsigned t = threadIdx.x;
  if (t == 37 && kMissing == Missing::Returned) return;
  if (t == 37 && kMissing == Missing::AtBarrier) __syncthreads();
  if (t == 37 && kMissing == Missing::InAnother) __ballot_sync(mask, 1);
  out[t] = __shfl_xor_sync(mask, static_cast<std::int64_t>(t), 1);
  if (kMissing == Missing::AtBarrier && t != 37) __syncthreads();
}

/// A warp's lanes below 16 ask for the value of a lane that their mask does not name.
__global__ void shuffle_from_outside(std::int64_t* out) {
  const unsigned t = threadIdx.x;
  if (t < 16) out[t] = __shfl_sync(0xffffU, static_cast<std::int64_t>(t), 20);
}

/// A helper that knows no array's extent.
__attribute__((noinline)) inline void put(std::int64_t* out, std::int64_t value) { *out = value; }

/// Write one element more than there are, where `excess` is 1.
template <int kCount>
__global__ void overrun_global(std::int64_t* out, int excess) {
  const auto t = static_cast<int>(threadIdx.x);
  if (t < kCount) put(out + t + excess, t);
}
template <int kCount>
__global__ void overrun_shared(std::int64_t* out, int excess) {
  __shared__ std::int64_t values[kCount];
  const auto t = static_cast<int>(threadIdx.x);
  if (t < kCount) put(values + t + excess, t);
  __syncthreads();
  if (t < kCount) out[t] = values[t];
}

/// Reads a shared array before anyone has written it.
__global__ void read_unwritten(std::int64_t* out) {
  __shared__ std::int64_t values[kThreads];
  const unsigned t = threadIdx.x;
  out[t] = values[t];
  __syncthreads();
  values[t] = 0;
}

}  // namespace planted
