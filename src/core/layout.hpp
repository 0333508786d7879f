// Strided loops: an iteration space and the operands that walk it, and how to make both as small as possible.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "planck/tensor.hpp"

namespace planck::core {

inline constexpr int kMaxLoopOperands = 10;
/// A tensor's rank, and one more where an axis is cut into groups.
inline constexpr int kMaxLoopRank = kMaxRank + 1;

/// A tensor argument, read-only or not, where it is: views are too large to copy in every run. Does not outlive it.
struct View {
  const void* data;
  std::int64_t capacity;
  std::int64_t offset;
  ElementKind element;
  const Shape& shape;
  const std::array<std::int64_t, kMaxRank>& stride;

  template <class Any>
  requires std::is_same_v<Any, AnyTensorRef> || std::is_same_v<Any, AnyTensorMut> View(const Any& view)
  noexcept  // NOLINT(google-explicit-constructor): stands for the argument
      : data(view.data),
        capacity(view.capacity),
        offset(view.offset),
        element(view.element),
        shape(view.shape),
        stride(view.stride) {}
};

/// Whether a view's elements lie in order, without gaps.
inline bool is_packed(const View& view) noexcept {
  std::int64_t next = 1;
  for (int d = view.shape.rank() - 1; d >= 0; --d) {
    if (view.stride[d] != next && view.shape[d] != 1) return false;
    next *= view.shape[d];
  }
  return true;
}

/// One operand of a loop, in bytes. An absent one (base null) is read as zeros and written to nowhere.
struct LoopOperand {
  std::byte* base;
  std::int64_t element_bytes;
  std::array<std::int64_t, kMaxLoopRank> stride;
};

/// Where each operand of a loop is.
using LoopPointers = std::array<std::byte*, kMaxLoopOperands>;

/// The index space extent[0] × … × extent[rank-1] and what each operand does in it. Inputs come first. Only the
/// first `rank` and `operands` entries mean anything; the rest is left uninitialised, as a call is short.
struct StridedLoop {
  int rank;
  std::array<std::int64_t, kMaxLoopRank> extent;
  int operands = 0;
  std::array<LoopOperand, kMaxLoopOperands> operand;

  /// A loop over `shape`, without operands.
  explicit StridedLoop(const Shape& shape) noexcept;
  /// An elementwise loop over `shape` with these operands. Where each of them has that shape and lies in order without
  /// gaps, it has one dimension from the start: most tensors do, and a short run should not look for what is known.
  StridedLoop(const Shape& shape, std::initializer_list<View> views) noexcept;

  /// Adds a tensor whose shape broadcasts to the loop's (right-aligned; repeated dimensions get stride 0).
  void add(const View& view) noexcept;
  void add_absent(ElementKind element) noexcept;

  std::int64_t count() const noexcept;
  /// Bytes of one element of every operand.
  std::int64_t element_bytes() const noexcept;
  /// How far the first `count` operands move along a dimension, all together.
  std::int64_t total_stride(int dim, int count) const noexcept;

  void move_dim(int from, int to) noexcept;
  void erase_dim(int dim) noexcept;
  /// Erases the dimensions of size 1 among the first `dims`.
  void erase_unit_dims(int dims) noexcept;
  /// A last dimension of size 1, in which every operand is broadcast.
  void append_unit_dim() noexcept;
  /// Makes the dimension run the other way for every operand.
  void flip_dim(int dim) noexcept;
  /// Makes dimensions d and d + 1 one, if every operand walks them as one.
  bool merge_dims(int d) noexcept;
};

/// Rewrites an elementwise loop to the fewest dimensions: size-1 dimensions go, the last operand (an output)
/// runs forwards with its strides falling, neighbours that walk memory as one become one.
void collapse(StridedLoop& loop) noexcept;

}  // namespace planck::core
