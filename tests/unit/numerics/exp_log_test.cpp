// exp_small and log_normal: every Highway target against scalar lanes bit for bit, and errors and order over f32's
// whole range. tests/oracle/test_exp_log.py measures f64 and the stated maxima with mpmath.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "numerics/scalar_lanes.hpp"
#include "tests/unit/numerics/exp_log_targets.hpp"

namespace planck::test {
namespace {

template <class T>
using Bits = decltype(scalar::bits(T{}));

template <class T>
class ExpLog : public testing::Test {
 public:
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr T kReach = sizeof(T) == 4 ? 70 : 600;  ///< of exp_small
};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(ExpLog, Numbers);

template <class T>
T scalar_value(Function function, T x) {
  return function == Function::Exp ? scalar::exp_small(x) : scalar::log_normal(x);
}

/// Equal bits, or NaN both.
template <class T>
testing::AssertionResult same(T got, T expected) {
  if (scalar::bits(got) == scalar::bits(expected) || (std::isnan(got) && std::isnan(expected))) {
    return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << std::hexfloat << got << " instead of " << expected;
}

/// The scalar lanes' results, after a comparison with those of every target.
template <class T>
std::vector<T> on_every_target(Function function, std::vector<T> x) {
  const std::size_t count = x.size();
  x.resize((count + 15) / 16 * 16, T(0));
  std::vector<T> expected(x.size());
  std::transform(x.begin(), x.end(), expected.begin(), [&](T v) { return scalar_value(function, v); });
  for (const std::int64_t target : exp_log_targets()) {
    std::vector<T> got(x.size());
    apply(target, function, x.data(), got.data(), static_cast<std::int64_t>(x.size()));
    for (std::size_t i = 0; i < count; ++i) {
      const auto result = same(got[i], expected[i]);
      EXPECT_TRUE(result) << target_name(target) << " at " << std::hexfloat << x[i];
      if (!result) break;
    }
  }
  expected.resize(count);
  return expected;
}

TYPED_TEST(ExpLog, EveryTargetGivesTheSameBits) {
  using T = TypeParam;
  std::mt19937_64 random(5);
  std::vector<T> x;
  for (const double reach : {1e-3, 1.0, 2.0, 30.0, double{TestFixture::kReach}}) {
    for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<T>(reach * i / 20000));
  }
  on_every_target(Function::Exp, x);
  x.clear();
  while (x.size() < 200000) {
    const T any = std::abs(scalar::from_bits(static_cast<Bits<T>>(random())));
    if (std::isnormal(any)) x.push_back(any);
  }
  // Around every power of two, and where the exponent that is taken out changes.
  for (int exponent = -60; exponent < 127; ++exponent) {
    for (const double middle : {1.0, 1.5}) {
      const auto u = scalar::bits(static_cast<T>(std::ldexp(middle, exponent)));
      for (Bits<T> step = 0; step < 17; ++step) x.push_back(scalar::from_bits(u + step - 8));
    }
  }
  on_every_target(Function::Log, x);
}

/// Of a random bit pattern, a number that the function takes.
template <class T>
T argument(Function function, std::uint64_t u, T reach) {
  const auto part = static_cast<T>(std::ldexp(static_cast<double>(u >> 11), -53));
  if (function == Function::Exp) return (2 * part - 1) * reach;
  return std::ldexp(1 + part, static_cast<int>(u % 200) - 100);
}

/// One number for many results: a change of any bit, here or on another machine, must be meant.
TYPED_TEST(ExpLog, BitsAreTheRecordedOnes) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t u = random();
    for (const Function function : {Function::Exp, Function::Log}) {
      const T y = scalar_value(function, argument<T>(function, u, TestFixture::kReach));
      hash = (hash ^ scalar::bits(y)) * 0x100000001B3U;
    }
  }
  EXPECT_EQ(hash, sizeof(T) == 4 ? 9929940595214355873U : 16400997007101213097U);
}

TYPED_TEST(ExpLog, NeighboursAreInOrder) {
  using T = TypeParam;
  std::mt19937_64 random(6);
  for (const Function function : {Function::Exp, Function::Log}) {
    for (int i = 0; i < 2000; ++i) {
      T x = argument<T>(function, random(), i % 2 == 0 ? T(0.5) : TestFixture::kReach - 1);
      T before = scalar_value(function, x);
      for (int step = 0; step < 256; ++step) {
        x = std::nextafter(x, TestFixture::kInfinity);
        const T y = scalar_value(function, x);
        ASSERT_LE(before, y) << std::hexfloat << x;
        before = y;
      }
    }
  }
}

/// The distance of f32 neighbours around a number.
double ulp_f32(double x) {
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(1.0, std::max(exponent, -125) - 24);
}

/// Every 151st pattern against the C library in f64, whose own error does not count here. A logarithm's error is that
/// of the sum that it is of: beside 1, where it is smaller.
TEST(ExpLogF32, ErrorOverTheWholeRange) {
  constexpr std::uint32_t kStride = 151;
  for (const Function function : {Function::Exp, Function::Log}) {
    double worst = 0;
    for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += kStride) {
      const float x = scalar::from_bits(static_cast<std::uint32_t>(u));
      const bool takes = function == Function::Exp ? std::abs(x) <= 70 : std::isnormal(x) && x > 0;
      if (!takes) continue;
      const double exact = function == Function::Exp ? std::exp(double{x}) : std::log(double{x});
      const double unit = function == Function::Exp ? ulp_f32(exact) : ulp_f32(std::max(0.5, std::abs(exact)));
      worst = std::max(worst, std::abs(double{scalar_value(function, x)} - exact) / unit);
    }
    EXPECT_LE(worst, 1.01) << (function == Function::Exp ? "exp" : "log");
  }
}

}  // namespace
}  // namespace planck::test
