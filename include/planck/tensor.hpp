// Tensor views: a buffer, the offset of the first element, a shape and element strides. Nothing here owns memory.
//
// TensorRef<T,N> / TensorMut<T,N> are what C++ callers hold: typed, of fixed rank, with slicing and
// transposing. AnyTensorRef / AnyTensorMut are what plans take: the same with type and rank as values, so
// that no kernel is instantiated per rank. The first converts to the second without a word.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
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

/// An extent or a stride, from whatever converts to an integer: what a container's size() gives needs no cast. A number
/// beyond 2^63 becomes a negative one, which plans refuse.
struct Extent {
  std::int64_t value = 0;

  constexpr Extent() = default;
  template <class Integer>
  requires(std::convertible_to<Integer, std::int64_t> && !std::is_floating_point_v<Integer>)  //
      constexpr Extent(Integer extent) noexcept
      : value(static_cast<std::int64_t>(extent)) {}
};

namespace detail {
/// A capacity that no buffer has marks a view with the wrong number of strides; that number is added to it.
inline constexpr std::int64_t kStrideCountDiffers = std::numeric_limits<std::int64_t>::min();
}  // namespace detail

/// Up to kMaxRank extents. A longer list keeps its length, so that plans can refuse it by name.
class Shape {
 public:
  constexpr Shape() = default;
  constexpr Shape(std::initializer_list<Extent> extents) noexcept { assign(extents); }
  constexpr explicit Shape(std::span<const std::int64_t> extents) noexcept { assign(extents); }
  /// From a vector or a span of integers of any type.
  template <class List>
  requires(std::integral<typename decltype(std::span(std::declval<const List&>()))::value_type>)  //
      constexpr explicit Shape(const List& extents) noexcept {
    assign(extents);
  }
  template <std::integral Integer, std::size_t N>
  constexpr Shape(const std::array<Integer, N>& extents) noexcept {
    assign(extents);
  }

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
  template <class List>
  constexpr void assign(const List& extents) noexcept {
    rank_ = static_cast<int>(extents.size());
    for (int i = 0; i < stored(); ++i) extents_[i] = Extent(*(extents.begin() + i)).value;
  }

  int rank_ = 0;
  std::array<std::int64_t, kMaxRank> extents_{};
};

/// The strides of a tensor of this shape whose elements lie in order without gaps, the last dimension's side by side.
constexpr std::array<std::int64_t, kMaxRank> row_major_strides(const Shape& shape) noexcept {
  std::array<std::int64_t, kMaxRank> strides{};
  std::int64_t step = 1;
  for (int d = std::min(shape.rank(), kMaxRank) - 1; d >= 0; --d) {
    strides[d] = step;
    // A product that overflows belongs to a shape that plans refuse.
    if (__builtin_mul_overflow(step, std::max<std::int64_t>(shape[d], 1), &step)) step = 0;
  }
  return strides;
}

/// A read-only view whose element kind and rank are values. `data` is the buffer's start, `capacity` its
/// length in elements; element (i0, i1, …) is data[offset + i0*stride[0] + i1*stride[1] + …].
struct AnyTensorRef {
  const void* data = nullptr;
  std::int64_t capacity = 0;
  std::int64_t offset = 0;
  ElementKind element = ElementKind::F32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> stride{};

  /// As those of AnyTensorMut.
  static constexpr AnyTensorRef contiguous(const void* data, ElementKind element, const Shape& shape) noexcept;
  static constexpr AnyTensorRef strided(const void* data, ElementKind element, const Shape& shape,
                                        const Shape& strides) noexcept;
  template <std::convertible_to<const std::int64_t*> Pointer>
  static constexpr AnyTensorRef strided(const void* data, ElementKind element, const Shape& shape,
                                        Pointer strides) noexcept;
};

/// The same, writable. Converts to AnyTensorRef.
struct AnyTensorMut {
  void* data = nullptr;
  std::int64_t capacity = 0;
  std::int64_t offset = 0;
  ElementKind element = ElementKind::F32;
  Shape shape;
  std::array<std::int64_t, kMaxRank> stride{};

  constexpr operator AnyTensorRef() const noexcept { return {data, capacity, offset, element, shape, stride}; }

  /// A view of memory whose element and rank are known when the program runs: `data` is the first element, and the
  /// others lie behind it in row-major order. The length of the buffer is not known, so that it is not checked.
  static constexpr AnyTensorMut contiguous(void* data, ElementKind element, const Shape& shape) noexcept {
    return {data, kUnknownCapacity, 0, element, shape, row_major_strides(shape)};
  }
  /// The same with a list of strides, counted in elements; plans refuse the view if there are more or fewer than
  /// dimensions.
  static constexpr AnyTensorMut strided(void* data, ElementKind element, const Shape& shape,
                                        const Shape& strides) noexcept {
    AnyTensorMut view = strided(data, element, shape, strides.begin());
    if (strides.rank() != shape.rank()) view.capacity = detail::kStrideCountDiffers + strides.rank();
    return view;
  }
  /// As DLPack has them: as many strides as dimensions, or null for row-major. A template, so that {0} is a list.
  template <std::convertible_to<const std::int64_t*> Pointer>
  static constexpr AnyTensorMut strided(void* data, ElementKind element, const Shape& shape, Pointer strides) noexcept {
    AnyTensorMut view = contiguous(data, element, shape);
    if (const std::int64_t* const first = strides; first != nullptr) {
      std::copy_n(first, std::clamp(shape.rank(), 0, kMaxRank), view.stride.begin());
    }
    return view;
  }
};

constexpr AnyTensorRef AnyTensorRef::contiguous(const void* data, ElementKind element, const Shape& shape) noexcept {
  return AnyTensorMut::contiguous(const_cast<void*>(data), element, shape);
}
constexpr AnyTensorRef AnyTensorRef::strided(const void* data, ElementKind element, const Shape& shape,
                                             const Shape& strides) noexcept {
  return AnyTensorMut::strided(const_cast<void*>(data), element, shape, strides);
}
template <std::convertible_to<const std::int64_t*> Pointer>
constexpr AnyTensorRef AnyTensorRef::strided(const void* data, ElementKind element, const Shape& shape,
                                             Pointer strides) noexcept {
  return AnyTensorMut::strided(const_cast<void*>(data), element, shape, strides);
}

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
    std::copy_n(row_major_strides(Shape(extents)).begin(), N, t.stride.begin());
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

namespace detail {
struct NoExtents {};

/// The elements of a container or span, or the first `count` behind a pointer.
template <class Buffer>
constexpr auto elements_of(Buffer&& buffer, std::int64_t count) noexcept {
  if constexpr (std::is_pointer_v<std::remove_cvref_t<Buffer>>) {
    return std::span(buffer, static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
  } else {
    const std::span elements(std::forward<Buffer>(buffer));  // no temporary container: its memory would be gone
    return std::span<typename decltype(elements)::element_type>(elements);
  }
}

template <class Buffer, std::size_t N>
constexpr auto view_of(Buffer&& buffer, const std::array<std::int64_t, N>& shape) noexcept {
  std::int64_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count)) count = 0;
  }
  const auto elements = elements_of(std::forward<Buffer>(buffer), count);
  using T = typename decltype(elements)::element_type;
  return BasicTensor<T, static_cast<int>(N)>::contiguous(elements, shape);
}
}  // namespace detail

/// A contiguous view: `view(vec, {rows, columns})`. The buffer is a container (read-only if that is const), an array, a
/// span, or a pointer to at least as many elements; `{}` for the extents is rank 0.
template <class Buffer, std::size_t N>
constexpr auto view(Buffer&& buffer, const Extent (&extents)[N]) noexcept {
  std::array<std::int64_t, N> shape{};
  for (std::size_t d = 0; d < N; ++d) shape[d] = extents[d].value;
  return detail::view_of(std::forward<Buffer>(buffer), shape);
}
template <class Buffer>
constexpr auto view(Buffer&& buffer, detail::NoExtents) noexcept {
  return detail::view_of(std::forward<Buffer>(buffer), std::array<std::int64_t, 0>{});
}
/// The first `count` elements, as a view of rank 1: `view(pointer, count)`.
template <class Buffer, std::integral Count>
constexpr auto view(Buffer&& buffer, Count count) noexcept {
  return detail::view_of(std::forward<Buffer>(buffer), std::array{Extent(count).value});
}
/// All elements of a container, an array or a span, as a view of rank 1.
template <class Buffer>
requires(!std::is_pointer_v<std::remove_cvref_t<Buffer>>) constexpr auto view(Buffer&& buffer) noexcept {
  const std::span elements(buffer);
  return detail::view_of(std::forward<Buffer>(buffer), std::array{Extent(elements.size()).value});
}

}  // namespace planck
