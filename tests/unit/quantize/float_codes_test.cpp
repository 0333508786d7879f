// Codes of f8e4m3 and f8e5m2: every 16-bit pattern and every border of rounding on every instruction set, special
// values, saturation, gradients and dynamic range, value by value from docs/ops/*.md.
#include "quantize/float_codes.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "testing/op_cases.hpp"
#include "tests/unit/quantize/quantize_fixture.hpp"

namespace planck::test {
namespace {

template <class Q>
constexpr std::int64_t kMost = static_cast<std::int64_t>(element_info<Q>.largest);

template <class Q>
constexpr std::uint8_t kNanCode = std::is_same_v<Q, f8e4m3> ? 0x7F : 0x7E;

template <class Q>
std::vector<int> bits_of(const std::vector<Q>& codes) {
  std::vector<int> bits;
  for (const Q q : codes) bits.push_back(q.bits);
  return bits;
}

class FloatCodes : public QuantizeTest {
 protected:
  template <class Q, class T>
  std::vector<Q> float_codes(std::vector<T> x, double scale, bool saturate = true, std::int64_t q_max = kMost<Q>,
                             ArchSku arch = {}) {
    QuantizeDescriptor d;
    d.shape = {static_cast<std::int64_t>(x.size())};
    d.q_min = -q_max;
    d.q_max = q_max;
    d.input_element = element_of<T>;
    d.output_element = element_of<Q>;
    d.saturate = saturate;
    PlanPreference wanted = preference();
    if (arch != ArchSku{}) wanted.prefer_arch = arch;
    const auto plan = QuantizePlan<T, Q>::select(Stream::cpu(), d, wanted);
    EXPECT_TRUE(plan) << plan.error().message();
    std::vector<Q> q(x.size());
    const auto ran = plan->run(Stream::cpu(), Workspace::none(), {of(x, d.shape), scale, 0, of(q, d.shape)});
    EXPECT_TRUE(ran) << ran.error().message();
    return q;
  }

  /// Of every instruction set that this machine has; the reference has one.
  std::vector<ArchSku> archs() const {
    return GetParam() == BackendKind::Reference ? std::vector<ArchSku>{ArchSku{}} : archs_here();
  }

  /// Unsaturated codes of scale 1 are the conversion, but for NaN, which loses its sign.
  template <class Q, class T>
  void expect_converted(const std::vector<T>& x) {
    for (const ArchSku arch : archs()) {
      const std::vector<Q> q = float_codes<Q>(x, 1.0, false, kMost<Q>, arch);
      for (std::size_t i = 0; i < x.size(); ++i) {
        const auto value = static_cast<double>(x[i]);
        const auto expected = std::isnan(value) ? kNanCode<Q> : Q(value).bits;
        ASSERT_EQ(q[i].bits, expected) << value << " on " << to_string(arch);
      }
    }
  }

  template <class Q>
  void expect_borders_converted() {
    std::vector<float> single;
    std::vector<double> wide;
    for (int bits = 0; bits < 0x7F; ++bits) {
      const double low = static_cast<double>(Q::from_bits(static_cast<std::uint8_t>(bits)));
      const double step = static_cast<double>(Q::from_bits(static_cast<std::uint8_t>(bits + 1))) - low;
      const double middle = std::isfinite(step) ? low + step / 2 : low + low / 16;
      if (std::isnan(middle)) continue;
      for (const double sign : {1.0, -1.0}) {
        const auto middle_f32 = static_cast<float>(middle);
        for (const float x : {middle_f32, std::nextafter(middle_f32, 0.0F), std::nextafter(middle_f32, kInf)}) {
          single.push_back(static_cast<float>(sign) * x);
        }
        for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, double{kInf})}) {
          wide.push_back(sign * x);
        }
      }
    }
    for (const double x : {1e300, 5e-324, 1e-310, 1e-40, 3.4e38, double{kInf}, double{kNan}}) {
      single.insert(single.end(), {static_cast<float>(x), static_cast<float>(-x)});
      wide.insert(wide.end(), {x, -x});
    }
    expect_converted<Q>(single);
    expect_converted<Q>(wide);
  }

  /// dx where every dy is 1 and the scale 1.
  template <class Q, class T>
  std::vector<T> gradients(std::vector<T> x, std::int64_t q_min, std::int64_t q_max, bool saturate = true) {
    QuantizeDescriptor d;
    d.shape = {static_cast<std::int64_t>(x.size())};
    d.q_min = q_min;
    d.q_max = q_max;
    d.input_element = element_of<T>;
    d.output_element = element_of<Q>;
    d.saturate = saturate;
    std::vector<T> dy(x.size(), T(1.0F));
    std::vector<T> dx(x.size(), T(77.0F));
    run<QuantizeBackwardPlan<T, Q>>(d, {of(x, d.shape), 1.0, 0, of(dy, d.shape), of(dx, d.shape)});
    return dx;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, FloatCodes, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

TEST_P(FloatCodes, EverySixteenBitPatternIsConverted) {
  std::vector<f16> halves;
  std::vector<bf16> brains;
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    halves.push_back(f16::from_bits(static_cast<std::uint16_t>(bits)));
    brains.push_back(bf16::from_bits(static_cast<std::uint16_t>(bits)));
  }
  expect_converted<f8e4m3>(halves);
  expect_converted<f8e5m2>(halves);
  expect_converted<f8e4m3>(brains);
  expect_converted<f8e5m2>(brains);
}

TEST_P(FloatCodes, EveryBorderOfRoundingIsConvertedFromF32AndF64) {
  expect_borders_converted<f8e4m3>();
  expect_borders_converted<f8e5m2>();
}

TEST_P(FloatCodes, Saturate) {
  const std::vector<float> x{448, 464, 465, 1e30F, kInf, -449, -1e30F, -kInf, kNan, -kNan, 0, -0.0F, 0x1p-10F, 0x1p-9F};
  EXPECT_EQ(bits_of(float_codes<f8e4m3>(x, 1)),
            (std::vector<int>{0x7E, 0x7E, 0x7E, 0x7E, 0x7E, 0xFE, 0xFE, 0xFE, 0x7F, 0x7F, 0, 0x80, 0, 1}));
  EXPECT_EQ(bits_of(float_codes<f8e4m3>(x, 1, false)),
            (std::vector<int>{0x7E, 0x7E, 0x7F, 0x7F, 0x7F, 0xFE, 0xFF, 0xFF, 0x7F, 0x7F, 0, 0x80, 0, 1}));
  const std::vector<float> y{57344, 61439, 61440, kInf, -61440, -kInf, kNan, -kNan, -0.0F};
  EXPECT_EQ(bits_of(float_codes<f8e5m2>(y, 1)),
            (std::vector<int>{0x7B, 0x7B, 0x7B, 0x7B, 0xFB, 0xFB, 0x7E, 0x7E, 0x80}));
  EXPECT_EQ(bits_of(float_codes<f8e5m2>(y, 1, false)),
            (std::vector<int>{0x7B, 0x7B, 0x7C, 0x7C, 0xFC, 0xFC, 0x7E, 0x7E, 0x80}));
  // Narrower ranges, and quotients that overflow.
  EXPECT_EQ(bits_of(float_codes<f8e4m3>(std::vector<float>{17, 15.4F, -300, 1}, 1, true, 16)),
            (std::vector<int>{0x58, 0x57, 0xD8, 0x38}));
  EXPECT_EQ(bits_of(float_codes<f8e4m3>(std::vector<float>{3e38F, -3e38F}, 1e-30)), (std::vector<int>{0x7E, 0xFE}));
}

TEST_P(FloatCodes, OneRoundingFromF64) {
  // A tie in f32 and no tie in f64.
  const std::vector<double> x{1.0625, 1.0625 + 0x1p-40, 1.1875 - 0x1p-40, 464 + 0x1p-40};
  EXPECT_EQ(bits_of(float_codes<f8e4m3>(x, 1, false)), (std::vector<int>{0x38, 0x39, 0x39, 0x7F}));
}

TEST_P(FloatCodes, GradientsPassWhereTheRoundedQuotientIsInTheRange) {
  const float after_464 = std::nextafter(464.0F, kInf);
  EXPECT_EQ((gradients<f8e4m3, float>({448, 464, after_464, -464, -after_464, kInf, kNan, 0}, -448, 448)),
            (std::vector<float>{1, 1, 0, 1, 0, 0, 0, 1}));
  EXPECT_EQ((gradients<f8e4m3, float>({464, after_464, kInf}, -448, 448, false)), (std::vector<float>{1, 0, 0}));
  const double before_61440 = std::nextafter(61440.0, 0.0);
  EXPECT_EQ((gradients<f8e5m2, double>({57344, before_61440, 61440, -before_61440, -61440}, -57344, 57344)),
            (std::vector<double>{1, 1, 0, 1, 0}));
  // 16 is even: 17 goes to it; 15 is odd: 15.5 does not; 0 keeps the half step below it.
  EXPECT_EQ((gradients<f8e4m3, float>({17, 17.01F, -0x1p-10F, -0x1.01p-10F}, 0, 16)), (std::vector<float>{1, 0, 1, 0}));
  EXPECT_EQ((gradients<f8e4m3, float>({15.49F, 15.5F, -15.5F}, -15, 15)), (std::vector<float>{1, 0, 0}));
  EXPECT_EQ((gradients<f8e4m3, float>({15, 15.49F, 15.5F, 17}, 16, 18)), (std::vector<float>{0, 0, 1, 1}));
  EXPECT_EQ((gradients<f8e5m2, f16>({f16(57344.0F), f16(61408.0F), f16(61440.0F)}, -57344, 57344)[2].bits), 0);
}

/// The border of the gradient is the border of the code, for every code as q_max and every f16 as x.
TEST(FloatCodeRanges, LastNumberThatRoundsIntoTheRange) {
  const auto check = [&]<class Q, class C>(Q, C) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto q = static_cast<double>(Q::from_bits(static_cast<std::uint8_t>(bits)));
      if (!std::isfinite(q) || std::abs(q) == element_info<Q>.largest) continue;
      const C last = quantize::last_rounding_to<Q, C>(q);
      ASSERT_EQ(static_cast<double>(Q(last)), q) << q;
      ASSERT_GT(static_cast<double>(Q(std::nextafter(last, std::numeric_limits<C>::infinity()))), q) << q;
    }
  };
  check(f8e4m3(), float());
  check(f8e4m3(), double());
  check(f8e5m2(), float());
  check(f8e5m2(), double());
  EXPECT_EQ((quantize::last_rounding_to<f8e4m3, float>(448)), 464);
  EXPECT_EQ((quantize::last_rounding_to<f8e5m2, float>(57344)), std::nextafter(61440.0F, 0.0F));
}

TEST_P(FloatCodes, DequantiseEveryCodeOnEveryInstructionSet) {
  const auto check = [&]<class Q, class T>(Q, T) {
    std::vector<Q> q;
    for (int bits = 0; bits < 256; ++bits) q.push_back(Q::from_bits(static_cast<std::uint8_t>(bits)));
    for (const ArchSku arch : archs()) {
      DequantizeDescriptor d{{256}, element_of<Q>, element_of<T>};
      PlanPreference wanted = preference();
      if (arch != ArchSku{}) wanted.prefer_arch = arch;
      const auto plan = DequantizePlan<Q, T>::select(Stream::cpu(), d, wanted);
      ASSERT_TRUE(plan);
      std::vector<T> x(256);
      ASSERT_TRUE(plan->run(Stream::cpu(), Workspace::none(), {of(q, d.shape), 0.25, 0, of(x, d.shape)}));
      for (std::size_t i = 0; i < 256; ++i) {
        const double expected = 0.25 * static_cast<double>(q[i]);
        const auto got = static_cast<double>(x[i]);
        if (std::isnan(expected)) {
          ASSERT_TRUE(std::isnan(got)) << i << " on " << to_string(arch);
        } else {
          ASSERT_EQ(got, static_cast<double>(T(expected))) << i << " on " << to_string(arch);
          ASSERT_EQ(std::signbit(got), i >= 128) << i;
        }
      }
    }
  };
  check(f8e4m3(), float());
  check(f8e4m3(), double());
  check(f8e4m3(), f16());
  check(f8e4m3(), bf16());
  check(f8e5m2(), float());
  check(f8e5m2(), double());
  check(f8e5m2(), f16());
  check(f8e5m2(), bf16());
}

TEST_P(FloatCodes, DynamicRangeIsSymmetric) {
  DynamicRangeQuantizeDescriptor d{.shape = {3, 4}, .q_min = -448, .q_max = 448, .output_element = ElementKind::F8E4M3};
  std::vector<float> x{1, -896, 0.5F, 100, 0, -0.0F, 0, 0, kNan, -4, kInf, -kInf};
  std::vector<float> scale(3);
  std::vector<f8e4m3> q(12);
  std::vector<std::int32_t> zero_point(3, 5);
  run<DynamicRangeQuantizePlan<float, f8e4m3>>(
      d, {of(x, d.shape), of(scale, {3}), of(q, d.shape), of(zero_point, {3}), {}});
  EXPECT_EQ(scale, (std::vector<float>{2, 1, 4.0F / 448.0F}));
  EXPECT_EQ(zero_point, (std::vector<std::int32_t>{0, 0, 0}));
  EXPECT_EQ(bits_of(q), (std::vector<int>{0x30, 0xFE, 0x28, 0x64, 0, 0x80, 0, 0, 0x7F, 0xFE, 0x7E, 0xFE}));
}

}  // namespace
}  // namespace planck::test
