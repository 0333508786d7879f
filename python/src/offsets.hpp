// The offsets of a ragged batch, as scans and recurrences take them.
#pragma once

#include <optional>

#include "array.hpp"

namespace planck::python {

/// None, or the offsets of segments along an axis, which a descriptor is told of.
template <class Descriptor>
std::optional<Array> read_offsets(nb::handle offsets, Descriptor& what) {
  const std::optional<Array> array = read_optional(offsets, "offsets", kIndices);
  if (!array) return std::nullopt;
  if (array->shape().rank() != 1 || array->shape()[0] == 0) {
    raise(PyExc_ValueError, "offsets has shape " + text_of(array->shape()) +
                                ", but must have one dimension, and one element more than there are segments");
  }
  what.offset_element = array->element();
  what.segments = array->shape()[0] - 1;
  return array;
}

inline std::optional<AnyTensorRef> view_of(const std::optional<Array>& array) {
  if (!array) return std::nullopt;
  return array->view;
}

}  // namespace planck::python
