// Every kernel of the list, on every instruction set this machine has, with 1, 2, 3 and 7 threads, in every
// layout, gives the bits of the plain-loop reference on contiguous data.
//
// All instruction sets meet all thread counts on contiguous data; in the other layouts each pair of the two meets some,
// and the best instruction set meets all thread counts. PARITY_CROSS=full in the environment tries everything.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <map>
#include <span>
#include <string_view>

#include "cpu/row_scan.hpp"
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
using Run = std::function<Result<void>(const Tensors&)>;

ThreadExecutor& executor_of(int threads) {
  static std::map<int, ThreadExecutor> executors;
  return executors.try_emplace(threads, threads).first->second;
}

/// A case with its inputs, what the reference makes of them, packed, and its plans.
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

  const Result<Run>& plan(ArchSku arch, int threads) {
    const auto [at, added] = plans_.try_emplace({arch, threads});
    if (added) {
      PlanPreference preference;
      preference.prefer_arch = arch;
      at->second = op_case.select(Stream::cpu(executor_of(threads)), preference);
    }
    return at->second;
  }

  OpCase op_case;
  Packed inputs;
  Packed expected;

 private:
  std::map<std::pair<ArchSku, int>, Result<Run>> plans_;
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
    wanted_ = tensors_;
    for (const auto& [i, bytes] : problem.expected) {
      fresh_.emplace(place_[i], tensors_[place_[i]]);
      wanted_[place_[i]].assign(bytes);
    }
    for (const std::size_t place : place_) views_.push_back(tensors_[place]);
  }

  /// Runs the plan on fresh tensors and compares them whole, gaps included, with what they should be.
  testing::AssertionResult run(const Result<Run>& plan) {
    if (!plan) return testing::AssertionFailure() << plan.error().message();
    for (const auto& [place, tensor] : fresh_) tensors_[place].copy_bytes(tensor);
    const Result<void> result = (*plan)(views_);
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
  std::map<std::size_t, TestTensor> fresh_;  // of those that a run writes; the others are the same after it
  std::vector<TestTensor> wanted_;
  Tensors views_;
};

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
  void check(const Shape& shape, std::span<const Scenario> scenarios, std::span<const int> thread_counts) {
    const std::vector<ArchSku> archs = archs_here();
    const std::vector<Broadcast> broadcasts = broadcasts_for(GetParam(), shape);
    for (const Broadcast broadcast : broadcasts) {
      Problem problem(GetParam(), shape, broadcast);
      const bool first = broadcast == broadcasts.front();
      const std::span<const Scenario> tried = first ? scenarios : std::span(kFewScenarios);
      for (std::size_t s = 0; s < tried.size(); ++s) {
        const Scenario& scenario = tried[s];
        Arrangement arrangement(problem, scenario);
        for (std::size_t a = 0; a < archs.size(); ++a) {
          for (const int threads : threads_for(s, a, first, thread_counts)) {
            ASSERT_TRUE(arrangement.run(problem.plan(archs[a], threads)))
                << to_string(archs[a]) << ", " << threads << " threads, inputs " << to_string(scenario.inputs)
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
  std::vector<std::int64_t> sizes = {0, 1, 7, 8, 9, 31, 33, 63, 64, 65, 4095, 4096, 4097};
  if (GetParam().category == OpCategory::Scan) sizes.insert(sizes.end(), {511, 512, 513, 8192, 12288});
  for (const std::int64_t n : sizes) {
    SCOPED_TRACE(n);
    check(Shape{n}, kScenarios, kOneThread);
  }
}

TEST_P(Parity, ThreadsOnLongRow) {
  cpu::row_chunk_bytes = 200 << 10;  // a few pieces
  check(Shape{100003}, std::span(kScenarios).first(8), kThreads);
  check(Shape{40003}, std::span(kScenarios).subspan(11, 1), kThreads);  // in place
  cpu::row_chunk_bytes = cpu::kRowChunkBytes;
}

TEST_P(Parity, ThreadsOnMatrix) { check(Shape{199, 229}, kScenarios, kThreads); }

TEST_P(Parity, StreamedStores) {
  constexpr int kTwoThreads[] = {2};
  cpu::stream_bytes = 0;
  check(Shape{4099}, kScenarios, kTwoThreads);
  check(Shape{33, 1031}, kScenarios, kTwoThreads);
  check(Shape{33, 1024}, std::span(kScenarios).first(1), kTwoThreads);  // columns that begin on cache lines
  check(Shape{69632}, std::span(kScenarios).first(1), kTwoThreads);     // and pieces of a row
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
  check(Shape{3, 8256}, std::span(kScenarios).first(3), kThreads);  // whole groups, but no whole pieces
  constexpr int kMoreThanRows[] = {3};
  check(Shape{2, 40003}, std::span(kScenarios).first(1), kMoreThanRows);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Parity, testing::ValuesIn(kernel_list()),
                         [](const auto& row) { return name_of(row.param); });

}  // namespace
}  // namespace planck::test
