// Ragged batches: whatever the offsets, each segment has the bits of a call of its own.
#include <gtest/gtest.h>

#include <numeric>

#include "testing/op_cases.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

std::vector<TestTensor> tensors_of(const OpCase& op_case, const std::vector<std::int64_t>& offsets = {}) {
  std::vector<TestTensor> tensors;
  for (TensorSpec spec : op_case.tensors) {
    tensors.emplace_back(spec.element, spec.shape, Layout::Contiguous);
    if (!offsets.empty() && !spec.offsets.empty()) spec.offsets = offsets;
    if (!spec.output) fill(tensors.back(), spec, tensors.size(), op_case.unit);
  }
  return tensors;
}

void run(const OpCase& op_case, const Stream& stream, const PlanPreference& preference, const Tensors& tensors) {
  const auto plan = op_case.select(stream, preference);
  ASSERT_TRUE(plan) << plan.error().message();
  const Result<void> result = (*plan)(tensors);
  ASSERT_TRUE(result) << result.error().message();
}

/// The part of a tensor that segment i has: of its elements, or the one place of an initial state.
AnyTensorMut part_of(const AnyTensorMut& whole, int axis, std::int64_t begin, std::int64_t extent) {
  AnyTensorMut part = whole;
  part.shape[axis] = extent;
  part.offset += begin * part.stride[axis];
  return part;
}

/// Every segment by a plan of its own that knows no offsets.
void run_apart(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast, int axis,
               const std::vector<std::int64_t>& offsets, const std::vector<TestTensor>& tensors) {
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    Shape own = shape;
    own[axis] = offsets[i + 1] - offsets[i];
    const OpCase one = make_case(row, own, *of_one_segment(broadcast));
    Tensors parts;
    for (std::size_t k = 0; k < one.tensors.size(); ++k) {
      const bool of_elements = tensors[k].view().shape == shape;
      parts.push_back(of_elements ? part_of(tensors[k], axis, offsets[i], own[axis])
                                  : part_of(tensors[k], axis, static_cast<std::int64_t>(i), 1));
    }
    run(one, Stream::cpu(1), {}, parts);
  }
}

void compare(const OpCase& op_case, const std::vector<TestTensor>& got, const std::vector<TestTensor>& wanted) {
  for (std::size_t k = 0; k < op_case.tensors.size(); ++k) {
    const TensorSpec& spec = op_case.tensors[k];
    EXPECT_EQ(first_difference(spec.element, wanted[k].packed(), got[k].packed()), -1) << spec.name;
  }
}

/// The offsets of the case, or others with as many segments.
void check(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast, std::vector<std::int64_t> offsets = {}) {
  SCOPED_TRACE(testing::Message() << name_of(row) << " of " << shape[0] << " × " << shape[shape.rank() - 1] << ", "
                                  << static_cast<int>(broadcast));
  const OpCase op_case = make_case(row, shape, broadcast);
  const int axis = broadcast == Broadcast::RaggedFirstChannel ? 0 : shape.rank() - 1;
  if (offsets.empty()) offsets = ragged_offsets(shape[axis]);
  std::vector<TestTensor> apart = tensors_of(op_case, offsets);
  const std::vector<TestTensor> fresh = apart;
  run_apart(row, shape, broadcast, axis, offsets, apart);
  PlanPreference reference;
  reference.prefer_backend = BackendKind::Reference;
  PlanPreference no_workspace;
  no_workspace.max_workspace_bytes = 0;
  PlanPreference little_workspace;
  little_workspace.max_workspace_bytes = 3001;
  ThreadExecutor one(1);
  ThreadExecutor three(3);
  ThreadExecutor streaming(2, 0);
  const auto together = [&](Executor& executor, const PlanPreference& preference) {
    std::vector<TestTensor> tensors = fresh;
    run(op_case, Stream::cpu(executor), preference, Tensors(tensors.begin(), tensors.end()));
    compare(op_case, tensors, apart);
  };
  together(one, reference);
  together(one, {});
  together(three, {});
  together(three, no_workspace);
  together(three, little_workspace);
  together(streaming, {});
}

std::vector<cpu::KernelRow> scans(std::initializer_list<ElementKind> elements) {
  std::vector<cpu::KernelRow> rows = kernel_list();
  std::erase_if(rows, [&](const cpu::KernelRow& row) {
    return row.category != OpCategory::Scan ||
           std::find(elements.begin(), elements.end(), row.element) == elements.end();
  });
  return rows;
}

TEST(Ragged, ASegmentIsACallOfItsOwn) {
  for (const auto& row : scans({ElementKind::F32, ElementKind::F64, ElementKind::Bf16, ElementKind::S64})) {
    for (const Broadcast broadcast : {Broadcast::Ragged, Broadcast::RaggedScalar}) check(row, {30011}, broadcast);
    for (const Broadcast broadcast : {Broadcast::RaggedScalar, Broadcast::RaggedFirstChannel}) {
      check(row, {5, 1501}, broadcast);
      check(row, {1501, 40}, broadcast);
    }
  }
}

/// Segments that all threads share, beside others that one thread has: first, in the middle, last, alone.
TEST(Ragged, LongSegmentsAmongShortOnes) {
  constexpr std::int64_t n = 150001;
  for (const auto& row : scans({ElementKind::F32})) {
    const std::size_t count = ragged_offsets(n).size();
    for (const std::int64_t begin : {std::int64_t{0}, n / 3, n - 60000}) {
      std::vector<std::int64_t> offsets(count);
      for (std::size_t i = 0; i < count; ++i) {
        const auto k = static_cast<std::int64_t>(i);
        offsets[i] = k < 5 ? begin * k / 4 : begin + 60000 + (n - begin - 60000) * (k - 5) / std::ssize(offsets);
      }
      offsets[count - 1] = n;
      check(row, {n}, Broadcast::RaggedScalar, offsets);
    }
  }
}

TEST(Ragged, EverySegmentEmptyButOne) {
  for (const auto& row : scans({ElementKind::F32})) {
    const std::size_t count = ragged_offsets(700).size();
    for (const std::size_t full : {std::size_t{0}, count / 2, count - 2}) {
      std::vector<std::int64_t> offsets(count, 0);
      std::fill(offsets.begin() + static_cast<std::ptrdiff_t>(full) + 1, offsets.end(), 700);
      check(row, {700}, Broadcast::Ragged, offsets);
      check(row, {700, 3}, Broadcast::RaggedFirstChannel, offsets);
    }
  }
}

/// An axis without elements has empty segments only, or none at all.
TEST(Ragged, NoElements) {
  for (const auto& row : scans({ElementKind::F32})) {
    check(row, {0}, Broadcast::Ragged);
    check(row, {0, 3}, Broadcast::RaggedFirstChannel);
    check(row, {3, 0}, Broadcast::RaggedFirstChannel);
  }
  const std::int64_t zero = 0;
  const ScanDescriptor d{.input_shape = {0}, .offset_element = ElementKind::S64};
  const AnyTensorMut empty = AnyTensorMut::contiguous(nullptr, ElementKind::F32, {0});
  const auto plan = ScanPlan<>::select(Stream::cpu(), d);
  ASSERT_TRUE(plan);
  EXPECT_TRUE(plan->run(Stream::cpu(), {.x = empty, .y = empty, .offsets = view(&zero, {1})}));
}

/// Indices of winners count from the front of their segment.
TEST(Ragged, IndicesCountFromTheSegment) {
  const std::vector<float> x{1, 3, 2, 5, 4, 9};
  const std::vector<std::int32_t> offsets{0, 3, 3, 6};
  for (const bool reverse : {false, true}) {
    const ScanDescriptor d{.kind = ScanKind::Cummax,
                           .input_shape = {6},
                           .reverse = reverse,
                           .index_element = ElementKind::S64,
                           .offset_element = ElementKind::S32,
                           .segments = 3};
    std::vector<float> y(6);
    std::vector<std::int64_t> indices(6);
    const auto plan = ScanPlan<>::select(Stream::cpu(), d);
    ASSERT_TRUE(plan) << plan.error().message();
    ASSERT_TRUE(
        plan->run(Stream::cpu(), {.x = view(x), .y = view(y), .indices = view(indices), .offsets = view(offsets)}));
    const std::vector<std::int64_t> wanted =
        reverse ? std::vector<std::int64_t>{1, 1, 2, 2, 2, 2} : std::vector<std::int64_t>{0, 1, 1, 0, 0, 2};
    EXPECT_EQ(indices, wanted);
  }
}

// ---- errors ----

/// The message of a Cumsum of ten elements.
template <class Offset>
std::string message_of(const std::vector<Offset>& offsets, BackendKind backend) {
  constexpr bool kWide = sizeof(Offset) == 8;
  std::vector<float> x(10, 1), y(10, 7);
  const ScanDescriptor d{.input_shape = {10},
                         .offset_element = kWide ? ElementKind::S64 : ElementKind::S32,
                         .segments = std::ssize(offsets) - 1};
  PlanPreference preference;
  preference.prefer_backend = backend;
  const auto plan = ScanPlan<>::select(Stream::cpu(), d, preference);
  if (!plan) return std::string(plan.error().message());
  EXPECT_TRUE(plan->can_implement({.x = view(x), .y = view(y), .offsets = view(offsets)}));
  const auto result = plan->run(Stream::cpu(), {.x = view(x), .y = view(y), .offsets = view(offsets)});
  if (result) return "";
  EXPECT_EQ(result.error().kind(), ErrorKind::InvalidProblem);
  EXPECT_EQ(y, std::vector<float>(10, 7)) << "written in spite of an error";
  return std::string(result.error().message());
}

template <class Offset>
void check_offsets() {
  using Offsets = std::vector<Offset>;
  const std::string begin = "ScanPlan: offsets[";
  const std::string end = "], as offsets rise from 0 to the axis' 10 elements";
  for (const BackendKind backend : {BackendKind::Cpu, BackendKind::Reference}) {
    const auto expect = [&](const Offsets& offsets, const std::string& text) {
      EXPECT_EQ(message_of<Offset>(offsets, backend), text.empty() ? "" : begin + text + end);
    };
    expect({0, 10}, "");
    expect({0, 0, 4, 4, 10, 10}, "");
    expect({1, 10}, "0] = 1 must lie in [0, 0");
    expect({-1, 10}, "0] = -1 must lie in [0, 0");
    expect({0, 9}, "1] = 9 must lie in [10, 10");
    expect({0, 11}, "1] = 11 must lie in [10, 10");
    expect({0, 5, 4, 10}, "2] = 4 must lie in [5, 10");
    expect({0, 5, 11, 10}, "2] = 11 must lie in [5, 10");
    expect({0, -5, 4, 10}, "1] = -5 must lie in [0, 10");
    expect({0, std::numeric_limits<Offset>::max(), 4, 10},
           "1] = " + std::to_string(std::numeric_limits<Offset>::max()) + " must lie in [0, 10");
    expect({std::numeric_limits<Offset>::min(), 4, 10},
           "0] = " + std::to_string(std::numeric_limits<Offset>::min()) + " must lie in [0, 0");
    expect({0, 3, 3, 3, 0, 10}, "4] = 0 must lie in [3, 10");
  }
}

TEST(Ragged, TheFirstBadOffsetIsNamed) {
  check_offsets<std::int64_t>();
  check_offsets<std::int32_t>();
  EXPECT_EQ(message_of<std::int64_t>({0}, BackendKind::Cpu),
            "ScanPlan: segments = 0 must be at least 1 for an axis of 10 elements");
}

struct Recurrence {
  LinearRecurrenceDescriptor d{
      .input_shape = {4, 3}, .initial = true, .offset_element = ElementKind::S64, .segments = 2};
  std::vector<float> memory = std::vector<float>(64, 1);
  std::vector<std::int64_t> offsets{0, 1, 4};

  AnyTensorMut tensor(Shape shape) { return AnyTensorMut::contiguous(memory.data(), ElementKind::F32, shape); }
  std::string run(AnyTensorMut h, std::optional<AnyTensorRef> at, std::optional<AnyTensorRef> initial) {
    const auto plan = LinearRecurrencePlan<>::select(Stream::cpu(), d);
    if (!plan) return std::string(plan.error().message());
    std::vector<float> a(12, 1), b(12, 1);
    const auto result = plan->run(
        Stream::cpu(), {.a = view(a, {4, 3}), .b = view(b, {4, 3}), .initial = initial, .h = h, .offsets = at});
    return result ? "" : std::string(result.error().message());
  }
};

TEST(Ragged, ArgumentsAgreeWithTheDescriptor) {
  Recurrence r;
  std::vector<float> start(6, 1);
  const AnyTensorRef starts = view(start, {2, 3});
  const AnyTensorRef offsets = view(r.offsets);
  EXPECT_EQ(r.run(r.tensor({4, 3}), offsets, starts), "");
  EXPECT_EQ(r.run(r.tensor({4, 3}), std::nullopt, starts),
            "LinearRecurrencePlan: offsets is absent but needed for a descriptor with offset_element");
  EXPECT_EQ(r.run(r.tensor({4, 3}), offsets, view(start, {1, 3})),
            "LinearRecurrencePlan: initial has shape [1, 3] but the descriptor says [2, 3]");
  EXPECT_EQ(r.run(r.tensor({4, 3}), view(r.offsets.data(), {2}), starts),
            "LinearRecurrencePlan: offsets has shape [2] but the descriptor says [3]");
  const std::vector<std::int32_t> narrow{0, 1, 4};
  EXPECT_EQ(r.run(r.tensor({4, 3}), view(narrow), starts),
            "LinearRecurrencePlan: offsets holds s32 but the descriptor says s64");
  AnyTensorMut over = r.tensor({4, 3});
  over.data = r.offsets.data();
  EXPECT_EQ(r.run(over, offsets, starts),
            "LinearRecurrencePlan: h is made of many elements and must not share memory with offsets");
  r.d.segments = -1;
  EXPECT_EQ(r.run(over, offsets, starts),
            "LinearRecurrencePlan: segments = -1 must be at least 1 for an axis of 4 elements");
  r.d.offset_element.reset();
  r.d.segments = 2;
  EXPECT_EQ(r.run(over, offsets, starts),
            "LinearRecurrencePlan: segments is present but the descriptor has no offset_element");
  r.d.segments = 0;
  EXPECT_EQ(r.run(r.tensor({4, 3}), offsets, view(start, {1, 3})),
            "LinearRecurrencePlan: offsets is present but the descriptor has no offset_element");
  r.d.offset_element = ElementKind::F32;
  EXPECT_EQ(r.run(over, offsets, starts), "LinearRecurrencePlan: no kernel for offset_element = f32");
}

/// In the very place of an s64 output, which would be right for an input.
TEST(Ragged, OffsetsAreNoPlaceForResults) {
  std::vector<std::int64_t> offsets{0, 1, 3};
  const std::vector<std::int64_t> x{1, 1, 1};
  const ScanDescriptor d{
      .input_shape = {3}, .element = ElementKind::S64, .offset_element = ElementKind::S64, .segments = 2};
  const auto plan = ScanPlan<>::select(Stream::cpu(), d);
  ASSERT_TRUE(plan);
  const auto result = plan->run(Stream::cpu(), {.x = view(x), .y = view(offsets), .offsets = view(offsets)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "ScanPlan: y is made of many elements and must not share memory with offsets");
}

TEST(Ragged, SegmentsAreNoPieces) {
  std::vector<float> x(4096), y(4096);
  std::vector<std::int64_t> carry(kScanCarryWords);
  const std::vector<std::int64_t> offsets{0, 4096};
  const ScanDescriptor d{.input_shape = {4096}, .offset_element = ElementKind::S64, .segments = 1};
  const auto plan = ScanPlan<>::select(Stream::cpu(), d);
  ASSERT_TRUE(plan);
  const auto result =
      plan->run(Stream::cpu(), {.x = view(x), .y = view(y), .carry_out = view(carry), .offsets = view(offsets)});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message(), "ScanPlan: carry_out is present but the descriptor has an offset_element");
}

TEST(Ragged, CountsThatNothingHolds) {
  ScanDescriptor d{.input_shape = {std::int64_t{1} << 31}, .offset_element = ElementKind::S32, .segments = 1};
  const auto too_long = ScanPlan<>::select(Stream::cpu(), d);
  ASSERT_FALSE(too_long);
  EXPECT_EQ(too_long.error().message(), "ScanPlan: offset_element = s32 cannot count an axis of 2147483648 elements");
  d.offset_element = ElementKind::S64;
  EXPECT_TRUE(ScanPlan<>::select(Stream::cpu(), d));
  for (const std::int64_t segments : {std::int64_t{1} << 60, std::numeric_limits<std::int64_t>::max()}) {
    d.segments = segments;
    const auto plan = ScanPlan<>::select(Stream::cpu(), d);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message().find("has more bytes than"), std::string::npos) << plan.error().message();
  }
}

}  // namespace
}  // namespace planck::test
