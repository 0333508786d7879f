// Gradients of the quantise family, value by value from docs/ops/*.md, among them those of learnable parameters.
#include "tests/unit/quantize/quantize_fixture.hpp"

namespace planck::test {
namespace {

PLANCK_QUANTIZE_SUITE(QuantizeGradients);

TEST_P(QuantizeGradients, QuantizeBackwardDividesInsideAndIsPositiveZeroOutside) {
  std::vector<float> x{7.4F, 7.6F, -8.5F, -9.0F, kNan, kInf, 0, 0};
  std::vector<float> dy{1, 1, -3, -1, -1, kNan, kInf, -0.0F};
  std::vector<float> dx(8, 77.0F);
  QuantizeDescriptor d;
  d.shape = {2, 4};
  d.q_min = -8;
  d.q_max = 7;
  d.scope = PerToken{};
  std::vector<float> scales{1, 3};
  run<QuantizeBackwardPlan<float, std::int8_t>>(d,
                                                {of(x, d.shape), of(scales, {2}), 0, of(dy, d.shape), of(dx, d.shape)});
  EXPECT_EQ(dx, (std::vector<float>{1, 0, -3, 0, 0, 0, kInf, 0}));
  for (const int outside : {1, 3, 4, 5}) EXPECT_FALSE(std::signbit(dx[static_cast<std::size_t>(outside)])) << outside;
  EXPECT_TRUE(std::signbit(dx[7]));  // -0 / 3
}

TEST_P(QuantizeGradients, QuantizeBackwardFollowsTheScaleForm) {
  const float scale = 0.07F;
  std::vector<float> x(1000, 0.0F);
  std::vector<float> dy;
  for (int i = 0; i < 1000; ++i) dy.push_back(static_cast<float>(i) * 0.3F);
  std::vector<float> divided(1000);
  std::vector<float> multiplied(1000);
  auto d = QuantizeDescriptor::flat(1000, -128, 127, ElementKind::F32, ElementKind::S8);
  using P = QuantizePerTensorBackwardPlan<float, std::int8_t>;
  run<P>(d, {of(x, d.shape), scale, 0, of(dy, d.shape), of(divided, d.shape)});
  d.scale_form = ScaleForm::Reciprocal;
  run<P>(d, {of(x, d.shape), scale, 0, of(dy, d.shape), of(multiplied, d.shape)});
  int different = 0;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    ASSERT_EQ(divided[i], dy[i] / scale);
    ASSERT_EQ(multiplied[i], dy[i] * (1.0F / scale));
    different += divided[i] != multiplied[i] ? 1 : 0;
  }
  EXPECT_GT(different, 0);
}

/// scale 0.5 and zp 1 with codes -8..7: the range is [-9, 6]. Every dy is 2.
const std::vector<float> kLearnableX{0.75F, -10.0F, 10.0F, kNan, kInf, -kInf, 3.25F};

TEST_P(QuantizeGradients, LearnableTermsOfSingleElements) {
  std::vector<float> x = kLearnableX;
  std::vector<float> dy(7, 2.0F);
  std::vector<float> scales(7, 0.5F);
  std::vector<std::int32_t> zero_points(7, 1);
  std::vector<float> dx(7);
  std::vector<float> d_scale(7);
  std::vector<float> d_zero_point(7);
  auto d = FakeQuantizeDescriptor::rows(7, 1, -8, 7, ElementKind::F32);  // each element is a segment
  d.learnable = true;
  FakeQuantizeBackwardArgs args{of(x, d.shape), of(scales, {7}), of(zero_points, {7}), of(dy, d.shape)};
  args.d_input = of(dx, d.shape);
  args.d_scale = of(d_scale, {7});
  args.d_zero_point = of(d_zero_point, {7});
  run<FakeQuantizePerTokenBackwardPlan<float>>(d, args);
  EXPECT_EQ(dx, (std::vector<float>{2, 0, 0, 0, 0, 0, 2}));
  EXPECT_EQ(d_scale, (std::vector<float>{1, -18, 12, 0, 12, -18, -1}));
  EXPECT_EQ(d_zero_point, (std::vector<float>{0, -1, -1, 0, -1, -1, 0}));

  // NaN x adds nothing, whatever dy is.
  dy[3] = kNan;
  run<FakeQuantizePerTokenBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[3], 0.0F);
  EXPECT_EQ(d_zero_point[3], 0.0F);

  // Outside the range the zero point's term is 0 - dy * scale, so that a dy of +0 or -0 gives +0.
  dy[1] = 0.0F;
  dy[2] = -0.0F;
  run<FakeQuantizePerTokenBackwardPlan<float>>(d, args);
  EXPECT_FALSE(std::signbit(d_zero_point[1]) || std::signbit(d_zero_point[2]));
}

TEST_P(QuantizeGradients, LearnableSumsOfOneScaleTimesTheFactor) {
  std::vector<float> x = kLearnableX;
  std::vector<float> dy(7, 2.0F);
  std::vector<float> d_scale(1);
  std::vector<float> d_zero_point(1);
  auto d = FakeQuantizeDescriptor::flat(7, -8, 7, ElementKind::F32);
  d.learnable = true;
  FakeQuantizeBackwardArgs args{of(x, d.shape), 0.5, 1, of(dy, d.shape)};
  args.d_scale = of(d_scale, {});
  args.d_zero_point = of(d_zero_point, {});
  run<FakeQuantizeBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[0], -12.0F);
  EXPECT_EQ(d_zero_point[0], -4.0F);
  args.grad_factor = 0.25;
  run<FakeQuantizeBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[0], -3.0F);
  EXPECT_EQ(d_zero_point[0], -1.0F);

  // The elementwise gradient may overwrite x or dy: the sums are those of the values before.
  args.d_input = of(x, d.shape);
  run<FakeQuantizeBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[0], -3.0F);
  EXPECT_EQ(x, (std::vector<float>{2, 0, 0, 0, 0, 0, 2}));
}

TEST_P(QuantizeGradients, LearnableSumsAreRoundedOnceAfterTheFactor) {
  // Two terms above q_max = 1: their sum 2^24 + 1 is no f32 number, and 3 times it lies beside 3 * 2^24.
  std::vector<float> x{5, 5};
  std::vector<float> dy{16777216.0F, 1.0F};
  std::vector<float> d_scale(1);
  auto d = FakeQuantizeDescriptor::flat(2, -1, 1, ElementKind::F32);
  d.learnable = true;
  FakeQuantizeBackwardArgs args{of(x, d.shape), 1.0, 0, of(dy, d.shape)};
  args.d_scale = of(d_scale, {});
  args.grad_factor = 3;
  run<FakeQuantizeBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[0], 50331652.0F);
}

TEST_P(QuantizeGradients, LearnableScaleOfTheTensorsOwnKindPerTensor) {
  // Above q_max = 1: d_scale sums dy, d_zero_point -dy * scale, with the scale as bf16 holds it or as the f32 number.
  std::vector<bf16> x(4, bf16(9.0F));
  std::vector<bf16> dy{bf16(1.0F), bf16(2.0F), bf16(3.0F), bf16(4.0F)};
  std::vector<bf16> scale{bf16(0.3F)};
  std::vector<bf16> d_scale(1);
  std::vector<bf16> d_zero_point(1);
  auto d = FakeQuantizeDescriptor::flat(4, -1, 1, ElementKind::Bf16);
  d.learnable = true;
  d.scale_element = ElementKind::Bf16;
  FakeQuantizeBackwardArgs args{of(x, d.shape), of(scale, {}), 0, of(dy, d.shape)};
  args.d_scale = of(d_scale, {});
  args.d_zero_point = of(d_zero_point, {});
  run<FakeQuantizeBackwardPlan<bf16>>(d, args);
  EXPECT_EQ(static_cast<float>(d_scale[0]), 10.0F);
  EXPECT_EQ(d_zero_point[0].bits, bf16(-3.0078125F).bits);
  args.scale = 0.5;
  run<FakeQuantizeBackwardPlan<bf16>>(d, args);
  EXPECT_EQ(static_cast<float>(d_scale[0]), 10.0F);
  EXPECT_EQ(static_cast<float>(d_zero_point[0]), -5.0F);
}

TEST_P(QuantizeGradients, LearnableGroupsSumTheirOwnElements) {
  // Steps of 1 in a row of five, groups of two: the last has one element. All are above q_max = 1.
  std::vector<float> x(10, 9.0F);
  std::vector<float> dy{1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
  std::vector<bf16> scales(6, bf16(1.0F));
  std::vector<bf16> narrow(6);
  std::vector<float> wide_scales(6, 1.0F);
  std::vector<float> wide(6);
  auto d = FakeQuantizeDescriptor::groups(2, 5, 2, -1, 1, ElementKind::F32);
  d.learnable = true;
  FakeQuantizeBackwardArgs args{of(x, d.shape), of(wide_scales, {2, 3}), 0, of(dy, d.shape)};
  args.d_scale = of(wide, {2, 3});
  run<FakeQuantizePerGroupBackwardPlan<float>>(d, args);
  EXPECT_EQ(wide, (std::vector<float>{3, 7, 5, 13, 17, 10}));

  // Their kind is the scales'.
  std::vector<bf16> x16(10, bf16(9.0F));
  std::vector<bf16> dy16;
  for (const float v : dy) dy16.emplace_back(v);
  d.input_element = ElementKind::Bf16;
  d.scale_element = ElementKind::Bf16;
  FakeQuantizeBackwardArgs args16{of(x16, d.shape), of(scales, {2, 3}), 0, of(dy16, d.shape)};
  args16.d_scale = of(narrow, {2, 3});
  run<FakeQuantizePerGroupBackwardPlan<bf16>>(d, args16);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(static_cast<float>(narrow[i]), wide[i]) << i;
}

TEST_P(QuantizeGradients, EmptySegmentsHaveGradientZero) {
  std::vector<float> nothing;
  std::vector<float> scales{1, 2};
  std::vector<float> d_scale{9, 9};
  std::vector<float> d_zero_point{9, 9};
  auto d = FakeQuantizeDescriptor::rows(2, 0, -8, 7, ElementKind::F32);
  d.learnable = true;
  FakeQuantizeBackwardArgs args{of(nothing, d.shape), of(scales, {2}), 0, of(nothing, d.shape)};
  args.d_input = of(nothing, d.shape);
  args.d_scale = of(d_scale, {2});
  args.d_zero_point = of(d_zero_point, {2});
  run<FakeQuantizePerTokenBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale, (std::vector<float>{0, 0}));
  EXPECT_EQ(d_zero_point, (std::vector<float>{0, 0}));

  d = FakeQuantizeDescriptor::flat(0, -8, 7, ElementKind::F32);
  d.learnable = true;
  d_scale = {9};
  args = {of(nothing, d.shape), 1.0, 0, of(nothing, d.shape)};
  args.d_scale = of(d_scale, {});
  run<FakeQuantizeBackwardPlan<float>>(d, args);
  EXPECT_EQ(d_scale[0], 0.0F);
}

}  // namespace
}  // namespace planck::test
