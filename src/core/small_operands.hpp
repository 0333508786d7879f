// The short way to a short run. Most of its tensors lie in order without gaps, aligned and within their buffers, and
// share no memory or all of it: that is seen in a few comparisons, and then pointers are all that a kernel needs.
//
// Anything else is no error: `add` says no, nothing has been done, and the checks of core/checks.hpp have their say.
#pragma once

#include <array>
#include <cstdint>

#include "core/checks.hpp"
#include "core/layout.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"

namespace planck::core {

class SmallOperands {
 public:
  /// Elements of a tensor, so that one thread is enough for all of them together.
  static constexpr std::int64_t kMaxElements = 2048;

  /// The shape has passed check_shape.
  explicit SmallOperands(const Shape& shape) noexcept : shape_(shape) {
    for (const std::int64_t extent : shape) n_ *= extent;
  }

  /// The same where it is known that it has so many elements.
  SmallOperands(const Shape& shape, std::int64_t elements) noexcept : shape_(shape), n_(elements) {}

  bool has_work() const noexcept { return n_ > 0 && n_ <= kMaxElements; }
  std::int64_t elements() const noexcept { return n_; }

  bool add_input(const View& view, ElementKind element) noexcept { return add(view, element); }

  /// The last to be added: apart from every input, or in the very place of one of its element kind.
  bool add_output(const View& view, ElementKind element) noexcept {
    if (!add(view, element)) return false;
    const Place& output = places_[count_ - 1];
    for (int k = 0; k + 1 < count_; ++k) {
      const Place& input = places_[k];
      const bool apart = output.end <= input.begin || input.end <= output.begin;
      if (!apart && (output.begin != input.begin || output.element != input.element)) return false;
    }
    return true;
  }

  /// The operands' first elements, in the order of their adding.
  void* const* data() const noexcept { return data_.data(); }

 private:
  static constexpr int kMaxTensors = 4;
  struct Place {
    std::uintptr_t begin;
    std::uintptr_t end;
    ElementKind element;
  };

  [[gnu::always_inline]] bool add(const View& view, ElementKind element) noexcept {
    if (view.element != element || view.shape.rank() != shape_.rank() || view.data == nullptr) return false;
    std::int64_t next = 1;
    for (int d = shape_.rank() - 1; d >= 0; --d) {
      const std::int64_t extent = shape_[d];
      if (view.shape[d] != extent || (view.stride[d] != next && extent != 1)) return false;
      next *= extent;
    }
    if (static_cast<std::uint64_t>(view.offset) > kMaxOffset || view.capacity < view.offset + n_) return false;
    const std::int64_t size = size_of(element);
    // Inputs travel as bytes too; the kernels' types keep them read-only.
    std::byte* const first = static_cast<std::byte*>(const_cast<void*>(view.data)) + view.offset * size;
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    if ((begin & static_cast<std::uintptr_t>(size - 1)) != 0) return false;
    data_[count_] = first;
    places_[count_++] = {begin, begin + static_cast<std::uintptr_t>(n_ * size), element};
    return true;
  }

  /// What lies further off is for the checks to decide.
  static constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 48;

  const Shape& shape_;
  std::int64_t n_ = 1;
  int count_ = 0;
  std::array<void*, kMaxTensors> data_;
  std::array<Place, kMaxTensors> places_;
};

}  // namespace planck::core
