// Loads and stores of elements whose kind is known only at run time: one, or N that follow each other.
//
// The kind is the same for a whole warp, so a switch around a chunk costs a few instructions, and one kernel serves all
// kinds of a compute type. A chunk travels in words of 16 bytes (or whole, if it is smaller) where its address allows
// it, element by element otherwise. Values are held in V: float and double widen and narrow as planck::scalar does,
// 64-bit integers take s32 and s64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda/platform.hpp"
#include "numerics/storage.hpp"
#include "planck/element.hpp"

namespace planck::cuda {

enum class Access { Load, Store };

using FloatTypes = TypesOf<ElementClass::Float>;
using CodeTypes = TypeList<std::int8_t, std::uint8_t>;  // plans refuse float codes
using IntegerTypes = TypesOf<ElementClass::Integer>;

/// planck::with_type for device code. The plan has checked that the kind is one of them; so nobody asks for the last.
template <class T, class... Others, class Body>
__device__ __forceinline__ void with_type_here(TypeList<T, Others...>, ElementKind kind, const Body& body) {
  if (sizeof...(Others) == 0 || kind == element_of<T>) {
    body(T{});
  } else if constexpr (sizeof...(Others) > 0) {
    with_type_here(TypeList<Others...>(), kind, body);
  }
}

/// Calls body(T{}) with the C++ type of an element kind that values V are loaded from or stored to.
template <class V, Access How, class Body>
__device__ __forceinline__ void with_kind(ElementKind kind, const Body& body) {
  if constexpr (std::is_integral_v<V>) {
    with_type_here(IntegerTypes(), kind, body);
  } else {
    // Floats are never stored as zero points, nor f32 as f64.
    using ZeroPoints = std::conditional_t<How == Access::Load, TypeList<std::int32_t>, TypeList<>>;
    using Types = decltype(FloatTypes() + CodeTypes() + ZeroPoints());
    with_type_here(Types(), kind, [&]<class T>(T element) {
      if constexpr (!std::is_same_v<T, double> || std::is_same_v<V, double>) body(element);
    });
  }
}

template <class V>
__device__ __forceinline__ V load_one(const std::byte* at, ElementKind kind) {
  V value{};
  with_kind<V, Access::Load>(kind, [&]<class T>(T) { value = scalar::widen<V>(*reinterpret_cast<const T*>(at)); });
  return value;
}

template <class V>
__device__ __forceinline__ void store_one(std::byte* at, ElementKind kind, V value) {
  with_kind<V, Access::Store>(kind, [&]<class T>(T) { *reinterpret_cast<T*>(at) = scalar::narrow<T>(value); });
}

namespace detail {

/// Words that one instruction moves.
template <int Count>
struct alignas(4 * Count) Words {
  std::uint32_t word[Count];
};

/// Element i of consecutive ones in words, and back. i is a constant once loops are unrolled.
template <class T, int Count>
__device__ __forceinline__ T element_in(const std::uint32_t (&word)[Count], int i) {
  if constexpr (sizeof(T) == 8) {
    const std::uint64_t bits = word[2 * i] | static_cast<std::uint64_t>(word[2 * i + 1]) << 32;
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  } else if constexpr (sizeof(T) == 4) {
    T value;
    std::memcpy(&value, &word[i], sizeof value);
    return value;
  } else if constexpr (sizeof(T) == 2) {
    T value;
    value.bits = static_cast<std::uint16_t>(word[i / 2] >> (16 * (i % 2)));
    return value;
  } else {
    const auto bits = static_cast<std::uint8_t>(word[i / 4] >> (8 * (i % 4)));
    T value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
}
template <class T, int Count>
__device__ __forceinline__ void put_element(std::uint32_t (&word)[Count], int i, T value) {
  if constexpr (sizeof(T) == 8) {
    std::uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    word[2 * i] = static_cast<std::uint32_t>(bits);
    word[2 * i + 1] = static_cast<std::uint32_t>(bits >> 32);
  } else if constexpr (sizeof(T) == 4) {
    std::memcpy(&word[i], &value, sizeof value);
  } else if constexpr (sizeof(T) == 2) {
    const std::uint32_t bits = static_cast<std::uint32_t>(value.bits) << (16 * (i % 2));
    word[i / 2] = i % 2 == 0 ? bits : word[i / 2] | bits;
  } else {
    std::uint8_t byte;
    std::memcpy(&byte, &value, sizeof byte);
    const std::uint32_t bits = static_cast<std::uint32_t>(byte) << (8 * (i % 4));
    word[i / 4] = i % 4 == 0 ? bits : word[i / 4] | bits;
  }
}

template <class T, int N>
inline constexpr int kWords = N* static_cast<int>(sizeof(T)) / 4;
/// Words of one access of a chunk: 16 bytes, or the whole of a smaller one.
template <class T, int N>
inline constexpr int kAccessWords = kWords<T, N> < 4 ? kWords<T, N> : 4;

template <class T, int N>
__device__ __forceinline__ bool is_aligned(const std::byte* at) {
  return (reinterpret_cast<std::uintptr_t>(at) & (4 * kAccessWords<T, N> - 1)) == 0;
}

}  // namespace detail

/// Bytes that a chunk of N elements of a size is aligned to where it travels in vectors.
template <int N>
PLANCK_HOST_DEVICE constexpr std::int64_t chunk_alignment(std::int64_t element_bytes) {
  return N * element_bytes < 16 ? N * element_bytes : 16;
}

/// value[i] = the element at + i * stride for the places first <= i < last of a chunk; the others are left alone, or
/// are those of stride 0 too. A chunk that is whole, without gaps and aligned is loaded in vectors.
template <int N, class V>
__device__ __forceinline__ void load_chunk(V (&value)[N], const std::byte* at, std::int64_t stride, ElementKind kind,
                                           int first = 0, int last = N) {
  static_assert(N % 4 == 0);
  with_kind<V, Access::Load>(kind, [&]<class T>(T) {
    if (first <= 0 && last >= N && stride == static_cast<std::int64_t>(sizeof(T)) && detail::is_aligned<T, N>(at)) {
      constexpr int kAccess = detail::kAccessWords<T, N>;
      std::uint32_t word[detail::kWords<T, N>];
#pragma unroll
      for (int a = 0; a < detail::kWords<T, N> / kAccess; ++a) {
        const auto words = reinterpret_cast<const detail::Words<kAccess>*>(at)[a];
#pragma unroll
        for (int w = 0; w < kAccess; ++w) word[a * kAccess + w] = words.word[w];
      }
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] = scalar::widen<V>(detail::element_in<T>(word, i));
    } else if (stride == 0) {
      const V same = scalar::widen<V>(*reinterpret_cast<const T*>(at));
#pragma unroll
      for (int i = 0; i < N; ++i) value[i] = same;
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (i >= first && i < last) value[i] = scalar::widen<V>(*reinterpret_cast<const T*>(at + i * stride));
      }
    }
  });
}

/// The same way back: the places first <= i < last are stored, rounded once.
template <int N, class V>
__device__ __forceinline__ void store_chunk(const V (&value)[N], std::byte* at, std::int64_t stride, ElementKind kind,
                                            int first = 0, int last = N) {
  static_assert(N % 4 == 0);
  with_kind<V, Access::Store>(kind, [&]<class T>(T) {
    if (first <= 0 && last >= N && stride == static_cast<std::int64_t>(sizeof(T)) && detail::is_aligned<T, N>(at)) {
      constexpr int kAccess = detail::kAccessWords<T, N>;
      std::uint32_t word[detail::kWords<T, N>];
#pragma unroll
      for (int i = 0; i < N; ++i) detail::put_element(word, i, scalar::narrow<T>(value[i]));
#pragma unroll
      for (int a = 0; a < detail::kWords<T, N> / kAccess; ++a) {
        detail::Words<kAccess> words;
#pragma unroll
        for (int w = 0; w < kAccess; ++w) words.word[w] = word[a * kAccess + w];
        reinterpret_cast<detail::Words<kAccess>*>(at)[a] = words;
      }
    } else {
#pragma unroll
      for (int i = 0; i < N; ++i) {
        if (i >= first && i < last) *reinterpret_cast<T*>(at + i * stride) = scalar::narrow<T>(value[i]);
      }
    }
  });
}

}  // namespace planck::cuda
