// What Lerp and AddScaled mean, from docs/ops/binary_param.md: end points, gradients, broadcasting, sums of gradients.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "numerics/canonical_order.hpp"
#include "planck/planck.hpp"

namespace planck {
namespace {

class BinaryParam : public testing::TestWithParam<BackendKind> {
 protected:
  PlanPreference preference() const {
    PlanPreference p;
    p.prefer_backend = GetParam();
    return p;
  }

  /// Runs a backward plan with a workspace of the size it asks for.
  void backward(const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& args) {
    const auto plan = BinaryParamBackwardPlan<>::select(Stream::cpu(), d, preference());
    ASSERT_TRUE(plan) << plan.error().message();
    std::vector<std::byte> workspace(plan->workspace_size());
    const auto result = plan->run(Stream::cpu(), Workspace::of(workspace), args);
    ASSERT_TRUE(result) << result.error().message();
  }

  std::vector<float> forward(BinaryKind kind, std::vector<float> a, std::vector<float> b, double w) {
    const auto n = static_cast<std::int64_t>(a.size());
    BinaryParamDescriptor d;
    d.kind = kind;
    d.shape = {n};
    d.param = w;
    std::vector<float> y(a.size());
    const auto result =
        BinaryParamPlan<float>::select(Stream::cpu(), d, preference())
            ->run(Stream::cpu(), Workspace::none(), {view(a, {n}), view(b, {n}), std::nullopt, view(y, {n})});
    EXPECT_TRUE(result) << result.error().message();
    return y;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, BinaryParam, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

TEST_P(BinaryParam, LerpIsExactAtBothEnds) {
  const std::vector<float> a{1.0F, 1e8F, -3.3F, 0.1F};
  const std::vector<float> b{1e-8F, -7.0F, 1e20F, 0.3F};
  EXPECT_EQ(forward(BinaryKind::Lerp, a, b, 0.0), a);
  EXPECT_EQ(forward(BinaryKind::Lerp, a, b, 1.0), b);
}

TEST_P(BinaryParam, LerpIsMonotoneInItsWeight) {
  std::vector<float> last(3, -std::numeric_limits<float>::infinity());
  for (int i = 0; i <= 4096; ++i) {
    const auto y = forward(BinaryKind::Lerp, {0.1F, -5.0F, 1.0F}, {0.3F, 1e10F, 1.0000001F}, i / 4096.0);
    for (std::size_t k = 0; k < y.size(); ++k) ASSERT_GE(y[k], last[k]) << i;
    last = y;
  }
}

TEST_P(BinaryParam, AddScaledRoundsTwice) {
  // 1 + 2^-24 would survive a fused multiply-add of (1 + 2^-12)^2; two roundings lose it.
  const float x = 1.0F + 0x1p-12F;
  const auto y = forward(BinaryKind::AddScaled, {-1.0F}, {x}, x);
  EXPECT_EQ(y[0], 0x1p-11F);
}

TEST_P(BinaryParam, WeightTensorBroadcastsAndItsGradientIsSummed) {
  // shape [2, 3], weight per column.
  std::vector<double> a{1, 2, 3, 4, 5, 6};
  std::vector<double> b{2, 4, 6, 8, 10, 12};
  std::vector<double> w{0.25, 0.5, 1.0};
  std::vector<double> y(6);
  BinaryParamDescriptor d;
  d.shape = {2, 3};
  d.element = ElementKind::F64;
  d.weight_shape = Shape{3};
  ASSERT_TRUE(
      BinaryParamPlan<double>::select(Stream::cpu(), d, preference())
          ->run(Stream::cpu(), Workspace::none(), {view(a, {2, 3}), view(b, {2, 3}), view(w, {3}), view(y, {2, 3})}));
  EXPECT_EQ(y, (std::vector<double>{1.25, 3, 6, 5, 7.5, 12}));

  std::vector<double> dy{1, 10, 100, 2, 20, 200};
  std::vector<double> da(6);
  std::vector<double> db(6);
  std::vector<double> dw(3);
  backward(d, {view(dy, {2, 3}), view(a, {2, 3}), view(b, {2, 3}), view(w, {3}), view(da, {2, 3}), view(db, {2, 3}),
               view(dw, {3})});
  EXPECT_EQ(da, (std::vector<double>{0.75, 5, 0, 1.5, 10, 0}));
  EXPECT_EQ(db, (std::vector<double>{0.25, 5, 100, 0.5, 10, 200}));
  EXPECT_EQ(dw, (std::vector<double>{1 * 1 + 2 * 4, 10 * 2 + 20 * 5, 100 * 3 + 200 * 6}));
}

TEST_P(BinaryParam, BroadcastOperandsGetSummedGradientsOneDimensionAtATime) {
  // b is a scalar: db sums rows first, then the rows' sums, each in the canonical order.
  const std::int64_t rows = 11;
  const std::int64_t columns = 70;
  std::vector<float> dy(static_cast<std::size_t>(rows * columns));
  for (std::size_t i = 0; i < dy.size(); ++i)
    dy[i] = std::ldexp(static_cast<float>(i % 13) - 6.3F, static_cast<int>(i % 50));
  BinaryParamDescriptor d;
  d.kind = BinaryKind::AddScaled;
  d.shape = {rows, columns};
  d.param = 3.0;
  d.b_shape = Shape{};
  float db = 0;
  backward(d, {view(dy, {rows, columns}), std::nullopt, std::nullopt, std::nullopt, std::nullopt,
               TensorMut<float, 0>{std::span<float>(&db, 1), {}, {}, 0}, std::nullopt});
  const double expected = numerics::canonical_sum(rows, [&](std::int64_t r) {
    return numerics::canonical_sum(columns, [&](std::int64_t c) {
      return static_cast<double>(3.0F * dy[static_cast<std::size_t>(r * columns + c)]);
    });
  });
  EXPECT_EQ(db, static_cast<float>(expected));
}

TEST_P(BinaryParam, GradientsOfNothingAreZero) {
  BinaryParamDescriptor d;
  d.shape = {0, 4};
  d.b_shape = Shape{1, 4};
  std::vector<float> db{1, 2, 3, 4};
  AnyTensorRef dy;
  dy.shape = {0, 4};
  backward(d, {dy, std::nullopt, std::nullopt, std::nullopt, std::nullopt, view(db, {1, 4}), std::nullopt});
  EXPECT_EQ(db, (std::vector<float>{0, 0, 0, 0}));
}

TEST_P(BinaryParam, SummedSixteenBitGradientsAreRoundedOnce) {
  // 1 + 2^-9 + 2^-30 is just above the middle between two bf16 values; rounding to f32 first would lose that.
  std::vector<bf16> dy{bf16(1.0F), bf16(0x1p-8F), bf16(0x1p-30F)};
  BinaryParamDescriptor d;
  d.kind = BinaryKind::AddScaled;
  d.shape = {3};
  d.element = ElementKind::Bf16;
  d.a_shape = Shape{1};
  std::vector<bf16> da(1);
  backward(d, {view(dy, {3}), std::nullopt, std::nullopt, std::nullopt, view(da, {1}), std::nullopt, std::nullopt});
  EXPECT_EQ(da[0].bits, bf16(1.0 + 0x1p-8 + 0x1p-30).bits);
  EXPECT_NE(da[0].bits, bf16(static_cast<float>(1.0 + 0x1p-8 + 0x1p-30)).bits);
}

TEST_P(BinaryParam, GradientsMayReplaceTheirInputs) {
  std::vector<float> dy{1, 2, 3};
  std::vector<float> a{1, 1, 1};
  std::vector<float> b{2, 3, 5};
  std::vector<float> w{0.5F, 0.25F, 0.75F};
  BinaryParamDescriptor d;
  d.shape = {3};
  d.weight_shape = Shape{3};
  backward(d, {view(dy, {3}), view(a, {3}), view(b, {3}), view(w, {3}), view(dy, {3}), view(a, {3}), view(w, {3})});
  EXPECT_EQ(dy, (std::vector<float>{0.5F, 1.5F, 0.75F}));
  EXPECT_EQ(a, (std::vector<float>{0.5F, 0.5F, 2.25F}));
  EXPECT_EQ(w, (std::vector<float>{1, 4, 12}));
}

TEST_P(BinaryParam, EveryGradientMayBeAbsent) {
  std::vector<float> dy{1, 2};
  std::vector<float> b{2, 3};
  std::vector<float> w{0.5F, 0.25F};
  std::vector<float> out(2);
  BinaryParamDescriptor d;
  d.shape = {2};
  d.weight_shape = Shape{2};
  d.kind = BinaryKind::AddScaled;
  backward(d, {view(dy, {2}), std::nullopt, view(b, {2}), view(w, {2}), std::nullopt, std::nullopt, view(out, {2})});
  EXPECT_EQ(out, (std::vector<float>{2, 6}));
  backward(d, {view(dy, {2}), std::nullopt, std::nullopt, view(w, {2}), std::nullopt, view(out, {2}), std::nullopt});
  EXPECT_EQ(out, (std::vector<float>{0.5F, 0.5F}));
  backward(d, {view(dy, {2}), std::nullopt, std::nullopt, view(w, {2}), view(out, {2}), std::nullopt, std::nullopt});
  EXPECT_EQ(out, dy);
}

}  // namespace
}  // namespace planck
