// Views of arrays as the plans want them: repeated along dimensions, without some elements, with one more axis.
#pragma once

#include <algorithm>
#include <optional>

#include "array.hpp"

namespace planck::python {

/// NumPy's rule: aligned at the last dimension, an extent of 1 is repeated. What does not fit is left for others to
/// refuse.
inline Shape broadcast(const Shape& first, const Shape& second) {
  const Shape& longer = first.rank() >= second.rank() ? first : second;
  const Shape& shorter = first.rank() >= second.rank() ? second : first;
  Shape shape = longer;
  const int before = longer.rank() - shorter.rank();
  for (int d = 0; d < shorter.rank(); ++d) {
    if (shape[before + d] == 1) shape[before + d] = shorter[d];
  }
  return shape;
}

/// A shape with as many dimensions as another that it broadcasts to; nothing if it does not.
inline std::optional<Shape> aligned(const Shape& small, const Shape& shape) {
  const int before = shape.rank() - small.rank();
  if (before < 0) return std::nullopt;
  Shape result = shape;
  for (int d = 0; d < shape.rank(); ++d) {
    result[d] = d < before ? 1 : small[d - before];
    if (result[d] != 1 && result[d] != shape[d]) return std::nullopt;
  }
  return result;
}

/// The same elements with dimensions of extent 1 in front, up to a rank.
inline AnyTensorMut with_rank(AnyTensorMut view, int rank) {
  const int before = rank - view.shape.rank();
  Shape shape = view.shape;
  if (before <= 0) return view;
  std::array<std::int64_t, kMaxRank> extents{};
  std::copy(shape.begin(), shape.end(), extents.begin() + before);
  std::fill_n(extents.begin(), before, 1);
  std::copy_backward(view.stride.begin(), view.stride.begin() + shape.rank(), view.stride.begin() + rank);
  std::fill_n(view.stride.begin(), before, 0);
  view.shape = Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank)));
  return view;
}

/// What broadcasts to a shape, as a view of that shape: a stride of 0 repeats an element, and nothing is copied.
inline AnyTensorMut repeated(AnyTensorMut view, const Shape& shape) {
  view = with_rank(view, shape.rank());
  for (int d = 0; d < shape.rank(); ++d) {
    if (view.shape[d] != shape[d]) view.stride[d] = 0;
  }
  view.shape = shape;
  return view;
}

/// `count` elements along an axis.
inline AnyTensorMut narrowed(AnyTensorMut view, int axis, std::int64_t first, std::int64_t count) {
  if (count > 0) view.offset += first * view.stride[axis];
  view.shape[axis] = count;
  return view;
}

inline Shape with_extent(Shape shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

/// Without one of its dimensions.
inline Shape without_axis(const Shape& shape, int axis) {
  std::array<std::int64_t, kMaxRank> extents{};
  int rank = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (d != axis) extents[rank++] = shape[d];
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank)));
}

/// The same elements with one more axis, of extent 1.
inline AnyTensorMut with_axis(AnyTensorMut view, int axis) {
  const int rank = view.shape.rank() + 1;
  std::array<std::int64_t, kMaxRank> extents{};
  for (int d = rank - 1; d >= 0; --d) {
    const int from = d - (d > axis ? 1 : 0);
    extents[d] = d == axis ? 1 : view.shape[from];
    view.stride[d] = d == axis ? 0 : view.stride[from];
  }
  view.shape = Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank)));
  return view;
}

/// What is scanned: a single number is an axis of one element.
inline AnyTensorMut axes_of(const Array& array) {
  AnyTensorMut view = array.view;
  if (view.shape.rank() == 0) view.shape = {1};
  return view;
}

/// The bytes from a view's first element to the end of its last; none for a view that plans refuse.
struct ByteRange {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;
};
inline ByteRange bytes_of(const AnyTensorMut& view) {
  std::int64_t low = view.offset;
  std::int64_t high = view.offset;
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] == 0) return {};
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(view.shape[d] - 1, view.stride[d], &reach)) return {};
    std::int64_t& end = reach < 0 ? low : high;
    if (__builtin_add_overflow(end, reach, &end)) return {};
  }
  const auto* data = static_cast<const std::byte*>(view.data);
  return {data + low * size_of(view.element), data + (high + 1) * size_of(view.element)};
}

}  // namespace planck::python
