// Sums of an operation's terms over the dimensions in which a gradient is broadcast, as jobs ask for them.
#pragma once

#include <array>

#include "core/layout.hpp"
#include "planck/element.hpp"

namespace planck::core {

inline constexpr int kMaxSums = 3;

/// The sums are a loop's last `count` operands; their strides are 0 in the dimensions that are summed.
struct Sums {
  int count = 0;
  std::array<int, kMaxSums> term;          ///< which of the formula's outputs each of them sums
  ElementKind element = ElementKind::F32;  ///< what they are stored as
  double factor = 1.0;                     ///< multiplies each finished sum, in f64, before it is rounded

  void add(int which) noexcept { term[count++] = which; }
};

/// A sum without memory behind it, for its shape alone.
inline AnyTensorMut sum_of_shape(const Shape& shape, ElementKind element) noexcept {
  AnyTensorMut sum;
  sum.element = element;
  sum.shape = shape;
  sum.stride.fill(1);
  return sum;
}

}  // namespace planck::core
