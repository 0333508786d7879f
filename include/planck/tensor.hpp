// Tensor views: a buffer, the offset of the first element, a shape and element strides. Nothing here owns memory.
//
// TensorRef<T,N> / TensorMut<T,N> are what C++ callers hold: typed, of fixed rank, with slicing and
// transposing. AnyTensorRef / AnyTensorMut are what plans take: the same with type and rank as values, so
// that no kernel is instantiated per rank. The first converts to the second without a word.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

#include "planck/element.hpp"

namespace planck {

inline constexpr int kMaxRank = 8;

/// A capacity for views over a buffer whose length nobody said (DLPack): the span is then not checked.
inline constexpr std::int64_t kUnknownCapacity = std::numeric_limits<std::int64_t>::max();

/// Up to kMaxRank extents. A longer list keeps its length, so that plans can refuse it by name.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<std::int64_t> extents) noexcept
      : Shape(std::span<const std::int64_t>(extents.begin(), extents.size())) {}
  constexpr explicit Shape(std::span<const std::int64_t> extents) noexcept : rank_(static_cast<int>(extents.size())) {
    for (int i = 0; i < stored(); ++i) extents_[i] = extents[i];
  }
  template <std::size_t N>
  constexpr Shape(const std::array<std::int64_t, N>& extents) noexcept
      : Shape(std::span<const std::int64_t>(extents)) {}

  constexpr int rank() const noexcept { return rank_; }
  constexpr std::int64_t operator[](int i) const noexcept { return extents_[i]; }
  constexpr std::int64_t& operator[](int i) noexcept { return extents_[i]; }
  constexpr const std::int64_t* begin() const noexcept { return extents_.data(); }
  constexpr const std::int64_t* end() const noexcept { return extents_.data() + stored(); }
  constexpr bool operator==(const Shape& other) const noexcept {
    if (rank_ != other.rank_) return false;
    for (int i = 0; i < stored(); ++i) {
      if (extents_[i] != other.extents_[i]) return false;
    }
    return true;
  }

 private:
  constexpr int stored() const noexcept { return std::min(rank_, kMaxRank); }

  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> extents_{};
};

/// A read-only view whose element kind and rank are values. `data` is the buffer's start, `capacity` its
/// length in elements; element (i0, i1, …) is data[offset + i0*stride[0] + i1*stride[1] + …].
struct AnyTensorRef {
  const void* data = nullptr;
  std::int64_t capacity = 0;
  std::int64_t offset = 0;
  ElementKind element = ElementKind::F32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> stride{};
};

/// The same, writable. Converts to AnyTensorRef.
struct AnyTensorMut {
  void* data = nullptr;
  std::int64_t capacity = 0;
  std::int64_t offset = 0;
  ElementKind element = ElementKind::F32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> stride{};

  operator AnyTensorRef() const noexcept { return {data, capacity, offset, element, shape, stride}; }
};

/// A typed view of rank N over elements of type T; const T gives TensorRef, plain T gives TensorMut.
template <class T, int N>
struct BasicTensor {
  static_assert(N >= 0 && N <= kMaxRank, "Planck tensors have rank 0 to 8");
  using Extents = std::array<std::int64_t, N>;

  std::span<T> data;
  Extents shape{};
  Extents stride{};
  std::int64_t offset = 0;

  /// Row-major over the whole of `buffer`.
  static constexpr BasicTensor contiguous(std::span<T> buffer, const Extents& extents) noexcept {
    BasicTensor t{buffer, extents, {}, 0};
    std::int64_t step = 1;
    for (int i = N - 1; i >= 0; --i) {
      t.stride[i] = step;
      step *= std::max<std::int64_t>(extents[i], 1);
    }
    return t;
  }

  /// `count` indices of dimension `dim`: first, first + step, …; a negative step walks backwards.
  constexpr BasicTensor slice(int dim, std::int64_t first, std::int64_t count, std::int64_t step = 1) const noexcept {
    BasicTensor t = *this;
    t.offset += first * stride[dim];
    t.shape[dim] = count;
    t.stride[dim] *= step;
    return t;
  }

  /// The dimension read backwards.
  constexpr BasicTensor flip(int dim) const noexcept {
    return shape[dim] == 0 ? *this : slice(dim, shape[dim] - 1, shape[dim], -1);
  }

  /// Two dimensions swapped; no element moves.
  constexpr BasicTensor transpose(int dim0, int dim1) const noexcept {
    BasicTensor t = *this;
    std::swap(t.shape[dim0], t.shape[dim1]);
    std::swap(t.stride[dim0], t.stride[dim1]);
    return t;
  }

  /// A dimension of size 1 repeated `count` times by a stride of 0 (for inputs only).
  constexpr BasicTensor expand(int dim, std::int64_t count) const noexcept {
    BasicTensor t = *this;
    t.shape[dim] = count;
    t.stride[dim] = 0;
    return t;
  }

  operator AnyTensorRef() const noexcept { return erase<AnyTensorRef>(); }
  operator AnyTensorMut() const noexcept requires(!std::is_const_v<T>) { return erase<AnyTensorMut>(); }
  operator BasicTensor<const T, N>() const noexcept requires(!std::is_const_v<T>) {
    return {data, shape, stride, offset};
  }

 private:
  template <class Any>
  constexpr Any erase() const noexcept {
    Any any{data.data(), static_cast<std::int64_t>(data.size()), offset, element_of<T>, Shape(shape), {}};
    std::copy(stride.begin(), stride.end(), any.stride.begin());
    return any;
  }
};

template <class T, int N>
using TensorRef = BasicTensor<const T, N>;
template <class T, int N>
using TensorMut = BasicTensor<T, N>;

/// A contiguous view of a container of elements: `view(vec, {rows, columns})`; read-only if the container is const.
template <class Container, std::size_t N>
constexpr auto view(Container& c, const std::int64_t (&extents)[N]) noexcept {
  using T = std::remove_pointer_t<decltype(c.data())>;
  std::array<std::int64_t, N> shape{};
  std::copy(extents, extents + N, shape.begin());
  return BasicTensor<T, static_cast<int>(N)>::contiguous(std::span<T>(c.data(), c.size()), shape);
}

}  // namespace planck
