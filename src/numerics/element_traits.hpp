// What templates ask of an element's C++ type, read from the table of element kinds (planck/element.hpp).
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "planck/element.hpp"

namespace planck::numerics {

/// The compute type C of a storage type: f64 for f64, f32 for everything else.
template <class T>
using Compute = std::conditional_t<element_info<T>.compute == ElementKind::F64, double, float>;

/// A float kind's least normal and largest numbers. As variables of their own: device code may not read a row.
template <class T>
inline constexpr double kLeastNormal = element_info<T>.least_normal;
template <class T>
inline constexpr double kLargest = element_info<T>.largest;

/// Storage types that the language has no arithmetic for: a struct with the bits. Their conversions to and from f32 are
/// widen_pattern and narrow_pattern of numerics/convert_math.inl.
template <class T>
concept Pattern = requires(T x) {
  x.bits;
};

/// Codes that are floats, and lie on the numbers of their own kind: f8e4m3 and f8e5m2.
template <class T>
concept FloatCode = is_float_code(element_of<T>);

/// The unsigned integer that holds a Pattern's bits.
template <Pattern T>
using PatternBits = decltype(T::bits);

/// The bits of +Inf of a float kind: all of the exponent's, none of the fraction's.
template <class T>
inline constexpr std::uint64_t kInfinityBits = [] {
  int exponent = 0;  // of the largest number, which is the bias too
  for (double x = element_info<T>.largest; x >= 2; x /= 2) ++exponent;
  const int exponent_bits = std::bit_width(static_cast<unsigned>(exponent)) + 1;
  return ((std::uint64_t{1} << exponent_bits) - 1) << (element_info<T>.bits - 1 - exponent_bits);
}();

}  // namespace planck::numerics
