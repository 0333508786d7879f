// Sums over pieces of tensors: ranges, and the error of a second tensor against a first.
//
// A piece is summed in eight fixed lanes of f64 and pieces are merged in their order, so the numbers are the same
// for any number of threads. NaN and infinities are counted and left out of every sum.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

#include "planck/element.hpp"

namespace planck::cli {

/// The finite elements' range, and how many others there are.
struct RangeSums {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();
  std::int64_t nans = 0;
  std::int64_t infinities = 0;

  bool any() const noexcept { return min <= max; }
  void merge(const RangeSums& other) noexcept;
};

/// x against y, element by element, where both are finite.
struct ErrorSums {
  std::int64_t count = 0;  ///< of pairs of finite elements
  double max_error = 0;    ///< the largest |y - x|
  double error = 0;        ///< sum of |y - x|
  double error_squared = 0;
  double x_squared = 0;
  double y_squared = 0;
  double product = 0;
  std::int64_t nonfinite_x = 0;
  std::int64_t nonfinite_y = 0;
  std::int64_t nonfinite_differs = 0;  ///< pairs with an element that is not finite and not the same in both

  void merge(const ErrorSums& other) noexcept;
  double mean_error() const noexcept { return count == 0 ? 0 : error / static_cast<double>(count); }
  /// 10 log10(sum x² / sum (y - x)²): infinite for an exact copy, NaN if nothing was compared.
  double snr_db() const noexcept;
  /// Of the two as vectors; 1 if both are zero, 0 if one is.
  double cosine() const noexcept;
};

/// Elements of any float or integer kind as f32 (f16, bf16, s8, u8, f32) or f64 (the others), exactly but for s64.
constexpr bool widens_to_f32(ElementKind kind) noexcept {
  return !is_integer(kind) && compute_of(kind) == ElementKind::F32;
}
void widen(ElementKind kind, const std::byte* from, std::span<float> to) noexcept;
void widen(ElementKind kind, const std::byte* from, std::span<double> to) noexcept;

RangeSums range_of(std::span<const float> x) noexcept;
RangeSums range_of(std::span<const double> x) noexcept;
ErrorSums errors_of(std::span<const float> x, std::span<const float> y) noexcept;
ErrorSums errors_of(std::span<const double> x, std::span<const double> y) noexcept;

}  // namespace planck::cli
