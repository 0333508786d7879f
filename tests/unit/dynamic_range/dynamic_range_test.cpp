// What dynamic-range quantisation means, value by value from docs/ops/dynamic_quantize.md, for the reference and for
// the best kernel of this machine; and that neither threads nor workspace change a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "planck/planck.hpp"
#include "testing/thread_executor.hpp"

namespace planck {
namespace {

using Descriptor = DynamicRangeQuantizeDescriptor;
using Numbers = std::vector<double>;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr auto kSymmetric = DynamicRangeMode::Symmetric;
constexpr auto kAsymmetric = DynamicRangeMode::Asymmetric;

template <class T>
AnyTensorMut whole(std::vector<T>& data, const Shape& shape) {
  return {data.data(), static_cast<std::int64_t>(data.size()), 0, element_of<T>, shape, row_major_strides(shape)};
}

std::size_t numel(const Shape& shape) {
  return static_cast<std::size_t>(std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
}

/// Memory for elements of a kind known at run time only, read as doubles.
class Buffer {
 public:
  Buffer(ElementKind element, const Shape& shape)
      : element_(element), shape_(shape), bytes_(numel(shape) * static_cast<std::size_t>(size_of(element)) + 8) {}

  AnyTensorMut view() {
    std::vector<float> none;
    AnyTensorMut all = whole(none, shape_);
    all.data = bytes_.data();
    all.element = element_;
    all.capacity = static_cast<std::int64_t>(numel(shape_));
    return all;
  }
  Numbers numbers() const {
    Numbers all;
    for (std::size_t i = 0; i < numel(shape_); ++i) all.push_back(number(i));
    return all;
  }

 private:
  template <class T>
  T get(std::size_t i) const {
    T value;
    std::memcpy(&value, bytes_.data() + i * sizeof(T), sizeof(T));
    return value;
  }
  double number(std::size_t i) const {
    switch (element_) {
      case ElementKind::F16:
        return static_cast<float>(get<f16>(i));
      case ElementKind::Bf16:
        return static_cast<float>(get<bf16>(i));
      case ElementKind::F32:
        return get<float>(i);
      case ElementKind::F64:
        return get<double>(i);
      case ElementKind::S8:
        return get<std::int8_t>(i);
      case ElementKind::U8:
        return get<std::uint8_t>(i);
      default:
        return get<std::int32_t>(i);
    }
  }

  ElementKind element_;
  Shape shape_;
  std::vector<std::byte> bytes_;
};

struct Outcome {
  Numbers scale;
  Numbers zero_point;
  Numbers codes;
  Numbers row_sum;
  bool operator==(const Outcome&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Outcome& o) {
  return out << "scale " << testing::PrintToString(o.scale) << " zero point " << testing::PrintToString(o.zero_point)
             << " codes " << testing::PrintToString(o.codes) << " row sum " << testing::PrintToString(o.row_sum);
}

/// One run with every output that `d` allows.
template <class T>
Outcome run(const Descriptor& d, std::vector<T>& x, const PlanPreference& preference,
            const Stream& stream = Stream::cpu()) {
  const Shape segments = qparams_shape(d.shape, d.scope);
  Buffer scale(d.scale_element.value_or(compute_of(d.input_element)), segments);
  Buffer zero_point(ElementKind::S32, segments);
  Buffer row_sum(ElementKind::S32, segments);
  Buffer codes(d.output_element, d.shape);
  const auto plan = DynamicRangeQuantizePlan<>::select(stream, d, preference);
  if (!plan) {
    ADD_FAILURE() << plan.error().message();
    return {};
  }
  std::vector<std::byte> memory(plan->workspace_size());
  DynamicRangeQuantizeArgs args{whole(x, d.shape), scale.view(), codes.view(), zero_point.view(), row_sum.view()};
  if (d.qparams_only) {
    args.output.reset();
    args.row_sum.reset();
  }
  const auto result = plan->run(stream, Workspace::of(memory), args);
  EXPECT_TRUE(result) << result.error().message();
  return {scale.numbers(), zero_point.numbers(), d.qparams_only ? Numbers{} : codes.numbers(),
          d.qparams_only ? Numbers{} : row_sum.numbers()};
}

template <class T = float>
Descriptor make(const Shape& shape, DynamicRangeMode mode, const Granularity& scope,
                ElementKind codes = ElementKind::S8) {
  Descriptor d;
  d.shape = shape;
  d.mode = mode;
  d.scope = scope;
  d.input_element = element_of<T>;
  d.output_element = codes;
  d.q_min = codes == ElementKind::U8 ? 0 : mode == kSymmetric ? -127 : -128;
  d.q_max = codes == ElementKind::U8 ? 255 : 127;
  return d;
}

PlanPreference prefer(BackendKind backend) {
  PlanPreference p;
  p.prefer_backend = backend;
  return p;
}

template <class T>
std::vector<T> drawn(std::size_t n, unsigned seed, double spread = 3.0, double centre = 0.0) {
  std::mt19937_64 bits(seed);
  std::normal_distribution<double> normal(centre, spread);
  std::vector<T> x;
  for (std::size_t i = 0; i < n; ++i) x.push_back(static_cast<T>(static_cast<float>(normal(bits))));
  return x;
}

const std::vector<Granularity>& all_scopes() {
  static const std::vector<Granularity> scopes{PerTensor{},    PerChannel{0},  PerChannel{1},
                                               PerChannel{-1}, PerToken{},     PerGroup{-1, 3},
                                               PerGroup{0, 2}, PerGroup{1, 2}, PerGroup{-2, 100}};
  return scopes;
}

class DynamicRange : public testing::TestWithParam<BackendKind> {
 protected:
  template <class T>
  Outcome dynamic(const Descriptor& d, std::vector<T> x) {
    return run(d, x, prefer(GetParam()));
  }
  /// One segment.
  template <class T = float>
  Outcome tensor(std::vector<T> x, DynamicRangeMode mode, ElementKind codes = ElementKind::S8) {
    return dynamic(make<T>({static_cast<std::int64_t>(x.size())}, mode, PerTensor{}, codes), x);
  }
  template <class T = float>
  Outcome tight(std::vector<T> x, ElementKind codes = ElementKind::S8) {
    auto d = make<T>({static_cast<std::int64_t>(x.size())}, kAsymmetric, PerTensor{}, codes);
    d.zero_in_range = false;
    return dynamic(d, x);
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, DynamicRange, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

// ---- the formulas by hand ----

TEST_P(DynamicRange, SymmetricByHand) {
  // Powers of two make everything exact: m = 254, scale = 2.
  EXPECT_EQ(tensor({254, -254, 1, 3, 5, -3, 0}, kSymmetric), (Outcome{{2}, {0}, {127, -127, 0, 2, 2, -2, 0}, {2}}));
  // The negative side decides too, and u8 clamps what is negative to q_min.
  EXPECT_EQ(tensor({10, -254}, kSymmetric), (Outcome{{2}, {0}, {5, -127}, {-122}}));
  EXPECT_EQ(tensor({255, 3.5F, -7}, kSymmetric, ElementKind::U8), (Outcome{{1}, {0}, {255, 4, 0}, {259}}));
}

TEST_P(DynamicRange, AsymmetricByHand) {
  // lo = -100, hi = 410: scale = 2, zp = -128 + 50.
  EXPECT_EQ(tensor({-100, 410, 0, 1, 3}, kAsymmetric), (Outcome{{2}, {-78}, {-128, 127, -78, -78, -76}, {-233}}));
  EXPECT_EQ(tensor({-100, 410, 0}, kAsymmetric, ElementKind::U8), (Outcome{{2}, {50}, {0, 255, 50}, {305}}));
  // The range is widened to contain 0, from either side.
  EXPECT_EQ(tensor({510, 100}, kAsymmetric, ElementKind::U8), (Outcome{{2}, {0}, {255, 50}, {305}}));
  EXPECT_EQ(tensor({-510, -100}, kAsymmetric, ElementKind::U8), (Outcome{{2}, {255}, {0, 205}, {205}}));
  EXPECT_EQ(tensor({-510, -100}, kAsymmetric), (Outcome{{2}, {127}, {-128, 77}, {-51}}));
}

TEST_P(DynamicRange, TheCodesRangeIsTheDescriptors) {
  auto d = make({3}, kSymmetric, PerTensor{});
  d.q_min = -8;
  d.q_max = 7;
  EXPECT_EQ(dynamic<float>(d, {7, -14, 3}), (Outcome{{2}, {0}, {4, -7, 2}, {-1}}));
  d.q_min = -3;  // what is below clamps
  EXPECT_EQ(dynamic<float>(d, {7, -14, 3}), (Outcome{{2}, {0}, {4, -3, 2}, {3}}));
  d.mode = kAsymmetric;
  d.q_min = -8;
  EXPECT_EQ(dynamic<float>(d, {15, -15, 3}), (Outcome{{2}, {0}, {7, -8, 2}, {1}}));  // 7.5 and -7.5 are ties
}

TEST_P(DynamicRange, F64IsComputedInF64) {
  const double x = 1.0 + 0x1p-40;
  const auto got = tensor<double>({x, 0.25}, kSymmetric);
  EXPECT_EQ(got.scale[0], x / 127.0);
  EXPECT_EQ(got.codes, (Numbers{127, std::nearbyint(0.25 / (x / 127.0))}));
}

// ---- scopes ----

TEST_P(DynamicRange, EveryScopeOfARankThreeTensor) {
  // Shape [2, 2, 3]; scale = max|x| / 1 with codes -1..1.
  const std::vector<float> x{1, -2, 3, 4, 5, -6, 7, 8, 9, -10, 11, 12};
  auto d = make({2, 2, 3}, kSymmetric, PerTensor{});
  d.q_min = -1;
  d.q_max = 1;
  const auto scales = [&](const Granularity& scope) {
    d.scope = scope;
    return dynamic(d, x).scale;
  };
  EXPECT_EQ(scales(PerTensor{}), (Numbers{12}));
  EXPECT_EQ(scales(PerChannel{0}), (Numbers{6, 12}));
  EXPECT_EQ(scales(PerChannel{1}), (Numbers{9, 12}));
  EXPECT_EQ(scales(PerChannel{2}), (Numbers{10, 11, 12}));
  EXPECT_EQ(scales(PerChannel{-1}), (Numbers{10, 11, 12}));
  EXPECT_EQ(scales(PerChannel{-3}), (Numbers{6, 12}));
  EXPECT_EQ(scales(PerToken{}), (Numbers{3, 6, 9, 12}));
  EXPECT_EQ(scales(PerGroup{2, 2}), (Numbers{2, 3, 5, 6, 8, 9, 11, 12}));
  EXPECT_EQ(scales(PerGroup{-1, 2}), (Numbers{2, 3, 5, 6, 8, 9, 11, 12}));
  EXPECT_EQ(scales(PerGroup{-1, 1}), (Numbers{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(scales(PerGroup{-1, 50}), (Numbers{3, 6, 9, 12}));
  EXPECT_EQ(scales(PerGroup{0, 2}), (Numbers{7, 8, 9, 10, 11, 12}));
  EXPECT_EQ(scales(PerGroup{-2, 2}), (Numbers{4, 5, 6, 10, 11, 12}));
}

TEST_P(DynamicRange, CodesAndSumsFollowTheirSegment) {
  auto d = make({2, 5}, kAsymmetric, PerGroup{1, 2}, ElementKind::U8);
  const auto got = dynamic<float>(d, {-51, 204, 0, 255, -255, 510, 0, -510, -254, 255});
  EXPECT_EQ(got.scale, (Numbers{1, 1, 1, 2, 2, 1}));
  EXPECT_EQ(got.zero_point, (Numbers{51, 0, 255, 0, 255, 0}));
  EXPECT_EQ(got.codes, (Numbers{0, 255, 0, 255, 0, 255, 0, 0, 128, 255}));
  EXPECT_EQ(got.row_sum, (Numbers{255, 255, 0, 255, 128, 255}));
}

TEST_P(DynamicRange, RanksZeroAndEight) {
  EXPECT_EQ(dynamic<float>(make({}, kSymmetric, PerTensor{}), {-254}), (Outcome{{2}, {0}, {-127}, {-127}}));
  EXPECT_EQ(dynamic<float>(make({1}, kSymmetric, PerToken{}), {-254}), (Outcome{{2}, {0}, {-127}, {-127}}));
  EXPECT_EQ(dynamic<float>(make({1, 1, 2, 1, 1, 1, 2, 1}, kSymmetric, PerGroup{-2, 1}), {1, 2, 3, 4}).codes,
            (Numbers{127, 127, 127, 127}));
}

TEST_P(DynamicRange, StridesChangeNothing) {
  // A transposed, reversed input and spread-out outputs.
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  std::vector<float> scale(4, -1.0F);
  std::vector<std::int8_t> q(12, 99);
  auto d = make({3, 2}, kSymmetric, PerChannel{1});
  d.q_min = -1;
  d.q_max = 1;
  const auto plan = DynamicRangeQuantizePlan<float, std::int8_t>::select(Stream::cpu(), d, prefer(GetParam()));
  AnyTensorMut input = whole(x, {3, 2});
  input.stride[0] = -1;  // x read as [[3, 6], [2, 5], [1, 4]]
  input.stride[1] = 3;
  input.offset = 2;
  AnyTensorMut scales = whole(scale, {2});
  scales.stride[0] = 2;
  AnyTensorMut codes = whole(q, {3, 2});
  codes.stride[0] = 4;
  codes.stride[1] = 2;
  const auto result = plan->run(Stream::cpu(), Workspace::none(), {input, scales, codes});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_EQ(scale, (std::vector<float>{3, -1, 6, -1}));
  EXPECT_EQ(q, (std::vector<std::int8_t>{1, 99, 1, 99, 1, 99, 1, 99, 0, 99, 1, 99}));
}

// ---- the tight range ----

TEST_P(DynamicRange, TightRangeNeedNotHoldZero) {
  // 1000 .. 1510 in steps of 2: zp = 0 - 500, far outside the codes.
  EXPECT_EQ(tight({1000, 1510, 1002}, ElementKind::U8), (Outcome{{2}, {-500}, {0, 255, 1}, {256}}));
  EXPECT_EQ(tight({-1510, -1000}), (Outcome{{2}, {627}, {-128, 127}, {-1}}));
}

TEST_P(DynamicRange, TightRangeOfAConstantIsWidened) {
  EXPECT_EQ(tight({510, 510}, ElementKind::U8), (Outcome{{2}, {0}, {255, 255}, {510}}));
  EXPECT_EQ(tight({-510, kNan}, ElementKind::U8), (Outcome{{2}, {255}, {0, 255}, {255}}));
  EXPECT_EQ(tight({0, 0}, ElementKind::U8), (Outcome{{1}, {0}, {0, 0}, {0}}));
}

TEST_P(DynamicRange, TightRangeWithAFarZeroPointIsWidened) {
  // Steps of 1: zp = -lo. 2^20 is still allowed, one more is not.
  const float limit = 1048576;
  EXPECT_EQ(tight({limit, limit + 255}, ElementKind::U8), (Outcome{{1}, {-limit}, {0, 255}, {255}}));
  const float high = limit + 256;
  EXPECT_EQ(tight({limit + 1, high}, ElementKind::U8), (Outcome{{high / 255}, {0}, {255, 255}, {510}}));
  EXPECT_EQ(tight({-limit, -limit + 255}, ElementKind::U8), (Outcome{{1}, {limit}, {0, 255}, {255}}));
  EXPECT_EQ(tight({-limit - 1, -limit + 254}, ElementKind::U8).zero_point, (Numbers{255}));
}

TEST_P(DynamicRange, NanCodesAreTheZeroPointLimitedToTheCodes) {
  EXPECT_EQ(tight({1000, 1510, kNan}, ElementKind::U8).codes, (Numbers{0, 255, 0}));      // zp -500
  EXPECT_EQ(tight({-1000, -1510, kNan}, ElementKind::U8).codes, (Numbers{255, 0, 255}));  // zp 755
}

// ---- special segments and elements ----

TEST_P(DynamicRange, EmptySegments) {
  for (const auto mode : {kSymmetric, kAsymmetric}) {
    const double zero = mode == kSymmetric ? 0 : -128;
    EXPECT_EQ(dynamic<float>(make({3, 0}, mode, PerToken{}), {}),
              (Outcome{{1, 1, 1}, {zero, zero, zero}, {}, {0, 0, 0}}));
    EXPECT_EQ(dynamic<float>(make({0, 2}, mode, PerChannel{1}), {}), (Outcome{{1, 1}, {zero, zero}, {}, {0, 0}}));
    EXPECT_EQ(dynamic<float>(make({0}, mode, PerTensor{}), {}), (Outcome{{1}, {zero}, {}, {0}}));
    EXPECT_EQ(dynamic<float>(make({0, 2}, mode, PerToken{}), {}), Outcome());
    EXPECT_EQ(dynamic<float>(make({2, 0}, mode, PerGroup{1, 4}), {}), Outcome());
  }
}

TEST_P(DynamicRange, SegmentsOfZerosOrNansOrInfinities) {
  for (const std::vector<float>& x : {std::vector<float>{0, -0.0F, 0}, {kNan, kNan, kNan}, {0, kNan, -0.0F}}) {
    EXPECT_EQ(tensor(x, kSymmetric), (Outcome{{1}, {0}, {0, 0, 0}, {0}}));
    EXPECT_EQ(tensor(x, kAsymmetric), (Outcome{{1}, {-128}, {-128, -128, -128}, {-384}}));
    EXPECT_EQ(tensor(x, kAsymmetric, ElementKind::U8), (Outcome{{1}, {0}, {0, 0, 0}, {0}}));
    EXPECT_EQ(tight(x), (Outcome{{1}, {-128}, {-128, -128, -128}, {-384}}));
  }
  EXPECT_EQ(tensor({kInf, -kInf, kNan}, kSymmetric), (Outcome{{1}, {0}, {127, -127, 0}, {0}}));
  EXPECT_EQ(tensor({kInf, -kInf, kNan}, kAsymmetric), (Outcome{{1}, {-128}, {127, -128, -128}, {-129}}));
}

TEST_P(DynamicRange, NanIsIgnoredAndInfinitiesSaturate) {
  EXPECT_EQ(tensor({kNan, 254, -1, kInf, -kInf}, kSymmetric), (Outcome{{2}, {0}, {0, 127, 0, 127, -127}, {127}}));
  EXPECT_EQ(tensor({kNan, -100, 410, kInf, -kInf}, kAsymmetric, ElementKind::U8),
            (Outcome{{2}, {50}, {50, 0, 255, 255, 0}, {560}}));
}

TEST_P(DynamicRange, ARangeWiderThanTheLargestNumber) {
  const float big = 3e38F;
  const auto got = tensor({-big, big, 0}, kAsymmetric, ElementKind::U8);
  EXPECT_EQ(got.scale[0], big / 255 - -big / 255);
  EXPECT_EQ(got.zero_point[0], 128);  // -rne(-127.5)
  EXPECT_EQ(got.codes, (Numbers{0, 255, 128}));
  EXPECT_EQ(tensor({-big, big}, kSymmetric).scale[0], big / 127);
  const double huge = 1.7e308;
  EXPECT_EQ(tensor<double>({-huge, huge}, kAsymmetric).scale[0], huge / 255 - -huge / 255);
}

TEST_P(DynamicRange, OneStepWiderThanTheLargestNumberIsLimitedToIt) {
  auto d = make({3}, kAsymmetric, PerTensor{}, ElementKind::U8);
  d.q_max = 1;
  const float most = std::numeric_limits<float>::max();
  EXPECT_EQ(dynamic<float>(d, {-most, most, 0}), (Outcome{{most}, {1}, {0, 1, 1}, {2}}));
  auto h = make<f16>({3}, kAsymmetric, PerTensor{}, ElementKind::U8);
  h.q_max = 1;
  h.scale_element = ElementKind::F16;
  EXPECT_EQ(dynamic<f16>(h, {f16(-65504.0F), f16(65504.0F), f16(0.0F)}), (Outcome{{65504}, {1}, {0, 1, 1}, {2}}));
  h.scale_element = ElementKind::F32;
  EXPECT_EQ(dynamic<f16>(h, {f16(-65504.0F), f16(65504.0F), f16(0.0F)}).scale[0], 131008);
}

TEST_P(DynamicRange, TinyScalesAreRaisedToTheSmallestNormalNumber) {
  const double least32 = std::numeric_limits<float>::min();
  const double least64 = std::numeric_limits<double>::min();
  const double least16 = 0x1p-14;
  for (const auto mode : {kSymmetric, kAsymmetric}) {
    EXPECT_EQ(tensor({1e-44F, -1e-42F}, mode).scale[0], least32);
    EXPECT_EQ(tensor({100 * std::numeric_limits<float>::min()}, mode).scale[0], least32);
    EXPECT_EQ(tensor<double>({5e-324, -1e-310}, mode).scale[0], least64);
    auto half = make<f16>({2}, mode, PerTensor{});
    EXPECT_EQ(dynamic<f16>(half, {f16(0x1p-24F), f16(0.0F)}).scale[0],
              0x1p-24F / (mode == kSymmetric ? 127.0F : 255.0F));
    half.scale_element = ElementKind::F16;
    EXPECT_EQ(dynamic<f16>(half, {f16(0x1p-24F), f16(-0.001F)}).scale[0], least16);
    EXPECT_EQ(dynamic<f16>(half, {f16(0x1p-24F), f16(-0x1p-14F)}).codes,
              (mode == kSymmetric ? Numbers{0, -1} : Numbers{-127, -128}));
    auto brain = make<bf16>({2}, mode, PerTensor{});
    brain.scale_element = ElementKind::Bf16;
    EXPECT_EQ(dynamic<bf16>(brain, {bf16(1e-40F), bf16(-1e-38F)}).scale[0], least32);
  }
  auto bare = make({2}, kAsymmetric, PerTensor{});
  bare.zero_in_range = false;
  EXPECT_EQ(dynamic<float>(bare, {1e-44F, 2e-44F}), (Outcome{{least32}, {-128}, {-128, -128}, {-256}}));
}

// ---- 16-bit scales ----

TEST_P(DynamicRange, ZeroIsExactWithAScaleRoundedDown) {
  // All-negative data and a bf16 scale: lo / scale can reach beyond the last code, and the zero point must not.
  std::mt19937 bits(3);
  int limited = 0;
  for (int i = 0; i < 3000; ++i) {
    const bf16 x(-std::uniform_real_distribution<float>(1, 2)(bits));
    auto d = make<bf16>({2}, kAsymmetric, PerTensor{}, ElementKind::U8);
    d.q_max = 254;
    d.scale_element = ElementKind::Bf16;
    const auto got = dynamic<bf16>(d, {x, bf16(0.0F)});
    const auto scale = static_cast<float>(bf16(-static_cast<float>(x) / 254));
    const float steps = std::nearbyint(-static_cast<float>(x) / scale);
    const double zero = std::min(steps, 254.0F);
    ASSERT_EQ(got, (Outcome{{scale}, {zero}, {0, zero}, {zero}}));
    limited += steps > 254 ? 1 : 0;
  }
  EXPECT_GT(limited, 0);
}

/// Quantise with the written scales and zero points gives the written codes.
template <class T>
void expect_reproducible(BackendKind backend, const Descriptor& d, std::vector<T> x) {
  const Shape segments = qparams_shape(d.shape, d.scope);
  const ElementKind scale_element = d.scale_element.value_or(compute_of(d.input_element));
  Buffer scale(scale_element, segments);
  Buffer zero_point(ElementKind::S32, segments);
  Buffer first(d.output_element, d.shape);
  Buffer second(d.output_element, d.shape);
  const auto dynamic = DynamicRangeQuantizePlan<>::select(Stream::cpu(), d, prefer(backend));
  ASSERT_TRUE(dynamic) << dynamic.error().message();
  const auto made = dynamic->run(Stream::cpu(), Workspace::none(),
                                 {whole(x, d.shape), scale.view(), first.view(), zero_point.view()});
  ASSERT_TRUE(made) << made.error().message();
  QuantizeDescriptor given;
  given.shape = d.shape;
  given.q_min = d.q_min;
  given.q_max = d.q_max;
  given.input_element = d.input_element;
  given.output_element = d.output_element;
  given.scope = d.scope;
  given.scale_element = scale_element;
  const auto plan = QuantizePlan<>::select(Stream::cpu(), given, prefer(backend));
  ASSERT_TRUE(plan) << plan.error().message();
  const auto again =
      plan->run(Stream::cpu(), Workspace::none(), {whole(x, d.shape), scale.view(), zero_point.view(), second.view()});
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(first.numbers(), second.numbers());
}

template <class T>
void expect_reproducible_everywhere(BackendKind backend) {
  unsigned seed = 1;
  for (const auto& scope : all_scopes()) {
    for (const auto mode : {kSymmetric, kAsymmetric}) {
      for (const ElementKind codes : {ElementKind::S8, ElementKind::U8}) {
        for (const bool narrow : {false, true}) {
          for (const bool zero_in_range : {true, false}) {
            auto d = make<T>({3, 5, 7}, mode, scope, codes);
            d.zero_in_range = zero_in_range;
            if (narrow) d.scale_element = element_of<T>;
            for (const double spread : {3.0, 1e-3, 3e-5, 4000.0}) {
              auto x = drawn<T>(105, seed, spread, (seed % 3) * spread);
              x[seed % 105] = T(kNan);
              x[(seed + 50) % 105] = T(kInf);
              SCOPED_TRACE(testing::Message() << "seed " << seed);
              expect_reproducible(backend, d, x);
              ++seed;
            }
          }
        }
      }
    }
  }
}

TEST_P(DynamicRange, TheWrittenScaleAndZeroPointGiveTheCodesAgain) {
  expect_reproducible_everywhere<float>(GetParam());
  expect_reproducible_everywhere<double>(GetParam());
  expect_reproducible_everywhere<f16>(GetParam());
  expect_reproducible_everywhere<bf16>(GetParam());
}

// ---- outputs ----

TEST_P(DynamicRange, RowSumsAreTheSumsOfTheCodes) {
  for (const auto& scope : all_scopes()) {
    for (const ElementKind codes : {ElementKind::S8, ElementKind::U8}) {
      auto d = make({4, 6, 9}, kAsymmetric, scope, codes);
      const auto x = drawn<float>(216, 5);
      const auto got = dynamic(d, x);
      Numbers sums(got.row_sum.size());
      const Shape segments = qparams_shape(d.shape, scope);
      const auto axis_of = [](int axis) { return axis < 0 ? axis + 3 : axis; };
      for (int i = 0; i < 216; ++i) {
        std::array<std::int64_t, 3> at{i / 54, i / 9 % 6, i % 9};
        std::int64_t segment = 0;
        if (const auto* channel = std::get_if<PerChannel>(&scope)) {
          segment = at[static_cast<std::size_t>(axis_of(channel->axis))];
        } else if (std::holds_alternative<PerToken>(scope)) {
          segment = i / 9;
        } else if (const auto* group = std::get_if<PerGroup>(&scope)) {
          at[static_cast<std::size_t>(axis_of(group->axis))] /= group->group_size;
          segment = (at[0] * segments[1] + at[1]) * segments[2] + at[2];
        }
        sums[static_cast<std::size_t>(segment)] += got.codes[static_cast<std::size_t>(i)];
      }
      EXPECT_EQ(got.row_sum, sums);
    }
  }
}

TEST_P(DynamicRange, QparamsOnlyWritesTheSameAndNoCodes) {
  for (const auto& scope : all_scopes()) {
    for (const auto mode : {kSymmetric, kAsymmetric}) {
      auto d = make({4, 6, 9}, mode, scope);
      const auto all = dynamic(d, drawn<float>(216, 6));
      d.qparams_only = true;
      const auto some = dynamic(d, drawn<float>(216, 6));
      EXPECT_EQ(some.scale, all.scale);
      EXPECT_EQ(some.zero_point, all.zero_point);
    }
  }
}

/// [3, 4] with room to point arguments at each other.
class DynamicRangeArguments : public DynamicRange {
 protected:
  Result<void> run_args(const Descriptor& d) {
    const auto plan = DynamicRangeQuantizePlan<>::select(Stream::cpu(), d, prefer(GetParam()));
    if (!plan) return tl::unexpected(plan.error());
    return plan->run(Stream::cpu(), Workspace::none(), args);
  }
  std::string error_of(const Descriptor& d) {
    const auto result = run_args(d);
    if (result) return "no error";
    EXPECT_EQ(scale, std::vector<float>(3, 99)) << "an output was written";
    EXPECT_EQ(q, std::vector<std::int8_t>(12, 99));
    EXPECT_EQ(zero_point, std::vector<std::int32_t>(3, 99));
    return std::string(result.error().message());
  }

  std::vector<float> x = drawn<float>(12, 8);
  std::vector<float> scale = std::vector<float>(3, 99);
  std::vector<std::int8_t> q = std::vector<std::int8_t>(12, 99);
  std::vector<std::int32_t> zero_point = std::vector<std::int32_t>(3, 99);
  std::vector<std::int32_t> row_sum = std::vector<std::int32_t>(3, 99);
  DynamicRangeQuantizeArgs args{whole(x, {3, 4}), whole(scale, {3}), whole(q, {3, 4}), whole(zero_point, {3}),
                                whole(row_sum, {3})};
};

INSTANTIATE_TEST_SUITE_P(Backends, DynamicRangeArguments, testing::Values(BackendKind::Reference, BackendKind::Cpu),
                         [](const auto& backend) { return std::string(to_string(backend.param)); });

TEST_P(DynamicRangeArguments, SymmetricNeedsNoZeroPointAndAsymmetricDoes) {
  args.zero_point_out.reset();
  args.row_sum.reset();
  EXPECT_NE(error_of(make({3, 4}, kAsymmetric, PerToken{})).find("zero_point_out is absent"), std::string::npos);
  const auto with = dynamic(make({3, 4}, kSymmetric, PerToken{}), x);
  ASSERT_TRUE(run_args(make({3, 4}, kSymmetric, PerToken{})));
  EXPECT_EQ(Numbers(scale.begin(), scale.end()), with.scale);
  EXPECT_EQ(Numbers(q.begin(), q.end()), with.codes);
}

TEST_P(DynamicRangeArguments, CodesAreWantedUnlessTheDescriptorSaysOtherwise) {
  auto d = make({3, 4}, kSymmetric, PerToken{});
  d.qparams_only = true;
  EXPECT_NE(error_of(d).find("output is present"), std::string::npos);
  args.output.reset();
  EXPECT_NE(error_of(d).find("row_sum is present"), std::string::npos);
  EXPECT_NE(error_of(make({3, 4}, kSymmetric, PerToken{})).find("output is absent"), std::string::npos);
}

TEST_P(DynamicRangeArguments, OutputsShareMemoryWithNothing) {
  const auto d = make({3, 4}, kSymmetric, PerToken{});
  const auto refused = [&] { return error_of(d).find("must not share memory") != std::string::npos; };
  const auto good = args;
  args.output->data = x.data();
  EXPECT_TRUE(refused());
  args = good;
  args.scale_out.data = x.data() + 9;
  EXPECT_TRUE(refused());
  args = good;
  args.zero_point_out->data = row_sum.data();
  EXPECT_TRUE(refused());
  args = good;
  args.row_sum->data = x.data();
  EXPECT_TRUE(refused());
}

TEST_P(DynamicRangeArguments, ErrorsOfTheDescriptor) {
  auto d = make({3, 4}, kSymmetric, PerToken{});
  d.q_max = 0;
  EXPECT_NE(error_of(d).find("Symmetric needs q_max > 0"), std::string::npos);
  d = make({3, 4}, kAsymmetric, PerToken{});
  d.q_min = d.q_max;
  EXPECT_NE(error_of(d).find("Asymmetric needs q_max > q_min"), std::string::npos);
  d = make({3, 4}, kSymmetric, PerToken{});
  d.scale_element = ElementKind::F64;
  EXPECT_NE(error_of(d).find("scale_element"), std::string::npos);
  d.scale_element.reset();
  d.q_max = 128;
  EXPECT_NE(error_of(d), "no error");
}

TEST_P(DynamicRangeArguments, ErrorFindsTheFirstInfinityAndLeavesTheOutputs) {
  auto d = make({3, 4}, kSymmetric, PerToken{});
  d.nonfinite = NonFinite::Error;
  x[2] = kNan;
  x[7] = -kInf;
  x[9] = kInf;
  EXPECT_NE(error_of(d).find("input[7] = -inf"), std::string::npos);
  x[7] = 0;
  EXPECT_NE(error_of(d).find("input[9] = inf"), std::string::npos);
  x[9] = 0;
  EXPECT_TRUE(run_args(d));
  EXPECT_EQ(q[2], 0);
}

TEST_P(DynamicRange, RowSumsThatMayLeave32BitsAreRefused) {
  // Checked before any memory is touched, so the views need not be that long.
  const auto refused = [&](const Shape& shape, const Granularity& scope, std::int64_t q_min, std::int64_t q_max,
                           ElementKind codes) {
    auto d = make(shape, kSymmetric, scope, codes);
    d.q_min = q_min;
    d.q_max = q_max;
    const Shape segments = qparams_shape(shape, scope);
    std::vector<float> none;
    AnyTensorMut input = whole(none, shape);
    AnyTensorMut output = input;
    AnyTensorMut scale = whole(none, segments);
    AnyTensorMut sums = scale;
    output.element = codes;
    sums.element = ElementKind::S32;
    const auto plan = DynamicRangeQuantizePlan<>::select(Stream::cpu(), d, prefer(GetParam()));
    const auto result = plan->can_implement({input, scale, output, {}, sums});
    return !result && std::string_view(result.error().message()).find("can leave 32 bits") != std::string_view::npos;
  };
  const std::int64_t longest = (std::int64_t{1} << 24) - 1;  // * 128 < 2^31
  EXPECT_FALSE(refused({2, longest}, PerToken{}, -128, 127, ElementKind::S8));
  EXPECT_TRUE(refused({2, longest + 1}, PerToken{}, -128, 127, ElementKind::S8));
  EXPECT_FALSE(refused({2, longest + 1}, PerToken{}, -127, 127, ElementKind::S8));
  EXPECT_TRUE(refused({2, longest}, PerTensor{}, -128, 127, ElementKind::S8));
  EXPECT_TRUE(refused({longest, 2}, PerTensor{}, -128, 127, ElementKind::S8));
  EXPECT_FALSE(refused({longest, 2}, PerChannel{1}, -128, 127, ElementKind::S8));
  EXPECT_TRUE(refused({longest, 2, 2}, PerChannel{1}, -128, 127, ElementKind::S8));
  EXPECT_FALSE(refused({longest * 9}, PerGroup{0, longest}, -128, 127, ElementKind::S8));
  EXPECT_TRUE(refused({longest * 9}, PerGroup{0, longest + 1}, -128, 127, ElementKind::S8));
  EXPECT_FALSE(refused({longest}, PerGroup{0, longest * 9}, -128, 127, ElementKind::S8));
  EXPECT_FALSE(refused({((std::int64_t{1} << 31) - 1) / 255}, PerToken{}, 0, 255, ElementKind::U8));
  EXPECT_TRUE(refused({((std::int64_t{1} << 31) - 1) / 255 + 1}, PerToken{}, 0, 255, ElementKind::U8));
  EXPECT_TRUE(refused({std::int64_t{1} << 57}, PerToken{}, -128, 127, ElementKind::S8));  // the product wraps to 0
}

// ---- schedules ----

template <class T>
void expect_same_with_any_threads(const Descriptor& d, unsigned seed) {
  auto x = drawn<T>(numel(d.shape), seed);
  for (std::size_t i = 0; i < x.size(); i += 1009) x[i] = T(i % 2 == 0 ? kNan : kInf);
  const Outcome expected = run(d, x, prefer(BackendKind::Reference));
  PlanPreference lean = prefer(BackendKind::Cpu);
  lean.max_workspace_bytes = 0;
  for (const int threads : {1, 2, 3, 7}) {
    test::ThreadExecutor executor(threads);
    const Stream stream = Stream::cpu(executor);
    EXPECT_TRUE(run(d, x, prefer(BackendKind::Cpu), stream) == expected) << threads << " threads";
    EXPECT_TRUE(run(d, x, lean, stream) == expected) << threads << " threads, no workspace";
  }
}

TEST(DynamicRangeSchedules, OneLongRow) {
  expect_same_with_any_threads<float>(make({1, 1'000'000}, kAsymmetric, PerToken{}), 1);
  expect_same_with_any_threads<bf16>(make<bf16>({1'000'003}, kSymmetric, PerTensor{}), 2);
}

TEST(DynamicRangeSchedules, ManyShortRows) {
  expect_same_with_any_threads<float>(make({70000, 3}, kAsymmetric, PerToken{}, ElementKind::U8), 3);
  expect_same_with_any_threads<double>(make<double>({70000, 1}, kSymmetric, PerToken{}), 4);
  expect_same_with_any_threads<f16>(make<f16>({40000, 5}, kAsymmetric, PerGroup{1, 2}), 5);
}

TEST(DynamicRangeSchedules, FewRowsOfMiddlingLength) {
  expect_same_with_any_threads<float>(make({5, 100'000}, kAsymmetric, PerToken{}), 6);
  expect_same_with_any_threads<float>(make({3, 100'003}, kAsymmetric, PerGroup{1, 40'000}), 7);
}

TEST(DynamicRangeSchedules, ManyChannels) {
  auto d = make({150, 5000}, kAsymmetric, PerChannel{1});
  EXPECT_GT(DynamicRangeQuantizePlan<>::select(Stream::cpu(), d)->workspace_size(), 0);
  expect_same_with_any_threads<float>(d, 8);
  expect_same_with_any_threads<float>(make({7, 5000, 20}, kSymmetric, PerChannel{-2}), 9);
  expect_same_with_any_threads<float>(make({5000, 150}, kSymmetric, PerChannel{0}), 10);
  expect_same_with_any_threads<f16>(make<f16>({500, 2048}, kAsymmetric, PerChannel{1}), 11);
}

TEST(DynamicRangeSchedules, MoreThan2To31Elements) {
  // One row of memory read as 2^21 + 2 rows, so that 64-bit sizes matter and memory does not.
  constexpr std::int64_t kRows = (std::int64_t{1} << 21) + 2;
  auto d = make({kRows, 1024}, kAsymmetric, PerToken{});
  d.qparams_only = true;
  auto row = drawn<float>(1024, 12);
  const AnyTensorRef input = TensorRef<float, 2>::contiguous(row, {1, 1024}).expand(0, kRows);
  std::vector<float> scale(kRows);
  std::vector<std::int32_t> zero_point(kRows);
  const auto plan = DynamicRangeQuantizePlan<>::select(Stream::cpu(), d);
  const auto result =
      plan->run(Stream::cpu(), Workspace::none(), {input, view(scale, {kRows}), {}, view(zero_point, {kRows})});
  ASSERT_TRUE(result) << result.error().message();
  EXPECT_GT(scale[0], 0);
  EXPECT_EQ(std::count(scale.begin(), scale.end(), scale[0]), kRows);
  EXPECT_EQ(std::count(zero_point.begin(), zero_point.end(), zero_point[0]), kRows);
}

TEST(DynamicRangeSchedules, OnlyManyChannelsAskForWorkspace) {
  const auto size = [](const Shape& shape, const Granularity& scope, std::size_t most) {
    PlanPreference p;
    p.max_workspace_bytes = most;
    return DynamicRangeQuantizePlan<>::select(Stream::cpu(), make(shape, kSymmetric, scope), p)->workspace_size();
  };
  const std::size_t any = std::numeric_limits<std::size_t>::max();
  EXPECT_EQ(size({100'000, 100}, PerToken{}, any), 0);
  EXPECT_EQ(size({100'000, 100}, PerTensor{}, any), 0);
  EXPECT_EQ(size({100'000, 100}, PerGroup{0, 2}, any), 0);
  EXPECT_EQ(size({100, 2048}, PerChannel{1}, any), 0);
  EXPECT_GT(size({100, 2049}, PerChannel{1}, any), 0);
  EXPECT_EQ(size({100, 2049}, PerChannel{1}, 0), 0);
}

// ---- the error of a round trip ----

template <class T>
void expect_half_a_step(BackendKind backend) {
  std::mt19937_64 bits(12);
  for (int trial = 0; trial < 300; ++trial) {
    const double spread = std::exp2(std::uniform_real_distribution<double>(-10, 10)(bits));
    const double centre = spread * std::uniform_real_distribution<double>(-5, 5)(bits);
    const auto mode = trial % 2 == 0 ? kSymmetric : kAsymmetric;
    auto d = make<T>({200}, mode, PerTensor{});
    d.q_max = 1 + static_cast<std::int64_t>(bits() % 127);
    d.q_min = mode == kSymmetric ? -d.q_max : -static_cast<std::int64_t>(bits() % 128);
    auto x = drawn<T>(200, static_cast<unsigned>(bits()), spread, centre);
    const Outcome got = run(d, x, prefer(backend));
    const double scale = got.scale[0];
    // Every x / scale is below 256 + 1 and rounded once, and so was the scale itself.
    const double rounding = 600 * scale * (element_of<T> == ElementKind::F64 ? 0x1p-52 : 0x1p-23);
    for (std::size_t i = 0; i < x.size(); ++i) {
      double value = 0;
      if constexpr (std::is_same_v<T, double>) {
        value = x[i];
      } else {
        value = static_cast<float>(x[i]);
      }
      ASSERT_LE(std::abs(scale * (got.codes[i] - got.zero_point[0]) - value), scale / 2 + rounding)
          << "trial " << trial;
    }
  }
}

TEST_P(DynamicRange, ARoundTripIsWithinHalfAStep) {
  expect_half_a_step<float>(GetParam());
  expect_half_a_step<double>(GetParam());
  expect_half_a_step<f16>(GetParam());
  expect_half_a_step<bf16>(GetParam());
}

}  // namespace
}  // namespace planck
