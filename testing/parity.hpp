// What parity tests do with a kernel: the reference's results for one problem, and the tensors of the problem in every
// layout, run by any plan and compared bit for bit, gaps included.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"

namespace planck::test {

struct Scenario {
  Layout inputs;
  Layout outputs;
  bool in_place;  ///< the last output of full shape takes the place of the first input of its kind
};

inline constexpr Scenario kScenarios[] = {
    {Layout::Contiguous, Layout::Contiguous, false}, {Layout::Offset, Layout::Offset, false},
    {Layout::Strided, Layout::Contiguous, false},    {Layout::Contiguous, Layout::Strided, false},
    {Layout::Reversed, Layout::Contiguous, false},   {Layout::Reversed, Layout::Reversed, false},
    {Layout::Contiguous, Layout::Reversed, false},   {Layout::Transposed, Layout::Contiguous, false},
    {Layout::Contiguous, Layout::Transposed, false}, {Layout::Transposed, Layout::Transposed, false},
    {Layout::Padded, Layout::Padded, false},         {Layout::Contiguous, Layout::Contiguous, true},
    {Layout::Strided, Layout::Strided, true},        {Layout::Transposed, Layout::Transposed, true},
};

/// What the second and later ways to broadcast are tried with.
inline constexpr Scenario kFewScenarios[] = {kScenarios[0], kScenarios[2], kScenarios[5], kScenarios[8],
                                             kScenarios[13]};

using Packed = std::map<std::size_t, std::vector<std::byte>>;  // by the tensor's place in the case
using Run = std::function<Result<void>(const Tensors&)>;

/// A case with its inputs, and what the reference makes of them, packed.
class Problem {
 public:
  Problem(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast);

  /// The plan for a device, an instruction set and a number of threads: selected once.
  const Result<Run>& plan(const Stream& stream, const PlanPreference& preference);

  OpCase op_case;
  Packed inputs;
  Packed expected;

 private:
  std::map<std::tuple<Device, std::optional<ArchSku>, int>, Result<Run>> plans_;
};

/// The tensors of a problem laid out for one scenario, ready to be run again and again.
class Arrangement {
 public:
  Arrangement(const Problem& problem, const Scenario& scenario);

  /// Runs the plan on fresh tensors and compares them whole, gaps included, with what they should be.
  testing::AssertionResult run(const Result<Run>& plan);

 private:
  void place_outputs_on_inputs();

  const Problem& problem_;
  std::vector<std::size_t> place_;  // which tensor stands for an argument
  std::vector<TestTensor> tensors_;
  std::map<std::size_t, TestTensor> fresh_;  // of those that a run writes; the others are the same after it
  std::vector<TestTensor> wanted_;
  Tensors views_;
};

/// How a problem was made and laid out.
struct Trial {
  Problem& problem;
  Arrangement& arrangement;
  bool first_broadcast;
  std::size_t scenario;  ///< counted from the first that is tried
};

/// body(trial) for every way to broadcast that the shape has, in the scenarios or, from the second way on and if
/// those are fewer, in kFewScenarios, until one fails.
void for_each_trial(const cpu::KernelRow& row, const Shape& shape, std::span<const Scenario> scenarios,
                    const std::function<void(const Trial&)>& body);

}  // namespace planck::test
