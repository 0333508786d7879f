// Every kernel of the list on 16 M elements, beside a copy of the same bytes; scans on fewer, which caches hold, and of
// ragged batches; and the cost of a call on 64.
#include <benchmark/benchmark.h>

#include <cstdio>

#include "interleaved.hpp"
#include "quantize/cpu/kernel_row.hpp"
#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"

namespace planck::bench {
namespace {

using test::Layout;
using test::OpCase;
using test::TestTensor;

enum class Placement { Apart, InPlace, TransposedInput };
enum class Data { Ordinary, Ascending, Constant, Denormal };

/// Rows of a contiguous f32 tensor that scans might find easy or hard; products of them stay in range.
void fill_rows(const TestTensor& tensor, Data data) {
  const AnyTensorMut view = tensor;
  const std::int64_t length = view.shape[view.shape.rank() - 1];
  auto* const values = static_cast<float*>(view.data);
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    const auto part = static_cast<float>(i % length) / static_cast<float>(length);
    const float ascending = 0.99F + 0.02F * part;
    const float denormal = static_cast<float>(1 + i % 1000) * 0x1p-149F;
    values[i] = data == Data::Ascending ? ascending : data == Data::Constant ? 1.0F : denormal;
  }
}

/// What is run, and on what.
struct Case {
  cpu::KernelRow row;
  Shape shape;
  test::Broadcast broadcast = test::Broadcast::None;
  Placement placement = Placement::Apart;
  Data data = Data::Ordinary;
  std::vector<std::int64_t> offsets{};  ///< of a ragged batch
  bool in_cache = false;                ///< one thread, call upon call
};

void run_case(benchmark::State& state, const Case& what) {
  const OpCase op_case = test::make_case(what.row, what.shape, what.broadcast, what.offsets);
  const Stream stream = what.in_cache ? Stream::cpu(1) : Stream::cpu();
  const auto plan = op_case.select(stream, {});
  if (!plan) return state.SkipWithError(plan.error().c_str());
  std::vector<TestTensor> tensors;
  test::Tensors views;
  std::int64_t bytes = 0;
  for (const auto& spec : op_case.tensors) {
    const bool transposed = what.placement == Placement::TransposedInput && !spec.output;
    tensors.emplace_back(spec.element, spec.shape, transposed ? Layout::Transposed : Layout::Contiguous);
    if (!spec.output && what.data != Data::Ordinary && spec.element == ElementKind::F32) {
      fill_rows(tensors.back(), what.data);
    } else if (!spec.output) {
      test::fill(tensors.back(), spec, tensors.size(), op_case.unit, true);
    }
    bytes += tensors.back().numel() * size_of(spec.element);
  }
  for (const TestTensor& tensor : tensors) views.push_back(tensor);
  if (what.placement == Placement::InPlace) views.back() = views.front();
  if (const auto first = (*plan)(views); !first) return state.SkipWithError(first.error().c_str());
  constexpr int kCallsInCache = 16;
  const Work work{bytes, tensors.front().numel(), what.in_cache ? kCallsInCache : 1};
  run_interleaved(state, stream, work, [&] { static_cast<void>((*plan)(views)); });
}

void add(const char* group, const Case& what) {
  const auto run = [=](benchmark::State& state) { run_case(state, what); };
  benchmark::RegisterBenchmark((std::string(group) + "/" + test::name_of(what.row)).c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

void add(const char* group, const cpu::KernelRow& row, const Shape& shape, test::Broadcast broadcast,
         Placement placement, Data data = Data::Ordinary) {
  add(group, Case{row, shape, broadcast, placement, data});
}

/// 512 segments of 1 to 8192 elements, mixed, one behind the other: RAGGED_LENGTHS of bench/rows.py.
std::vector<std::int64_t> mixed_segments() {
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t i = 0; i < 512; ++i) offsets.push_back(offsets.back() + 1 + i * 115 % 512 * 8191 / 511);
  return offsets;
}

/// What one call costs when there is next to nothing to do.
template <class Plan, class Args>
void run_small(benchmark::State& state, const Stream& stream, const Plan& plan, const Args& args) {
  if (!plan) return state.SkipWithError(plan.error().c_str());
  if (const auto first = plan->run(stream, Workspace::none(), args); !first) {
    return state.SkipWithError(first.error().c_str());
  }
  for (auto _ : state) {
    benchmark::DoNotOptimize(plan->run(stream, Workspace::none(), args));
    benchmark::ClobberMemory();
  }
}

void fake_quantize_64(benchmark::State& state) {
  std::vector<float> x(64, 1.0F);
  std::vector<float> y(64);
  const Stream stream = Stream::cpu();
  const auto what = FakeQuantizeDescriptor::flat(64, -128, 127, ElementKind::F32);
  const FakeQuantizeArgs args{view(x, {64}), 0.05, 3, view(y, {64})};
  run_small(state, stream, FakeQuantizePlan<float>::select(stream, what), args);
}

void cumsum_64(benchmark::State& state) {
  std::vector<float> x(64, 1.0F);
  std::vector<float> y(64);
  const Stream stream = Stream::cpu();
  const ScanDescriptor what{.input_shape = {64}, .index_element = {}};
  const ScanArgs args{.x = view(x, {64}), .y = view(y, {64}), .indices = {}};
  run_small(state, stream, ScanPlan<float>::select(stream, what), args);
}

}  // namespace
}  // namespace planck::bench

namespace planck::bench {
namespace {

using test::Broadcast;

/// The quantise family with a scale per segment, and dynamic range: on the shapes where rows are long, few or short.
void add_segments(const cpu::KernelRow& row) {
  const bool dynamic = row.op >= static_cast<std::int32_t>(quantize::Formula::Range);
  const Shape square{4096, 4096};
  for (const auto& [group, broadcast] :
       {std::pair("16M_per_token", Broadcast::Rows), std::pair("16M_per_group", Broadcast::Groups),
        std::pair("16M_per_first_channel", Broadcast::FirstChannel),
        std::pair("16M_per_last_channel", Broadcast::Columns)}) {
    add(group, row, square, broadcast, Placement::Apart);
  }
  if (row.terms) return;
  add("16M_short_tokens", row, {131072, 128}, Broadcast::Rows, Placement::Apart);
  add("16M_one_token", row, {1, 1 << 24}, Broadcast::Rows, Placement::Apart);
  if (dynamic) add("16M_per_tensor", row, square, Broadcast::Scalar, Placement::Apart);
}

void add_scans(const cpu::KernelRow& row) {
  add("16M_axis_1", row, {4096, 4096}, Broadcast::None, Placement::Apart);
  add("16M_axis_0", row, {4096, 4096}, Broadcast::FirstChannel, Placement::Apart);
  add("16M_short_rows", row, {131072, 128}, Broadcast::None, Placement::Apart);
  if (!is_float(row.element)) return;  // the same schedules in 64-bit integers
  add("16M_middle_axis", row, {32, 1024, 512}, Broadcast::Middle, Placement::Apart);
  add("16M_one_row", row, {1, 1 << 24}, Broadcast::None, Placement::Apart);
  static const std::vector<std::int64_t> kSegments = mixed_segments();
  add("2Mi_ragged", {.row = row, .shape = {kSegments.back()}, .broadcast = Broadcast::Ragged, .offsets = kSegments});
  add("2Mi_axis_1", {.row = row, .shape = {512, 4096}});
  add("64Ki_axis_1", {.row = row, .shape = {16, 4096}, .in_cache = true});
  add("64Ki_short_rows", {.row = row, .shape = {512, 128}, .in_cache = true});
  // Other data for one row of each kind, and with indices.
  if (row.element != ElementKind::F32 || row.variant != 0 || row.aux_element == ElementKind::S32) return;
  for (const auto& [group, data] :
       {std::pair("16M_axis_1_ascending", Data::Ascending), std::pair("16M_axis_1_constant", Data::Constant),
        std::pair("16M_axis_1_denormal", Data::Denormal)}) {
    add(group, row, {4096, 4096}, Broadcast::None, Placement::Apart, data);
  }
}

void add_rows(const cpu::KernelRow& row) {
  const Shape large{4096, 4096};
  if (row.category == OpCategory::Scan) return add_scans(row);
  if (row.category == OpCategory::Quantization) {
    const bool dynamic = row.op >= static_cast<std::int32_t>(quantize::Formula::Range);
    const auto from = quantize::qparams_from(row.variant);
    if (dynamic || from == quantize::QParamsFrom::Operands) return add_segments(row);
    if (from == quantize::QParamsFrom::NarrowOperands) return;  // the same work with fewer bytes of scales
    add("16M", row, large, Broadcast::None, Placement::Apart);
    if (row.op != static_cast<std::int32_t>(quantize::Formula::FakeQuantize)) return;
    add("16M_in_place", row, large, Broadcast::None, Placement::InPlace);
    add("16M_transposed", row, large, Broadcast::None, Placement::TransposedInput);
    return;
  }
  if (!row.terms) return add("16M", row, large, Broadcast::None, Placement::Apart);
  add("16M_to_scalar", row, large, Broadcast::Scalar, Placement::Apart);
  add("16M_to_rows", row, large, Broadcast::Rows, Placement::Apart);
  add("16M_to_columns", row, large, Broadcast::Columns, Placement::Apart);
}

}  // namespace
}  // namespace planck::bench

int main(int argc, char** argv) {
  for (const auto& row : planck::test::kernel_list()) planck::bench::add_rows(row);
  benchmark::RegisterBenchmark("64/FakeQuantizePlan_run", planck::bench::fake_quantize_64);
  benchmark::RegisterBenchmark("64/CumsumPlan_run", planck::bench::cumsum_64);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
