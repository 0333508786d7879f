// Every plan on a CUDA stream gives the bits of the plain-loop reference: all rows of the kernel list, in every layout
// and way to broadcast, at the borders of vectors, warps, blocks and tiles.
//
// Nothing in here knows where the kernels run: on this machine's fibers, or on a GPU (then testing/memory.hpp's source
// is the device's).
#include <gtest/gtest.h>

#include <span>

#include "testing/parity.hpp"

namespace planck::test {
namespace {

const std::span kAll(kScenarios);
const std::span kFew(kFewScenarios);
const std::span kPacked = kAll.first(1);

class CudaParity : public testing::TestWithParam<cpu::KernelRow> {
 protected:
  static void check(const Shape& shape, std::span<const Scenario> scenarios) {
    SCOPED_TRACE(testing::Message() << "shape " << testing::PrintToString(std::vector(shape.begin(), shape.end())));
    for_each_trial(GetParam(), shape, scenarios, [&](const Trial& trial) {
      const auto& plan = trial.problem.plan(Stream::cuda(nullptr), {});
      ASSERT_TRUE(trial.arrangement.run(plan));
    });
  }
};

TEST_P(CudaParity, BordersOfVectorsAndWarps) {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 31, 32, 33, 63, 64, 65}) check(Shape{n}, kAll);
}

TEST_P(CudaParity, BordersOfBlocks) {
  for (const std::int64_t n : {255, 256, 257, 511, 512, 513}) check(Shape{n}, kFew);
}

TEST_P(CudaParity, BordersOfTiles) {
  check(Shape{4097}, kAll);
  for (const std::int64_t n : {4095, 4096, 8191, 8192, 8193}) check(Shape{n}, kPacked);
}

TEST_P(CudaParity, MoreThanEightTiles) { check(Shape{40003}, kPacked); }

TEST_P(CudaParity, HigherRanks) {
  check(Shape{}, kAll);
  check(Shape{4, 0, 5}, kAll);
  check(Shape{5, 1, 7, 3}, kAll);
  check(Shape{2, 3, 2, 3, 2, 3, 2, 5}, kFew);
  check(Shape{3, 70, 33}, kFew.first(3));
}

TEST_P(CudaParity, FewLongRowsAndManyShortOnes) {
  check(Shape{3, 5003}, kAll.first(3));
  check(Shape{1003, 3}, kAll.first(3));
}

bool has_float_codes(const cpu::KernelRow& row) { return row.aux_element && is_float_code(*row.aux_element); }

std::vector<cpu::KernelRow> device_list() {
  std::vector<cpu::KernelRow> list = kernel_list();
  std::erase_if(list, has_float_codes);
  return list;
}

TEST(CudaRefuses, FloatCodes) {
  for (const cpu::KernelRow& row : kernel_list()) {
    if (!has_float_codes(row)) continue;
    const auto plan = make_case(row, {4, 64}, Broadcast::Rows).select(Stream::cuda(nullptr), {});
    ASSERT_FALSE(plan) << name_of(row);
    EXPECT_NE(std::string(plan.error().message()).find("a CUDA stream and codes = f8e"), std::string::npos);
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, CudaParity, testing::ValuesIn(device_list()),
                         [](const auto& row) { return name_of(row.param); });

}  // namespace
}  // namespace planck::test
