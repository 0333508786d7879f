// From an element kind as a value to a type: calls body(T{}) for the C++ type of a kind of some class. The types are
// those of the table of element kinds.
#pragma once

#include "planck/element.hpp"

namespace planck::numerics {

template <class Body>
void with_float(ElementKind kind, const Body& body) {
  with_type(TypesOf<ElementClass::Float>(), kind, body);
}

template <class Body>
void with_codes(ElementKind kind, const Body& body) {
  with_type(TypesOf<ElementClass::Codes>(), kind, body);
}

/// Integers are s32 and s64: indices, and what scans know beside floats.
template <class Body>
void with_integer(ElementKind kind, const Body& body) {
  with_type(TypesOf<ElementClass::Integer>(), kind, body);
}

}  // namespace planck::numerics
