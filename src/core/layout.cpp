#include "core/layout.hpp"

#include <algorithm>
#include <cstdlib>

namespace planck::core {
namespace {

/// At the start of the view's buffer, without strides.
LoopOperand& next_operand(StridedLoop& loop, const View& view) noexcept {
  LoopOperand& op = loop.operand[loop.operands++];
  op.element_bytes = size_of(view.element);
  // Inputs travel as bytes too; the kernels' types keep them read-only.
  op.base = static_cast<std::byte*>(const_cast<void*>(view.data));
  return op;
}

}  // namespace

StridedLoop::StridedLoop(const Shape& shape) noexcept : rank(shape.rank()) {
  std::copy(shape.begin(), shape.end(), extent.begin());
}

StridedLoop::StridedLoop(const Shape& shape, std::initializer_list<View> views) noexcept : StridedLoop(shape) {
  const std::int64_t n = count();
  bool flat = n > 0;
  for (const View& view : views) flat = flat && view.shape == shape && is_packed(view);
  if (flat) {
    rank = 1;
    extent[0] = n;
  }
  for (const View& view : views) {
    if (!flat) {
      add(view);
      continue;
    }
    LoopOperand& op = next_operand(*this, view);
    op.base += view.offset * op.element_bytes;
    op.stride[0] = op.element_bytes;
  }
}

void StridedLoop::add(const View& view) noexcept {
  LoopOperand& op = next_operand(*this, view);
  // Nobody has checked an empty view's offset and strides, and no element is reached through them.
  if (std::find(view.shape.begin(), view.shape.end(), 0) != view.shape.end()) {
    std::fill_n(op.stride.begin(), rank, 0);
    return;
  }
  op.base += view.offset * op.element_bytes;
  const int missing = rank - view.shape.rank();
  for (int d = 0; d < rank; ++d) {
    const bool repeated = d < missing || view.shape[d - missing] == 1;
    op.stride[d] = repeated ? 0 : view.stride[d - missing] * op.element_bytes;
  }
}

void StridedLoop::add_absent(ElementKind element) noexcept {
  LoopOperand& op = operand[operands++];
  op.base = nullptr;
  op.element_bytes = size_of(element);
  std::fill_n(op.stride.begin(), rank, 0);
}

std::int64_t StridedLoop::count() const noexcept {
  std::int64_t n = 1;
  for (int d = 0; d < rank; ++d) n *= extent[d];
  return n;
}

std::int64_t StridedLoop::element_bytes() const noexcept {
  std::int64_t bytes = 0;
  for (int k = 0; k < operands; ++k) bytes += operand[k].element_bytes;
  return bytes;
}

std::int64_t StridedLoop::total_stride(int dim, int count) const noexcept {
  std::int64_t sum = 0;
  for (int k = 0; k < count; ++k) sum += std::abs(operand[k].stride[dim]);
  return sum;
}

void StridedLoop::move_dim(int from, int to) noexcept {
  const auto move = [from, to](auto& list) {
    if (from < to) {
      std::rotate(list.begin() + from, list.begin() + from + 1, list.begin() + to + 1);
    } else {
      std::rotate(list.begin() + to, list.begin() + from, list.begin() + from + 1);
    }
  };
  move(extent);
  for (int k = 0; k < operands; ++k) move(operand[k].stride);
}

void StridedLoop::erase_dim(int dim) noexcept {
  move_dim(dim, rank - 1);
  --rank;
}

void StridedLoop::erase_unit_dims(int dims) noexcept {
  for (int d = dims - 1; d >= 0; --d) {
    if (extent[d] == 1) erase_dim(d);
  }
}

void StridedLoop::append_unit_dim() noexcept {
  extent[rank] = 1;
  for (int k = 0; k < operands; ++k) operand[k].stride[rank] = 0;
  ++rank;
}

void StridedLoop::flip_dim(int dim) noexcept {
  for (int k = 0; k < operands; ++k) {
    LoopOperand& op = operand[k];
    if (op.base != nullptr) op.base += op.stride[dim] * (extent[dim] - 1);
    op.stride[dim] = -op.stride[dim];
  }
}

bool StridedLoop::merge_dims(int d) noexcept {
  for (int k = 0; k < operands; ++k) {
    const auto& stride = operand[k].stride;
    if (stride[d] != stride[d + 1] * extent[d + 1]) return false;
  }
  extent[d + 1] *= extent[d];
  erase_dim(d);
  return true;
}

void collapse(StridedLoop& loop) noexcept {
  loop.erase_unit_dims(loop.rank);
  int leader = loop.operands - 1;
  while (leader > 0 && loop.operand[leader].base == nullptr) --leader;
  // Forwards for the leading operand: an elementwise loop may visit its elements in any order.
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.operand[leader].stride[d] < 0) loop.flip_dim(d);
  }
  // Insertion sort by the leader's stride, largest first; stable, so that equal strides keep their order.
  for (int d = 1; d < loop.rank; ++d) {
    int to = d;
    while (to > 0 && loop.operand[leader].stride[to - 1] < loop.operand[leader].stride[d]) --to;
    if (to != d) loop.move_dim(d, to);
  }
  for (int d = loop.rank - 2; d >= 0; --d) loop.merge_dims(d);
}

}  // namespace planck::core
