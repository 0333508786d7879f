// The harness finds what it is there to find: each fault is planted in a kernel that is right otherwise.
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "tests/unit/cuda_on_cpu/planted_faults.cuh"

namespace planted {
namespace {

constexpr int kSeeds = 20;

/// The message of the failure that a launch must give.
template <class Kernel>
std::string report_of(unsigned threads, const Kernel& kernel) {
  EXPECT_EQ(cuda_on_cpu::launch(dim3(2), dim3(threads), kernel), cuda_on_cpu::kLaunchFailure);
  return cuda_on_cpu::last_report();
}

void expect_words(const std::string& report, std::initializer_list<const char*> words) {
  for (const char* word : words) EXPECT_NE(report.find(word), std::string::npos) << word << ": " << report;
}

/// In how many of the schedules some thread gets a wrong value.
template <class Kernel, class Expected>
int wrong_schedules(const Kernel& kernel, const Expected& expected) {
  int wrong = 0;
  for (int seed = 1; seed <= kSeeds; ++seed) {
    cuda_on_cpu::set_seed(static_cast<std::uint64_t>(seed));
    std::vector<std::int64_t> sums(3 * kThreads);
    EXPECT_EQ(cuda_on_cpu::launch(dim3(3), dim3(kThreads), [&] { kernel(sums.data()); }), 0);
    bool right = true;
    for (int i = 0; i < 3 * kThreads; ++i) right = right && sums[static_cast<std::size_t>(i)] == expected(i % kThreads);
    wrong += right ? 0 : 1;
  }
  return wrong;
}

TEST(PlantedFaults, MissingBarriers) {
  EXPECT_EQ(wrong_schedules(pass_on<true, true>, passed_on), 0);
  EXPECT_GT(wrong_schedules(pass_on<false, true>, passed_on), kSeeds / 2) << "a reader never ran before its writer";
  EXPECT_GT(wrong_schedules(pass_on<true, false>, passed_on), kSeeds / 2) << "no value was overwritten too early";
}

TEST(PlantedFaults, MissingWarpBarrier) {
  const auto neighbour = [](int t) { return t ^ 1; };
  EXPECT_EQ(wrong_schedules(pass_on_in_warp<true>, neighbour), 0);
  EXPECT_GT(wrong_schedules(pass_on_in_warp<false>, neighbour), kSeeds / 2);
}

TEST(PlantedFaults, ReturnBeforeABarrier) {
  std::vector<std::int64_t> out(100);
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(kThreads), [&] { return_early<false>(out.data(), 100); }), 0);
  EXPECT_EQ(out[99], 7);
  expect_words(
      report_of(kThreads, [&] { return_early<true>(out.data(), 100); }),
      {"barrier", "thread (0, 0, 0) waits at __syncthreads in planted_faults.cuh:", "thread (100, 0, 0) has returned"});
}

TEST(PlantedFaults, DifferentBarriers) {
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(kThreads), [] { barriers_apart(0); }), 0);
  const std::string report = report_of(kThreads, [] { barriers_apart(50); });
  expect_words(report, {"thread (0, 0, 0) waits at __syncthreads in planted_faults.cuh:",
                        "thread (50, 0, 0) waits at __syncthreads in planted_faults.cuh:"});
}

TEST(PlantedFaults, ShufflesWithLanesMissing) {
  std::vector<std::int64_t> out(64);
  const auto run = [&]<Missing kMissing>() { return [&] { shuffle_without<kMissing>(out.data(), 0xffffffffU); }; };
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(64), run.operator()<Missing::None>()), 0);
  EXPECT_EQ(out[37], 36);
  const char* const waits = "waits in __shfl_xor_sync(0xffffffff) in planted_faults.cuh:";
  expect_words(report_of(64, run.operator()<Missing::Returned>()), {waits, "thread (37, 0, 0) has returned"});
  expect_words(report_of(64, run.operator()<Missing::AtBarrier>()),
               {waits, "thread (37, 0, 0) waits at __syncthreads"});
  expect_words(report_of(64, run.operator()<Missing::InAnother>()),
               {waits, "thread (37, 0, 0) waits in __ballot_sync"});
  expect_words(report_of(40, [&] { shuffle_without<Missing::None>(out.data(), 0xffffffffU); }),
               {"thread (32, 0, 0)", "has no lane 8"});
  expect_words(report_of(64, [&] { shuffle_without<Missing::None>(out.data(), 0xfeffffffU); }), {"is lane 24 itself"});
  expect_words(report_of(32, [&] { shuffle_from_outside(out.data()); }), {"__shfl_sync(0xffff)", "lane 20"});
}

TEST(PlantedFaults, SharedMemoryBeginsAsNonsense) {
  std::vector<std::int64_t> out(kThreads);
  cuda_on_cpu::launch(dim3(1), dim3(kThreads), [&] { read_unwritten(out.data()); });
  for (const std::int64_t value : out) EXPECT_NE(value, 0);
}

TEST(Launch, ConfigurationsThatNoDeviceTakes) {
  const auto nothing = [] {};
  for (const auto& [grid, block] : {std::pair(dim3(0), dim3(32)), std::pair(dim3(1), dim3(0)),
                                    std::pair(dim3(1), dim3(1025)), std::pair(dim3(1), dim3(64, 32)),
                                    std::pair(dim3(1, 65536), dim3(32)), std::pair(dim3(0x80000000U), dim3(32))}) {
    EXPECT_EQ(cuda_on_cpu::launch(grid, block, nothing), cuda_on_cpu::kInvalidConfiguration);
  }
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(1024), nothing), 0);
}

TEST(Launch, EveryThreadOfEveryBlockRunsOnce) {
  const dim3 grid(5, 3, 2);
  const dim3 block(8, 5, 3);
  std::vector<int> ran(30 * 120);
  EXPECT_EQ(cuda_on_cpu::launch(grid, block,
                                [&] {
                                  const unsigned b = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
                                  const unsigned t =
                                      (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
                                  atomicAdd(&ran[b * 120 + t], 1);
                                }),
            0);
  EXPECT_EQ(ran, std::vector<int>(ran.size(), 1));
}

TEST(Launch, SeedsChooseTheOrderOfBlocksAndWarps) {
  std::set<std::vector<unsigned>> orders;
  const auto order_of = [](std::uint64_t seed) {
    std::vector<unsigned> order;
    cuda_on_cpu::set_seed(seed);
    cuda_on_cpu::launch(dim3(7), dim3(96), [&] {
      if (threadIdx.x % 32 == 0) order.push_back(blockIdx.x * 3 + threadIdx.x / 32);
    });
    return order;
  };
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    orders.insert(order_of(seed));
    EXPECT_EQ(order_of(seed), order_of(seed));
  }
  EXPECT_GE(orders.size(), 9U);
}

TEST(Words, ShufflesOfAllKinds) {
  std::vector<std::int64_t> up(32), down(32), from(32), crossed(32);
  std::vector<float> wide(32);
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(32),
                                [&] {
                                  const unsigned t = threadIdx.x;
                                  const std::int64_t v = t;
                                  up[t] = __shfl_up_sync(~0U, v, 3, 8);
                                  down[t] = __shfl_down_sync(~0U, v, 3, 8);
                                  from[t] = __shfl_sync(~0U, v, 5, 8);
                                  crossed[t] = __shfl_xor_sync(~0U, v, 9, 16);
                                  wide[t] = __shfl_down_sync(~0U, static_cast<float>(t) + 0.5F, 1);
                                }),
            0);
  for (std::int64_t t = 0; t < 32; ++t) {
    const auto i = static_cast<std::size_t>(t);
    EXPECT_EQ(up[i], t % 8 >= 3 ? t - 3 : t);
    EXPECT_EQ(down[i], t % 8 < 5 ? t + 3 : t);
    EXPECT_EQ(from[i], t / 8 * 8 + 5);
    EXPECT_EQ(crossed[i], t ^ 9);
    EXPECT_EQ(wide[i], static_cast<float>(t < 31 ? t + 1 : t) + 0.5F);
  }
}

TEST(Words, VotesAndSubsetsOfAWarp) {
  std::vector<unsigned> ballots(32);
  std::vector<int> any(32), all(32);
  EXPECT_EQ(cuda_on_cpu::launch(dim3(1), dim3(32),
                                [&] {
                                  const unsigned t = threadIdx.x;
                                  const unsigned mask = t < 8 ? 0xffU : ~0xffU;  // two groups, each on its own
                                  for (int i = 0; i <= static_cast<int>(t / 8); ++i)
                                    __syncwarp(t / 8 == 0 ? 0xffU : 0xffU << t / 8 * 8);
                                  ballots[t] = __ballot_sync(mask, t % 2 == 0);
                                  any[t] = __any_sync(mask, t == 3);
                                  all[t] = __all_sync(mask, t >= 8);
                                }),
            0);
  for (unsigned t = 0; t < 32; ++t) {
    EXPECT_EQ(ballots[t], t < 8 ? 0x55U : 0x55555500U);
    EXPECT_EQ(any[t], t < 8);
    EXPECT_EQ(all[t], t >= 8);
  }
}

TEST(Words, Atomics) {
  int sum = 0;
  unsigned long long least = ~0ULL;
  long long most = -1;
  unsigned wraps = 0xffffffffU;
  int taken = 0;
  int winners = 0;
  EXPECT_EQ(cuda_on_cpu::launch(dim3(3), dim3(64),
                                [&] {
                                  const unsigned t = blockIdx.x * 64 + threadIdx.x;
                                  atomicAdd(&sum, static_cast<int>(t));
                                  atomicAdd(&wraps, 1U);
                                  atomicMin(&least, t + 5);
                                  atomicMax(&most, static_cast<long long>(t));
                                  if (atomicCAS(&taken, 0, 1) == 0) atomicAdd(&winners, 1);
                                  __threadfence();
                                }),
            0);
  EXPECT_EQ(sum, 192 * 191 / 2);
  EXPECT_EQ(wraps, 191U);
  EXPECT_EQ(least, 5U);
  EXPECT_EQ(most, 191);
  EXPECT_EQ(winners, 1);
}

}  // namespace
}  // namespace planted
