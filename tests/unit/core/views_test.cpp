// Ways to make a view and to lend a workspace, as callers write them.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "planck/planck.hpp"

namespace planck {
namespace {

const Stream kCpu = Stream::cpu();

/// A view's numbers, for comparing.
struct Facts {
  const void* data;
  std::int64_t capacity;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> stride;
  bool operator==(const Facts&) const = default;
};

Facts facts(const AnyTensorRef& view) {
  const int rank = view.shape.rank();
  return {view.data,
          view.capacity,
          {view.shape.begin(), view.shape.end()},
          {view.stride.data(), view.stride.data() + rank}};
}

TEST(Views, FromAPointerAndACount) {
  float memory[6] = {};
  float* pointer = memory;
  EXPECT_EQ(facts(view(pointer, 6)), (Facts{memory, 6, {6}, {1}}));
  EXPECT_EQ(facts(view(pointer, {2, 3})), (Facts{memory, 6, {2, 3}, {3, 1}}));
  const float* constant = memory;
  static_assert(std::is_same_v<decltype(view(constant, 6)), TensorRef<float, 1>>);
  static_assert(std::is_same_v<decltype(view(pointer, 6)), TensorMut<float, 1>>);
  EXPECT_EQ(facts(view(pointer, {2, -3})).capacity, 0) << "no memory belongs to a shape that plans refuse";
}

TEST(Views, FromATemporarySpan) {
  std::vector<float> memory(6);
  EXPECT_EQ(facts(view(std::span(memory), {2, 3})), (Facts{memory.data(), 6, {2, 3}, {3, 1}}));
  EXPECT_EQ(facts(view(std::span<const float>(memory).first(4))), (Facts{memory.data(), 4, {4}, {1}}));
  static_assert(std::is_same_v<decltype(view(std::span<const float>(), {2, 3})), TensorRef<float, 2>>);
  EXPECT_EQ(facts(view(std::span<float, 6>(memory), 6)), (Facts{memory.data(), 6, {6}, {1}}));
}

TEST(Views, FromContainersAndArrays) {
  std::array<float, 6> array{};
  float plain[6] = {};
  const std::vector<float> constant(6);
  EXPECT_EQ(facts(view(array)), (Facts{array.data(), 6, {6}, {1}}));
  EXPECT_EQ(facts(view(plain, {3})), (Facts{plain, 6, {3}, {1}})) << "the buffer's own length is kept";
  static_assert(std::is_same_v<decltype(view(constant)), TensorRef<float, 1>>);
}

template <class Buffer>
concept HasView = requires(Buffer&& buffer) {
  std::span(std::forward<Buffer>(buffer));
};
static_assert(HasView<std::vector<float>&> && !HasView<std::vector<float>>, "a temporary's memory would be gone");

TEST(Views, ExtentsOfAnyIntegerType) {
  std::vector<float> memory(6);
  const std::size_t rows = 2;
  const int columns = 3;
  EXPECT_EQ(facts(view(memory, {rows, memory.size() / rows})), (Facts{memory.data(), 6, {2, 3}, {3, 1}}));
  EXPECT_EQ(facts(view(memory, {rows, columns})), (Facts{memory.data(), 6, {2, 3}, {3, 1}}));
  EXPECT_EQ((Shape{rows, columns}), (Shape{2, 3}));
  const std::vector<std::size_t> extents{2, 3};
  EXPECT_EQ(Shape(std::span(extents)), (Shape{2, 3}));
  EXPECT_EQ(Shape(extents), (Shape{2, 3}));
  enum { kRows = 2 };
  EXPECT_EQ((Shape{kRows, std::integral_constant<int, 3>()}), (Shape{2, 3}));
  EXPECT_EQ(Shape(std::array<std::size_t, 2>{2, 3}), (Shape{2, 3}));
  // A size that no signed number holds is refused, not shortened.
  const auto plan = FakeQuantizePlan<>::select(kCpu, {.shape = {std::numeric_limits<std::size_t>::max()}});
  ASSERT_FALSE(plan);
  EXPECT_EQ(plan.error().kind(), ErrorKind::InvalidProblem);
}

TEST(Views, OfRankZero) {
  float number = 3;
  const auto one = view(&number, {});
  static_assert(std::is_same_v<decltype(one), const TensorMut<float, 0>>);
  EXPECT_EQ(facts(one), (Facts{&number, 1, {}, {}}));
  const auto plan = FakeQuantizePlan<float>::select(kCpu, {.shape = {}});
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->run(kCpu, {.input = one, .scale = 2.0, .output = one}));
  EXPECT_EQ(number, 4);
  std::vector<float> buffer(1);
  EXPECT_EQ(facts(view(buffer, {})), (Facts{buffer.data(), 1, {}, {}}));
}

TEST(Views, OfARankThatIsKnownLater) {
  float memory[6] = {1, 2, 3, 4, 5, 6};
  const std::vector<std::int64_t> shape{3, 2};
  const std::vector<std::int64_t> strides{1, 3};
  const auto row_major = AnyTensorMut::contiguous(memory, ElementKind::F32, Shape(shape));
  EXPECT_EQ(facts(row_major), (Facts{memory, kUnknownCapacity, {3, 2}, {2, 1}}));
  const auto transposed = AnyTensorRef::strided(memory, ElementKind::F32, Shape(shape), strides.data());
  EXPECT_EQ(facts(transposed), (Facts{memory, kUnknownCapacity, {3, 2}, {1, 3}}));
  EXPECT_EQ(facts(AnyTensorRef::strided(memory, ElementKind::F32, {3, 2}, {1, 3})), facts(transposed));
  EXPECT_EQ(facts(AnyTensorRef::strided(memory, ElementKind::F32, {3, 2}, nullptr)), facts(row_major));
  EXPECT_EQ(facts(AnyTensorRef::contiguous(memory, ElementKind::F32, {})), (Facts{memory, kUnknownCapacity, {}, {}}));

  float out[6] = {};
  const auto plan = ScanPlan<float>::select(kCpu, {.kind = ScanKind::Cumsum, .input_shape = {3, 2}, .scan_axis = 1});
  ASSERT_TRUE(plan);
  ASSERT_TRUE(plan->run(kCpu, ScanArgs{transposed, AnyTensorMut::contiguous(out, ElementKind::F32, {3, 2})}));
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{1, 5, 2, 7, 3, 9}));
  // Backwards from its last element: the pointer is the view's first one, as in DLPack.
  const auto backwards = AnyTensorRef::strided(memory + 5, ElementKind::F32, {3, 2}, {-2, -1});
  ASSERT_TRUE(plan->run(kCpu, ScanArgs{backwards, AnyTensorMut::contiguous(out, ElementKind::F32, {3, 2})}));
  EXPECT_EQ(std::vector<float>(out, out + 6), (std::vector<float>{6, 11, 4, 7, 2, 3}));
}

TEST(Views, AListOfOneStrideIsNoPointer) {
  float one = 1;
  float out[3] = {};
  const auto plan = ScanPlan<float>::select(kCpu, {.kind = ScanKind::Cumsum, .input_shape = {3}});
  ASSERT_TRUE(plan);
  const auto repeated = AnyTensorRef::strided(&one, ElementKind::F32, {3}, {0});
  EXPECT_EQ(facts(repeated), (Facts{&one, kUnknownCapacity, {3}, {0}}));
  ASSERT_TRUE(plan->run(kCpu, ScanArgs{repeated, AnyTensorMut::contiguous(out, ElementKind::F32, {3})}));
  EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{1, 2, 3}));
  EXPECT_FALSE(plan->run(kCpu, ScanArgs{AnyTensorRef::strided(&one, ElementKind::F32, {3}, {}), view(out)}));
}

TEST(Views, AnotherNumberOfStridesIsRefused) {
  float memory[6] = {};
  const auto plan = ScanPlan<float>::select(kCpu, {.kind = ScanKind::Cumsum, .input_shape = {3, 2}});
  ASSERT_TRUE(plan);
  const auto y = AnyTensorMut::contiguous(memory, ElementKind::F32, {3, 2});
  for (const Shape& strides : {Shape{1}, Shape{2, 1, 1}, Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}}) {
    const auto ran = plan->run(kCpu, ScanArgs{AnyTensorRef::strided(memory, ElementKind::F32, {3, 2}, strides), y});
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().message(),
              "ScanPlan: x has " + std::to_string(strides.rank()) + " strides but a shape of rank 2");
  }
}

TEST(Workspaces, ARunWithoutOneWhereNoneIsNeeded) {
  std::vector<float> x{1, 2, 3};
  const auto plan = ScanPlan<float>::select(kCpu, {.kind = ScanKind::Cumsum, .input_shape = {3}});
  ASSERT_TRUE(plan);
  ASSERT_EQ(plan->workspace_size(), 0U);
  ASSERT_TRUE(plan->run(kCpu, {view(x), view(x)}));
  EXPECT_EQ(x, (std::vector<float>{1, 3, 6}));
}

TEST(Workspaces, ABufferOwnsOne) {
  std::vector<float> dy(32000, 1.0F);
  const std::vector<float> w(8);
  std::vector<float> dw(8);
  const BinaryParamDescriptor what{.shape = {4000, 8}, .weight_shape = Shape{8}};
  const auto plan = BinaryParamBackwardPlan<float>::select(kCpu, what);
  ASSERT_TRUE(plan);
  ASSERT_GT(plan->workspace_size(), 0U);
  const std::vector<float> a(32000, 1.0F);
  const std::vector<float> b(32000, 1.5F);
  const BinaryParamBackwardArgs args{.dy = view(dy, {4000, 8}),
                                     .a = view(a, {4000, 8}),
                                     .b = view(b, {4000, 8}),
                                     .weight = view(w),
                                     .d_weight = view(dw)};
  const auto without = plan->run(kCpu, args);
  ASSERT_FALSE(without) << "it needs a workspace";
  EXPECT_EQ(without.error().kind(), ErrorKind::WorkspaceTooSmall);
  EXPECT_EQ(without.error().needed(), static_cast<std::int64_t>(plan->workspace_size()));

  WorkspaceBuffer memory(plan->workspace_size());
  EXPECT_EQ(memory.bytes(), plan->workspace_size());
  ASSERT_TRUE(plan->run(kCpu, memory, args));
  EXPECT_EQ(dw, std::vector<float>(8, 2000.0F));

  const Workspace before = memory;
  EXPECT_TRUE(memory.reserve(1));
  EXPECT_EQ(Workspace(memory).data, before.data) << "it never shrinks";
  EXPECT_TRUE(memory.reserve(2 * memory.bytes()));
  EXPECT_EQ(memory.bytes(), 2 * before.bytes);
  EXPECT_FALSE(memory.reserve(std::numeric_limits<std::ptrdiff_t>::max() / 2)) << "nobody has so much";
  EXPECT_EQ(memory.bytes(), 2 * before.bytes);
  WorkspaceBuffer moved = std::move(memory);
  EXPECT_EQ(moved.bytes(), 2 * before.bytes);
  EXPECT_EQ(memory.bytes(), 0U);  // NOLINT(bugprone-use-after-move): it is empty, and can be filled again
  memory = std::move(moved);
  EXPECT_EQ(memory.bytes(), 2 * before.bytes);
  EXPECT_EQ(WorkspaceBuffer().bytes(), 0U);
}

TEST(Workspaces, OneThatLeavesTheAddressSpaceIsRefused) {
  std::vector<float> x(8);
  std::byte memory[16];
  const auto plan = ScanPlan<float>::select(kCpu, {.kind = ScanKind::Cumsum, .input_shape = {8}});
  ASSERT_TRUE(plan);
  const std::size_t most = std::numeric_limits<std::size_t>::max();
  for (const std::size_t bytes : {most, most - 4096, most / 2}) {
    const auto ran = plan->run(kCpu, Workspace{memory, bytes}, {view(x), view(x)});
    ASSERT_FALSE(ran);
    EXPECT_EQ(ran.error().kind(), ErrorKind::InvalidProblem);
    EXPECT_NE(ran.error().message().find("address space"), std::string_view::npos) << ran.error().message();
  }
}

}  // namespace
}  // namespace planck
