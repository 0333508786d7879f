// How scans load and store: eight steps a thread, of an element kind known at run time.
//
// Rows: a warp's 256 slots go through shared memory, so that its threads access global memory side by side (in words of
// 16 bytes where the row allows it) and yet hold eight neighbours each. Columns: threads stand side by side themselves.
#pragma once

#include "cuda/access.cuh"
#include "cuda/platform.hpp"
#include "numerics/storage.hpp"
#include "scan/cuda/task.hpp"

namespace planck::cuda {

inline constexpr int kEight = 8;
inline constexpr int kWarp = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffU;
inline constexpr int kWarpSlots = kWarp * kEight;

/// Calls body(T{}) with the C++ type of an element that values V of a scan are loaded from or stored to. Positions in
/// f64 come from and go to integers.
template <class V, class Body>
__device__ __forceinline__ void with_scan_kind(ElementKind kind, const Body& body) {
  using Floats = std::conditional_t<std::is_same_v<V, double>, FloatTypes, TypeList<>>;
  with_type_here(Floats() + IntegerTypes(), kind, body);
}

/// A value rounded as scans round: to C, then to the element.
template <class T, class V>
__device__ __forceinline__ T stored(V value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(static_cast<std::int64_t>(value));
  } else {
    return scalar::narrow<T>(static_cast<scalar::Compute<T>>(value));
  }
}

template <class V>
__device__ __forceinline__ V load_value(const std::byte* at, ElementKind kind) {
  V value{};
  with_scan_kind<V>(kind, [&]<class T>(T) { value = scalar::widen<V>(*reinterpret_cast<const T*>(at)); });
  return value;
}
template <class V>
__device__ __forceinline__ void store_value(std::byte* at, ElementKind kind, V value) {
  with_scan_kind<V>(kind, [&]<class T>(T) { *reinterpret_cast<T*>(at) = stored<T>(value); });
}
/// What is left of a value when it is stored.
template <class V>
__device__ __forceinline__ V rounded(ElementKind kind, V value) {
  with_scan_kind<V>(kind, [&]<class T>(T) { value = scalar::widen<V>(stored<T>(value)); });
  return value;
}

/// 64-bit words, as the workspace and carries hold values.
template <class V>
__device__ __forceinline__ V from_word(std::int64_t word) {
  V value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
template <class V>
__device__ __forceinline__ std::int64_t to_word(V value) {
  std::int64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

/// The first `count` of eight steps that lie `step` bytes apart; the others are 0.
template <class V>
__device__ __forceinline__ void load_eight(V (&value)[kEight], const std::byte* at, std::int64_t step, ElementKind kind,
                                           std::int64_t count) {
  with_scan_kind<V>(kind, [&]<class T>(T) {
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      value[j] = j < count ? scalar::widen<V>(*reinterpret_cast<const T*>(at + j * step)) : V(0);
    }
  });
}
template <class V>
__device__ __forceinline__ void store_eight(const V (&value)[kEight], std::byte* at, std::int64_t step,
                                            ElementKind kind, std::int64_t count) {
  with_scan_kind<V>(kind, [&]<class T>(T) {
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      if (j < count) *reinterpret_cast<T*>(at + j * step) = stored<T>(value[j]);
    }
  });
}

// ---- a warp's slots ----

using Quad = detail::Words<4>;
/// For 256 slots of up to 8 bytes.
inline constexpr int kStageQuads = kWarpSlots * 8 / 16;

/// Where a quad stands: eight threads that read a quad each, one, two or four apart, meet eight different banks.
__device__ __forceinline__ int staged(int quad) { return quad ^ (quad >> 3 & 3); }

template <class T>
__device__ __forceinline__ T& staged_slot(Quad* stage, int slot) {
  constexpr int kPerQuad = 16 / sizeof(T);
  return reinterpret_cast<T*>(stage + staged(slot / kPerQuad))[slot % kPerQuad];
}

/// A warp's rows: `threads` of it, a power of two, share one, and each row has eight slots for each of them.
struct WarpRows {
  int threads;
  int count;  ///< steps of this thread's row from its first slot on, as far as one beyond a warp's slots

  __device__ __forceinline__ WarpRows(int threads_, std::int64_t steps)
      : threads(threads_),
        count(static_cast<int>(steps < 0            ? 0
                               : steps > kWarpSlots ? kWarpSlots + 1
                                                    : steps)) {}
  __device__ __forceinline__ bool whole() const { return threads == kWarp && count >= kWarpSlots; }
};

/// Calls body(slot, address) for the slots that have a step, side by side in memory.
template <class Body>
__device__ __forceinline__ void for_each_slot(const WarpRows& rows, std::byte* row, std::int64_t step,
                                              const Body& body) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll 2
  for (int i = 0; i < kEight; ++i) {
    const int slot = lane + kWarp * i;
    std::byte* at = row;
    int count = rows.count;
    if (rows.threads != kWarp) {  // the slot may be another row's
      const int owner = slot / kEight;
      at = reinterpret_cast<std::byte*>(
          __shfl_sync(kWholeWarp, static_cast<unsigned long long>(reinterpret_cast<std::uintptr_t>(row)), owner));
      count = __shfl_sync(kWholeWarp, rows.count, owner);
    }
    const int place = slot & (rows.threads * kEight - 1);
    if (place < count) body(slot, at + place * step);
  }
}

/// Whether a row's slots lie in memory without gaps, upwards or downwards, on a 16-byte boundary.
__device__ __forceinline__ bool in_quads(const WarpRows& rows, const std::byte* lowest, std::int64_t step,
                                         std::int64_t bytes) {
  return rows.whole() && (step == bytes || step == -bytes) && (reinterpret_cast<std::uintptr_t>(lowest) & 15) == 0;
}

template <class V>
__device__ __forceinline__ void mirror(V (&value)[kEight]) {
#pragma unroll
  for (int j = 0; j < kEight / 2; ++j) {
    const V first = value[j];
    value[j] = value[kEight - 1 - j];
    value[kEight - 1 - j] = first;
  }
}

/// Eight slots of each thread. `row` is the address of the row's first slot. Slots without a step are 0.
template <class V>
__device__ __forceinline__ void load_slots(V (&value)[kEight], Quad* stage, const WarpRows& rows, std::byte* row,
                                           std::int64_t step, ElementKind kind) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  with_scan_kind<V>(kind, [&]<class T>(T) {
    constexpr int kQuads = kEight * sizeof(T) / 16;  // of a thread
    std::byte* const lowest = step < 0 ? row + (kWarpSlots - 1) * step : row;
    const bool quads = in_quads(rows, lowest, step, sizeof(T));
    const bool mirrored = quads && step < 0;
    __syncwarp();
    if (quads) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int quad = lane + kWarp * i;
        stage[staged(quad)] = reinterpret_cast<const Quad*>(lowest)[quad];
      }
    } else {
      for_each_slot(rows, row, step,
                    [&](int slot, std::byte* at) { staged_slot<T>(stage, slot) = *reinterpret_cast<const T*>(at); });
    }
    __syncwarp();
    const int block = mirrored ? kWarp - 1 - lane : lane;
    std::uint32_t word[4 * kQuads];
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      const Quad quad = stage[staged(block * kQuads + i)];
#pragma unroll
      for (int w = 0; w < 4; ++w) word[4 * i + w] = quad.word[w];
    }
    const int place = (lane & (rows.threads - 1)) * kEight;
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      value[j] = place + j < rows.count ? scalar::widen<V>(detail::element_in<T>(word, j)) : V(0);
    }
    if (mirrored) mirror(value);
  });
}

template <class V>
__device__ __forceinline__ void store_slots(const V (&value)[kEight], Quad* stage, const WarpRows& rows, std::byte* row,
                                            std::int64_t step, ElementKind kind) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  with_scan_kind<V>(kind, [&]<class T>(T) {
    constexpr int kQuads = kEight * sizeof(T) / 16;
    std::byte* const lowest = step < 0 ? row + (kWarpSlots - 1) * step : row;
    const bool quads = in_quads(rows, lowest, step, sizeof(T));
    const bool mirrored = quads && step < 0;
    const int block = mirrored ? kWarp - 1 - lane : lane;
    std::uint32_t word[4 * kQuads];
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      const V from = mirrored ? value[kEight - 1 - j] : value[j];
      detail::put_element(word, j, stored<T>(from));
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
      Quad quad;
#pragma unroll
      for (int w = 0; w < 4; ++w) quad.word[w] = word[4 * i + w];
      stage[staged(block * kQuads + i)] = quad;
    }
    __syncwarp();
    if (quads) {
#pragma unroll
      for (int i = 0; i < kQuads; ++i) {
        const int quad = lane + kWarp * i;
        reinterpret_cast<Quad*>(lowest)[quad] = stage[staged(quad)];
      }
    } else {
      for_each_slot(rows, row, step,
                    [&](int slot, std::byte* at) { *reinterpret_cast<T*>(at) = staged_slot<T>(stage, slot); });
    }
  });
}

}  // namespace planck::cuda
