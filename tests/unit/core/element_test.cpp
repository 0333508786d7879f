// Conversions of the storage types: every pattern, every rounding boundary, one rounding from f64.
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

/// Patterns of positive numbers by their definitions; what follows the largest one has the value it would have.
template <class T>
double value_of_code(unsigned bits) {
  constexpr int kFraction = std::is_same_v<T, f8e4m3> ? 3 : 2;
  constexpr int kBias = std::is_same_v<T, f8e4m3> ? 7 : 15;
  const int exponent = static_cast<int>(bits >> kFraction);
  const int fraction = static_cast<int>(bits & ((1U << kFraction) - 1));
  if (exponent == 0) return std::ldexp(fraction, 1 - kBias - kFraction);
  return std::ldexp((1 << kFraction) + fraction, exponent - kBias - kFraction);
}

template <class T>
class EightBits : public testing::Test {
 protected:
  static constexpr unsigned kLargest = std::is_same_v<T, f8e4m3> ? 0x7E : 0x7B;
  static constexpr unsigned kNan = std::is_same_v<T, f8e4m3> ? 0x7F : 0x7E;
};
using EightBitTypes = testing::Types<f8e4m3, f8e5m2>;
TYPED_TEST_SUITE(EightBits, EightBitTypes);

TYPED_TEST(EightBits, EveryPatternWidensToItsValueAndComesBack) {
  for (unsigned bits = 0; bits < 256; ++bits) {
    const auto x = TypeParam::from_bits(static_cast<std::uint8_t>(bits));
    const unsigned magnitude = bits & 0x7F;
    const double sign = magnitude == bits ? 1 : -1;
    const auto single = static_cast<float>(x);
    const auto wide = static_cast<double>(x);
    ASSERT_EQ(std::signbit(single), sign < 0) << bits;
    ASSERT_EQ(std::signbit(wide), sign < 0) << bits;
    if (magnitude <= this->kLargest) {
      ASSERT_EQ(static_cast<double>(single), sign * value_of_code<TypeParam>(magnitude)) << bits;
      ASSERT_EQ(wide, static_cast<double>(single)) << bits;
    } else if (magnitude == 0x7C && std::is_same_v<TypeParam, f8e5m2>) {
      ASSERT_EQ(single, static_cast<float>(sign * INFINITY));
      ASSERT_EQ(wide, sign * INFINITY);
    } else {
      ASSERT_TRUE(std::isnan(single) && std::isnan(wide)) << bits;
      ASSERT_EQ(TypeParam(single).bits & 0x7F, this->kNan) << bits;
      ASSERT_EQ(TypeParam(wide).bits & 0x7F, this->kNan) << bits;
      continue;
    }
    ASSERT_EQ(TypeParam(single).bits, bits);
    ASSERT_EQ(TypeParam(wide).bits, bits);
  }
}

TYPED_TEST(EightBits, RoundsToNearestEvenAtEveryBoundary) {
  for (unsigned bits = 0; bits <= this->kLargest; ++bits) {
    const double low = value_of_code<TypeParam>(bits);
    const double middle = low + (value_of_code<TypeParam>(bits + 1) - low) / 2;
    const auto middle_f32 = static_cast<float>(middle);
    for (const float sign : {1.0F, -1.0F}) {
      const unsigned sign_bit = sign < 0 ? 0x80 : 0;
      ASSERT_EQ(TypeParam(sign * middle_f32).bits, (bits + (bits & 1)) | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle_f32, 0.0F)).bits, bits | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle_f32, INFINITY)).bits, (bits + 1) | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * middle).bits, (bits + (bits & 1)) | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle, 0.0)).bits, bits | sign_bit) << bits;
      ASSERT_EQ(TypeParam(sign * std::nextafter(middle, double{INFINITY})).bits, (bits + 1) | sign_bit) << bits;
    }
  }
}

TYPED_TEST(EightBits, EverythingLargerIsTheSame) {
  const unsigned overflow = this->kLargest + 1;
  for (const double x : {500.0 * 1024, 65536.0, 1e30, 3.4e38, 1e300, double{INFINITY}}) {
    EXPECT_EQ(TypeParam(x).bits, overflow) << x;
    EXPECT_EQ(TypeParam(-x).bits, overflow | 0x80) << x;
    EXPECT_EQ(TypeParam(static_cast<float>(x)).bits, overflow) << x;
  }
  for (const double x : {1e-300, 5e-324, 1e-45, 1e-40, 1e-10}) {
    EXPECT_EQ(TypeParam(x).bits, 0) << x;
    EXPECT_EQ(TypeParam(-x).bits, 0x80) << x;
    EXPECT_EQ(TypeParam(static_cast<float>(-x)).bits, 0x80) << x;
  }
}

TEST(Element, EightBitBordersAsTheyAreWritten) {
  EXPECT_EQ(f8e4m3(464.0F).bits, 0x7E);
  EXPECT_EQ(f8e4m3(464.0001F).bits, 0x7F);
  EXPECT_EQ(f8e4m3(-465.0).bits, 0xFF);
  EXPECT_EQ(f8e5m2(61439.0F).bits, 0x7B);
  EXPECT_EQ(f8e5m2(61440.0F).bits, 0x7C);
  EXPECT_EQ(f8e4m3(0x1p-10F).bits, 0);  // a tie
  EXPECT_EQ(f8e5m2(0x1.8p-17F).bits, 1);
  EXPECT_TRUE(is_float_code(ElementKind::F8E4M3) && is_quantized(ElementKind::F8E5M2));
  EXPECT_FALSE(is_float_code(ElementKind::S8) || is_float_code(ElementKind::F16) || is_float(ElementKind::F8E4M3));
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
        EXPECT_EQ(T(row.largest).bits + 1U, T(double{INFINITY}).bits);
        if constexpr (is_float(element_of<T>)) {
          EXPECT_EQ(T(double{INFINITY}).bits, numerics::kInfinityBits<T>);
        }
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
