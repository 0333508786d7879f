// Widening of 16-bit floats and the sums behind every table, against the plain way.
#include "quantize/statistics.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <random>
#include <vector>

#include "checkpoint/workers.hpp"
#include "quantize/layers.hpp"

namespace planck::cli {
namespace {

template <class Half>
void every_half_widens() {
  std::vector<std::uint16_t> bits(65536);
  for (std::size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::uint16_t>(i);
  std::vector<float> wide(bits.size());
  widen(element_of<Half>, reinterpret_cast<const std::byte*>(bits.data()), std::span(wide));
  for (std::size_t i = 0; i < bits.size(); ++i) {
    const auto expected = static_cast<float>(Half::from_bits(bits[i]));
    const bool same = std::isnan(expected)
                          ? std::isnan(wide[i])
                          : std::bit_cast<std::uint32_t>(expected) == std::bit_cast<std::uint32_t>(wide[i]);
    ASSERT_TRUE(same) << i;
  }
}

TEST(Statistics, Every16BitFloatWidensAsTheLibraryDoes) {
  every_half_widens<f16>();
  every_half_widens<bf16>();
}

TEST(Statistics, ErrorsOfKnownVectors) {
  const std::vector<float> x{3, 4, 0, 0, 0, 0, 0, 0, 0};
  const std::vector<float> y{3, 4, 0, 0, 0, 0, 0, 0, 0.5F};
  const ErrorSums sums = errors_of(std::span<const float>(x), std::span<const float>(y));
  EXPECT_EQ(sums.count, 9);
  EXPECT_EQ(sums.max_error, 0.5);
  EXPECT_DOUBLE_EQ(sums.mean_error(), 0.5 / 9);
  EXPECT_DOUBLE_EQ(sums.snr_db(), 20);
  EXPECT_NEAR(sums.cosine(), 25 / (5 * std::sqrt(25.25)), 1e-12);
  EXPECT_TRUE(std::isinf(errors_of(std::span<const float>(x), std::span<const float>(x)).snr_db()));
}

/// Vectors and tails of every length: each number once in each lane.
template <class T>
void sums_are_those_of_plain_loops() {
  std::mt19937 random(3);
  std::normal_distribution<double> normal;
  for (std::size_t n = 0; n < 40; ++n) {
    std::vector<T> x(n), y(n);
    ErrorSums expected;
    RangeSums range;
    for (std::size_t i = 0; i < n; ++i) {
      x[i] = static_cast<T>(normal(random));
      y[i] = static_cast<T>(normal(random));
      const double a = x[i], b = y[i];
      expected.max_error = std::max(expected.max_error, std::fabs(b - a));
      expected.error += std::fabs(b - a);
      expected.error_squared += (b - a) * (b - a);
      expected.x_squared += a * a;
      expected.y_squared += b * b;
      expected.product += a * b;
      range.min = std::min(range.min, a);
      range.max = std::max(range.max, a);
    }
    const ErrorSums sums = errors_of(std::span<const T>(x), std::span<const T>(y));
    EXPECT_EQ(sums.count, static_cast<std::int64_t>(n));
    EXPECT_EQ(sums.max_error, expected.max_error) << n;
    EXPECT_NEAR(sums.error, expected.error, 1e-12) << n;
    EXPECT_NEAR(sums.error_squared, expected.error_squared, 1e-12) << n;
    EXPECT_NEAR(sums.x_squared, expected.x_squared, 1e-12) << n;
    EXPECT_NEAR(sums.y_squared, expected.y_squared, 1e-12) << n;
    EXPECT_NEAR(sums.product, expected.product, 1e-12) << n;
    EXPECT_EQ(range_of(std::span<const T>(x)).min, range.min) << n;
    EXPECT_EQ(range_of(std::span<const T>(x)).max, range.max) << n;
  }
}

TEST(Statistics, SumsAreThoseOfPlainLoops) {
  sums_are_those_of_plain_loops<float>();
  sums_are_those_of_plain_loops<double>();
}

TEST(Statistics, NonFiniteElementsAreCountedWhereverTheyAre) {
  const float nan = std::nanf("");
  const float inf = std::numeric_limits<float>::infinity();
  for (std::size_t at = 0; at < 100; ++at) {
    std::vector<float> x(100, 1.0F);
    std::vector<float> y(100, 1.0F);
    y[at] = nan;
    ErrorSums sums = errors_of(std::span<const float>(x), std::span<const float>(y));
    EXPECT_EQ(sums.nonfinite_x, 0);
    EXPECT_EQ(sums.nonfinite_y, 1);
    EXPECT_EQ(sums.nonfinite_differs, 1);
    x[at] = nan;
    EXPECT_EQ(errors_of(std::span<const float>(x), std::span<const float>(y)).nonfinite_differs, 0);
    x[at] = inf;
    y[at] = -inf;
    EXPECT_EQ(errors_of(std::span<const float>(x), std::span<const float>(y)).nonfinite_differs, 1);
    const RangeSums range = range_of(std::span<const float>(y));
    EXPECT_EQ(range.infinities, 1);
    EXPECT_EQ(range.min, 1);
    EXPECT_EQ(range.max, 1);
  }
}

TEST(Workers, EveryIndexOnceAndErrorsComeBack) {
  for (const int threads : {1, 2, 3, 7}) {
    Workers workers(threads);
    EXPECT_EQ(workers.threads(), threads);
    for (int round = 0; round < 50; ++round) {
      std::vector<std::atomic<int>> seen(97);
      workers.for_each(97, [&](int worker, std::int64_t i) {
        EXPECT_LT(worker, threads);
        ++seen[static_cast<std::size_t>(i)];
      });
      for (const auto& each : seen) EXPECT_EQ(each, 1);
      EXPECT_THROW(workers.for_each(97,
                                    [](int, std::int64_t i) {
                                      if (i == 13) throw std::runtime_error("13");
                                    }),
                   std::runtime_error);
    }
    workers.for_each(0, [](int, std::int64_t) { FAIL(); });
  }
}

TEST(Layers, RolesByName) {
  ModelFacts facts;
  facts.vocabulary = 100;
  const auto role = [&](const std::string& name, std::vector<std::int64_t> shape) {
    return role_of(new_tensor(name, *dtype_of("F32"), std::move(shape)), facts);
  };
  for (const char* linear : {"model.layers.0.self_attn.q_proj", "encoder.layer.3.attention.output.dense",
                             "pooler.dense", "h.1.mlp.gate_proj", "layers.0.output", "embeddings_project",
                             "encoder.embedding_hidden_mapping_in", "model.layers.2.mlp.experts.5.w1"}) {
    EXPECT_EQ(role(linear + std::string(".weight"), {64, 32}), Role::Linear) << linear;
  }
  for (const char* embedding :
       {"model.embed_tokens", "embeddings.word_embeddings", "transformer.wte", "shared", "tok_embeddings"}) {
    EXPECT_EQ(role(embedding + std::string(".weight"), {64, 32}), Role::Embedding) << embedding;
  }
  for (const char* head : {"lm_head", "embed_out", "cls.predictions.decoder", "language_model.lm_head",
                           "classifier.out_proj", "score", "output"}) {
    EXPECT_EQ(role(head + std::string(".weight"), {64, 32}), Role::Head) << head;
  }
  EXPECT_EQ(role("model.layers.0.mlp.gate.weight", {8, 32}), Role::Router);
  EXPECT_EQ(role("unknown.weight", {100, 32}), Role::Vocabulary);
  EXPECT_EQ(role("layers.0.unknown.weight", {100, 32}), Role::Linear);
  EXPECT_EQ(role("a.bias", {64, 32}), Role::Other);
  EXPECT_EQ(role("a.weight", {64}), Role::Other);
  EXPECT_EQ(role("a.weight", {64, 0}), Role::Other);
  facts.transposed_linears = true;
  EXPECT_EQ(role("h.0.attn.c_attn.weight", {64, 32}), Role::Transposed);
}

}  // namespace
}  // namespace planck::cli
