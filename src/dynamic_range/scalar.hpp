// From a segment's range to its scale and zero point: docs/ops/dynamic_quantize.md, once for all callers.
#pragma once

#include <cstdint>
#include <limits>

#include "core/limits.hpp"
#include "numerics/storage.hpp"

namespace planck::scalar {

/// The smallest and the largest finite element; lo > hi where there is none.
template <class C>
struct Range {
  C lo = std::numeric_limits<C>::infinity();
  C hi = -std::numeric_limits<C>::infinity();

  /// One more element, which counts only if it is finite.
  PLANCK_MATH void add(C x) {
    if (abs(x) <= std::numeric_limits<C>::max()) join({x, x});
  }
  PLANCK_MATH void join(const Range& other) {
    lo = other.lo < lo ? other.lo : lo;
    hi = other.hi > hi ? other.hi : hi;
  }
};

/// What decides how a range becomes parameters.
struct RangeRule {
  bool symmetric;
  bool zero_in_range;
  std::int64_t q_min;
  std::int64_t q_max;
};

template <class C>
struct DynamicQParams {
  C scale;  ///< as written: rounded to the scale's kind
  std::int32_t zero_point;
};

/// Rounded to the kind S that scales are stored in, and limited to its normal numbers: one step over a range that
/// overflows would be infinite.
template <class S, class C>
PLANCK_MATH C stored_scale(C scale) {
  constexpr auto kLeast = static_cast<C>(numerics::kLeastNormal<S>);
  constexpr auto kMost = static_cast<C>(numerics::kLargest<S>);
  return clamp(widen<C>(narrow<S>(scale)), kLeast, kMost);
}

/// (hi - lo) / steps, also where the difference overflows.
template <class C>
PLANCK_MATH C range_per_step(C lo, C hi, C steps) {
  const C width = hi - lo;
  return width <= std::numeric_limits<C>::max() ? width / steps : hi / steps - lo / steps;
}

template <class S, class C>
PLANCK_MATH DynamicQParams<C> dynamic_qparams(Range<C> range, const RangeRule& rule) {
  const auto q_min = static_cast<C>(rule.q_min);
  const auto q_max = static_cast<C>(rule.q_max);
  const bool empty = range.hi < range.lo;
  const bool zero = range.lo == C(0) && range.hi == C(0);
  if (empty || zero) return {C(1), rule.symmetric ? 0 : static_cast<std::int32_t>(rule.q_min)};
  if (rule.symmetric) {
    const C largest = -range.lo > range.hi ? -range.lo : range.hi;
    return {stored_scale<S>(largest / q_max), 0};
  }
  if (!rule.zero_in_range && range.lo != range.hi) {
    const C scale = stored_scale<S>(range_per_step(range.lo, range.hi, q_max - q_min));
    const C zero_point = q_min - rne(range.lo / scale);
    if (abs(zero_point) <= static_cast<C>(core::kMaxZeroPoint)) return {scale, static_cast<std::int32_t>(zero_point)};
  }
  const C lo = range.lo < C(0) ? range.lo : C(0);
  const C hi = range.hi > C(0) ? range.hi : C(0);
  const C scale = stored_scale<S>(range_per_step(lo, hi, q_max - q_min));
  // A scale rounded down to 16 bits can put lo beyond the last code; 0 must stay on one.
  const C zero_point = clamp(q_min - rne(lo / scale), q_min, q_max);
  return {scale, static_cast<std::int32_t>(zero_point)};
}

}  // namespace planck::scalar
