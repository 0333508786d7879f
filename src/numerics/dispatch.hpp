// From an element kind as a value to a type: calls body(T{}) for the C++ type of a float or code kind.
#pragma once

#include <cstdint>

#include "planck/element.hpp"

namespace planck::numerics {

template <class Body>
void with_float(ElementKind kind, const Body& body) {
  switch (kind) {
    case ElementKind::F16:
      return body(f16{});
    case ElementKind::Bf16:
      return body(bf16{});
    case ElementKind::F64:
      return body(double{});
    default:
      return body(float{});
  }
}

template <class Body>
void with_codes(ElementKind kind, const Body& body) {
  if (kind == ElementKind::U8) return body(std::uint8_t{});
  return body(std::int8_t{});
}

}  // namespace planck::numerics
