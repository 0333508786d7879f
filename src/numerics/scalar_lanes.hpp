// The plainest lane kind: one float or double is a vector of one lane. The reference and CUDA device code
// use it; src/cpu/simd/lanes-inl.h has the same names for Highway vectors.
//
// A lane kind is a value type V with + - * / and < <=, constructible from a number of its own type, and the
// functions below. Masks are what comparisons give; they combine with & and choose with select.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "numerics/portability.hpp"
#include "planck/element.hpp"

namespace planck::scalar {

/// The number type of a lane kind.
template <class V>
using LaneType = V;

/// Round to nearest, ties to even; keeps the sign of zero, infinities and NaN.
PLANCK_MATH float rne(float x) { return ::rintf(x); }
PLANCK_MATH double rne(double x) { return ::rint(x); }

template <class V>
PLANCK_MATH bool is_nan(V x) {
  return x != x;
}

template <class V>
PLANCK_MATH V zero_if_nan(V x) {
  return x == x ? x : V(0);
}

PLANCK_MATH float abs(float x) { return ::fabsf(x); }
PLANCK_MATH double abs(double x) { return ::fabs(x); }

PLANCK_MATH constexpr bool but_not(bool mask, bool without) { return mask && !without; }
template <class V>
PLANCK_MATH V select(bool mask, V yes, V no) {
  return mask ? yes : no;
}

/// x where the mask is set, else +0, and the other way round.
template <class V>
PLANCK_MATH V where(bool mask, V x) {
  return mask ? x : V(0);
}
template <class V>
PLANCK_MATH V where_not(bool mask, V x) {
  return mask ? V(0) : x;
}

/// x limited to [lo, hi]; NaN stays NaN.
template <class V>
PLANCK_MATH V clamp_or_nan(V x, V lo, V hi) {
  const V raised = x < lo ? lo : x;
  return hi < raised ? hi : raised;
}
/// The same, unspecified for NaN.
template <class V>
PLANCK_MATH V clamp(V x, V lo, V hi) {
  return clamp_or_nan(x, lo, hi);
}

PLANCK_MATH std::uint32_t bits(float x) {
  std::uint32_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
PLANCK_MATH std::uint64_t bits(double x) {
  std::uint64_t u;
  std::memcpy(&u, &x, sizeof u);
  return u;
}
PLANCK_MATH float from_bits(std::uint32_t u) {
  float x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}
PLANCK_MATH double from_bits(std::uint64_t u) {
  double x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

/// f32 lanes for f64 ones, rounded once, and back.
PLANCK_MATH float to_f32(double x) { return static_cast<float>(x); }
PLANCK_MATH double to_f64(float x) { return x; }

template <int Count, class U>
PLANCK_MATH U shift_left(U u) {
  return u << Count;
}
template <int Count, class U>
PLANCK_MATH U shift_right(U u) {
  return u >> Count;
}

/// Of unsigned lanes whose highest bit is 0, so that lane kinds may compare them as signed ones.
template <class U>
PLANCK_MATH bool small_less(U a, U b) {
  return a < b;
}
template <class U>
PLANCK_MATH U small_min(U a, U b) {
  return b < a ? b : a;
}
template <class U>
PLANCK_MATH U small_max(U a, U b) {
  return a < b ? b : a;
}

#include "numerics/convert_math.inl"
#include "numerics/exp_log_math.inl"

/// f64 to f32 rounded to odd: a second rounding to 11 or fewer bits then gives what one rounding would have.
PLANCK_MATH float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  if (is_nan(x) || static_cast<double>(nearest) == x) return nearest;
  std::uint32_t u = bits(nearest);
  if (abs(static_cast<double>(nearest)) > abs(x)) --u;  // back towards zero, also from infinity
  return from_bits(u | 1U);
}

}  // namespace planck::scalar
