// The fixture of the quantise tests: every test runs on the reference and on the best kernel of this machine.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "planck/planck.hpp"

namespace planck::test {

inline constexpr float kInf = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

using Codes = std::vector<std::int8_t>;

/// A contiguous view of a vector, of any rank.
template <class T>
AnyTensorMut of(std::vector<T>& elements, const Shape& shape) {
  const auto capacity = static_cast<std::int64_t>(elements.size());
  return {elements.data(), capacity, 0, element_of<T>, shape, row_major_strides(shape)};
}

class QuantizeTest : public testing::TestWithParam<BackendKind> {
 protected:
  PlanPreference preference() const {
    PlanPreference p;
    p.prefer_backend = GetParam();
    return p;
  }

  template <class T = float>
  std::vector<T> fake(std::vector<T> x, double scale, std::int64_t zero_point, std::int64_t q_min, std::int64_t q_max,
                      ScaleForm form = ScaleForm::Divide) {
    const auto n = static_cast<std::int64_t>(x.size());
    auto d = FakeQuantizeDescriptor::flat(n, q_min, q_max, element_of<T>);
    d.scale_form = form;
    const auto plan = FakeQuantizePlan<T>::select(Stream::cpu(), d, preference());
    std::vector<T> y(x.size());
    const auto result = plan->run(Stream::cpu(), Workspace::none(), {view(x, {n}), scale, zero_point, view(y, {n})});
    EXPECT_TRUE(result) << result.error().message();
    return y;
  }

  std::vector<float> fake_backward(std::vector<float> x, std::vector<float> dy, double scale, std::int64_t zero_point,
                                   std::int64_t q_min, std::int64_t q_max) {
    const auto n = static_cast<std::int64_t>(x.size());
    const auto plan = FakeQuantizeBackwardPlan<float>::select(
        Stream::cpu(), FakeQuantizeDescriptor::flat(n, q_min, q_max, ElementKind::F32), preference());
    std::vector<float> dx(x.size(), 77.0F);
    const auto result =
        plan->run(Stream::cpu(), Workspace::none(), {view(x, {n}), scale, zero_point, view(dy, {n}), view(dx, {n})});
    EXPECT_TRUE(result) << result.error().message();
    return dx;
  }

  /// Selects and runs; lends what workspace the plan asks for.
  template <class P>
  void run(const typename P::Descriptor& d, const typename P::Args& args) {
    const auto plan = P::select(Stream::cpu(), d, preference());
    ASSERT_TRUE(plan) << plan.error().message();
    std::vector<std::byte> memory(plan->workspace_size());
    const auto result = plan->run(Stream::cpu(), Workspace::of(memory), args);
    ASSERT_TRUE(result) << result.error().message();
  }

  template <class T = float, class Q = std::int8_t>
  std::vector<Q> codes(std::vector<T> x, double scale, std::int64_t zero_point, std::int64_t q_min,
                       std::int64_t q_max) {
    const auto d =
        QuantizeDescriptor::flat(static_cast<std::int64_t>(x.size()), q_min, q_max, element_of<T>, element_of<Q>);
    std::vector<Q> q(x.size());
    run<QuantizePerTensorPlan<T, Q>>(d, {of(x, d.shape), scale, zero_point, of(q, d.shape)});
    return q;
  }

  /// The codes of a tensor that holds `x` everywhere; without zero points, those are absent.
  Codes constant_codes(const Shape& shape, const Granularity& granularity, float x, std::vector<float> scales,
                       std::vector<std::int32_t> zero_points = {}) {
    QuantizeDescriptor d;
    d.shape = shape;
    d.scope = granularity;
    std::size_t n = 1;
    for (const std::int64_t extent : shape) n *= static_cast<std::size_t>(extent);
    std::vector<float> input(n, x);
    Codes q(n, 77);
    const Shape segments = qparams_shape(shape, granularity);
    QuantizeArgs args{of(input, shape), of(scales, segments), 0, of(q, shape)};
    if (!zero_points.empty()) args.zero_point = of(zero_points, segments);
    run<QuantizePlan<float, std::int8_t>>(d, args);
    return q;
  }
};

/// A suite over the fixture, for both backends.
#define PLANCK_QUANTIZE_SUITE(Name)                                                                   \
  class Name : public QuantizeTest {};                                                                \
  INSTANTIATE_TEST_SUITE_P(Backends, Name, testing::Values(BackendKind::Reference, BackendKind::Cpu), \
                           [](const auto& backend) { return std::string(to_string(backend.param)); })

}  // namespace planck::test
