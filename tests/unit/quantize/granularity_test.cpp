// Which scale each element meets: inputs are the same everywhere, so that each code tells. And what is refused.
#include "tests/unit/quantize/quantize_fixture.hpp"

namespace planck::test {
namespace {

PLANCK_QUANTIZE_SUITE(Granularities);

TEST_P(Granularities, ShapesOfScales) {
  EXPECT_EQ(qparams_shape({2, 3, 5}, PerTensor{}), Shape{});
  EXPECT_EQ(qparams_shape({2, 3, 5}, PerChannel{1}), (Shape{3}));
  EXPECT_EQ(qparams_shape({2, 3, 5}, PerChannel{-3}), (Shape{2}));
  EXPECT_EQ(qparams_shape({2, 3, 5}, PerToken{}), (Shape{2, 3}));
  EXPECT_EQ(qparams_shape({5}, PerToken{}), Shape{});
  EXPECT_EQ(qparams_shape({2, 3, 5}, (PerGroup{-1, 2})), (Shape{2, 3, 3}));
  EXPECT_EQ(qparams_shape({2, 3, 5}, (PerGroup{1, 4})), (Shape{2, 1, 5}));
}

TEST_P(Granularities, PerChannelOfTheMiddleAxis) {
  const std::vector<float> scales{1, 2, 4};
  const std::vector<std::int32_t> zero_points{0, 1, -1};
  const Codes expected{12, 12, 7, 7, 2, 2, 12, 12, 7, 7, 2, 2};
  EXPECT_EQ(constant_codes({2, 3, 2}, PerChannel{1}, 12, scales, zero_points), expected);
  EXPECT_EQ(constant_codes({2, 3, 2}, PerChannel{-2}, 12, scales, zero_points), expected);
}

TEST_P(Granularities, PerChannelOfTheOuterAxes) {
  EXPECT_EQ(constant_codes({2, 3}, PerChannel{0}, 12, {1, 4}), (Codes{12, 12, 12, 3, 3, 3}));
  EXPECT_EQ(constant_codes({2, 3}, PerChannel{-1}, 12, {1, 2, 4}), (Codes{12, 6, 3, 12, 6, 3}));
}

TEST_P(Granularities, PerToken) {
  EXPECT_EQ(constant_codes({2, 2, 3}, PerToken{}, 24, {1, 2, 4, 8}, {0, 1, 2, 3}),
            (Codes{24, 24, 24, 13, 13, 13, 8, 8, 8, 6, 6, 6}));
  EXPECT_EQ(constant_codes({3}, PerToken{}, 24, {2}), (Codes{12, 12, 12}));
}

TEST_P(Granularities, PerGroupWithAShorterLastGroup) {
  EXPECT_EQ(constant_codes({2, 5}, PerGroup{1, 2}, 32, {1, 2, 4, 8, 16, 32}),
            (Codes{32, 32, 16, 16, 8, 4, 4, 2, 2, 1}));
  EXPECT_EQ(constant_codes({3, 2}, PerGroup{-2, 2}, 16, {1, 2, 4, 8}, {0, 0, 10, 20}), (Codes{16, 8, 16, 8, 14, 22}));
  EXPECT_EQ(constant_codes({2, 3}, PerGroup{1, std::int64_t{1} << 62}, 16, {1, 2}), (Codes{16, 16, 16, 8, 8, 8}));
  EXPECT_EQ(constant_codes({2, 2}, PerGroup{1, 1}, 16, {1, 2, 4, 8}), (Codes{16, 8, 4, 2}));
}

TEST_P(Granularities, PerTensorParametersMayBeTensorsOfRankZero) {
  EXPECT_EQ(constant_codes({2, 2}, PerTensor{}, 12, {4}, {-5}), (Codes{-2, -2, -2, -2}));
}

TEST_P(Granularities, DequantizePerGroupForwardAndBackward) {
  std::vector<std::uint8_t> q{10, 20, 30, 40, 50, 60};
  std::vector<double> scales{1, 0.1, 10, 0.25};
  std::vector<std::int32_t> zero_points{10, 0, 60, -2};
  std::vector<double> y(6);
  std::vector<double> dy{1, 2, 3, 4, 5, 6};
  const auto d = DequantizePerGroupDescriptor::groups(2, 3, 2, ElementKind::U8, ElementKind::F64);
  run<DequantizePerGroupPlan<std::uint8_t, double>>(
      d, {of(q, d.shape), of(scales, {2, 2}), of(zero_points, {2, 2}), of(y, d.shape)});
  EXPECT_EQ(y, (std::vector<double>{0, 10, 0.1 * 30, -200, -100, 0.25 * 62}));
  run<DequantizePerGroupBackwardPlan<std::uint8_t, double>>(d, {of(scales, {2, 2}), of(dy, d.shape), of(dy, d.shape)});
  EXPECT_EQ(dy, (std::vector<double>{1, 2, 3 * 0.1, 40, 50, 6 * 0.25}));
}

TEST_P(Granularities, ScalesMayHaveTheTensorsOwnKind) {
  // As bf16 the scale 0.3 is 0.30078125, so three steps are another bf16 number than three steps of 0.3.
  std::vector<bf16> x{bf16(1.0F), bf16(1.0F)};
  std::vector<bf16> narrow{bf16(0.3F), bf16(0.5F)};
  std::vector<float> wide{0.3F, 0.5F};
  std::vector<bf16> y(2);
  FakeQuantizeDescriptor d;
  d.shape = {2, 1};
  d.input_element = ElementKind::Bf16;
  d.scope = PerToken{};
  run<FakeQuantizePlan<bf16>>(d, {of(x, d.shape), of(wide, {2}), 0, of(y, d.shape)});
  EXPECT_EQ(y[0].bits, bf16(0.3F * 3).bits);
  d.scale_element = ElementKind::Bf16;
  run<FakeQuantizePlan<bf16>>(d, {of(x, d.shape), of(narrow, {2}), 0, of(y, d.shape)});
  EXPECT_EQ(y[0].bits, bf16(0.90234375F).bits);
  EXPECT_EQ(y[1].bits, bf16(1.0F).bits);
  EXPECT_NE(y[0].bits, bf16(0.3F * 3).bits);

  std::vector<std::int8_t> q{100, -7};
  std::vector<f16> half(2);
  std::vector<f16> tenth{f16(0.1F)};
  DequantizeDescriptor codes;
  codes.shape = {2};
  codes.output_element = ElementKind::F16;
  codes.scale_element = ElementKind::F16;
  run<DequantizePlan<std::int8_t, f16>>(codes, {of(q, {2}), of(tenth, {}), 0, of(half, {2})});
  EXPECT_EQ(half[0].bits, f16(static_cast<float>(f16(0.1F)) * 100).bits);
  EXPECT_EQ(half[1].bits, f16(static_cast<float>(f16(0.1F)) * -7).bits);
}

TEST_P(Granularities, ZeroPointsMayBeLeftOut) {
  std::vector<float> x{3, 3};
  std::vector<float> scales{1, 2};
  std::vector<std::int8_t> q(2);
  QuantizeDescriptor d;
  d.shape = {2};
  d.scope = PerChannel{0};
  QuantizeArgs args;
  args.input = of(x, {2});
  args.scale = of(scales, {2});
  args.output = of(q, {2});
  run<QuantizePlan<float, std::int8_t>>(d, args);
  EXPECT_EQ(q, (Codes{3, 2}));
}

// ---- what is refused ----

TEST_P(Granularities, NamedPlansRefuseAnotherGranularity) {
  QuantizeDescriptor d;
  d.shape = {4, 4};
  d.scope = PerChannel{0};
  const auto token = QuantizePerTokenPlan<>::select(Stream::cpu(), d, preference());
  ASSERT_FALSE(token);
  EXPECT_EQ(token.error().kind(), ErrorKind::Unsupported);
  EXPECT_EQ(token.error().message(),
            "QuantizePerTokenPlan: the plan is PerToken but the descriptor's scope is PerChannel");
  EXPECT_TRUE((QuantizePerChannelPlan<float, std::int8_t>::select(Stream::cpu(), d, preference())));
  EXPECT_TRUE((QuantizePerChannelBackwardPlan<>::select(Stream::cpu(), d, preference())));
  EXPECT_FALSE((QuantizePerGroupBackwardPlan<>::select(Stream::cpu(), d, preference())));
  FakeQuantizeDescriptor all;
  all.shape = {4, 4};
  all.scope = PerGroup{1, 2};
  EXPECT_TRUE(FakeQuantizePlan<>::select(Stream::cpu(), all, preference()));
  EXPECT_FALSE(FakeQuantizePerTensorPlan<>::select(Stream::cpu(), all, preference()));
}

TEST_P(Granularities, TypedPlansRefuseOtherElements) {
  QuantizeDescriptor d;
  d.shape = {4};
  EXPECT_TRUE((QuantizePlan<float, std::int8_t>::select(Stream::cpu(), d, preference())));
  d.output_element = ElementKind::U8;
  d.q_min = 0;
  const auto plan = QuantizePlan<float, std::int8_t>::select(Stream::cpu(), d, preference());
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind(), ErrorKind::Unsupported);
  EXPECT_TRUE((QuantizePlan<float, std::uint8_t>::select(Stream::cpu(), d, preference())));
}

TEST_P(Granularities, GradientsOfParametersNeedALearnablePlan) {
  std::vector<float> x{1};
  std::vector<float> d_scale{9};
  FakeQuantizeDescriptor d;
  d.shape = {1};
  const auto plan = FakeQuantizeBackwardPlan<float>::select(Stream::cpu(), d, preference());
  FakeQuantizeBackwardArgs args{of(x, d.shape), 1.0, 0, of(x, d.shape)};
  args.d_scale = of(d_scale, {});
  const auto refused = plan->run(Stream::cpu(), Workspace::none(), args);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message(),
            "FakeQuantizeBackwardPlan: d_scale is present but the descriptor does not say learnable");
  EXPECT_EQ(d_scale[0], 9.0F);
}

TEST_P(Granularities, TheFirstBadScaleIsNamedAndNothingIsWritten) {
  std::vector<float> x(6, 1.0F);
  std::vector<float> scales{1, 1, 1, 0, kNan, 1};
  std::vector<float> y(6, 77.0F);
  FakeQuantizeDescriptor d;
  d.shape = {2, 3};
  d.scope = PerGroup{1, 1};
  const auto plan = FakeQuantizePlan<float>::select(Stream::cpu(), d, preference());
  const FakeQuantizeArgs args{of(x, d.shape), of(scales, d.shape), 0, of(y, d.shape)};
  EXPECT_TRUE(plan->can_implement(args)) << "contents are not looked at";
  const auto ran = plan->run(Stream::cpu(), Workspace::none(), args);
  ASSERT_FALSE(ran);
  EXPECT_EQ(ran.error().kind(), ErrorKind::InvalidProblem);
  EXPECT_NE(ran.error().message().find("scale[3] = 0"), std::string_view::npos) << ran.error().message();
  EXPECT_EQ(y, std::vector<float>(6, 77.0F));
}

}  // namespace
}  // namespace planck::test
