// exp and log1p: special values, every Highway target against scalar lanes bit for bit, and errors and order over
// f32's whole range. tests/oracle/test_exp_log1p.py measures f64 and the stated maxima with mpmath.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "numerics/scalar_lanes.hpp"
#include "tests/unit/numerics/exp_log1p_targets.hpp"

namespace planck::test {
namespace {

template <class T>
using Bits = decltype(scalar::bits(T{}));

template <class T>
class ExpLog1p : public testing::Test {
 public:
  static constexpr T kInfinity = std::numeric_limits<T>::infinity();
  static constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  static constexpr T kSmallest = std::numeric_limits<T>::denorm_min();
  static constexpr T kLargest = std::numeric_limits<T>::max();
};
using Numbers = testing::Types<float, double>;
TYPED_TEST_SUITE(ExpLog1p, Numbers);

template <class T>
T scalar_value(Function function, T x) {
  return function == Function::Exp ? scalar::exp(x) : scalar::log1p(x);
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
  for (const std::int64_t target : exp_log1p_targets()) {
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

template <class T>
void expect_values(Function function, const std::vector<T>& x, const std::vector<T>& expected) {
  const std::vector<T> got = on_every_target(function, x);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_TRUE(same(got[i], expected[i])) << "at " << std::hexfloat << x[i];
}

TYPED_TEST(ExpLog1p, SpecialValuesOfExp) {
  using T = TypeParam;
  const T inf = TestFixture::kInfinity;
  const T nan = TestFixture::kNan;
  const T small = TestFixture::kSmallest;
  const T large = TestFixture::kLargest;
  expect_values<T>(Function::Exp, {0, T(-0.0), -inf, inf, nan, -nan, small, -small, large, -large},
                   {1, 1, 0, inf, nan, nan, 1, 1, inf, 0});
}

TYPED_TEST(ExpLog1p, SpecialValuesOfLog1p) {
  using T = TypeParam;
  const T inf = TestFixture::kInfinity;
  const T nan = TestFixture::kNan;
  const T small = TestFixture::kSmallest;
  const T large = TestFixture::kLargest;
  const T below = std::nextafter(T(-1), T(-2));
  expect_values<T>(Function::Log1p, {0, T(-0.0), -1, below, -2, -large, -inf, inf, nan, -nan},
                   {0, T(-0.0), -inf, nan, nan, nan, nan, inf, nan, nan});
  std::vector<T> subnormal = {small, -small};
  for (T x = 3 * small; x < std::numeric_limits<T>::min(); x *= 2) {
    subnormal.insert(subnormal.end(), {x, -x, x - small, small - x});
  }
  expect_values(Function::Log1p, subnormal, subnormal);
}

/// The first infinite and the last result above zero, found from the exact thresholds.
TYPED_TEST(ExpLog1p, OverflowAndUnderflowOfExp) {
  using T = TypeParam;
  const bool f32 = sizeof(T) == 4;
  const T last_finite = f32 ? T(0x1.62e42ep+6) : T(0x1.62e42fefa39efp+9);
  const T last_positive = f32 ? T(-0x1.9fe368p+6) : T(-0x1.74910d52d3051p+9);
  const std::vector<T> got =
      on_every_target<T>(Function::Exp, {last_finite, std::nextafter(last_finite, TestFixture::kInfinity),
                                         last_positive, std::nextafter(last_positive, -TestFixture::kInfinity)});
  EXPECT_LE(got[0], TestFixture::kLargest);
  EXPECT_EQ(got[1], TestFixture::kInfinity);
  EXPECT_EQ(got[2], TestFixture::kSmallest);
  EXPECT_TRUE(same(got[3], T(0)));
}

TYPED_TEST(ExpLog1p, EveryTargetGivesTheSameBits) {
  using T = TypeParam;
  std::mt19937_64 random(5);
  std::vector<T> x;
  for (int i = 0; i < 200000; ++i) x.push_back(scalar::from_bits(static_cast<Bits<T>>(random())));
  for (const double reach : {1e-3, 1.0, 2.0, 30.0, 110.0, 760.0}) {
    for (int i = -20000; i <= 20000; ++i) x.push_back(static_cast<T>(reach * i / 20000));
  }
  for (int i = 0; i < 20000; ++i)
    x.push_back(static_cast<T>(std::ldexp(static_cast<double>(random() >> 32), -i % 90) - 1));
  // Around every power of two, where k of log1p changes, and 3/2 of it.
  for (int exponent = -60; exponent < 128; ++exponent) {
    for (const double middle : {1.0, 1.5}) {
      const auto u = scalar::bits(static_cast<T>(std::ldexp(middle, exponent) - 1));
      for (Bits<T> step = 0; step < 17; ++step) x.push_back(scalar::from_bits(u + step - 8));
    }
  }
  on_every_target(Function::Exp, x);
  on_every_target(Function::Log1p, x);
}

/// One number for many results: a change of any bit, here or on another machine, must be meant.
TYPED_TEST(ExpLog1p, BitsAreTheRecordedOnes) {
  using T = TypeParam;
  std::mt19937_64 random(7);
  std::uint64_t hash = 0xCBF29CE484222325U;
  for (int i = 0; i < 200000; ++i) {
    const std::uint64_t u = random();
    const T any = scalar::from_bits(static_cast<Bits<T>>(u));
    const T x = i % 2 == 0 ? any : static_cast<T>(std::ldexp(static_cast<double>(u >> 11), -46) - 100);
    for (const Function function : {Function::Exp, Function::Log1p}) {
      const T y = scalar_value(function, x);
      hash = (hash ^ (std::isnan(y) ? 0xFFU : scalar::bits(y))) * 0x100000001B3U;
    }
  }
  EXPECT_EQ(hash, sizeof(T) == 4 ? 7969277569522444645U : 5893444575675682019U);
}

TYPED_TEST(ExpLog1p, NeighboursAreInOrder) {
  using T = TypeParam;
  std::mt19937_64 random(6);
  std::uniform_real_distribution<double> part(0, 1);
  for (const Function function : {Function::Exp, Function::Log1p}) {
    for (int i = 0; i < 2000; ++i) {
      const double p = part(random);
      const double centre = function == Function::Exp
                                ? (i % 2 != 0 ? p - 0.5 : (sizeof(T) == 4 ? 190 * p - 104 : 1450 * p - 745))
                                : (i % 2 != 0 ? 2 * p - 1 : std::exp(80 * p - 40));
      T x = static_cast<T>(centre);
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

/// Every 151st pattern against the C library in f64, whose own error does not count here.
TEST(ExpLog1pF32, ErrorOverTheWholeRange) {
  constexpr std::uint32_t kStride = 151;
  for (const Function function : {Function::Exp, Function::Log1p}) {
    double worst = 0;
    for (std::uint64_t u = 0; u < (std::uint64_t{1} << 32); u += kStride) {
      const float x = scalar::from_bits(static_cast<std::uint32_t>(u));
      const double exact = function == Function::Exp ? std::exp(double{x}) : std::log1p(double{x});
      const float got = scalar_value(function, x);
      const auto nearest = static_cast<float>(exact);
      if (std::isfinite(got) && std::isfinite(exact)) {
        worst = std::max(worst, std::abs(double{got} - exact) / ulp_f32(exact));
      } else {
        ASSERT_TRUE(same(got, nearest)) << std::hexfloat << x;
      }
    }
    EXPECT_LE(worst, 1.01) << (function == Function::Exp ? "exp" : "log1p");
  }
}

}  // namespace
}  // namespace planck::test
