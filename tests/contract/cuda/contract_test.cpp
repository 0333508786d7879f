// What plans on a CUDA stream promise beside their bits: pieces of scans are the whole, workspaces are checked, and a
// plan belongs to its device.
#include <gtest/gtest.h>

#include <limits>

#include "testing/cuda_on_cpu/few_blocks.hpp"
#include "testing/parity.hpp"
#include "testing/scan_pieces.hpp"

namespace planck::test {
namespace {

const Stream kCuda = Stream::cuda(nullptr);
const Where kOnDevice{kCuda, {}};

/// A plan with a workspace: a gradient that is summed over a long row.
BinaryParamDescriptor summed(std::int64_t n) {
  BinaryParamDescriptor d;
  d.shape = {n};
  d.weight_shape = Shape{};
  return d;
}

TEST(CudaContract, PiecesOfScansGiveTheBitsOfTheWhole) {
  std::uint64_t turn = 0;
  for (const ScanCase& c : all_scan_cases()) {
    SCOPED_TRACE(testing::Message() << c);
    const std::uint64_t choice = mix(++turn);
    const auto& pieces = kCuts[choice % std::size(kCuts)];
    const Place& place = kPlaces[(choice >> 8) % 4];  // those with few lanes
    Whole whole(c, place, sum_of(pieces), kLayouts[(choice >> 16) % std::size(kLayouts)]);
    Whole cut = whole;
    whole.run_whole();
    cut.run_pieces(pieces, turn % 2 == 0, kOnDevice);
    expect_same(whole, cut);
    if (HasFailure()) return;
  }
}

TEST(CudaContract, CarriesGoToAndFroBetweenDevices) {
  for (const ScanCase& c :
       {ScanCase{}, ScanCase{ScanKind::LinearRecurrence, ElementKind::F64},
        ScanCase{ScanKind::Cummax, ElementKind::F32, false, false, ScanTies::Last, ElementKind::S64}}) {
    SCOPED_TRACE(testing::Message() << c);
    const Whole whole(c, kPlaces[1], 9 * kBlock, Layout::Contiguous);
    TestTensor words[2] = {whole.new_carry(Layout::Contiguous), whole.new_carry(Layout::Contiguous)};
    for (const bool device : {false, true}) {
      ScanViews v{whole.x, whole.b, whole.y};
      if (c.indices) v.indices = whole.indices;
      v.carry_out = words[device ? 1 : 0];
      const auto result = run(c, whole.axis, v, device ? kOnDevice : Where{});
      ASSERT_TRUE(result) << result.error().message();
    }
    EXPECT_EQ(words[0].packed(), words[1].packed());
  }
}

/// Rows and tiles one after the other, in memory that they share: small enough for the thread sanitizer.
TEST(CudaContract, OneBlockDoesTheWorkOfMany) {
  const std::string_view names[] = {
      "Cumsum_f32",
      "LogCumsumExp_f32",
      "LinearRecurrenceBackward_f32",
      "CummaxBackward_f32",
      "DynamicRange_f32",
      "LerpBackward_f32_tensor_weight_summed",
      "FakeQuantizeBackward_f32_segments_summed",
  };
  const FewBlocks few(1);
  std::size_t found = 0;
  for (const cpu::KernelRow& row : kernel_list()) {
    if (std::find(std::begin(names), std::end(names), name_of(row)) == std::end(names)) continue;
    ++found;
    for (const Shape& shape : {Shape{2, 1030}, Shape{4100}}) {
      SCOPED_TRACE(testing::Message() << name_of(row) << " of " << shape[0] << " rows or elements");
      for_each_trial(row, shape, std::span(kScenarios).first(1),
                     [&](const Trial& trial) { ASSERT_TRUE(trial.arrangement.run(trial.problem.plan(kCuda, {}))); });
      if (HasFailure()) return;
    }
  }
  EXPECT_EQ(found, std::size(names));
}

/// Offsets that the host does not read: whatever they hold, nothing outside the tensors is touched.
TEST(CudaContract, BadOffsetsStayInsideTheTensors) {
  const std::vector<std::int64_t> wrong[] = {
      {-5, 3, 2000, 900},
      {0, 2049, 2050, 2047},
      {2048, 0, 1025, 0},
      {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max(), -1, 1 << 20},
  };
  for (const cpu::KernelRow& row : kernel_list()) {
    if (row.category != OpCategory::Scan || row.element != ElementKind::F32) continue;
    for (const auto& [shape, broadcast] :
         {std::pair(Shape{2048}, Broadcast::Ragged), std::pair(Shape{2048}, Broadcast::RaggedScalar),
          std::pair(Shape{2048, 9}, Broadcast::RaggedFirstChannel)}) {
      SCOPED_TRACE(testing::Message() << name_of(row) << ", " << static_cast<int>(broadcast));
      const OpCase op_case = make_case(row, shape, broadcast);
      const auto plan = op_case.select(kCuda, {});
      ASSERT_TRUE(plan) << plan.error().message();
      for (const auto& offsets : wrong) {
        std::vector<TestTensor> tensors;
        for (TensorSpec spec : op_case.tensors) {
          tensors.emplace_back(spec.element, spec.shape, Layout::Padded);
          if (spec.values == Values::Offsets) {
            for (std::size_t i = 0; i < spec.offsets.size(); ++i) spec.offsets[i] = offsets[i % offsets.size()];
          }
          if (!spec.output) fill(tensors.back(), spec, 1, op_case.unit);
        }
        ASSERT_TRUE((*plan)(Tensors(tensors.begin(), tensors.end())));
        for (const TestTensor& tensor : tensors) EXPECT_TRUE(tensor.guards_intact());
      }
    }
    if (HasFailure()) return;
  }
}

TEST(CudaContract, SkusNameTheArchitectureAndTheKernels) {
  const auto plan = FakeQuantizePlan<>::select(kCuda, FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32));
  ASSERT_TRUE(plan) << plan.error().message();
  EXPECT_EQ(plan->sku().backend, BackendKind::Bespoke);
  EXPECT_LT(static_cast<int>(plan->sku().arch), static_cast<int>(ArchSku::Scalar));
}

TEST(CudaContract, WorkspacesThatAreTooSmallAreRefused) {
  const std::int64_t n = 100000;
  const auto plan = BinaryParamBackwardPlan<float>::select(kCuda, summed(n));
  ASSERT_TRUE(plan) << plan.error().message();
  const std::size_t bytes = plan->workspace_size();
  ASSERT_GT(bytes, 0U);
  const TestTensor dy(ElementKind::F32, {n}, Layout::Contiguous);
  const TestTensor weight(ElementKind::F32, {}, Layout::Contiguous);
  const TestTensor dw(ElementKind::F32, {}, Layout::Contiguous);
  const BinaryParamBackwardArgs args{dy, dy, dy, weight, std::nullopt, std::nullopt, dw};
  TestWorkspace workspace(bytes);
  EXPECT_TRUE(plan->run(kCuda, workspace.get(), args));
  memory_source.wait(kCuda);
  const auto result = plan->run(kCuda, {workspace.get().data, bytes - 1}, args);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().kind(), ErrorKind::WorkspaceTooSmall) << result.error().message();

  PlanPreference limit;
  limit.max_workspace_bytes = bytes - 1;
  EXPECT_FALSE(BinaryParamBackwardPlan<float>::select(kCuda, summed(n), limit));
  limit.max_workspace_bytes = bytes;
  EXPECT_TRUE(BinaryParamBackwardPlan<float>::select(kCuda, summed(n), limit));
}

TEST(CudaContract, APlanBelongsToItsDevice) {
  const auto d = FakeQuantizeDescriptor::flat(8, -8, 7, ElementKind::F32);
  const TestTensor x(ElementKind::F32, {8}, Layout::Contiguous);
  const TestTensor y(ElementKind::F32, {8}, Layout::Contiguous);
  for (const auto& [made, used] : {std::pair(kCuda, Stream::cpu()), std::pair(Stream::cpu(), kCuda)}) {
    const auto plan = FakeQuantizePlan<>::select(made, d);
    ASSERT_TRUE(plan) << plan.error().message();
    EXPECT_FALSE(plan->run(used, Workspace::none(), {x, 0.5, 0, y}));
    EXPECT_TRUE(plan->run(made, Workspace::none(), {x, 0.5, 0, y}));
  }
  memory_source.wait(kCuda);
  PlanPreference reference;
  reference.prefer_backend = BackendKind::Reference;
  EXPECT_FALSE(FakeQuantizePlan<>::select(kCuda, d, reference));
}

}  // namespace
}  // namespace planck::test
