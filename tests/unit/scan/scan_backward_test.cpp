// Gradients of scans: finite differences in f64 for every kind, and by hand where differences cannot go: zeros,
// infinities, ties, in place.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planck/planck.hpp"

namespace planck::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

template <class T>
AnyTensorMut view(const std::vector<T>& values, const Shape& shape) {
  const auto n = static_cast<std::int64_t>(values.size());
  return {const_cast<T*>(values.data()), n, 0, element_of<T>, shape, row_major_strides(shape)};
}

template <class Op>
void run(const PlanPreference& preference, const typename Op::Descriptor& d, const typename Op::Args& args) {
  const auto plan = Plan<Op>::select(Stream::cpu(), d, preference);
  ASSERT_TRUE(plan) << plan.error().message();
  std::vector<std::byte> workspace(plan->workspace_size());
  const auto result = plan->run(Stream::cpu(), Workspace::of(workspace), args);
  ASSERT_TRUE(result) << result.error().message();
}

class ScanGradients : public testing::TestWithParam<BackendKind> {
 protected:
  PlanPreference preference() const {
    PlanPreference p;
    p.prefer_backend = GetParam();
    return p;
  }

  template <class T>
  std::vector<T> forward(const std::vector<T>& x, const ScanDescriptor& d) const {
    std::vector<T> y(x.size());
    ScanDescriptor plain = d;
    plain.index_element.reset();
    run<ScanOp>(preference(), plain, {view(x, d.input_shape), view(y, d.input_shape), {}});
    return y;
  }
  template <class T>
  std::vector<T> backward(const std::vector<T>& x, const std::vector<T>& dy, ScanDescriptor d) const {
    if (d.input_shape.rank() == 0) d.input_shape = {static_cast<std::int64_t>(x.size())};
    d.element = element_of<T>;
    const std::vector<T> y = forward(x, d);
    std::vector<T> dx(x.size());
    run<ScanBackwardOp>(
        preference(), d,
        {view(dy, d.input_shape), view(dx, d.input_shape), view(x, d.input_shape), view(y, d.input_shape), {}});
    return dx;
  }
};

ScanDescriptor of(ScanKind kind, bool reverse = false, bool exclusive = false) {
  ScanDescriptor d;
  d.kind = kind;
  d.reverse = reverse;
  d.exclusive = exclusive;
  d.element = ElementKind::F64;
  return d;
}

std::vector<double> wave(std::size_t n, double offset) {
  std::vector<double> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = std::sin(1.7 * static_cast<double>(i) + offset) + 0.1 * offset;
  return values;
}

TEST_P(ScanGradients, AgreeWithDifferences) {
  const Shape shape{3, 19, 2};
  const std::vector<double> x = wave(3 * 19 * 2, 0.4);
  const std::vector<double> dy = wave(x.size(), 2.5);
  for (const ScanKind kind :
       {ScanKind::Cumsum, ScanKind::Cumprod, ScanKind::Cummax, ScanKind::Cummin, ScanKind::LogCumsumExp}) {
    const bool extremum = kind == ScanKind::Cummax || kind == ScanKind::Cummin;
    for (const bool reverse : {false, true}) {
      for (const bool exclusive : {false, true}) {
        if (extremum && exclusive) continue;
        ScanDescriptor d = of(kind, reverse, exclusive);
        d.input_shape = shape;
        d.scan_axis = 1;
        SCOPED_TRACE(testing::Message() << to_string(kind) << " reverse " << reverse << " exclusive " << exclusive);
        const std::vector<double> dx = backward(x, dy, d);
        // Where log-sum-exp starts from nothing its value is -Inf and has no slope; weights of 0 would give NaN.
        const auto loss = [&](const std::vector<double>& at) {
          const std::vector<double> y = forward(at, d);
          double sum = 0;
          for (std::size_t i = 0; i < y.size(); ++i) sum += std::isinf(y[i]) ? 0 : dy[i] * y[i];
          return sum;
        };
        for (std::size_t i = 0; i < x.size(); i += 5) {
          std::vector<double> moved = x;
          constexpr double kStep = 1e-6;
          moved[i] = x[i] + kStep;
          const double above = loss(moved);
          moved[i] = x[i] - kStep;
          const double slope = (above - loss(moved)) / (2 * kStep);
          EXPECT_NEAR(dx[i], slope, 1e-7 * std::max(1.0, std::fabs(slope))) << i;
        }
      }
    }
  }
}

TEST_P(ScanGradients, OfProductsAreExactAtZeros) {
  const std::vector<double> ones(4, 1.0);
  EXPECT_EQ(backward<double>({2, 3, 4, 5}, ones, of(ScanKind::Cumprod)),
            (std::vector<double>{1 + 3 + 12 + 60, 2 + 8 + 40, 6 + 30, 24}));
  EXPECT_EQ(backward<double>({2, 0, 4, 5}, ones, of(ScanKind::Cumprod)), (std::vector<double>{1, 2 + 8 + 40, 0, 0}));
  EXPECT_EQ(backward<double>({2, 0, 0, 5}, ones, of(ScanKind::Cumprod)), (std::vector<double>{1, 2, 0, 0}));
  EXPECT_EQ(backward<double>({0, 3, 0, 5}, ones, of(ScanKind::Cumprod)), (std::vector<double>{1 + 3, 0, 0, 0}));
  EXPECT_EQ(backward<double>({0, 0, 0, 0}, ones, of(ScanKind::Cumprod)), (std::vector<double>{1, 0, 0, 0}));
}

TEST_P(ScanGradients, OfProductsThatLeaveF32InTheMiddle) {
  std::vector<float> x(280, 0.5F);
  std::fill(x.begin() + 140, x.end(), 2.0F);
  std::vector<float> dy(x.size(), 0.0F);
  dy.back() = 1;
  // The whole product is 1, so each gradient is the others' product: 1 / x.
  const std::vector<float> dx = backward(x, dy, of(ScanKind::Cumprod));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(dx[i], 1 / x[i]) << i;
  std::vector<float> tens(101, 10.0F);
  tens[0] = 0;
  std::vector<float> last(tens.size(), 0.0F);
  last[30] = 1;
  EXPECT_EQ(backward(tens, last, of(ScanKind::Cumprod))[0], 1e30F);
}

TEST_P(ScanGradients, OfExtremaGoToTheWinner) {
  const std::vector<double> x = {1, 3, 3, 2, 5};
  const std::vector<double> dy = {1, 10, 100, 1000, 10000};
  ScanDescriptor d = of(ScanKind::Cummax);
  EXPECT_EQ(backward(x, dy, d), (std::vector<double>{1, 1110, 0, 0, 10000}));
  d.ties = ScanTies::Last;
  EXPECT_EQ(backward(x, dy, d), (std::vector<double>{1, 10, 1100, 0, 10000}));
  d.reverse = true;
  EXPECT_EQ(backward(x, dy, d), (std::vector<double>{0, 0, 0, 0, 11111}));
  d = of(ScanKind::Cummin);
  EXPECT_EQ(backward<double>({1, kNan, 0, kNan}, {1, 10, 100, 1000}, d), (std::vector<double>{1, 1110, 0, 0}));
  EXPECT_EQ(backward<double>({kInf, kInf, kInf}, {1, 10, 100}, d), (std::vector<double>{111, 0, 0}));
}

TEST_P(ScanGradients, OfExtremaFromSavedIndicesAreTheSame) {
  ScanDescriptor d = of(ScanKind::Cummax, true);
  d.input_shape = {2, 50, 3};
  d.scan_axis = 1;
  d.ties = ScanTies::Last;
  std::vector<double> x = wave(300, 0.3);
  for (double& v : x) v = std::round(v * 4);
  const std::vector<double> dy = wave(300, 1.1);
  const std::vector<double> expected = backward(x, dy, d);
  for (const ElementKind kind : {ElementKind::S32, ElementKind::S64}) {
    d.index_element = kind;
    std::vector<double> y(x.size());
    std::vector<std::int64_t> memory(x.size());
    AnyTensorMut indices = view(memory, d.input_shape);
    indices.element = kind;
    run<ScanOp>(preference(), d, {view(x, d.input_shape), view(y, d.input_shape), indices});
    std::vector<double> dx(x.size());
    run<ScanBackwardOp>(preference(), d, {view(dy, d.input_shape), view(dx, d.input_shape), {}, {}, indices});
    EXPECT_EQ(dx, expected);
  }
}

TEST_P(ScanGradients, OfLogSumExpAtInfinities) {
  const std::vector<double> ones(4, 1.0);
  const auto from_nothing = backward<double>({-kInf, -kInf, 0, 0}, ones, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(from_nothing, (std::vector<double>{0, 0, 1 + 0.5, 0.5}));
  const auto to_infinity = backward<double>({0, kInf, 1, 2}, ones, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(to_infinity, (std::vector<double>{1, 3, 0, 0}));
  // Where y is +Inf, dy belongs to the x that are +Inf alone.
  const auto apart = backward<double>({0, kInf, 1, kInf}, {1, kNan, 5, 2}, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(apart[0], 1);
  EXPECT_TRUE(std::isnan(apart[1]));
  EXPECT_EQ(apart[2], 0);
  EXPECT_EQ(apart[3], 2);
  const auto wide = backward<double>({0, 1000, -1000, 0}, ones, of(ScanKind::LogCumsumExp));
  EXPECT_EQ(wide, (std::vector<double>{1, 3, 0, 0}));
}

TEST_P(ScanGradients, OfSixteenBitLogSumExpFindYAgain) {
  // bf16 has 8 bits: with y as stored, weights would be off by up to 2^-8 * |y|.
  std::vector<bf16> x(300);
  std::vector<bf16> dy(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    x[i] = bf16(static_cast<float>(40 + std::sin(static_cast<double>(i))));
    dy[i] = bf16(0.0F);
  }
  dy.back() = bf16(1.0F);
  const auto dx = backward(x, dy, of(ScanKind::LogCumsumExp));
  double total = 0;
  for (const bf16 v : dx) total += static_cast<double>(static_cast<float>(v));
  EXPECT_NEAR(total, 1.0, 0.004);  // a softmax sums to 1
}

TEST_P(ScanGradients, OverwriteWhatTheyAreMadeOf) {
  for (const ScanKind kind : {ScanKind::Cumsum, ScanKind::Cumprod, ScanKind::Cummax, ScanKind::LogCumsumExp}) {
    for (const bool exclusive : {false, true}) {
      if (exclusive && kind == ScanKind::Cummax) continue;
      for (const std::int64_t n : {1, 2, 30, 5000}) {
        SCOPED_TRACE(testing::Message() << to_string(kind) << (exclusive ? " exclusive" : "") << " of " << n);
        ScanDescriptor d = of(kind, false, exclusive);
        d.input_shape = {n};
        const auto size = static_cast<std::size_t>(n);
        std::vector<double> x = wave(size, 0.2);
        for (double& v : x) v = v < 0 ? v - 0.4 : v + 0.4;  // products stay in range
        const std::vector<double> dy = wave(size, 1.3);
        const std::vector<double> y = forward(x, d);
        const std::vector<double> expected = backward(x, dy, d);
        for (int which = 0; which < 3; ++which) {
          std::vector<double> t[] = {dy, x, y};
          run<ScanBackwardOp>(preference(), d,
                              {view(t[0], {n}), view(t[which], {n}), view(t[1], {n}), view(t[2], {n}), {}});
          EXPECT_EQ(t[which], expected) << "over " << which;
        }
        // All of them one tensor: inputs may overlap each other at will.
        std::vector<double> apart(size);
        run<ScanBackwardOp>(preference(), d, {view(x, {n}), view(apart, {n}), view(x, {n}), view(x, {n}), {}});
        run<ScanBackwardOp>(preference(), d, {view(x, {n}), view(x, {n}), view(x, {n}), view(x, {n}), {}});
        EXPECT_EQ(x, apart);
      }
    }
  }
}

TEST_P(ScanGradients, OfLinearRecurrencesOverwriteWhatTheyAreMadeOf) {
  for (const std::int64_t n : {1, 30, 64, 5000, 100003}) {
    const LinearRecurrenceDescriptor d{{n}, 0, false, ElementKind::F64, false};
    const auto size = static_cast<std::size_t>(n);
    const std::vector<double> dh = wave(size, 0.5);
    const std::vector<double> a = wave(size, 0.1);
    const std::vector<double> h = wave(size, 0.9);
    std::vector<double> da(size), db(size);
    run<LinearRecurrenceBackwardOp>(preference(), d,
                                    {view(dh, {n}), view(a, {n}), view(h, {n}), {}, view(da, {n}), view(db, {n}), {}});
    for (int which = 0; which < 3; ++which) {
      std::vector<double> t[] = {dh, a, h};
      std::vector<double> other(size);
      run<LinearRecurrenceBackwardOp>(
          preference(), d,
          {view(t[0], {n}), view(t[1], {n}), view(t[2], {n}), {}, view(t[which], {n}), view(other, {n}), {}});
      EXPECT_EQ(t[which], da) << "da over " << which << " of " << n;
      std::vector<double> u[] = {dh, a, h};
      run<LinearRecurrenceBackwardOp>(
          preference(), d,
          {view(u[0], {n}), view(u[1], {n}), view(u[2], {n}), {}, view(other, {n}), view(u[which], {n}), {}});
      EXPECT_EQ(u[which], db) << "db over " << which << " of " << n;
    }
  }
}

TEST_P(ScanGradients, OfLinearRecurrencesAgreeWithDifferences) {
  const Shape shape{2, 17};
  const Shape start_shape{2, 1};
  const std::vector<double> a = wave(34, 0.7);
  const std::vector<double> b = wave(34, 1.9);
  const std::vector<double> start = {0.8, -0.3};
  const std::vector<double> dh = wave(34, 3.1);
  for (const bool reverse : {false, true}) {
    LinearRecurrenceDescriptor d{shape, 1, reverse, ElementKind::F64, true};
    const auto states = [&](const std::vector<double>& a_at, const std::vector<double>& b_at,
                            const std::vector<double>& start_at) {
      std::vector<double> h(a.size());
      run<LinearRecurrenceOp>(preference(), d,
                              {view(a_at, shape), view(b_at, shape), view(start_at, start_shape), view(h, shape)});
      return h;
    };
    const std::vector<double> h = states(a, b, start);
    std::vector<double> gradient[] = {std::vector<double>(34), std::vector<double>(34), std::vector<double>(2)};
    run<LinearRecurrenceBackwardOp>(
        preference(), d,
        {view(dh, shape), view(a, shape), view(h, shape), view(start, start_shape), view(gradient[0], shape),
         view(gradient[1], shape), view(gradient[2], start_shape)});
    for (int which = 0; which < 3; ++which) {
      for (std::size_t i = 0; i < gradient[which].size(); i += 3) {
        double loss[2];
        for (int side = 0; side < 2; ++side) {
          std::vector<double> inputs[] = {a, b, start};
          inputs[which][i] += side == 0 ? 1e-6 : -1e-6;
          const auto moved = states(inputs[0], inputs[1], inputs[2]);
          loss[side] = 0;
          for (std::size_t k = 0; k < moved.size(); ++k) loss[side] += dh[k] * moved[k];
        }
        EXPECT_NEAR(gradient[which][i], (loss[0] - loss[1]) / 2e-6, 1e-7)
            << which << " at " << i << " reverse " << reverse;
      }
    }
  }
}

TEST_P(ScanGradients, OfLinearRecurrencesAreTheSameAloneAndTogether) {
  for (const Shape& shape : {Shape{2, 17}, Shape{3, 128}, Shape{1, 4096}, Shape{1, 100003}}) {
    const Shape start_shape{shape[0], 1};
    const auto size = static_cast<std::size_t>(shape[0] * shape[1]);
    const auto rows = static_cast<std::size_t>(shape[0]);
    const std::vector<double> dh = wave(size, 0.5);
    const std::vector<double> a = wave(size, 0.1);
    const std::vector<double> h = wave(size, 0.9);
    const std::vector<double> start = wave(rows, 0.3);
    for (const bool initial : {false, true}) {
      const LinearRecurrenceDescriptor d{shape, 1, false, ElementKind::F64, initial};
      LinearRecurrenceBackwardArgs args{view(dh, shape), view(a, shape), view(h, shape), {}, {}, {}, {}};
      if (initial) args.initial = view(start, start_shape);
      std::vector<double> together[] = {std::vector<double>(size), std::vector<double>(size),
                                        std::vector<double>(rows)};
      LinearRecurrenceBackwardArgs all = args;
      all.da = view(together[0], shape);
      all.db = view(together[1], shape);
      if (initial) all.d_initial = view(together[2], start_shape);
      run<LinearRecurrenceBackwardOp>(preference(), d, all);
      for (int which = 0; which < (initial ? 3 : 2); ++which) {
        std::vector<double> alone(together[which].size(), -7.0);
        LinearRecurrenceBackwardArgs one = args;
        std::optional<AnyTensorMut>& wanted = which == 0 ? one.da : which == 1 ? one.db : one.d_initial;
        wanted = view(alone, which == 2 ? start_shape : shape);
        run<LinearRecurrenceBackwardOp>(preference(), d, one);
        EXPECT_EQ(alone, together[which]) << which << ", rows of " << shape[1] << ", initial " << initial;
      }
    }
  }
}

TEST_P(ScanGradients, WithoutAnInitialStateNothingDependsOnTheFirstFactor) {
  const std::vector<double> a = {kInf, 2};
  const std::vector<double> h = {1, 3};
  const std::vector<double> dh = {1, 1};
  std::vector<double> da(2);
  std::vector<double> db(2);
  run<LinearRecurrenceBackwardOp>(preference(), {{2}, 0, false, ElementKind::F64, false},
                                  {view(dh, {2}), view(a, {2}), view(h, {2}), {}, view(da, {2}), view(db, {2}), {}});
  EXPECT_EQ(da, (std::vector<double>{0, 1}));
  EXPECT_EQ(db, (std::vector<double>{3, 1}));
}

TEST_P(ScanGradients, LongLanesNeedNoWorkspaceToBeRight) {
  const std::int64_t n = 10000;
  ScanDescriptor d = of(ScanKind::Cumprod);
  d.input_shape = {n};
  std::vector<double> x(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1.25 : 0.8;
  const std::vector<double> dy = wave(x.size(), 0.5);
  const std::vector<double> expected = backward(x, dy, d);
  PlanPreference none = preference();
  none.max_workspace_bytes = 0;
  std::vector<double> dx(x.size());
  run<ScanBackwardOp>(none, d, {view(dy, {n}), view(dx, {n}), view(x, {n}), {}, {}});
  EXPECT_EQ(dx, expected);
}

INSTANTIATE_TEST_SUITE_P(Backends, ScanGradients, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

}  // namespace
}  // namespace planck::test
