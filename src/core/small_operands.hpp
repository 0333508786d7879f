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

  bool has_work() const noexcept { return n_ > 0 && n_ <= kMaxElements; }
  std::int64_t elements() const noexcept { return n_; }

  bool add_input(const View& view, ElementKind element) noexcept {
    if (!is_plain(view, element)) return false;
    push(view);
    return true;
  }

  /// The last to be added: apart from every input, or in the very place of one of its element kind.
  bool add_output(const View& view, ElementKind element) noexcept {
    if (!is_plain(view, element)) return false;
    push(view);
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

  [[gnu::always_inline]] bool is_plain(const View& view, ElementKind element) const noexcept {
    if (view.element != element || view.shape != shape_ || view.data == nullptr) return false;
    const std::int64_t size = size_of(element);
    const std::int64_t capacity = std::min(view.capacity, kMaxOffset);
    return (reinterpret_cast<std::uintptr_t>(view.data) & static_cast<std::uintptr_t>(size - 1)) == 0 &&
           view.offset >= 0 && capacity >= n_ && view.offset <= capacity - n_ && is_packed(view);
  }

  void push(const View& view) noexcept {
    const std::int64_t size = size_of(view.element);
    // Inputs travel as bytes too; the kernels' types keep them read-only.
    std::byte* const first = static_cast<std::byte*>(const_cast<void*>(view.data)) + view.offset * size;
    const auto begin = reinterpret_cast<std::uintptr_t>(first);
    data_[count_] = first;
    places_[count_++] = {begin, begin + static_cast<std::uintptr_t>(n_ * size), view.element};
  }

  /// What lies further off is for the checks to decide.
  static constexpr std::int64_t kMaxOffset = std::int64_t{1} << 48;

  const Shape& shape_;
  std::int64_t n_ = 1;
  int count_ = 0;
  std::array<void*, kMaxTensors> data_;
  std::array<Place, kMaxTensors> places_;
};

}  // namespace planck::core
