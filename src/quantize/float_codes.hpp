// Codes that are floats themselves: which numbers are among them, and what rounds to one.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"

namespace planck::quantize {

/// Calls body(Q{}) for codes that are floats.
template <class Body>
void with_float_codes(ElementKind codes, const Body& body) {
  numerics::with_codes(codes, [&]<class Q>(Q code) {
    if constexpr (numerics::FloatCode<Q>) body(code);
  });
}

template <class Q>
double rounded_to(double x) noexcept {
  return scalar::widen<double>(scalar::narrow<Q>(x));
}

/// The largest number of the compute type that rounds to the code q; beyond the largest code as if there were a next.
template <class Q, class C>
C last_rounding_to(double q) noexcept {
  constexpr double kLeast = numerics::kLeastNormal<Q>;
  int exponent = 0;
  const double magnitude = std::frexp(std::max(std::abs(q), kLeast), &exponent);
  // Half a step above q; steps are half as long where q leads an exponent and the next number has the one below.
  const bool leads = q < -kLeast && magnitude == 0.5;
  const double tie = q + std::ldexp(0.5, exponent - 1 - scalar::Float8<Q>::kFraction - (leads ? 1 : 0));
  const auto last = static_cast<C>(tie);
  return rounded_to<Q>(tie) == q ? last : std::nextafter(last, -std::numeric_limits<C>::infinity());
}

}  // namespace planck::quantize
