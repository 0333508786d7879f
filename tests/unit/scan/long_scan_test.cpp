// One row longer than f32 can count: the bits of the reference on two threads, with the workspace that the plan asks
// for and without.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <vector>

#include "planck/planck.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

constexpr std::int64_t kLength = (std::int64_t{1} << 24) + 4099;
using Floats = std::vector<float>;

AnyTensorRef input(const Floats& values) { return TensorRef<float, 1>::contiguous(values, {kLength}); }

struct Outputs {
  explicit Outputs(float start) : values(kLength, start), indices(kLength, -1) {}
  AnyTensorMut mut_values() { return TensorMut<float, 1>::contiguous(values, {kLength}); }
  AnyTensorMut mut_indices() { return TensorMut<std::int64_t, 1>::contiguous(indices, {kLength}); }

  Floats values;
  std::vector<std::int64_t> indices;
};

/// scale * [-1, 1) + offset, without a pattern.
Floats noise(std::uint32_t seed, float scale, float offset) {
  Floats values(kLength);
  for (float& value : values) {
    seed = seed * 1664525U + 1013904223U;
    value = scale * static_cast<float>(static_cast<std::int32_t>(seed) >> 8) * 0x1p-23F + offset;
  }
  return values;
}

template <class Op>
void run(const PlanPreference& preference, const typename Op::Descriptor& d, const typename Op::Args& args,
         std::size_t workspace_bytes = 0) {
  ThreadExecutor executor(2);
  const Stream stream = Stream::cpu(executor);
  const auto plan = Plan<Op>::select(stream, d, preference);
  ASSERT_TRUE(plan) << plan.error().message();
  std::vector<std::byte> workspace(std::max(workspace_bytes, plan->workspace_size()));
  const auto result = plan->run(stream, Workspace::of(workspace), args);
  ASSERT_TRUE(result) << result.error().message();
}

/// args(outputs) are what the plan runs on; returns what the reference made of them.
template <class Op, class MakeArgs>
Outputs check(const typename Op::Descriptor& d, const MakeArgs& args, std::size_t least_workspace = 0) {
  Outputs wanted(1);
  PlanPreference plain;
  plain.prefer_backend = BackendKind::Reference;
  run<Op>(plain, d, args(wanted), (kLength + 1) * sizeof(double));
  EXPECT_TRUE(std::isfinite(wanted.values.front()) && std::isfinite(wanted.values.back()));
  for (const std::size_t most : {std::numeric_limits<std::size_t>::max(), least_workspace}) {
    Outputs got(2);
    PlanPreference preference;
    preference.max_workspace_bytes = most;
    run<Op>(preference, d, args(got));
    EXPECT_EQ(std::memcmp(got.values.data(), wanted.values.data(), kLength * sizeof(float)), 0) << most;
    EXPECT_TRUE(got.indices == wanted.indices) << most;
  }
  return wanted;
}

ScanDescriptor of(ScanKind kind) {
  ScanDescriptor d;
  d.kind = kind;
  d.input_shape = {kLength};
  return d;
}

TEST(LongScans, Cumsum) {
  const Floats x = noise(1, 1, 0.25F);
  check<ScanOp>(of(ScanKind::Cumsum), [&](Outputs& o) { return ScanArgs{input(x), o.mut_values(), {}}; });
}

TEST(LongScans, CummaxWithIndices) {
  Floats x = noise(2, 2, 0);  // and rising, so that winners change up to the end
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += static_cast<float>(i / 64);
  ScanDescriptor d = of(ScanKind::Cummax);
  d.index_element = ElementKind::S64;
  const Outputs y = check<ScanOp>(d, [&](Outputs& o) { return ScanArgs{input(x), o.mut_values(), o.mut_indices()}; });
  EXPECT_GT(y.indices.back(), kLength - 1000);
  EXPECT_EQ(y.values.back(), x[static_cast<std::size_t>(y.indices.back())]);
}

TEST(LongScans, LogCumsumExp) {
  const Floats x = noise(3, 4, 0);
  check<ScanOp>(of(ScanKind::LogCumsumExp), [&](Outputs& o) { return ScanArgs{input(x), o.mut_values(), {}}; });
}

TEST(LongScans, LinearRecurrence) {
  const Floats a = noise(4, 0.25F, 0.75F);
  const Floats b = noise(5, 1, 0);
  check<LinearRecurrenceOp>({{kLength}, 0, false, ElementKind::F32, false}, [&](Outputs& o) {
    return LinearRecurrenceArgs{input(a), input(b), {}, o.mut_values()};
  });
}

TEST(LongScans, CumsumBackward) {
  const Floats dy = noise(6, 1, 0.25F);
  check<ScanBackwardOp>(of(ScanKind::Cumsum), [&](Outputs& o) {
    return ScanBackwardArgs{input(dy), o.mut_values(), {}, {}, {}};
  });
}

TEST(LongScans, CumprodBackward) {
  Floats x = noise(7, 0.25F, 1);
  for (std::size_t i = 1; i < x.size(); i += 2) x[i] = 1 / x[i - 1];
  const Floats dy = noise(8, 1, 0);
  std::puts("CumprodBackward with 2100000 bytes instead of no workspace, where its time grows with the length squared");
  const auto args = [&](Outputs& o) { return ScanBackwardArgs{input(dy), o.mut_values(), input(x), {}, {}}; };
  check<ScanBackwardOp>(of(ScanKind::Cumprod), args, 2100000);
}

}  // namespace
}  // namespace planck::test
