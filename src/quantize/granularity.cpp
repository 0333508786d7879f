#include "quantize/granularity.hpp"

#include <algorithm>

#include "core/checks.hpp"

namespace planck {

Shape qparams_shape(const Shape& shape, const Granularity& granularity) noexcept {
  const int axis = quantize::axis_of(shape, granularity);
  if (std::holds_alternative<PerChannel>(granularity)) return {shape[axis]};
  if (std::holds_alternative<PerToken>(granularity)) {
    return Shape(std::span(shape.begin(), static_cast<std::size_t>(axis)));
  }
  if (const auto* group = std::get_if<PerGroup>(&granularity)) {
    Shape groups = shape;
    groups[axis] = shape[axis] / group->group_size + (shape[axis] % group->group_size != 0 ? 1 : 0);
    return groups;
  }
  return {};
}

namespace quantize {

using core::fail;
using core::StridedLoop;
using core::Text;

namespace {

/// `bytes` behind a view's first element. Plans make loops before there is memory: null stays null.
std::byte* place(const core::View& view, std::int64_t bytes) {
  auto* const data = static_cast<std::byte*>(const_cast<void*>(view.data));
  return data == nullptr ? nullptr : data + view.offset * size_of(view.element) + bytes;
}

}  // namespace

std::string_view granularity_name(std::size_t index) noexcept {
  static constexpr std::string_view kNames[] = {"PerTensor", "PerChannel", "PerToken", "PerGroup"};
  return kNames[index];
}

int axis_of(const Shape& shape, const Granularity& granularity) noexcept {
  const auto from_front = [&](int axis) { return axis < 0 ? axis + shape.rank() : axis; };
  if (const auto* channel = std::get_if<PerChannel>(&granularity)) return from_front(channel->axis);
  if (const auto* group = std::get_if<PerGroup>(&granularity)) return from_front(group->axis);
  return std::holds_alternative<PerToken>(granularity) ? shape.rank() - 1 : -1;
}

core::Status check_granularity(std::string_view plan, const Shape& shape, const Granularity& granularity) noexcept {
  if (std::holds_alternative<PerTensor>(granularity)) return {};
  const int axis = axis_of(shape, granularity);
  if (std::holds_alternative<PerToken>(granularity)) {
    return axis < 0 ? core::Status(fail(Text::TokenWithoutAxis, {plan})) : core::Status();
  }
  const auto* group = std::get_if<PerGroup>(&granularity);
  if (axis < 0 || axis >= shape.rank()) {
    const int given = group != nullptr ? group->axis : std::get_if<PerChannel>(&granularity)->axis;
    return fail(Text::AxisOutOfRange, {plan, "axis", given, shape});
  }
  if (group != nullptr && group->group_size < 1) return fail(Text::GroupSizeTooSmall, {plan, group->group_size});
  return {};
}

SegmentSpace::SegmentSpace(const Shape& shape, const Granularity& granularity) noexcept
    : shape_(shape), kind_(granularity.index()), axis_(axis_of(shape, granularity)) {
  if (const auto* group = std::get_if<PerGroup>(&granularity)) {
    group_size_ = group->group_size;
    whole_groups_ = shape[axis_] / group_size_;
    parts_ = (whole_groups_ > 0 ? 1 : 0) + (shape[axis_] % group_size_ != 0 ? 1 : 0);
  }
}

StridedLoop SegmentSpace::empty_loop(int part) const noexcept {
  StridedLoop loop(shape_);
  if (group_size_ == 0) return loop;
  // Groups and the place inside a group, in the order of the axis.
  std::copy_backward(loop.extent.begin() + axis_ + 1, loop.extent.begin() + loop.rank,
                     loop.extent.begin() + loop.rank + 1);
  ++loop.rank;
  loop.extent[axis_] = whole(part) ? whole_groups_ : 1;
  loop.extent[axis_ + 1] = whole(part) ? group_size_ : shape_[axis_] % group_size_;
  return loop;
}

void SegmentSpace::add(StridedLoop& loop, int part, const core::View& view) const noexcept {
  if (group_size_ == 0) return loop.add(view);
  if (core::numel(shape_) == 0) return loop.add_absent(view.element);
  core::LoopOperand& op = loop.operand[loop.operands++];
  op.element_bytes = size_of(view.element);
  const auto stride = [&](int d) { return shape_[d] == 1 ? 0 : view.stride[d] * op.element_bytes; };
  for (int d = 0; d < loop.rank; ++d) op.stride[d] = stride(d > axis_ ? d - 1 : d);
  const std::int64_t first = whole(part) ? 0 : whole_groups_ * group_size_;
  // One group only may be far larger than the axis: its stride never matters, and must not overflow.
  op.stride[axis_] = loop.extent[axis_] == 1 ? 0 : stride(axis_) * group_size_;
  op.base = place(view, first * stride(axis_));
}

void SegmentSpace::add_qparams(StridedLoop& loop, int part, const core::View& view) const noexcept {
  if (core::numel(view.shape) == 0) return loop.add_absent(view.element);
  core::LoopOperand& op = loop.operand[loop.operands++];
  op.element_bytes = size_of(view.element);
  const auto stride = [&](int d) { return view.shape[d] == 1 ? 0 : view.stride[d] * op.element_bytes; };
  for (int d = 0; d < loop.rank; ++d) {
    if (kind_ == Granularity(PerTensor{}).index()) {
      op.stride[d] = 0;
    } else if (kind_ == Granularity(PerChannel{}).index()) {
      op.stride[d] = d == axis_ ? stride(0) : 0;
    } else if (kind_ == Granularity(PerToken{}).index()) {
      op.stride[d] = d == axis_ ? 0 : stride(d);
    } else {
      op.stride[d] = d == axis_ + 1 ? 0 : stride(d > axis_ ? d - 1 : d);
    }
  }
  op.base = place(view, group_size_ > 0 && !whole(part) ? whole_groups_ * stride(axis_) : 0);
}

void SegmentSpace::add_number(StridedLoop& loop, const void* value, ElementKind element) noexcept {
  core::LoopOperand& op = loop.operand[loop.operands++];
  op.base = static_cast<std::byte*>(const_cast<void*>(value));
  op.element_bytes = size_of(element);
  std::fill_n(op.stride.begin(), loop.rank, 0);
}

}  // namespace quantize
}  // namespace planck
