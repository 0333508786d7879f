// Loading and storing one element: what each storage type widens to, and the single rounding on the way back.
#pragma once

#include <type_traits>

#include "numerics/element_traits.hpp"
#include "numerics/scalar_lanes.hpp"

namespace planck::scalar {

using numerics::Compute;

/// T as its value in a compute type C.
template <class C, class T>
PLANCK_MATH C widen(T x) {
  if constexpr (numerics::Pattern<T>) {
    return static_cast<C>(widen_pattern(T(), static_cast<std::uint32_t>(x.bits)));
  } else {
    return static_cast<C>(x);
  }
}

/// A float or double rounded once, to nearest-even, to the storage type T.
template <class T, class C>
PLANCK_MATH T narrow(C x) {
  if constexpr (numerics::Pattern<T>) {
    T stored;  // from_bits is host code to nvcc; a defaulted constructor is both
    if constexpr (std::is_same_v<C, double> && sizeof(T) == 2) {
      stored.bits = static_cast<std::uint16_t>(narrow_pattern(T(), round_to_odd(x)));
    } else {
      stored.bits = static_cast<numerics::PatternBits<T>>(narrow_pattern(T(), x));
    }
    return stored;
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace planck::scalar
