// Compiled with the address and undefined-behaviour sanitizers in every build: accesses outside of global and shared
// arrays end the run with a report that names the kernel's line.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/cuda_on_cpu/planted_faults.cuh"

namespace planted {
namespace {

constexpr int kCount = 100;

template <class Kernel>
int run(const Kernel& kernel, int excess) {
  std::vector<std::int64_t> out(kCount);
  return cuda_on_cpu::launch(dim3(2), dim3(kThreads), [&] { kernel(out.data(), excess); });
}

TEST(PlantedOverruns, Global) {
  EXPECT_EQ(run(overrun_global<kCount>, 0), 0);
  EXPECT_DEATH(run(overrun_global<kCount>, 1), "heap-buffer-overflow(.|\n)*overrun_global(.|\n)*planted_faults.cuh");
}

TEST(PlantedOverruns, Shared) {
  EXPECT_EQ(run(overrun_shared<kCount>, 0), 0);
  EXPECT_DEATH(run(overrun_shared<kCount>, 1),
               "global-buffer-overflow(.|\n)*overrun_shared(.|\n)*planted_faults.cuh(.|\n)*'values'");
}

TEST(PlantedOverruns, Misaligned) {
  std::vector<std::int64_t> memory(5);
  const auto write = [&](int at) {
    return cuda_on_cpu::launch(dim3(1), dim3(1),
                               [&] { *reinterpret_cast<int4*>(reinterpret_cast<char*>(memory.data()) + at) = int4{}; });
  };
  EXPECT_EQ(write(reinterpret_cast<std::uintptr_t>(memory.data()) % 16 == 0 ? 0 : 8), 0);
  EXPECT_DEATH(write(4), "misaligned address");
}

// After a launch that failed, the stacks that its threads left behind serve the next one.
TEST(PlantedOverruns, StacksAreUsedAgainAfterAFailure) {
  std::vector<std::int64_t> out(kThreads);
  for (int i = 0; i < 3; ++i) {
    EXPECT_NE(cuda_on_cpu::launch(dim3(2), dim3(kThreads), [&] { return_early<true>(out.data(), 100); }), 0);
    EXPECT_EQ(run(overrun_shared<kCount>, 0), 0);
  }
}

}  // namespace
}  // namespace planted
