// Scans by hand: small tensors whose results anyone can check, the reference and the vector kernels alike.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "planck/planck.hpp"

namespace planck::test {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
const float kNan = std::numeric_limits<float>::quiet_NaN();

class Scans : public testing::TestWithParam<BackendKind> {
 protected:
  PlanPreference preference() const {
    PlanPreference p;
    p.prefer_backend = GetParam();
    return p;
  }

  template <class T>
  std::vector<T> scan(const std::vector<T>& x, ScanDescriptor d) const {
    const auto n = static_cast<std::int64_t>(x.size());
    if (d.input_shape.rank() == 0) d.input_shape = {n};
    d.element = element_of<T>;
    std::vector<T> y(x.size());
    run(d, x, y, nullptr);
    return y;
  }

  struct Winners {
    std::vector<float> values;
    std::vector<std::int64_t> indices;
  };
  Winners winners(const std::vector<float>& x, ScanDescriptor d) const {
    d.input_shape = {static_cast<std::int64_t>(x.size())};
    d.index_element = ElementKind::S64;
    Winners w{std::vector<float>(x.size()), std::vector<std::int64_t>(x.size())};
    run(d, x, w.values, &w.indices);
    return w;
  }

  std::vector<float> recurrence(const std::vector<float>& a, const std::vector<float>& b, bool reverse,
                                const std::vector<float>& initial = {}) const {
    const auto n = static_cast<std::int64_t>(a.size());
    LinearRecurrenceDescriptor d{{n}, 0, reverse, ElementKind::F32, !initial.empty()};
    const auto plan = LinearRecurrencePlan<float>::select(Stream::cpu(), d, preference());
    EXPECT_TRUE(plan) << plan.error().message();
    std::vector<float> h(a.size());
    std::optional<AnyTensorRef> start;
    if (d.initial) start = TensorRef<float, 1>::contiguous(initial, {1});
    std::vector<std::byte> workspace(plan->workspace_size());
    const auto result = plan->run(Stream::cpu(), Workspace::of(workspace),
                                  {TensorRef<float, 1>::contiguous(a, {n}), TensorRef<float, 1>::contiguous(b, {n}),
                                   start, TensorMut<float, 1>::contiguous(h, {n})});
    EXPECT_TRUE(result) << result.error().message();
    return h;
  }

 private:
  template <class T>
  void run(const ScanDescriptor& d, const std::vector<T>& x, std::vector<T>& y,
           std::vector<std::int64_t>* indices) const {
    const auto plan = ScanPlan<>::select(Stream::cpu(), d, preference());
    ASSERT_TRUE(plan) << plan.error().message();
    const auto stride = row_major_strides(d.input_shape);
    const auto n = static_cast<std::int64_t>(x.size());
    std::optional<AnyTensorMut> positions;
    if (indices != nullptr) positions = AnyTensorMut{indices->data(), n, 0, ElementKind::S64, d.input_shape, stride};
    std::vector<std::byte> workspace(plan->workspace_size());
    const auto result = plan->run(Stream::cpu(), Workspace::of(workspace),
                                  {{x.data(), n, 0, d.element, d.input_shape, stride},
                                   {y.data(), n, 0, d.element, d.input_shape, stride},
                                   positions});
    ASSERT_TRUE(result) << result.error().message();
  }
};

ScanDescriptor of(ScanKind kind, bool reverse = false, bool exclusive = false) {
  ScanDescriptor d;
  d.kind = kind;
  d.reverse = reverse;
  d.exclusive = exclusive;
  return d;
}

TEST_P(Scans, SumsInBothDirectionsWithAndWithoutTheElementItself) {
  const std::vector<float> x = {1, 2, 3, 4};
  EXPECT_EQ(scan(x, of(ScanKind::Cumsum)), (std::vector<float>{1, 3, 6, 10}));
  EXPECT_EQ(scan(x, of(ScanKind::Cumsum, true)), (std::vector<float>{10, 9, 7, 4}));
  EXPECT_EQ(scan(x, of(ScanKind::Cumsum, false, true)), (std::vector<float>{0, 1, 3, 6}));
  EXPECT_EQ(scan(x, of(ScanKind::Cumsum, true, true)), (std::vector<float>{9, 7, 4, 0}));
  EXPECT_EQ(scan(x, of(ScanKind::Cumprod)), (std::vector<float>{1, 2, 6, 24}));
  EXPECT_EQ(scan(x, of(ScanKind::Cumprod, true, true)), (std::vector<float>{24, 12, 4, 1}));
}

TEST_P(Scans, AnyAxisCountedFromEitherEnd) {
  ScanDescriptor d = of(ScanKind::Cumsum);
  d.input_shape = {2, 3, 2};
  std::vector<float> x(12);
  std::iota(x.begin(), x.end(), 0.0F);
  d.scan_axis = 1;
  EXPECT_EQ(scan(x, d), (std::vector<float>{0, 1, 2, 4, 6, 9, 6, 7, 14, 16, 24, 27}));
  d.scan_axis = -2;
  EXPECT_EQ(scan(x, d), (std::vector<float>{0, 1, 2, 4, 6, 9, 6, 7, 14, 16, 24, 27}));
  d.scan_axis = 0;
  EXPECT_EQ(scan(x, d), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 16}));
}

TEST_P(Scans, SumsAreHeldInF64) {
  // In f32 the small ones would be lost, and partial sums of bf16 ones would stop at 256.
  EXPECT_EQ(scan<float>({1e8F, 1, -1e8F, 1}, of(ScanKind::Cumsum)), (std::vector<float>{1e8F, 1e8F, 1, 2}));
  EXPECT_EQ(scan<float>({3e38F, 3e38F, -3e38F}, of(ScanKind::Cumsum)), (std::vector<float>{3e38F, kInf, 3e38F}));
  const std::vector<bf16> ones(5000, bf16(1.0F));
  const std::vector<bf16> y = scan(ones, of(ScanKind::Cumsum));
  EXPECT_EQ(y[4999].bits, bf16(5000.0F).bits);
}

TEST_P(Scans, IntegersWrap) {
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t kWide = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(scan<std::int32_t>({kMax, 1, 1}, of(ScanKind::Cumsum)),
            (std::vector<std::int32_t>{kMax, -kMax - 1, -kMax}));
  EXPECT_EQ(scan<std::int64_t>({kWide, 2}, of(ScanKind::Cumprod)), (std::vector<std::int64_t>{kWide, -2}));
  EXPECT_EQ(scan<std::int64_t>({-5, kWide, 3}, of(ScanKind::Cummax)), (std::vector<std::int64_t>{-5, kWide, kWide}));
  EXPECT_EQ(scan<std::int32_t>({3, -2, -1}, of(ScanKind::Cummin)), (std::vector<std::int32_t>{3, -2, -2}));
}

TEST_P(Scans, MaximaPointToTheFirstOrTheLastOfEquals) {
  const std::vector<float> x = {1, 3, 3, 2, 3};
  ScanDescriptor d = of(ScanKind::Cummax);
  EXPECT_EQ(winners(x, d).values, (std::vector<float>{1, 3, 3, 3, 3}));
  EXPECT_EQ(winners(x, d).indices, (std::vector<std::int64_t>{0, 1, 1, 1, 1}));
  d.ties = ScanTies::Last;
  EXPECT_EQ(winners(x, d).indices, (std::vector<std::int64_t>{0, 1, 2, 2, 4}));
  d.reverse = true;
  EXPECT_EQ(winners(x, d).indices, (std::vector<std::int64_t>{1, 1, 2, 4, 4}));
  d.ties = ScanTies::First;
  EXPECT_EQ(winners(x, d).indices, (std::vector<std::int64_t>{4, 4, 4, 4, 4}));
}

TEST_P(Scans, NanStaysTheExtremumAndNansAreEqual) {
  ScanDescriptor d = of(ScanKind::Cummin);
  const Winners first = winners({2, kNan, 1, kNan}, d);
  EXPECT_EQ(first.indices, (std::vector<std::int64_t>{0, 1, 1, 1}));
  EXPECT_EQ(first.values[0], 2);
  EXPECT_TRUE(std::isnan(first.values[2]));
  d.ties = ScanTies::Last;
  EXPECT_EQ(winners({2, kNan, 1, kNan}, d).indices, (std::vector<std::int64_t>{0, 1, 1, 3}));
}

TEST_P(Scans, AllInfinitePrefixesHaveAWinnerAndZerosKeepTheirSign) {
  const Winners w = winners({-kInf, -kInf, -1}, of(ScanKind::Cummax));
  EXPECT_EQ(w.indices, (std::vector<std::int64_t>{0, 0, 2}));
  EXPECT_EQ(w.values, (std::vector<float>{-kInf, -kInf, -1}));
  const Winners zeros = winners({-0.0F, 0.0F}, of(ScanKind::Cummax));
  EXPECT_TRUE(std::signbit(zeros.values[1]));
  EXPECT_EQ(zeros.indices[1], 0);
}

TEST_P(Scans, LogSumExpOfInfinitiesAndWideRanges) {
  const auto y = scan<float>({-kInf, -kInf, 0, 0, 1000, -1000, kInf, 5}, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(y[0], -kInf);
  EXPECT_EQ(y[1], -kInf);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], std::log(2.0F));
  EXPECT_EQ(y[4], 1000);
  EXPECT_EQ(y[5], 1000);
  EXPECT_EQ(y[6], kInf);
  EXPECT_EQ(y[7], kInf);
  const auto nan = scan<float>({1, kNan, kInf}, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(nan[0], 1);
  EXPECT_TRUE(std::isnan(nan[1]) && std::isnan(nan[2]));
  const auto before = scan<float>({1, 2}, of(ScanKind::LogCumsumExp, false, true));
  EXPECT_EQ(before, (std::vector<float>{-kInf, 1}));
}

TEST_P(Scans, LogSumExpErrorDoesNotGrow) {
  // 2^18 zeros sum to log(n) exactly rounded, or next to it.
  const auto y = scan(std::vector<float>(1 << 18, 0.0F), of(ScanKind::LogCumsumExp));
  for (std::size_t i = 0; i < y.size(); i += 4097) {
    const double exact = std::log(static_cast<double>(i + 1));
    EXPECT_NEAR(y[i], exact, 4 * 0x1p-24 * std::max(1.0, exact)) << i;
  }
}

TEST_P(Scans, AProductThatLeavesF64AfterAZeroIsNan) {
  // A block of eight overflows on its own; the zero before it then gives 0 * infinity. A loop would give 0.
  std::vector<double> x(16, 1e30);
  x[0] = 0;
  EXPECT_EQ(scan(x, of(ScanKind::Cumprod))[15], 0);
  std::fill(x.begin() + 1, x.end(), 1e60);
  EXPECT_TRUE(std::isnan(scan(x, of(ScanKind::Cumprod))[15]));
}

TEST_P(Scans, LinearRecurrences) {
  EXPECT_EQ(recurrence({2, 3, 4}, {1, 1, 1}, false), (std::vector<float>{1, 4, 17}));
  EXPECT_EQ(recurrence({2, 3, 4}, {1, 1, 1}, true), (std::vector<float>{9, 4, 1}));
  EXPECT_EQ(recurrence({2, 3, 4}, {1, 1, 1}, false, {10}), (std::vector<float>{21, 64, 257}));
  // Nothing comes before the first element: not even 0 times an infinity.
  EXPECT_EQ(recurrence({kInf, 2}, {1, 1}, false), (std::vector<float>{1, 3}));
}

TEST_P(Scans, InPlaceAlsoWithoutTheElementItself) {
  std::vector<float> x = {1, 2, 3, 4};
  const auto plan = ScanPlan<float>::select(
      Stream::cpu(),
      [] {
        ScanDescriptor d = of(ScanKind::Cumsum, false, true);
        d.input_shape = {4};
        return d;
      }(),
      preference());
  const auto view = TensorMut<float, 1>::contiguous(x, {4});
  ASSERT_TRUE(plan->run(Stream::cpu(), Workspace::none(), {view, view, {}}));
  EXPECT_EQ(x, (std::vector<float>{0, 1, 3, 6}));
}

INSTANTIATE_TEST_SUITE_P(Backends, Scans, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

}  // namespace
}  // namespace planck::test
