// Scans on two threads: whichever thread is faster, every run gives the same bits.
#include <gtest/gtest.h>

#include "support/op_cases.hpp"
#include "support/thread_executor.hpp"

namespace planck::test {
namespace {

using Outputs = std::vector<std::vector<std::byte>>;

void check_ten_runs(const cpu::KernelRow& row, const Shape& shape, const Stream& stream) {
  const OpCase op_case = make_case(row, shape);
  std::vector<TestTensor> tensors;
  for (const TensorSpec& spec : op_case.tensors) {
    tensors.emplace_back(spec.element, spec.shape, Layout::Contiguous);
    if (!spec.output) fill(tensors.back(), spec, tensors.size(), op_case.unit);
  }
  const auto plan = op_case.select(stream, {});
  ASSERT_TRUE(plan) << plan.error().message();
  Outputs first;
  for (int run = 0; run < 10; ++run) {
    Outputs outputs;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const TensorSpec& spec = op_case.tensors[i];
      if (spec.output) tensors[i] = TestTensor(spec.element, spec.shape, Layout::Contiguous);
    }
    ASSERT_TRUE((*plan)(Tensors(tensors.begin(), tensors.end())));
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (op_case.tensors[i].output) outputs.push_back(tensors[i].packed());
    }
    if (run == 0) first = outputs;
    ASSERT_TRUE(outputs == first) << name_of(row) << ", run " << run;
  }
}

TEST(ScanRepeats, TenRunsOnTwoThreadsGiveTheSameBits) {
  ThreadExecutor executor(2);
  for (const cpu::KernelRow& row : kernel_list()) {
    if (row.category != OpCategory::Scan || row.element != ElementKind::F32) continue;
    check_ten_runs(row, {70001}, Stream::cpu(executor));
    check_ten_runs(row, {3, 30011}, Stream::cpu(executor));
  }
}

}  // namespace
}  // namespace planck::test
