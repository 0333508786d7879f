// Shapes that make the scan engine take each of its ways: bits as the reference, whatever way that is.
#include <gtest/gtest.h>

#include "testing/op_cases.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

using Outputs = std::vector<std::vector<std::byte>>;

Outputs run(const OpCase& op_case, const Stream& stream, const PlanPreference& preference,
            Layout layout = Layout::Contiguous) {
  std::vector<TestTensor> tensors;
  for (const TensorSpec& spec : op_case.tensors) {
    tensors.emplace_back(spec.element, spec.shape, layout);
    if (!spec.output) fill(tensors.back(), spec, tensors.size(), op_case.unit);
  }
  const auto plan = op_case.select(stream, preference);
  EXPECT_TRUE(plan) << plan.error().message();
  EXPECT_TRUE((*plan)(Tensors(tensors.begin(), tensors.end())));
  Outputs outputs;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (op_case.tensors[i].output) outputs.push_back(tensors[i].packed());
  }
  return outputs;
}

bool same(const OpCase& op_case, const Outputs& a, const Outputs& b) {
  std::size_t k = 0;
  for (const TensorSpec& spec : op_case.tensors) {
    if (!spec.output) continue;
    if (first_difference(spec.element, a[k], b[k]) >= 0) return false;
    ++k;
  }
  return true;
}

struct Schedule {
  Shape shape;
  int threads;
  std::size_t workspace;  ///< at most
};

void check(const cpu::KernelRow& row, const std::vector<Schedule>& schedules) {
  PlanPreference reference;
  reference.prefer_backend = BackendKind::Reference;
  Shape shape;
  std::optional<OpCase> op_case;
  Outputs expected;
  for (const Schedule& schedule : schedules) {
    if (!op_case || schedule.shape != shape) {
      shape = schedule.shape;
      op_case = make_case(row, shape);
      expected = run(*op_case, Stream::cpu(1), reference);
    }
    ThreadExecutor executor(schedule.threads);
    PlanPreference preference;
    preference.max_workspace_bytes = schedule.workspace;
    // Along rows, and with elements apart, so that columns lie side by side.
    for (const Layout layout : {Layout::Contiguous, Layout::Strided}) {
      EXPECT_TRUE(same(*op_case, run(*op_case, Stream::cpu(executor), preference, layout), expected))
          << name_of(row) << ", " << shape[0] << " rows, " << schedule.threads << " threads, workspace "
          << schedule.workspace << ", " << to_string(layout);
    }
  }
}

std::vector<cpu::KernelRow> rows(ElementKind element) {
  std::vector<cpu::KernelRow> rows = kernel_list();
  std::erase_if(rows,
                [&](const cpu::KernelRow& row) { return row.category != OpCategory::Scan || row.element != element; });
  return rows;
}

constexpr std::size_t kAll = std::numeric_limits<std::size_t>::max();

/// Fewer strips than threads, but columns enough to fill registers: blocks are an outer dimension.
TEST(ScanSchedules, BlocksOfManyLanes) {
  for (const auto& row : rows(ElementKind::F32)) check(row, {{{20, 5000}, 7, kAll}, {{20, 5000}, 7, 0}});
}

/// States of a feed in the workspace, shared out among threads, in less of it, and on the stack.
TEST(ScanSchedules, FeedsInTheWorkspace) {
  for (const auto& row : rows(ElementKind::Bf16)) {
    if (!row.backward) continue;
    check(row, {{{64, 9001}, 2, kAll}, {{64, 9001}, 3, kAll}, {{64, 9001}, 3, 100000}, {{64, 9001}, 2, 0}});
  }
}

/// A row whose feed has as many states as the stack holds, and one more: then they need workspace. The reference would
/// take minutes; columns go another way.
TEST(ScanSchedules, RowsWithManyFeedStates) {
  for (const auto& row : rows(ElementKind::F32)) {
    if (!row.backward || row.op != static_cast<std::int32_t>(ScanKind::Cumprod)) continue;
    for (const std::int64_t n : {4194304, 4194305}) {
      const OpCase op_case = make_case(row, {1, n});
      const Outputs expected = run(op_case, Stream::cpu(1), {}, Layout::Strided);
      for (const int threads : {1, 3}) {
        ThreadExecutor executor(threads);
        EXPECT_TRUE(same(op_case, run(op_case, Stream::cpu(executor), {}), expected)) << n << ", " << threads;
      }
    }
  }
}

/// Whichever thread is faster, every run gives the same bits.
TEST(ScanSchedules, TenRunsOnTwoThreadsGiveTheSameBits) {
  ThreadExecutor executor(2);
  for (const auto& row : rows(ElementKind::F32)) {
    for (const Shape& shape : {Shape{70001}, Shape{3, 30011}}) {
      const OpCase op_case = make_case(row, shape);
      const Outputs first = run(op_case, Stream::cpu(executor), {});
      for (int again = 1; again < 10; ++again) {
        ASSERT_TRUE(run(op_case, Stream::cpu(executor), {}) == first) << name_of(row) << ", run " << again;
      }
    }
  }
}

/// Rows with elements apart whose feed has more states than fit anywhere: it is walked again for the rest.
TEST(ScanSchedules, FeedsWithoutMemory) {
  for (const auto& row : rows(ElementKind::F32)) {
    const bool extremum = row.op == static_cast<std::int32_t>(ScanKind::Cummax) && !row.aux_element;
    if (row.backward && extremum) check(row, {{{2, 140001}, 2, 0}});
  }
}

}  // namespace
}  // namespace planck::test
