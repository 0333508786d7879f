// Every kernel of the list, on every instruction set this machine has, with 1, 2, 3 and 7 threads, in every
// layout, gives the bits of the plain-loop reference on contiguous data.
#include <gtest/gtest.h>

#include <map>

#include "cpu/streaming.hpp"
#include "support/op_cases.hpp"
#include "support/test_tensor.hpp"
#include "support/thread_executor.hpp"

namespace planck::test {
namespace {

constexpr int kThreads[] = {1, 2, 3, 7};

struct Scenario {
  Layout inputs;
  Layout outputs;
  bool in_place;  ///< the last output of full shape takes the place of the first input of its kind
};

constexpr Scenario kScenarios[] = {
    {Layout::Contiguous, Layout::Contiguous, false}, {Layout::Offset, Layout::Offset, false},
    {Layout::Strided, Layout::Contiguous, false},    {Layout::Contiguous, Layout::Strided, false},
    {Layout::Reversed, Layout::Contiguous, false},   {Layout::Reversed, Layout::Reversed, false},
    {Layout::Contiguous, Layout::Reversed, false},   {Layout::Transposed, Layout::Contiguous, false},
    {Layout::Contiguous, Layout::Transposed, false}, {Layout::Transposed, Layout::Transposed, false},
    {Layout::Padded, Layout::Padded, false},         {Layout::Contiguous, Layout::Contiguous, true},
    {Layout::Strided, Layout::Strided, true},        {Layout::Transposed, Layout::Transposed, true},
};

/// What the second and later ways to broadcast are tried with.
constexpr Scenario kFewScenarios[] = {kScenarios[0], kScenarios[2], kScenarios[5], kScenarios[8], kScenarios[13]};

using Packed = std::map<std::size_t, std::vector<std::byte>>;  // by the tensor's place in the case

/// A case with its inputs and what the reference makes of them, packed.
class Problem {
 public:
  Problem(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast)
      : op_case(make_case(row, shape, broadcast)) {
    std::vector<TestTensor> tensors;
    Tensors views;
    for (std::size_t i = 0; i < op_case.tensors.size(); ++i) {
      const TensorSpec& spec = op_case.tensors[i];
      tensors.emplace_back(spec.element, spec.shape, Layout::Contiguous);
      if (!spec.output) {
        fill(tensors.back(), spec, i + 1, op_case.unit);
        inputs[i] = tensors.back().packed();
      }
    }
    for (const TestTensor& tensor : tensors) views.push_back(tensor);
    PlanPreference reference;
    reference.prefer_backend = BackendKind::Reference;
    const auto plan = op_case.select(Stream::cpu(1), reference);
    EXPECT_TRUE(plan) << plan.error().message();
    const Result<void> result = (*plan)(views);
    EXPECT_TRUE(result) << result.error().message();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (op_case.tensors[i].output) expected[i] = tensors[i].packed();
    }
  }

  OpCase op_case;
  Packed inputs;
  Packed expected;
};

/// The tensors of a problem laid out for one scenario, ready to be run again and again.
class Arrangement {
 public:
  Arrangement(const Problem& problem, const Scenario& scenario) : problem_(problem) {
    const auto& specs = problem.op_case.tensors;
    for (std::size_t i = 0; i < specs.size(); ++i) {
      tensors_.emplace_back(specs[i].element, specs[i].shape, specs[i].output ? scenario.outputs : scenario.inputs);
      if (!specs[i].output) tensors_[i].assign(problem.inputs.at(i));
      place_.push_back(i);
    }
    if (scenario.in_place) place_outputs_on_inputs();
    fresh_ = tensors_;
    wanted_ = tensors_;
    for (const auto& [i, bytes] : problem.expected) wanted_[place_[i]].assign(bytes);
  }

  /// Runs the plan on fresh tensors and compares them whole, gaps included, with what they should be.
  testing::AssertionResult run(const Stream& stream, const PlanPreference& preference) {
    const auto plan = problem_.op_case.select(stream, preference);
    if (!plan) return testing::AssertionFailure() << plan.error().message();
    Tensors views;
    for (const std::size_t place : place_) {
      tensors_[place].copy_bytes(fresh_[place]);
      views.push_back(tensors_[place]);
    }
    const Result<void> result = (*plan)(views);
    if (!result) return testing::AssertionFailure() << result.error().message();
    for (std::size_t i = 0; i < place_.size(); ++i) {
      const TestTensor& got = tensors_[place_[i]];
      const TestTensor& wanted = wanted_[place_[i]];
      if (got.same_bytes(wanted)) continue;
      const TensorSpec& spec = problem_.op_case.tensors[i];
      if (!got.guards_intact()) return testing::AssertionFailure() << "bytes outside " << spec.name << " were written";
      const std::int64_t at = first_difference(spec.element, wanted.packed(), got.packed());
      if (at < 0) continue;  // NaNs with another payload
      return testing::AssertionFailure() << spec.name << " differs at logical index " << at << ": reference "
                                         << element_as_double(spec.element, wanted.packed(), at) << ", got "
                                         << element_as_double(spec.element, got.packed(), at);
    }
    return testing::AssertionSuccess();
  }

 private:
  /// Every output of full shape takes the place of an input of its kind and shape.
  void place_outputs_on_inputs() {
    const auto& specs = problem_.op_case.tensors;
    std::vector<bool> taken(specs.size());
    for (std::size_t o = 0; o < specs.size(); ++o) {
      if (!specs[o].output || specs[o].summed || specs[o].shape != specs[0].shape) continue;
      for (std::size_t i = 0; i < specs.size(); ++i) {
        if (taken[i] || specs[i].output || specs[i].element != specs[o].element || specs[i].shape != specs[o].shape) {
          continue;
        }
        place_[o] = i;
        taken[i] = true;
        break;
      }
    }
  }

  const Problem& problem_;
  std::vector<std::size_t> place_;  // which tensor stands for an argument
  std::vector<TestTensor> tensors_;
  std::vector<TestTensor> fresh_;
  std::vector<TestTensor> wanted_;
};

class Parity : public testing::TestWithParam<cpu::KernelRow> {
 protected:
  void check(const Shape& shape, std::span<const Scenario> scenarios, std::span<const int> thread_counts) {
    for (const Broadcast broadcast : broadcasts_for(GetParam(), shape)) {
      const Problem problem(GetParam(), shape, broadcast);
      const bool first = broadcast == broadcasts_for(GetParam(), shape).front();
      for (const Scenario& scenario : first ? scenarios : std::span(kFewScenarios)) {
        Arrangement arrangement(problem, scenario);
        for (const ArchSku arch : archs_here()) {
          for (const int threads : thread_counts) {
            ThreadExecutor executor(threads);
            PlanPreference preference;
            preference.prefer_arch = arch;
            ASSERT_TRUE(arrangement.run(Stream::cpu(executor), preference))
                << to_string(arch) << ", " << threads << " threads, inputs " << to_string(scenario.inputs)
                << ", outputs " << to_string(scenario.outputs) << (scenario.in_place ? ", in place" : "")
                << ", broadcast " << static_cast<int>(broadcast);
          }
        }
      }
    }
  }
};

TEST_P(Parity, AwkwardSizes) {
  constexpr int kOneThread[] = {1};
  for (const std::int64_t n : {0, 1, 7, 8, 9, 31, 33, 63, 64, 65, 4095, 4096, 4097}) {
    SCOPED_TRACE(n);
    check(Shape{n}, kScenarios, kOneThread);
  }
}

TEST_P(Parity, ThreadsOnLongRow) { check(Shape{100003}, std::span(kScenarios).first(8), kThreads); }

TEST_P(Parity, ThreadsOnMatrix) { check(Shape{199, 229}, kScenarios, kThreads); }

TEST_P(Parity, StreamedStores) {
  constexpr int kTwoThreads[] = {2};
  cpu::stream_bytes = 0;
  check(Shape{4099}, kScenarios, kTwoThreads);
  check(Shape{33, 1031}, kScenarios, kTwoThreads);
  cpu::stream_bytes = cpu::kStreamBytes;
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
}

INSTANTIATE_TEST_SUITE_P(Kernels, Parity, testing::ValuesIn(kernel_list()),
                         [](const auto& row) { return name_of(row.param); });

}  // namespace
}  // namespace planck::test
