// LogCumsumExp wherever its elements are: each way in which kernels add (plain numbers near 0, plain numbers without a
// power of two, scaled numbers) has the reference's bits, and so has each change from one to another.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <vector>

#include "numerics/storage.hpp"
#include "planck/planck.hpp"
#include "testing/op_cases.hpp"

namespace planck::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::numeric_limits<double>::quiet_NaN();

/// A number between -1 and 1.
double noise(std::int64_t i) { return std::sin(12.9898 * static_cast<double>(i % 4099)) * 0.999; }

struct Course {
  const char* name;
  std::function<double(std::int64_t t)> x;  ///< t counts along the axis
};

/// Rows have segments of 4096, columns blocks of 8.
std::vector<Course> courses() {
  const auto in = [](std::int64_t t, std::int64_t begin, std::int64_t end) { return t >= begin && t < end; };
  return {
      {"near 0", [](std::int64_t t) { return 60 * noise(t); }},
      {"the largest that are near", [](std::int64_t t) { return t % 2 == 0 ? 70.0 : -70.0; }},
      {"masked", [](std::int64_t t) { return t % 3 == 0 ? -kInf : noise(t); }},
      {"nothing at first", [](std::int64_t t) { return t < 5000 ? -kInf : noise(t); }},
      {"nothing from 4096 on", [](std::int64_t t) { return t >= 4096 ? -kInf : noise(t); }},
      {"nothing", [](std::int64_t) { return -kInf; }},
      {"far up", [](std::int64_t t) { return 20000 + 300 * noise(t); }},
      {"far down", [](std::int64_t t) { return -20000 + 30 * noise(t); }},
      {"both sides of 704", [](std::int64_t t) { return 704 + 10 * noise(t); }},
      {"rising", [](std::int64_t t) { return 0.2 * static_cast<double>(t) - 700; }},
      {"rising steeply", [](std::int64_t t) { return 3.0 * static_cast<double>(t) - 3000; }},
      {"falling", [](std::int64_t t) { return -0.2 * static_cast<double>(t) + noise(t); }},
      {"falling steeply", [](std::int64_t t) { return 1000 - 2.5 * static_cast<double>(t); }},
      {"up, down, up",
       [=](std::int64_t t) {
         return (in(t, 1000, 4200) ? 3000 : in(t, 4200, 8192) ? -3000 : 0) + noise(t);
       }},
      {"far apart", [](std::int64_t t) { return 3000 * noise(t); }},
      {"beyond all sums", [](std::int64_t t) { return t % 700 == 0 ? 8388608.0 * noise(t) : 1e5; }},
      {"as large as can be", [](std::int64_t t) { return (t % 5 == 0 ? -6e4 : 6e4) + noise(t); }},
      {"infinite from 6000 on", [](std::int64_t t) { return t == 6000 ? kInf : noise(t); }},
      {"no number from 9000 on", [](std::int64_t t) { return t == 5000   ? kInf
                                                             : t == 9000 ? kNan
                                                                         : noise(t); }},
  };
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b, std::size_t& at) {
  for (at = 0; at < a.size(); ++at) {
    const bool nan = std::isnan(scalar::widen<double>(a[at])) && std::isnan(scalar::widen<double>(b[at]));
    if (!nan && std::memcmp(&a[at], &b[at], sizeof(T)) != 0) return false;
  }
  return true;
}

template <class T>
class LogCumsumExp : public testing::Test {
 protected:
  static constexpr std::int64_t kLength = 10007;

  /// One course along the axis; neighbouring columns are a little apart, and some of them far.
  static std::vector<T> values(const Course& course, const Shape& shape, int axis, bool reverse) {
    std::vector<T> x(static_cast<std::size_t>(shape[0] * shape[1]));
    for (std::int64_t i = 0; i < std::ssize(x); ++i) {
      const std::int64_t along = axis == 0 ? i / shape[1] : i % shape[1];
      const std::int64_t other = axis == 0 ? i % shape[1] : i / shape[1];
      const double value = course.x(reverse ? shape[axis] - 1 - along : along);
      x[static_cast<std::size_t>(i)] = scalar::narrow<T>(value + (other % 5 == 4 ? 500.0 : 0.125 * noise(other)));
    }
    return x;
  }

  template <class Op>
  static void run(const PlanPreference& preference, int threads, const ScanDescriptor& d,
                  const typename Op::Args& args) {
    const Stream stream = Stream::cpu(threads);
    const auto plan = Plan<Op>::select(stream, d, preference);
    ASSERT_TRUE(plan) << plan.error().message();
    const WorkspaceBuffer workspace(plan->workspace_size());
    const auto ran = plan->run(stream, workspace, args);
    ASSERT_TRUE(ran) << ran.error().message();
  }

  static void check(const Course& course, const Shape& shape, int axis, bool reverse) {
    const std::vector<T> x = values(course, shape, axis, reverse);
    std::vector<T> dy(x.size());
    for (std::size_t i = 0; i < dy.size(); ++i) dy[i] = scalar::narrow<T>(noise(static_cast<std::int64_t>(3 * i)));
    const auto in = [&](const std::vector<T>& v) { return AnyTensorRef::contiguous(v.data(), element_of<T>, shape); };
    const auto out = [&](std::vector<T>& v) { return AnyTensorMut::contiguous(v.data(), element_of<T>, shape); };
    const ScanDescriptor d{.kind = ScanKind::LogCumsumExp,
                           .input_shape = shape,
                           .scan_axis = axis,
                           .reverse = reverse,
                           .element = element_of<T>};
    std::vector<T> y(x.size());
    std::vector<T> dx(x.size());
    const PlanPreference reference{.prefer_backend = BackendKind::Reference};
    run<ScanOp>(reference, 1, d, {in(x), out(y), {}});
    run<ScanBackwardOp>(reference, 1, d, {in(dy), out(dx), in(x), in(y), {}});
    for (const ArchSku arch : archs_here()) {
      for (const int threads : {1, 3}) {
        std::vector<T> got(x.size());
        std::size_t at = 0;
        run<ScanOp>({.prefer_arch = arch}, threads, d, {in(x), out(got), {}});
        ASSERT_TRUE(same(y, got, at)) << course.name << " at " << at << " on " << to_string(arch);
        run<ScanBackwardOp>({.prefer_arch = arch}, threads, d, {in(dy), out(got), in(x), in(y), {}});
        ASSERT_TRUE(same(dx, got, at)) << course.name << ", gradient at " << at << " on " << to_string(arch);
      }
    }
  }
};
using Elements = testing::Types<float, double, f16, bf16>;
TYPED_TEST_SUITE(LogCumsumExp, Elements);

TYPED_TEST(LogCumsumExp, RowsOfEveryCourse) {
  for (const Course& course : courses()) this->check(course, {2, this->kLength}, 1, false);
}
TYPED_TEST(LogCumsumExp, RowsInReverse) {
  for (const Course& course : courses()) this->check(course, {2, this->kLength}, 1, true);
}
TYPED_TEST(LogCumsumExp, ColumnsOfEveryCourse) {
  for (const Course& course : courses()) this->check(course, {1100, 37}, 0, false);
}

/// Against long double, whose exponents reach far enough for all of these.
TEST(LogCumsumExpF32, ValuesAreRightWhereverTheyAre) {
  for (const Course& course : courses()) {
    std::vector<float> x(9001);
    for (std::int64_t t = 0; t < std::ssize(x); ++t) x[static_cast<std::size_t>(t)] = static_cast<float>(course.x(t));
    std::vector<float> y(x.size());
    const Stream stream = Stream::cpu();
    const auto plan = ScanPlan<float>::select(stream, {.kind = ScanKind::LogCumsumExp, .input_shape = {9001}});
    ASSERT_TRUE(plan && plan->run(stream, WorkspaceBuffer(plan->workspace_size()), {.x = view(x), .y = view(y)}));
    long double largest = -kInf;
    long double sum = 0;  // of e^(x - largest)
    for (std::size_t t = 0; t < x.size(); ++t) {
      const long double next = x[t];
      if (std::isnan(x[t]) || largest == kInf) break;
      if (next > largest) {
        sum = largest == -kInf ? 0 : sum * std::exp(largest - next);
        largest = next;
      }
      if (largest == -kInf) {
        ASSERT_EQ(y[t], -kInf) << course.name;
        continue;
      }
      if (largest == kInf) {
        ASSERT_EQ(y[t], kInf) << course.name;
        continue;
      }
      sum += next == -kInf ? 0 : std::exp(next - largest);
      const long double exact = largest + std::log(sum);
      const long double bound = 4 * 0x1p-24L * std::max({1.0L, std::abs(exact), std::abs(largest)});
      ASSERT_LE(std::abs(y[t] - exact), bound) << course.name << " at " << t;
    }
  }
}

/// The first element is itself, whatever it is.
TEST(LogCumsumExpF32, OneElementIsItself) {
  for (const float x : {-0.0F, 0.1F, 3.3e38F, -3.3e38F, 1e-40F, std::numeric_limits<float>::infinity()}) {
    for (const Shape& shape : {Shape{1}, Shape{1, 40}}) {
      const std::vector<float> xs(static_cast<std::size_t>(shape.rank() == 1 ? 1 : 40), x);
      std::vector<float> y(xs.size());
      const Stream stream = Stream::cpu();
      const auto plan = ScanPlan<float>::select(stream, {.kind = ScanKind::LogCumsumExp, .input_shape = shape});
      ASSERT_TRUE(plan);
      ASSERT_TRUE(plan->run(stream, {AnyTensorRef::contiguous(xs.data(), ElementKind::F32, shape),
                                     AnyTensorMut::contiguous(y.data(), ElementKind::F32, shape),
                                     {}}));
      for (const float value : y) EXPECT_EQ(std::memcmp(&value, &x, sizeof x), 0) << value << " " << x;
    }
  }
}

}  // namespace
}  // namespace planck::test
