// Compiled with the thread sanitizer in every build: a missing barrier is a race between fibers, whatever the schedule
// was, and the kernel that has it is silent.
#include <gtest/gtest.h>

#include <vector>

#include "tests/unit/cuda_on_cpu/planted_faults.cuh"

// The second run of a death test is a process of its own; the first race ends it.
extern "C" const char* __tsan_default_options() { return "halt_on_error=1"; }

namespace planted {
namespace {

template <class Kernel>
int run(const Kernel& kernel) {
  std::vector<std::int64_t> sums(3 * kThreads);
  return cuda_on_cpu::launch(dim3(3), dim3(kThreads), [&] { kernel(sums.data()); });
}

class PlantedRaces : public testing::Test {
 protected:
  PlantedRaces() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(PlantedRaces, BarriersInTheirPlaces) {
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(run(pass_on<true, true>), 0);
    EXPECT_EQ(run(pass_on_in_warp<true>), 0);
  }
}

TEST_F(PlantedRaces, MissingBarriers) {
  EXPECT_DEATH(run(pass_on<false, true>), "data race(.|\n)*pass_on(.|\n)*values");
  EXPECT_DEATH(run(pass_on<true, false>), "data race(.|\n)*pass_on(.|\n)*values");
  EXPECT_DEATH(run(pass_on_in_warp<false>), "data race(.|\n)*pass_on_in_warp(.|\n)*values");
}

}  // namespace
}  // namespace planted
