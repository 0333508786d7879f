// Which elements share a scale: from a granularity to the shape of its parameters and to loops that walk both.
#pragma once

#include <string_view>
#include <type_traits>

#include "core/error_texts.hpp"
#include "core/layout.hpp"
#include "planck/granularity.hpp"

namespace planck::quantize {

/// "PerTensor", … of an index of Granularity.
std::string_view granularity_name(std::size_t index) noexcept;

/// The axis that the granularity names, counted from the front; the last one for PerToken, -1 for PerTensor.
int axis_of(const Shape& shape, const Granularity& granularity) noexcept;

/// Axis and group size against the shape.
core::Status check_granularity(std::string_view plan, const Shape& shape, const Granularity& granularity) noexcept;

/// The index space of a quantise problem as loops in which a segment's parameters are broadcast along whole dimensions.
/// Groups cut their axis in two; a shorter last group is a loop of its own.
class SegmentSpace {
 public:
  SegmentSpace(const Shape& shape, const Granularity& granularity) noexcept;

  /// Calls body(loop, part) for each loop, still without operands. A body that returns a Status ends the walk with its
  /// first failure.
  template <class Body>
  auto for_each_part(const Body& body) const {
    using Returned = std::invoke_result_t<const Body&, core::StridedLoop&, int>;
    for (int part = 0; part < parts_; ++part) {
      core::StridedLoop loop = empty_loop(part);
      if constexpr (std::is_void_v<Returned>) {
        body(loop, part);
      } else if (Returned status = body(loop, part); !status) {
        return status;
      }
    }
    return Returned();
  }

  /// Adds a tensor of the problem's shape.
  void add(core::StridedLoop& loop, int part, const core::View& view) const noexcept;
  /// Adds a tensor with one element per segment.
  void add_qparams(core::StridedLoop& loop, int part, const core::View& view) const noexcept;
  /// Adds one value for every segment.
  static void add_number(core::StridedLoop& loop, const void* value, ElementKind element) noexcept;

 private:
  core::StridedLoop empty_loop(int part) const noexcept;
  /// Whether the part is that of the whole groups, not of the shorter last one.
  bool whole(int part) const noexcept { return part == 0 && whole_groups_ > 0; }

  const Shape& shape_;
  std::size_t kind_;
  int axis_;
  std::int64_t group_size_ = 0;
  std::int64_t whole_groups_ = 0;
  int parts_ = 1;
};

}  // namespace planck::quantize
