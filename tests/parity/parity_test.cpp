// Every kernel of the list, on every instruction set this machine has, with 1, 2, 3 and 7 threads, in every
// layout, gives the bits of the plain-loop reference on contiguous data.
//
// All instruction sets meet all thread counts on contiguous data; in the other layouts each pair of the two meets some,
// and the best instruction set meets all thread counts. PARITY_CROSS=full in the environment tries everything.
#include "testing/parity.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

constexpr int kThreads[] = {1, 2, 3, 7};

constexpr std::int64_t kUsualCache = std::int64_t{32} << 20;

ThreadExecutor& executor_of(int threads, std::int64_t cache_bytes) {
  static std::map<std::pair<int, std::int64_t>, ThreadExecutor> executors;
  return executors.try_emplace({threads, cache_bytes}, threads, cache_bytes).first->second;
}

bool full_cross() {
  static const char* const kCross = std::getenv("PARITY_CROSS");
  static const bool kFull = kCross != nullptr && std::string_view(kCross) == "full";
  return kFull;
}

/// The thread counts that an instruction set is tried with in one scenario; both are counted from the first.
std::vector<int> threads_for(std::size_t scenario, std::size_t arch, bool first_broadcast, std::span<const int> all) {
  if (full_cross() || arch == 0 || (scenario == 0 && first_broadcast)) return {all.begin(), all.end()};
  return {all[(scenario + arch) % all.size()]};
}

class Parity : public testing::TestWithParam<cpu::KernelRow> {
 protected:
  void check(const Shape& shape, std::span<const Scenario> scenarios, std::span<const int> thread_counts,
             std::int64_t cache_bytes = kUsualCache) {
    const std::vector<ArchSku> archs = archs_here();
    for_each_trial(GetParam(), shape, scenarios, [&](const Trial& trial) {
      for (std::size_t a = 0; a < archs.size(); ++a) {
        for (const int threads : threads_for(trial.scenario, a, trial.first_broadcast, thread_counts)) {
          PlanPreference preference;
          preference.prefer_arch = archs[a];
          const auto& plan = trial.problem.plan(Stream::cpu(executor_of(threads, cache_bytes)), preference);
          ASSERT_TRUE(trial.arrangement.run(plan)) << to_string(archs[a]) << ", " << threads << " threads";
        }
      }
    });
  }
};

TEST_P(Parity, AwkwardSizes) {
  constexpr int kOneThread[] = {1};
  std::vector<std::int64_t> sizes = {0, 1, 7, 8, 9, 31, 33, 63, 64, 65, 4095, 4096, 4097};
  if (GetParam().category == OpCategory::Scan) sizes.insert(sizes.end(), {511, 512, 513, 8192, 12288});
  for (const std::int64_t n : sizes) {
    SCOPED_TRACE(n);
    check(Shape{n}, kScenarios, kOneThread);
  }
}

TEST_P(Parity, ThreadsOnLongRow) {
  constexpr std::int64_t kSmallCache = 800 << 10;  // a quarter of it has a few segments
  check(Shape{100003}, std::span(kScenarios).first(8), kThreads, kSmallCache);
  // The same without non-temporal stores where an element has many bytes of operands.
  check(Shape{100003}, std::span(kScenarios).first(1), kThreads, 4 << 20);
  check(Shape{40003}, std::span(kScenarios).subspan(11, 1), kThreads, kSmallCache);  // in place
}

TEST_P(Parity, ThreadsOnMatrix) { check(Shape{199, 229}, kScenarios, kThreads); }

TEST_P(Parity, StreamedStores) {
  constexpr int kTwoThreads[] = {2};
  constexpr std::int64_t kNoCache = 0;
  check(Shape{4099}, kScenarios, kTwoThreads, kNoCache);
  check(Shape{33, 1031}, kScenarios, kTwoThreads, kNoCache);
  check(Shape{33, 1024}, std::span(kScenarios).first(1), kTwoThreads, kNoCache);  // columns begin on cache lines
  check(Shape{69632}, std::span(kScenarios).first(1), kTwoThreads, kNoCache);     // and so do segments of a row
  // And so do short rows of one element kind or another, which do not fill the lanes of registers.
  for (const std::int64_t length : {32, 40, 48, 56, 64, 96, 128, 320}) {
    check(Shape{67, length}, std::span(kScenarios).first(1), kTwoThreads, kNoCache);
  }
}

TEST_P(Parity, HigherRanks) {
  constexpr int kThreeThreads[] = {3};
  check(Shape{}, kScenarios, kThreeThreads);
  check(Shape{5, 1, 7, 3}, kScenarios, kThreeThreads);
  check(Shape{65, 9, 130}, kScenarios, kThreeThreads);
  check(Shape{2, 3, 2, 3, 2, 3, 2, 35}, kScenarios, kThreeThreads);
  check(Shape{4, 0, 5}, kScenarios, kThreeThreads);
}

TEST_P(Parity, FewLongRowsAndManyShortOnes) {
  check(Shape{3, 15013}, std::span(kScenarios).first(3), kThreads);
  check(Shape{15013, 3}, std::span(kScenarios).first(3), kThreads);
  check(Shape{3, 8256}, std::span(kScenarios).first(3), kThreads);  // whole groups, but no whole segments
  constexpr int kOneThread[] = {1};
  // Sums of whole blocks of 64, and columns that fill panels and cache lines.
  for (const std::int64_t n : {64, 128, 192, 512}) check(Shape{41, n}, std::span(kScenarios).first(2), kOneThread);
  constexpr int kMoreThanRows[] = {3};
  check(Shape{2, 40003}, std::span(kScenarios).first(1), kMoreThanRows);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Parity, testing::ValuesIn(kernel_list()),
                         [](const auto& row) { return name_of(row.param); });

}  // namespace
}  // namespace planck::test
