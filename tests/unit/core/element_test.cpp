// f16 and bf16 conversions: every pattern, every rounding boundary, one rounding from f64.
#include "planck/element.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "numerics/element_traits.hpp"

namespace planck {
namespace {

/// The value of a 16-bit float pattern, from its definition.
double value_of(std::uint16_t bits, int exponent_bits, int fraction_bits) {
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const int exponent = bits >> fraction_bits & ((1 << exponent_bits) - 1);
  const int fraction = bits & ((1 << fraction_bits) - 1);
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - fraction_bits);
  return sign * std::ldexp((1 << fraction_bits) + fraction, exponent - bias - fraction_bits);
}

template <class T>
constexpr int kExponentBits = std::is_same_v<T, f16> ? 5 : 8;
template <class T>
constexpr int kFractionBits = 15 - kExponentBits<T>;

template <class T>
class SixteenBits : public testing::Test {};
using SixteenBitTypes = testing::Types<f16, bf16>;
TYPED_TEST_SUITE(SixteenBits, SixteenBitTypes);

TYPED_TEST(SixteenBits, EveryPatternWidensToItsValueAndComesBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto x = TypeParam::from_bits(static_cast<std::uint16_t>(bits));
    const double expected = value_of(x.bits, kExponentBits<TypeParam>, kFractionBits<TypeParam>);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(static_cast<float>(x)));
      ASSERT_TRUE(std::isnan(static_cast<float>(TypeParam(static_cast<float>(x)))));
      ASSERT_TRUE(std::isnan(static_cast<double>(TypeParam(static_cast<double>(x)))));
      continue;
    }
    ASSERT_EQ(static_cast<double>(static_cast<float>(x)), expected) << bits;
    ASSERT_EQ(static_cast<double>(x), expected) << bits;
    ASSERT_EQ(TypeParam(static_cast<float>(x)).bits, x.bits);
    ASSERT_EQ(TypeParam(expected).bits, x.bits);
  }
}

TYPED_TEST(SixteenBits, RoundsToNearestEvenAtEveryBoundary) {
  const std::uint16_t infinity = TypeParam(std::numeric_limits<float>::infinity()).bits;
  for (std::uint16_t bits = 0; bits < infinity; ++bits) {
    const double low = value_of(bits, kExponentBits<TypeParam>, kFractionBits<TypeParam>);
    // The value that would follow, also past the largest finite one.
    const double step = bits + 1 == infinity
                            ? low - value_of(bits - 1, kExponentBits<TypeParam>, kFractionBits<TypeParam>)
                            : value_of(bits + 1, kExponentBits<TypeParam>, kFractionBits<TypeParam>) - low;
    const double middle = low + step / 2;  // exact in f32 and f64
    const auto even = static_cast<std::uint16_t>(bits + (bits & 1));
    const auto middle_f32 = static_cast<float>(middle);
    ASSERT_EQ(static_cast<double>(middle_f32), middle);
    for (const float sign : {1.0F, -1.0F}) {
      const std::uint16_t sign_bit = sign < 0 ? 0x8000 : 0;
      ASSERT_EQ(TypeParam(sign * middle_f32).bits, even | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle_f32, 0.0F)).bits, bits | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle_f32, INFINITY)).bits, (bits + 1) | sign_bit) << bits;
      // From f64 a neighbour far below f32's resolution decides: rounding through f32 would lose it.
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle, 0.0)).bits, bits | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle, double{INFINITY})).bits, (bits + 1) | sign_bit) << bits;
    }
  }
}

TEST(Element, LargestValuesOverflowToInfinity) {
  EXPECT_EQ(f16(1e300).bits, 0x7C00);
  EXPECT_EQ(f16(-1e300).bits, 0xFC00);
  EXPECT_EQ(bf16(1e300).bits, 0x7F80);
  EXPECT_EQ(bf16(std::numeric_limits<float>::max()).bits, 0x7F80);
  EXPECT_EQ(f16(std::numeric_limits<double>::denorm_min()).bits, 0);
}

TEST(Element, SizesAndNames) {
  EXPECT_EQ(size_of(ElementKind::F16), 2);
  EXPECT_EQ(size_of(ElementKind::S64), 8);
  EXPECT_EQ(size_of(static_cast<ElementKind>(99)), 0);
  EXPECT_EQ(to_string(ElementKind::Bf16), "bf16");
  EXPECT_EQ(to_string(static_cast<ElementKind>(99)), "unknown");
  EXPECT_EQ(compute_of(ElementKind::Bf16), ElementKind::F32);
  EXPECT_EQ(compute_of(ElementKind::F64), ElementKind::F64);
}

TEST(Element, RowsOfTheTableStandInTheOrderOfTheirNumbers) {
  for (std::size_t i = 0; i < kElements.size(); ++i) EXPECT_EQ(kElements[i].kind, static_cast<ElementKind>(i));
  EXPECT_EQ(info_of(static_cast<ElementKind>(-1)).type_class, ElementClass::Unknown);
  EXPECT_EQ(info_of(static_cast<ElementKind>(kElements.size())).type_class, ElementClass::Unknown);
}

TEST(Element, EveryRowAgreesWithItsType) {
  for (const ElementInfo& row : kElements) {
    int calls = 0;
    with_type(ElementTypes(), row.kind, [&]<class T>(T) {
      ++calls;
      EXPECT_EQ(element_of<T>, row.kind);
      EXPECT_EQ(element_of<const T>, row.kind);
      EXPECT_EQ(size_of(row.kind), static_cast<std::int64_t>(sizeof(T)));
      if constexpr (std::is_arithmetic_v<T>) {
        using Limits = std::numeric_limits<T>;
        EXPECT_EQ(row.lowest, static_cast<double>(Limits::lowest()));
        EXPECT_EQ(row.largest, static_cast<double>(Limits::max()));
        EXPECT_EQ(row.least_normal, is_float(row.kind) ? static_cast<double>(Limits::min()) : 0);
      } else {
        EXPECT_EQ(static_cast<double>(T(row.largest)), row.largest);
        EXPECT_EQ(T(row.largest).bits + 1U, numerics::kInfinityBits<T>);
        EXPECT_EQ(T(double{INFINITY}).bits, numerics::kInfinityBits<T>);
        EXPECT_EQ(static_cast<double>(T(row.least_normal)), row.least_normal);
        // The step above the least normal number is that of all subnormals.
        const auto next = [](double x, int step) {
          return static_cast<double>(T::from_bits(static_cast<decltype(T::bits)>(T(x).bits + step)));
        };
        EXPECT_EQ(next(row.least_normal, 1) - row.least_normal, row.least_normal - next(row.least_normal, -1));
        EXPECT_EQ(next(2 * row.least_normal, 1) - 2 * row.least_normal, 2 * next(0, 1));
      }
    });
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(int{is_float(row.kind)} + int{is_quantized(row.kind)} + int{is_integer(row.kind)}, 1) << row.name;
  }
}

TEST(Element, NamesAreDifferent) {
  for (const ElementInfo& row : kElements) {
    EXPECT_EQ(to_string(row.kind), row.name);
    for (const ElementInfo& other : kElements) {
      if (other.kind == row.kind) continue;
      EXPECT_NE(row.name, other.name);
      EXPECT_NE(row.python_name, other.python_name);
      EXPECT_NE(row.safetensors_name, other.safetensors_name);
      EXPECT_FALSE(row.dlpack_code == other.dlpack_code && row.bits == other.bits) << row.name;
    }
  }
}

TEST(Element, DispatchKnowsTheKindsOfItsClassOnly) {
  for (int number = -1; number <= static_cast<int>(kElements.size()); ++number) {
    const auto kind = static_cast<ElementKind>(number);
    int calls = 0;
    with_type(TypesOf<ElementClass::Float>(), kind, [&]<class T>(T) { calls += element_of<T> == kind ? 1 : 100; });
    EXPECT_EQ(calls, is_float(kind) ? 1 : 0) << number;
  }
}

}  // namespace
}  // namespace planck
