// How many instructions a fixed set of kernels takes: run by bench/instructions.py under callgrind, which counts each
// run by itself. Times say little on a busy machine; these counts are the same every time.
#include <valgrind/callgrind.h>

#include <cstdio>
#include <string>
#include <vector>

#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"

namespace planck::bench {
namespace {

using test::Broadcast;

struct Counted {
  const char* kernel;  ///< its name in the list
  Broadcast broadcast;
  Shape shape;
};

/// One or two of each family, along rows and columns, in a wide and a narrow element; and calls with next to nothing to
/// do.
const std::vector<Counted>& counted() {
  static const Shape square{256, 256};
  static const Shape small{1, 64};
  static const std::vector<Counted> kAll = {
      {"FakeQuantize_f32", Broadcast::None, square},
      {"FakeQuantize_bf16", Broadcast::None, square},
      {"FakeQuantizeBackward_f32", Broadcast::None, square},
      {"FakeQuantizeBackward_f32_segments_summed", Broadcast::Columns, square},
      {"FakeQuantizeBackward_bf16_segments_summed", Broadcast::Rows, square},
      {"Quantize_f32_s8", Broadcast::None, square},
      {"Quantize_bf16_s8_segments", Broadcast::Groups, square},
      {"Dequantize_bf16_s8", Broadcast::None, square},
      {"DynamicRange_f32", Broadcast::Rows, square},
      {"DynamicRange_bf16", Broadcast::Groups, square},
      {"DynamicRange_bf16", Broadcast::Columns, square},
      {"Lerp_f32_scalar_weight", Broadcast::None, square},
      {"LerpBackward_f32_tensor_weight_summed", Broadcast::Columns, square},
      {"LerpBackward_bf16_tensor_weight_summed", Broadcast::Rows, square},
      {"Cumsum_f32", Broadcast::None, square},
      {"Cumsum_f32", Broadcast::FirstChannel, square},
      {"Cumsum_bf16", Broadcast::None, square},
      {"Cumprod_f32", Broadcast::None, square},
      {"Cummax_f32_s64", Broadcast::None, square},
      {"LogCumsumExp_f32", Broadcast::None, square},
      {"LinearRecurrence_f32", Broadcast::None, square},
      {"CumprodBackward_f32", Broadcast::None, square},
      {"CummaxBackward_f32", Broadcast::FirstChannel, square},
      {"LogCumsumExpBackward_f32", Broadcast::None, square},
      {"LinearRecurrenceBackward_f32", Broadcast::None, square},
      {"FakeQuantize_f32", Broadcast::None, small},
      {"Cumsum_f32", Broadcast::None, small},
  };
  return kAll;
}

std::string label(const Counted& what) {
  constexpr const char* kNames[] = {"",       "scalar",        "rows",   "columns",
                                    "middle", "first_channel", "groups", "outer_groups"};
  std::string text = what.kernel;
  if (what.broadcast != Broadcast::None) text += std::string("/") + kNames[static_cast<int>(what.broadcast)];
  return text + "/" + std::to_string(what.shape[0] * what.shape[1]);
}

bool count(const Counted& what, const cpu::KernelRow& row) {
  const test::OpCase op_case = test::make_case(row, what.shape, what.broadcast);
  const auto plan = op_case.select(Stream::cpu(1), {});
  if (!plan) return std::fprintf(stderr, "%s: %s\n", label(what).c_str(), plan.error().c_str()), false;
  std::vector<test::TestTensor> tensors;
  test::Tensors views;
  for (const auto& spec : op_case.tensors) {
    tensors.emplace_back(spec.element, spec.shape, test::Layout::Contiguous);
    if (!spec.output) test::fill(tensors.back(), spec, tensors.size(), op_case.unit, true);
  }
  for (const auto& tensor : tensors) views.push_back(tensor);
  const std::string name = label(what);
  // The first run finds what later ones have at hand.
  const Result<void> first = (*plan)(views);
  CALLGRIND_START_INSTRUMENTATION;
  CALLGRIND_ZERO_STATS;
  const Result<void> ran = first ? (*plan)(views) : first;
  CALLGRIND_DUMP_STATS_AT(name.c_str());
  CALLGRIND_STOP_INSTRUMENTATION;
  if (!ran) std::fprintf(stderr, "%s: %s\n", label(what).c_str(), ran.error().c_str());
  return ran.has_value();
}

int count_all() {
  const auto list = test::kernel_list();
  for (const Counted& what : counted()) {
    bool found = false;
    for (const auto& row : list) {
      if (test::name_of(row) != what.kernel) continue;
      found = true;
      if (!count(what, row)) return 1;
    }
    if (!found) return std::fprintf(stderr, "there is no kernel %s\n", what.kernel), 1;
  }
  return 0;
}

}  // namespace
}  // namespace planck::bench

int main() { return planck::bench::count_all(); }
