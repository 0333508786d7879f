// Loading and storing one element: what each storage type widens to, and the single rounding on the way back.
#pragma once

#include <type_traits>

#include "numerics/scalar_lanes.hpp"
#include "planck/element.hpp"

namespace planck::scalar {

/// The compute type C of a storage type: f64 for f64, f32 for everything else.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// T as its value in a compute type C.
template <class C, class T>
PLANCK_MATH C widen(T x) {
  if constexpr (std::is_same_v<T, f16>) {
    return static_cast<C>(widen_f16(static_cast<std::uint32_t>(x.bits)));
  } else if constexpr (std::is_same_v<T, bf16>) {
    return static_cast<C>(widen_bf16(static_cast<std::uint32_t>(x.bits)));
  } else {
    return static_cast<C>(x);
  }
}

/// A float or double rounded once, to nearest-even, to the storage type T.
template <class T, class C>
PLANCK_MATH T narrow(C x) {
  if constexpr (std::is_same_v<T, f16> || std::is_same_v<T, bf16>) {
    float single;
    if constexpr (std::is_same_v<C, double>) {
      single = round_to_odd(x);
    } else {
      single = x;
    }
    T stored;  // from_bits is host code to nvcc; a defaulted constructor is both
    if constexpr (std::is_same_v<T, f16>) {
      stored.bits = static_cast<std::uint16_t>(narrow_f16(single));
    } else {
      stored.bits = static_cast<std::uint16_t>(narrow_bf16(single));
    }
    return stored;
  } else {
    return static_cast<T>(x);
  }
}

}  // namespace planck::scalar
