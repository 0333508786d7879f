#include "quantize/statistics.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

// The same text for several instruction sets where the compiler and the loader can choose; no result depends on it.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define PLANCK_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define PLANCK_CLONES
#endif

namespace planck::cli {
namespace {

constexpr std::size_t kLanes = 8;

/// The conversions of f16 and bf16 themselves are calls, and would keep the loops from vectors.
float number_of(f16 half) noexcept {
  // Times 2^112 brings the exponent's bias, and subnormals, into place exactly; infinities and NaN need all ones.
  const std::uint32_t magnitude = (half.bits & 0x7FFFU) << 13;
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x0F800000U ? 0x7F800000U : 0U;
  const std::uint32_t sign = static_cast<std::uint32_t>(half.bits & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}
float number_of(bf16 brain) noexcept { return std::bit_cast<float>(static_cast<std::uint32_t>(brain.bits) << 16); }
template <class T>
T number_of(T value) noexcept {
  return value;
}

template <class To>
void widen_any(ElementKind kind, const std::byte* from, std::span<To> to) noexcept {
  with_type(ElementTypes(), kind, [&]<class T>(T value) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::memcpy(&value, from + i * sizeof(T), sizeof value);
      to[i] = static_cast<To>(number_of(value));
    }
  });
}

template <class T>
bool finite(T x) noexcept {
  return std::fabs(x) <= std::numeric_limits<T>::max();  // false for NaN
}

/// One element at a time, for pieces with elements that are not finite.
template <class T>
RangeSums slow_range(std::span<const T> x) noexcept {
  RangeSums sums;
  for (const T value : x) {
    if (finite(value)) {
      sums.min = std::min(sums.min, static_cast<double>(value));
      sums.max = std::max(sums.max, static_cast<double>(value));
    } else {
      ++(std::isnan(value) ? sums.nans : sums.infinities);
    }
  }
  return sums;
}

template <class T>
ErrorSums slow_errors(std::span<const T> x, std::span<const T> y) noexcept {
  ErrorSums sums;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (finite(x[i]) && finite(y[i])) {
      const auto a = static_cast<double>(x[i]);
      const auto b = static_cast<double>(y[i]);
      const double error = b - a;
      ++sums.count;
      sums.max_error = std::max(sums.max_error, std::fabs(error));
      sums.error += std::fabs(error);
      sums.error_squared += error * error;
      sums.x_squared += a * a;
      sums.y_squared += b * b;
      sums.product += a * b;
      continue;
    }
    sums.nonfinite_x += finite(x[i]) ? 0 : 1;
    sums.nonfinite_y += finite(y[i]) ? 0 : 1;
    const bool same = x[i] == y[i] || (std::isnan(x[i]) && std::isnan(y[i]));
    sums.nonfinite_differs += same ? 0 : 1;
  }
  return sums;
}

/// N lanes are a vector of the compiler's own: it does not find them in loops over arrays. None is longer than AVX2's.
template <class T, std::size_t N>
using Vector __attribute__((vector_size(N * sizeof(T)))) = T;
using Floats = Vector<float, kLanes>;
constexpr std::size_t kHalf = kLanes / 2;
using Doubles = Vector<double, kHalf>;

struct RangeLanes {
  Floats min;
  Floats max;
  Floats zero;  ///< stays 0 while every element is finite, and is NaN from the first that is not
};

PLANCK_CLONES void range_lanes(const float* x, std::size_t blocks, RangeLanes& out) noexcept {
  RangeLanes lanes = out;
  for (std::size_t block = 0; block < blocks; ++block) {
    Floats value;
    std::memcpy(&value, x + block * kLanes, sizeof value);
    lanes.min = value < lanes.min ? value : lanes.min;
    lanes.max = value > lanes.max ? value : lanes.max;
    lanes.zero += value * 0.0F;
  }
  out = lanes;
}

/// Lanes 0 to 3 or 4 to 7.
struct ErrorLanes {
  Doubles max_error{};
  Doubles error{};
  Doubles error_squared{};
  Doubles x_squared{};
  Doubles y_squared{};
  Doubles product{};
};

template <class T>
inline __attribute__((always_inline)) void add_errors(const T* x, const T* y, ErrorLanes& lanes) noexcept {
  Vector<T, kHalf> narrow_a, narrow_b;
  std::memcpy(&narrow_a, x, sizeof narrow_a);
  std::memcpy(&narrow_b, y, sizeof narrow_b);
  const Doubles a = __builtin_convertvector(narrow_a, Doubles);
  const Doubles b = __builtin_convertvector(narrow_b, Doubles);
  const Doubles error = b - a;
  const Doubles size = error > -error ? error : -error;
  lanes.max_error = size > lanes.max_error ? size : lanes.max_error;
  lanes.error += size;
  lanes.error_squared += error * error;
  lanes.x_squared += a * a;
  lanes.y_squared += b * b;
  lanes.product += a * b;
}

template <class T>
inline __attribute__((always_inline)) void sum_errors(const T* x, const T* y, std::size_t blocks,
                                                      ErrorLanes (&out)[2]) noexcept {
  ErrorLanes low = out[0];
  ErrorLanes high = out[1];
  for (std::size_t i = 0; i < blocks * kLanes; i += kLanes) {
    add_errors(x + i, y + i, low);
    add_errors(x + i + kHalf, y + i + kHalf, high);
  }
  out[0] = low;
  out[1] = high;
}

PLANCK_CLONES void error_lanes(const float* x, const float* y, std::size_t blocks, ErrorLanes (&lanes)[2]) noexcept {
  sum_errors(x, y, blocks, lanes);
}
PLANCK_CLONES void error_lanes(const double* x, const double* y, std::size_t blocks, ErrorLanes (&lanes)[2]) noexcept {
  sum_errors(x, y, blocks, lanes);
}

double sum(const ErrorLanes (&lanes)[2], Doubles ErrorLanes::*which) noexcept {
  double total = 0;
  for (const ErrorLanes& half : lanes) {
    for (std::size_t lane = 0; lane < kHalf; ++lane) total += (half.*which)[lane];
  }
  return total;
}

template <class T>
ErrorSums fast_errors(std::span<const T> x, std::span<const T> y) noexcept {
  const std::size_t blocks = x.size() / kLanes;
  ErrorLanes lanes[2];
  error_lanes(x.data(), y.data(), blocks, lanes);
  ErrorSums sums;
  sums.count = static_cast<std::int64_t>(blocks * kLanes);
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sums.max_error = std::max(sums.max_error, lanes[lane / kHalf].max_error[lane % kHalf]);
  }
  sums.error = sum(lanes, &ErrorLanes::error);
  sums.error_squared = sum(lanes, &ErrorLanes::error_squared);
  sums.x_squared = sum(lanes, &ErrorLanes::x_squared);
  sums.y_squared = sum(lanes, &ErrorLanes::y_squared);
  sums.product = sum(lanes, &ErrorLanes::product);
  // Anything not finite makes one of these so; so do sums that overflow, which the slow way does no better.
  if (!finite(sums.x_squared) || !finite(sums.y_squared)) return slow_errors(x, y);
  sums.merge(slow_errors(x.subspan(blocks * kLanes), y.subspan(blocks * kLanes)));
  return sums;
}

}  // namespace

void RangeSums::merge(const RangeSums& other) noexcept {
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  nans += other.nans;
  infinities += other.infinities;
}

void ErrorSums::merge(const ErrorSums& other) noexcept {
  count += other.count;
  max_error = std::max(max_error, other.max_error);
  error += other.error;
  error_squared += other.error_squared;
  x_squared += other.x_squared;
  y_squared += other.y_squared;
  product += other.product;
  nonfinite_x += other.nonfinite_x;
  nonfinite_y += other.nonfinite_y;
  nonfinite_differs += other.nonfinite_differs;
}

double ErrorSums::snr_db() const noexcept {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  if (error_squared == 0) return std::numeric_limits<double>::infinity();
  return 10 * std::log10(x_squared / error_squared);
}

double ErrorSums::cosine() const noexcept {
  if (count == 0) return std::numeric_limits<double>::quiet_NaN();
  if (x_squared == 0 || y_squared == 0) return x_squared == y_squared ? 1 : 0;
  return std::clamp(product / (std::sqrt(x_squared) * std::sqrt(y_squared)), -1.0, 1.0);
}

void widen(ElementKind kind, const std::byte* from, std::span<float> to) noexcept { widen_any(kind, from, to); }
void widen(ElementKind kind, const std::byte* from, std::span<double> to) noexcept { widen_any(kind, from, to); }

RangeSums range_of(std::span<const float> x) noexcept {
  const std::size_t blocks = x.size() / kLanes;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RangeLanes lanes{Floats{} + kInfinity, Floats{} - kInfinity, Floats{}};
  range_lanes(x.data(), blocks, lanes);
  RangeSums sums;
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    if (lanes.zero[lane] != 0) return slow_range(x);
    sums.min = std::min(sums.min, static_cast<double>(lanes.min[lane]));
    sums.max = std::max(sums.max, static_cast<double>(lanes.max[lane]));
  }
  sums.merge(slow_range(x.subspan(blocks * kLanes)));
  return sums;
}

RangeSums range_of(std::span<const double> x) noexcept { return slow_range(x); }

ErrorSums errors_of(std::span<const float> x, std::span<const float> y) noexcept { return fast_errors(x, y); }
ErrorSums errors_of(std::span<const double> x, std::span<const double> y) noexcept { return fast_errors(x, y); }

}  // namespace planck::cli
