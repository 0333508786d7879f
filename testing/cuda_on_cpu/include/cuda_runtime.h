// The words of CUDA that kernels use, as host C++: on the include path of harness builds (-DPLANCK_CUDA_ON_CPU) this
// stands in the place of the toolkit's header. What the words do is in scheduler.hpp.
//
// Kernels have internal linkage here: g++'s AddressSanitizer does not watch the local statics of functions with
// external linkage that are templates or inline, and `__shared__` arrays are local statics. So they belong into
// __global__ functions, never into __device__ ones.
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>

#include "testing/cuda_on_cpu/scheduler.hpp"

#define __host__
#define __device__
#define __global__ __attribute__((unused)) static
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) alignas(bytes)

#define threadIdx (::cuda_on_cpu::thread_index())
#define blockIdx (::cuda_on_cpu::block_index())
#define blockDim (::cuda_on_cpu::block_extent())
#define gridDim (::cuda_on_cpu::grid_extent())

inline constexpr int warpSize = 32;

struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// The vector types, with the alignment that their loads need.
#define PLANCK_CUDA_VECTORS(name, type)                               \
  struct alignas(2 * sizeof(type)) name##2 {                          \
    type x, y;                                                        \
  };                                                                  \
  struct alignas(16) name##4 {                                        \
    type x, y, z, w;                                                  \
  };                                                                  \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
PLANCK_CUDA_VECTORS(int, int)
PLANCK_CUDA_VECTORS(uint, unsigned)
PLANCK_CUDA_VECTORS(float, float)
PLANCK_CUDA_VECTORS(double, double)
PLANCK_CUDA_VECTORS(longlong, long long)
PLANCK_CUDA_VECTORS(ulonglong, unsigned long long)
#undef PLANCK_CUDA_VECTORS

// What host code asks the runtime: one device, of the plainest architecture.
using cudaError_t = int;
enum cudaDeviceAttr { cudaDevAttrComputeCapabilityMajor };
inline cudaError_t cudaGetDevice(int* device) { return *device = 0; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { return *value = 8, cuda_on_cpu::kSuccess; }
inline const char* cudaGetErrorName(cudaError_t code) {
  if (code == cuda_on_cpu::kInvalidConfiguration) return "cudaErrorInvalidConfiguration";
  return code == cuda_on_cpu::kLaunchFailure ? "cudaErrorLaunchFailure" : "cudaErrorUnknown";
}

namespace cuda_on_cpu {

/// kernel() in every thread of the grid; 0 or the code of an error.
template <class Callable>
int launch(dim3 grid, dim3 block, const Callable& kernel) {
  return launch(
      Index3{grid.x, grid.y, grid.z}, Index3{block.x, block.y, block.z},
      [](const void* arguments) { (*static_cast<const Callable*>(arguments))(); }, &kernel);
}

/// What shuffles take.
template <class T>
concept WarpValue = std::is_arithmetic_v<T> &&(sizeof(T) == 4 || sizeof(T) == 8);

template <WarpValue T>
T shuffle(WarpOperation operation, unsigned mask, T value, unsigned lane, int width, const Place& where) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  return std::bit_cast<T>(
      static_cast<Bits>(warp_operation(operation, mask, std::bit_cast<Bits>(value), lane, width, where)));
}

template <class T>
concept AtomicInteger = std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;

/// Replaces *address by next(old), which the compare-and-swap repeats until nobody came between; gives the old value.
template <class T, class Next>
T atomic_update(T* address, const Next& next) {
  may_interrupt();
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old, next(old), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return old;
}

}  // namespace cuda_on_cpu

#define PLANCK_WHERE const cuda_on_cpu::Place& where = cuda_on_cpu::Place::current()

inline void __syncthreads(PLANCK_WHERE) { cuda_on_cpu::block_barrier(where); }
inline void __syncwarp(unsigned mask = 0xffffffffU, PLANCK_WHERE) {
  cuda_on_cpu::warp_operation(cuda_on_cpu::WarpOperation::Sync, mask, 0, 0, warpSize, where);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane, int width = warpSize, PLANCK_WHERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOperation::Shuffle, mask, value, static_cast<unsigned>(lane), width,
                              where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize, PLANCK_WHERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOperation::ShuffleUp, mask, value, delta, width, where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize, PLANCK_WHERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOperation::ShuffleDown, mask, value, delta, width, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = warpSize, PLANCK_WHERE) {
  return cuda_on_cpu::shuffle(cuda_on_cpu::WarpOperation::ShuffleXor, mask, value, static_cast<unsigned>(lanes), width,
                              where);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, PLANCK_WHERE) {
  return static_cast<unsigned>(
      cuda_on_cpu::warp_operation(cuda_on_cpu::WarpOperation::Ballot, mask, predicate != 0, 0, warpSize, where));
}
inline int __any_sync(unsigned mask, int predicate, PLANCK_WHERE) { return __ballot_sync(mask, predicate, where) != 0; }
inline int __all_sync(unsigned mask, int predicate, PLANCK_WHERE) {
  return __ballot_sync(mask, predicate, where) == mask;
}
#undef PLANCK_WHERE

/// One fiber runs at a time and none is interrupted inside: all that is written is seen.
inline void __threadfence() { cuda_on_cpu::may_interrupt(); }

template <cuda_on_cpu::AtomicInteger T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic_update(address, [=](T old) {
    return static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value));
  });
}
template <class T>
requires cuda_on_cpu::AtomicInteger<T> || std::same_as<T, long long> T atomicMin(T* address,
                                                                                 std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic_update(address, [=](T old) { return value < old ? value : old; });
}
template <class T>
requires cuda_on_cpu::AtomicInteger<T> || std::same_as<T, long long> T atomicMax(T* address,
                                                                                 std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic_update(address, [=](T old) { return value > old ? value : old; });
}
template <cuda_on_cpu::AtomicInteger T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic_update(address, [=](T) { return value; });
}
template <cuda_on_cpu::AtomicInteger T>
T atomicCAS(T* address, std::type_identity_t<T> expected, std::type_identity_t<T> value) {
  return cuda_on_cpu::atomic_update(address, [=](T old) { return old == expected ? value : old; });
}
