// A tour: fake-quantises a weight matrix, stores it as 8-bit codes with a scale for each row, brings it back, and
// blends it with the original; prints samples, errors, the kernels that ran, and their speed beside a plain copy.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "planck/planck.hpp"

namespace {

using namespace planck;

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kColumns = 4096;
constexpr std::int64_t kCount = kRows * kColumns;

/// The value of a result, or the end of the program with its message.
template <class T>
T must(Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *result;
}

/// The container as a matrix of the weights' shape.
template <class Container>
auto matrix(Container& elements) {
  return view(elements, {kRows, kColumns});
}

/// The best of several runs, in seconds: the others were disturbed.
template <class Body>
double best_time(const Body& body) {
  double best = 1e9;
  for (int i = 0; i < 12; ++i) {
    const auto start = std::chrono::steady_clock::now();
    body();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// Seconds to copy as many bytes as an operation reads and writes, with every core.
double copy_time(std::int64_t bytes) {
  const std::int64_t half = bytes / 2;
  std::vector<char> from(static_cast<std::size_t>(half), 1);
  std::vector<char> to(static_cast<std::size_t>(half), 2);
  const std::int64_t threads = Stream::cpu().threads();
  return best_time([&] {
    std::vector<std::thread> helpers;
    for (std::int64_t t = 0; t < threads; ++t) {
      helpers.emplace_back([&, t] {
        const std::int64_t begin = half * t / threads;
        std::memcpy(to.data() + begin, from.data() + begin, static_cast<std::size_t>(half * (t + 1) / threads - begin));
      });
    }
    for (auto& helper : helpers) helper.join();
  });
}

void print_speed(const KernelSku& sku, double seconds, std::int64_t bytes) {
  const double copy = copy_time(bytes);
  const auto gigabytes = static_cast<double>(bytes) * 1e-9;
  std::printf("  %-50s %6.2f ms  %5.1f GB/s   copy %6.2f ms  %5.1f GB/s   %.2f x copy\n", to_string(sku).c_str(),
              seconds * 1e3, gigabytes / seconds, copy * 1e3, gigabytes / copy, seconds / copy);
}

void print_samples(const char* name, const std::vector<float>& x) {
  std::printf("  %-16s", name);
  for (const std::size_t i : {0, 1, 2, 3, 77777, 16777215}) std::printf(" %9.5f", static_cast<double>(x[i]));
  std::printf("\n");
}

void print_errors(const char* name, const std::vector<float>& x, const std::vector<float>& y) {
  double largest = 0;
  double squares = 0;
  double signal = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double error = static_cast<double>(y[i]) - static_cast<double>(x[i]);
    largest = std::max(largest, std::fabs(error));
    squares += error * error;
    signal += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  }
  std::printf("  %-16s largest error %.6f, root mean square %.6f, signal to noise %.1f dB\n", name, largest,
              std::sqrt(squares / static_cast<double>(x.size())), 10 * std::log10(signal / squares));
}

}  // namespace

int main() {
  // Weights as a trained layer has them: normal, with a few outliers beyond the 8-bit range.
  std::vector<float> weights(kCount);
  std::mt19937 random(42);
  std::normal_distribution<float> normal(0.0F, 0.02F);
  for (float& w : weights) w = normal(random);
  for (std::size_t i = 0; i < weights.size(); i += 4999) weights[i] *= 4;
  const double scale = 0.08 / 127;
  const Stream stream = Stream::cpu();

  // Fake-quantised with one scale for the whole matrix.
  FakeQuantizeDescriptor fake{.shape = {kRows, kColumns}};
  const auto fake_plan = must(FakeQuantizePlan<float>::select(stream, fake));
  std::vector<float> faked(kCount);
  const FakeQuantizeArgs fake_args{.input = matrix(weights), .scale = scale, .output = matrix(faked)};
  const auto run_fake = [&] { must(fake_plan.run(stream, fake_args)); };

  // Stored as s8 codes and brought back, with a scale for each row: its largest weight becomes code ±127.
  std::vector<float> scales(kRows);
  for (std::size_t row = 0; row < scales.size(); ++row) {
    const auto first = weights.begin() + static_cast<std::int64_t>(row) * kColumns;
    const auto [lo, hi] = std::minmax_element(first, first + kColumns);
    scales[row] = std::max(-*lo, *hi) / 127;
  }
  const QuantizeDescriptor floats_to_codes{.shape = {kRows, kColumns}, .scope = PerChannel{0}};
  const auto quantize_plan = must(QuantizePlan<float, std::int8_t>::select(stream, floats_to_codes));
  std::vector<std::int8_t> codes(kCount);
  const QuantizeArgs quantize_args{.input = matrix(weights), .scale = view(scales), .output = matrix(codes)};
  const auto run_quantize = [&] { must(quantize_plan.run(stream, quantize_args)); };

  const DequantizeDescriptor codes_to_floats{.shape = {kRows, kColumns}, .scope = PerChannel{0}};
  const auto dequantize_plan = must(DequantizePlan<std::int8_t, float>::select(stream, codes_to_floats));
  std::vector<float> restored(kCount);
  const DequantizeArgs dequantize_args{.input = matrix(codes), .scale = view(scales), .output = matrix(restored)};
  const auto run_dequantize = [&] { must(dequantize_plan.run(stream, dequantize_args)); };

  const BinaryParamDescriptor lerp{.shape = {kRows, kColumns}, .param = 0.25};
  const auto lerp_plan = must(BinaryParamPlan<float>::select(stream, lerp));
  std::vector<float> blended(kCount);
  const BinaryParamArgs lerp_args{.a = matrix(weights), .b = matrix(faked), .y = matrix(blended)};
  const auto run_lerp = [&] { must(lerp_plan.run(stream, lerp_args)); };

  run_fake();
  run_quantize();
  run_dequantize();
  run_lerp();

  std::printf("A %lld x %lld f32 weight matrix, 8 bits, scale %.6f, on %d threads\n\nSamples\n",
              static_cast<long long>(kRows), static_cast<long long>(kColumns), scale, stream.threads());
  print_samples("weights", weights);
  print_samples("fake-quantised", faked);
  print_samples("from s8 codes", restored);
  print_samples("lerp 0.25", blended);
  std::printf("\nErrors against the weights\n");
  print_errors("fake-quantised", weights, faked);
  print_errors("from s8 codes", weights, restored);
  print_errors("lerp 0.25", weights, blended);
  // Quantise and dequantise in one: fake-quantise with the same scales.
  fake.scope = PerChannel{0};
  const auto channel_plan = must(FakeQuantizePlan<float>::select(stream, fake));
  std::vector<float> both(kCount);
  must(channel_plan.run(stream, {.input = matrix(weights), .scale = view(scales), .output = matrix(both)}));
  const bool same = std::memcmp(both.data(), restored.data(), both.size() * sizeof(float)) == 0;
  std::printf("  dequantised codes equal weights fake-quantised per channel bit for bit: %s\n", same ? "yes" : "NO");

  std::printf("\nKernels and speed, best of 12 (bytes read and written)\n");
  print_speed(fake_plan.sku(), best_time(run_fake), kCount * 8);
  print_speed(quantize_plan.sku(), best_time(run_quantize), kCount * 5);
  print_speed(dequantize_plan.sku(), best_time(run_dequantize), kCount * 5);
  print_speed(lerp_plan.sku(), best_time(run_lerp), kCount * 12);
  return same ? 0 : 1;
}
