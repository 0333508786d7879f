#include "testing/parity.hpp"

namespace planck::test {

Problem::Problem(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast)
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

const Result<Run>& Problem::plan(const Stream& stream, const PlanPreference& preference) {
  const int threads = stream.device() == Device::Cpu ? stream.threads() : 0;
  const auto [at, added] = plans_.try_emplace({stream.device(), preference.prefer_arch, threads});
  if (added) at->second = op_case.select(stream, preference);
  return at->second;
}

Arrangement::Arrangement(const Problem& problem, const Scenario& scenario) : problem_(problem) {
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

testing::AssertionResult Arrangement::run(const Result<Run>& plan) {
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

/// Every output of full shape takes the place of an input of its kind and shape.
void Arrangement::place_outputs_on_inputs() {
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

void for_each_trial(const cpu::KernelRow& row, const Shape& shape, std::span<const Scenario> scenarios,
                    const std::function<void(const Trial&)>& body) {
  const std::vector<Broadcast> broadcasts = broadcasts_for(row, shape);
  for (const Broadcast broadcast : broadcasts) {
    Problem problem(row, shape, broadcast);
    const bool first = broadcast == broadcasts.front();
    const std::span<const Scenario> tried =
        first || scenarios.size() < std::size(kFewScenarios) ? scenarios : std::span(kFewScenarios);
    for (std::size_t s = 0; s < tried.size(); ++s) {
      SCOPED_TRACE(testing::Message() << "inputs " << to_string(tried[s].inputs) << ", outputs "
                                      << to_string(tried[s].outputs) << (tried[s].in_place ? ", in place" : "")
                                      << ", broadcast " << static_cast<int>(broadcast));
      Arrangement arrangement(problem, tried[s]);
      body({problem, arrangement, first, s});
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace planck::test
