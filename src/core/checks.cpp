#include "core/checks.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>

namespace planck::core {
namespace {

/// As bytes of the largest element, and with a pointer added, element indices must still fit.
constexpr std::int64_t kMaxSpan = std::numeric_limits<std::int64_t>::max() / 32;

bool is_output(Role role) noexcept {
  return role != Role::Input && role != Role::LastingInput && role != Role::CarryInput;
}
bool is_carry(Role role) noexcept { return role == Role::CarryInput || role == Role::CarryOutput; }

Shape strides_of(const View& view) noexcept {
  return Shape(std::span<const std::int64_t>(view.stride.data(), static_cast<std::size_t>(view.shape.rank())));
}

/// Lowest and highest element index that a non-empty view touches; false if they leave 64 bits as bytes.
bool element_span(const View& view, std::int64_t& lowest, std::int64_t& highest) noexcept {
  lowest = highest = view.offset;
  bool overflow = false;
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] == 1) continue;
    std::int64_t reach = 0;
    overflow |= __builtin_mul_overflow(view.stride[d], view.shape[d] - 1, &reach);
    std::int64_t& end = reach < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, reach, &end);
  }
  return !overflow && lowest > -kMaxSpan && highest < kMaxSpan;
}

/// Dimensions > 1 sorted by |stride|: each |stride| exceeds the span of the smaller ones.
bool injective(const View& view) noexcept {
  // Kept sorted by |stride| as they come: at most eight.
  std::array<std::int64_t, kMaxRank> stride;
  std::array<std::int64_t, kMaxRank> reach;
  int count = 0;
  for (int d = 0; d < view.shape.rank(); ++d) {
    if (view.shape[d] == 1) continue;
    const std::int64_t step = std::abs(view.stride[d]);
    int at = count++;
    for (; at > 0 && stride[at - 1] > step; --at) {
      stride[at] = stride[at - 1];
      reach[at] = reach[at - 1];
    }
    stride[at] = step;
    reach[at] = step * (view.shape[d] - 1);
  }
  std::int64_t span = 0;
  for (int k = 0; k < count; ++k) {
    if (stride[k] <= span) return false;
    span += reach[k];
  }
  return true;
}

bool same_view(const ByteView& a, const ByteView& b) noexcept {
  if (a.first != b.first || a.rank != b.rank) return false;
  for (int d = 0; d < a.rank; ++d) {
    if (a.extent[d] != b.extent[d] || (a.extent[d] > 1 && a.stride[d] != b.stride[d])) return false;
  }
  return true;
}

}  // namespace

std::int64_t numel(const Shape& shape) noexcept {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

Status check_shape(std::string_view plan, std::string_view name, const Shape& shape) noexcept {
  if (shape.rank() > kMaxRank || shape.rank() < 0) return fail(Text::RankUnsupported, {plan, name, shape.rank()});
  bool empty = false;
  for (const std::int64_t extent : shape) {
    if (extent < 0) return fail(Text::NegativeExtent, {plan, name, shape});
    empty |= extent == 0;
  }
  std::int64_t bytes = sizeof(double);
  for (const std::int64_t extent : shape) {
    if (!empty && __builtin_mul_overflow(bytes, extent, &bytes)) return fail(Text::SizeOverflow, {plan, name, shape});
  }
  return {};
}

Status check_broadcast(std::string_view plan, std::string_view name, const Shape& small, const Shape& shape) noexcept {
  PLANCK_TRY(check_shape(plan, name, small));
  const int missing = shape.rank() - small.rank();
  bool fits = missing >= 0;
  for (int d = 0; fits && d < small.rank(); ++d) fits = small[d] == 1 || small[d] == shape[missing + d];
  if (!fits) return fail(Text::NotBroadcastable, {plan, name, small, shape});
  return {};
}

Status check_type_parameter(std::string_view plan, std::string_view field, std::span<const ElementKind> expected,
                            std::size_t index, ElementKind element) noexcept {
  if (index < expected.size() && expected[index] != element) {
    return fail(Text::TypeParameterDiffers, {plan, printable(expected[index]), field, printable(element)});
  }
  return {};
}

Status check_scale(std::string_view plan, double scale, ElementKind compute) noexcept {
  if (is_scale(scale, compute)) return {};
  const bool wide = compute == ElementKind::F64;
  const double smallest = wide ? std::numeric_limits<double>::min() : std::numeric_limits<float>::min();
  return fail(Text::BadScale, {plan, scale, smallest, to_string(compute)});
}

Status check_zero_point(std::string_view plan, std::int64_t zero_point) noexcept {
  if (is_zero_point(zero_point)) return {};
  return fail(Text::BadZeroPoint, {plan, zero_point});
}

Status OperandChecks::add(const Operand& operand) noexcept {
  const View& view = operand.view;
  if (view.element != operand.element) {
    return fail(Text::ElementDiffers, {plan_, operand.name, printable(view.element), printable(operand.element)});
  }
  if (view.shape != *operand.shape) return fail(Text::ShapeDiffers, {plan_, operand.name, view.shape, *operand.shape});
  if (view.capacity < 0 && view.capacity - detail::kStrideCountDiffers <= std::numeric_limits<int>::max()) {
    const std::int64_t strides = view.capacity - detail::kStrideCountDiffers;
    return fail(Text::StrideCountDiffers, {plan_, operand.name, strides, view.shape.rank()});
  }

  Checked& checked = tensors_[count_++];
  const std::int64_t elements = numel(view.shape);
  checked.name = operand.name;
  checked.role = operand.role;
  checked.element = view.element;
  checked.empty = elements == 0;
  if (checked.empty) return {};

  if (view.data == nullptr) return fail(Text::NullData, {plan_, operand.name, elements});
  const std::int64_t size = size_of(view.element);
  const auto address = reinterpret_cast<std::intptr_t>(view.data);
  if ((address & (size - 1)) != 0) {  // sizes are powers of two
    return fail(Text::Misaligned, {plan_, operand.name, size, to_string(view.element)});
  }
  std::int64_t lowest = view.offset;
  std::int64_t highest = view.offset;
  // Most views are packed: then there is little to find out.
  const bool packed = is_packed(view) && view.offset >= 0 && view.offset <= kMaxSpan - elements;
  if (packed) {
    highest += elements - 1;
  } else if (!element_span(view, lowest, highest)) {
    return fail(Text::SpanOverflow, {plan_, operand.name, view.shape, strides_of(view), view.offset});
  }
  if (view.capacity != kUnknownCapacity && (lowest < 0 || highest >= view.capacity)) {
    const std::int64_t needed =
        std::max(highest + 1, lowest < 0 ? view.capacity : 0) - std::min<std::int64_t>(lowest, 0);
    return fail(Text::BufferTooSmall, {plan_, operand.name, lowest, highest, view.capacity}, needed, view.capacity);
  }
  if (!packed && is_output(operand.role) && !injective(view)) {
    return fail(Text::NotInjective, {plan_, operand.name, view.shape, strides_of(view)});
  }

  checked.begin = address + lowest * size;
  checked.end = address + (highest + 1) * size;
  checked.first = address + view.offset * size;
  checked.shape = &view.shape;
  checked.stride = &view.stride;
  return {};
}

ByteView OperandChecks::Checked::bytes() const noexcept {
  const std::int64_t size = size_of(element);
  ByteView view;
  view.first = first;
  view.element_bytes = size;
  view.rank = shape->rank();
  for (int d = 0; d < view.rank; ++d) {
    view.extent[d] = (*shape)[d];
    view.stride[d] = (*shape)[d] > 1 ? (*stride)[d] * size : 0;
  }
  return view;
}

Status OperandChecks::check_overlaps() const noexcept {
  for (int i = 0; i < count_; ++i) {
    const Checked& output = tensors_[i];
    if (!is_output(output.role) || output.empty) continue;
    for (int j = 0; j < count_; ++j) {
      const Checked& other = tensors_[j];
      if (j == i || other.empty || output.end <= other.begin || other.end <= output.begin) continue;
      const bool replaces = output.role != Role::SummedOutput && other.role != Role::LastingInput &&
                            is_carry(output.role) == is_carry(other.role);
      const bool in_place = replaces && !is_output(other.role) && output.element == other.element &&
                            same_view(output.bytes(), other.bytes());
      if (in_place || provably_disjoint(output.bytes(), other.bytes())) continue;
      const Text text = replaces ? Text::Overlap : Text::SummedOverlap;
      return fail(text, {plan_, output.name, other.name});
    }
  }
  return {};
}

Status OperandChecks::check_workspace(const Workspace& workspace, std::size_t needed) const noexcept {
  if (workspace.bytes < needed) {
    const auto want = static_cast<std::int64_t>(needed);
    const auto got = static_cast<std::int64_t>(workspace.bytes);
    return fail(Text::WorkspaceTooSmall, {plan_, want, got}, want, got);
  }
  if (workspace.bytes == 0) return {};
  if (workspace.data == nullptr) return fail(Text::WorkspaceNull, {plan_, workspace.bytes});
  // Addresses fit 63 bits with room to spare, as those of tensors do.
  const auto begin = reinterpret_cast<std::intptr_t>(workspace.data);
  std::int64_t end = 0;
  if (__builtin_add_overflow(begin, workspace.bytes, &end)) {
    return fail(Text::WorkspaceTooLarge, {plan_, static_cast<double>(workspace.bytes)});
  }
  for (int i = 0; i < count_; ++i) {
    const Checked& tensor = tensors_[i];
    if (!tensor.empty && begin < tensor.end && tensor.begin < end) {
      return fail(Text::WorkspaceOverlap, {plan_, tensor.name});
    }
  }
  return {};
}

}  // namespace planck::core
