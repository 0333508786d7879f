// What quantise, dequantise and fake-quantise mean, value by value from docs/ops/*.md.
#include "tests/unit/quantize/quantize_fixture.hpp"

namespace planck::test {
namespace {

PLANCK_QUANTIZE_SUITE(Quantize);

TEST_P(Quantize, HalfStepsGoToEven) {
  EXPECT_EQ(fake({0.5F, 1.5F, 2.5F, -0.5F, -1.5F, -2.5F}, 1.0, 0, -8, 7), (std::vector<float>{0, 2, 2, 0, -2, -2}));
}

TEST_P(Quantize, ZerosAreAllPositive) {
  for (const float y : fake({0.0F, -0.0F, -0.2F, 0.3F, -1e-45F}, 1.0, 0, -8, 7)) {
    EXPECT_EQ(y, 0);
    EXPECT_FALSE(std::signbit(y));
  }
}

TEST_P(Quantize, InfinitiesSaturateAndNanStays) {
  const auto y = fake({kInf, -kInf, kNan, 1e30F, -1e30F}, 0.5, 3, -8, 7);
  EXPECT_EQ(y[0], 2.0F);   // (7 - 3) * 0.5
  EXPECT_EQ(y[1], -5.5F);  // (-8 - 3) * 0.5
  EXPECT_TRUE(std::isnan(y[2]));
  EXPECT_EQ(y[3], 2.0F);
  EXPECT_EQ(y[4], -5.5F);
}

TEST_P(Quantize, ZeroPointMovesTheRangeNotTheGrid) {
  EXPECT_EQ(fake({0.26F, 10.0F, -10.0F}, 0.25, -2, 0, 3), (std::vector<float>{0.5F, 1.25F, 0.5F}));
}

TEST_P(Quantize, ReciprocalAndDivideDifferWhereTheyShould) {
  const float scale = 0.07F;
  int different = 0;
  std::vector<float> x;
  for (int i = 0; i < 4000; ++i) x.push_back((static_cast<float>(i) + 0.5F) * scale);  // half-steps tell them apart
  const auto divide = fake(x, scale, 0, -100000, 100000, ScaleForm::Divide);
  const auto reciprocal = fake(x, scale, 0, -100000, 100000, ScaleForm::Reciprocal);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(divide[i], scale * std::nearbyint(x[i] / scale) + 0.0F);
    ASSERT_EQ(reciprocal[i], scale * std::nearbyint(x[i] * (1.0F / scale)) + 0.0F);
    different += divide[i] != reciprocal[i] ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

TEST_P(Quantize, SixteenBitTypesAreRoundedOnceFromF32) {
  const auto y = fake<bf16>({bf16(1.0F), bf16(-3.0F)}, 0.3, 0, -128, 127);
  EXPECT_EQ(y[0].bits, bf16(0.3F * 3).bits);
  EXPECT_EQ(y[1].bits, bf16(0.3F * -10).bits);
  const auto h = fake<f16>({f16(1000.0F)}, 600.0, 0, -128, 127);
  EXPECT_EQ(h[0].bits, f16(1200.0F).bits);
}

TEST_P(Quantize, F64IsComputedInF64) {
  const double x = 1.0 + 0x1p-40;
  EXPECT_EQ(fake<double>({x}, 0x1p-40, 0, -(1 << 20), 1 << 20)[0], 0x1p-20);
  EXPECT_EQ(fake<double>({0.1}, 1.0 / 3.0 * 0x1p-10, 0, -(1 << 20), 1 << 20)[0], 307 * (1.0 / 3.0 * 0x1p-10));
}

TEST_P(Quantize, BackwardMaskIsInclusiveAndNanIsOutside) {
  // Codes -8..7 with zp 0: rne(x) in [-8, 7].
  const std::vector<float> x{-8.5F, -8.4F, -8.6F, 7.4F, 7.5F, 7.0F, kNan, kInf, -kInf, 0.0F};
  const std::vector<float> dy(x.size(), 3.0F);
  EXPECT_EQ(fake_backward(x, dy, 1.0, 0, -8, 7), (std::vector<float>{3, 3, 0, 3, 0, 3, 0, 0, 0, 3}));
}

TEST_P(Quantize, BackwardPassesSpecialGradientsInsideAndPositiveZeroOutside) {
  const auto dx = fake_backward({0, 0, 0, 99, 99}, {kInf, kNan, -0.0F, kNan, -1.0F}, 1.0, 0, -8, 7);
  EXPECT_EQ(dx[0], kInf);
  EXPECT_TRUE(std::isnan(dx[1]));
  EXPECT_TRUE(std::signbit(dx[2]));
  EXPECT_EQ(dx[3], 0.0F);
  EXPECT_FALSE(std::signbit(dx[3]) || std::signbit(dx[4]));
}

TEST_P(Quantize, DequantizeIsExactlyScaleTimesDifference) {
  std::vector<std::int8_t> s8(256);
  std::vector<std::uint8_t> u8(256);
  for (int i = 0; i < 256; ++i) {
    s8[static_cast<std::size_t>(i)] = static_cast<std::int8_t>(i - 128);
    u8[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>(i);
  }
  std::vector<float> y(256);
  std::vector<double> wide(256);
  const auto signed_plan = DequantizePerTensorPlan<std::int8_t, float>::select(
      Stream::cpu(), DequantizePerTensorDescriptor::flat(256, ElementKind::S8, ElementKind::F32), preference());
  const auto unsigned_plan = DequantizePerTensorPlan<std::uint8_t, double>::select(
      Stream::cpu(), DequantizePerTensorDescriptor::flat(256, ElementKind::U8, ElementKind::F64), preference());
  ASSERT_TRUE(signed_plan->run(Stream::cpu(), Workspace::none(), {view(s8, {256}), 0.1, -1000001, view(y, {256})}));
  ASSERT_TRUE(unsigned_plan->run(Stream::cpu(), Workspace::none(), {view(u8, {256}), 0.1, 7, view(wide, {256})}));
  for (int i = 0; i < 256; ++i) {
    EXPECT_EQ(y[static_cast<std::size_t>(i)], 0.1F * static_cast<float>(i - 128 + 1000001));
    EXPECT_EQ(wide[static_cast<std::size_t>(i)], 0.1 * (i - 7));
  }
}

TEST_P(Quantize, DequantizeBackwardScalesTheGradient) {
  std::vector<float> dy{1.0F, -3.0F, kInf, 0.3F};
  std::vector<float> dq(4);
  const auto plan = DequantizePerTensorBackwardPlan<std::int8_t, float>::select(
      Stream::cpu(), DequantizePerTensorDescriptor::flat(4, ElementKind::S8, ElementKind::F32), preference());
  ASSERT_TRUE(plan->run(Stream::cpu(), Workspace::none(), {0.1, view(dy, {4}), view(dq, {4})}));
  EXPECT_EQ(dq, (std::vector<float>{0.1F, -3.0F * 0.1F, kInf, 0.3F * 0.1F}));
}

TEST_P(Quantize, CodesAreRoundedToEvenSaturatedAndMovedByTheZeroPoint) {
  // zp 3: the range around it is [-11, 4].
  EXPECT_EQ(codes({0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 100.0F, -100.0F, kInf, -kInf, kNan}, 1.0, 3, -8, 7),
            (Codes{3, 5, 5, 3, 1, 7, -8, 7, -8, 3}));
  EXPECT_EQ((codes<float, std::uint8_t>({127.4F, 127.6F, 1e30F, -128.0F, -128.6F, kNan}, 1.0, 128, 0, 255)),
            (std::vector<std::uint8_t>{255, 255, 255, 0, 0, 128}));
}

TEST_P(Quantize, ZeroPointMayLieOutsideTheCodes) {
  EXPECT_EQ(codes({0.0F, -5.0F, -100.0F, kNan}, 1.0, 10, -8, 7), (Codes{7, 5, -8, 7}));
  EXPECT_EQ(codes({0.0F, 95.0F, 1000.0F, kNan}, 1.0, -100, -8, 7), (Codes{-8, -5, 7, -8}));
}

TEST_P(Quantize, F64CodesAreComputedInF64) {
  EXPECT_EQ((codes<double, std::int8_t>({0.5, 0.5 + 0x1p-40, 1e300}, 1.0, 0, -8, 7)), (Codes{0, 1, 7}));
}

TEST_P(Quantize, DequantisedCodesAreFakeQuantised) {
  std::vector<float> x;
  for (int i = -300; i < 300; ++i) x.push_back(static_cast<float>(i) * 0.37F);
  std::vector<std::int8_t> q = codes(x, 0.7, -3, -128, 127);
  std::vector<float> y(x.size());
  DequantizeDescriptor d;
  d.shape = {600};
  run<DequantizePlan<std::int8_t, float>>(d, {of(q, d.shape), 0.7, -3, of(y, d.shape)});
  EXPECT_EQ(y, fake(x, 0.7, -3, -128, 127));
}

}  // namespace
}  // namespace planck::test
