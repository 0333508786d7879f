// The CUDA kernels of dynamic-range quantisation, run on fibers, against the reference, byte for byte and with the
// memory around the outputs: every way in which segments are shared out, at the borders between them, in layouts that
// start and end anywhere in a vector.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "backend/reference.hpp"
#include "core/checks.hpp"
#include "cuda/entries.hpp"
#include "dynamic_range/job.hpp"
#include "numerics/dispatch.hpp"
#include "testing/cuda_on_cpu/few_blocks.hpp"
#include "testing/cuda_on_cpu/scheduler.hpp"

namespace planck {
namespace {

enum class Lay { Packed, Shifted, Padded, Apart, Reversed, Backwards, Repeated };

struct Case {
  const char* name;
  Shape shape;
  Granularity scope;
  Lay input = Lay::Packed;
  Lay output = Lay::Packed;
};
std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

struct Mode {
  ElementKind element;
  ElementKind codes;
  bool narrow_scale;
  scalar::RangeRule rule;
};
const Mode kModes[] = {
    {ElementKind::F32, ElementKind::S8, false, {true, true, -127, 127}},
    {ElementKind::F32, ElementKind::U8, false, {false, true, 0, 255}},
    {ElementKind::F16, ElementKind::S8, true, {false, false, -128, 127}},
    {ElementKind::Bf16, ElementKind::U8, false, {false, true, 1, 200}},
    {ElementKind::Bf16, ElementKind::S8, true, {true, true, -127, 127}},
    {ElementKind::F64, ElementKind::S8, false, {false, false, -128, 127}},
};

/// A tensor in memory of its own, with a border on both sides.
class Tensor {
 public:
  Tensor(ElementKind element, const Shape& shape, Lay lay) : shape_(shape), element_(element) {
    constexpr std::int64_t kBorder = 16;
    std::int64_t next = lay == Lay::Apart ? 3 : 1;
    const int rank = shape.rank();
    for (int k = 0; k < rank; ++k) {
      const int d = lay == Lay::Reversed ? k : rank - 1 - k;
      stride_[d] = lay == Lay::Repeated && d == rank - 1 ? 0 : next;
      if (stride_[d] != 0) next *= std::max<std::int64_t>(shape[d], 1);
      if (lay == Lay::Padded) next += 5;
    }
    offset_ = kBorder + (lay == Lay::Shifted ? 3 : 0);
    for (int d = 0; lay == Lay::Backwards && d < rank; ++d) {
      offset_ += stride_[d] * std::max<std::int64_t>(shape[d] - 1, 0);
      stride_[d] = -stride_[d];
    }
    // Vectors are found by the address, so the memory's own beginning must be the same in every run.
    bytes_.assign(static_cast<std::size_t>((next + 2 * kBorder + 3) * size_of(element)) / 16 + 1, Line{});
    std::memset(bytes_.data(), 0xA5, bytes_.size() * sizeof(Line));
  }

  AnyTensorMut view() {
    AnyTensorMut v{};
    v.data = bytes_.data();
    v.capacity = static_cast<std::int64_t>(bytes_.size() * sizeof(Line)) / size_of(element_);
    v.offset = offset_;
    v.element = element_;
    v.shape = shape_;
    v.stride = stride_;
    return v;
  }
  AnyTensorRef read() {
    AnyTensorRef v{};
    const AnyTensorMut mut = view();
    v.data = mut.data;
    v.capacity = mut.capacity;
    v.offset = mut.offset;
    v.element = mut.element;
    v.shape = mut.shape;
    v.stride = mut.stride;
    return v;
  }
  template <class Value>
  void fill(Value value) {
    numerics::with_float(element_, [&]<class T>(T) {
      auto* const data = reinterpret_cast<T*>(bytes_.data());
      const auto count = static_cast<std::int64_t>(bytes_.size() * sizeof(Line) / sizeof(T));
      for (std::int64_t i = 0; i < count; ++i) data[i] = scalar::narrow<T>(value());
    });
  }
  bool same_bytes(const Tensor& other) const {
    return std::memcmp(bytes_.data(), other.bytes_.data(), bytes_.size() * sizeof(Line)) == 0;
  }

 private:
  struct alignas(16) Line {
    std::byte bytes[16];
  };

  Shape shape_;
  ElementKind element_;
  std::int64_t offset_ = 0;
  std::array<std::int64_t, kMaxRank> stride_{};
  std::vector<Line> bytes_;
};

/// Small and large numbers, zeros, and among them what the range must not see.
class Numbers {
 public:
  explicit Numbers(std::uint32_t seed) : random_(seed) {}
  double operator()() {
    const std::uint32_t kind = random_() % 64;
    if (kind == 0) return std::numeric_limits<double>::quiet_NaN();
    if (kind == 1) return std::numeric_limits<double>::infinity();
    if (kind == 2) return -std::numeric_limits<double>::infinity();
    if (kind < 12) return 0.0;
    return std::uniform_real_distribution<double>(-3.0, kind < 40 ? 5.0 : 50.0)(random_);
  }

 private:
  std::mt19937 random_;
};

const Stream kStream = Stream::cuda(nullptr);
const backend::Choice kChoice;

backend::Run run_in(const Workspace& workspace) { return {"DynamicRangeQuantizePlan", kStream, workspace, kChoice}; }
void by_reference(const quantize::DynamicRangeJob& job) { ASSERT_TRUE(reference::run_dynamic_range(run_in({}), job)); }

std::size_t workspace_for(const Shape& shape, const Granularity& scope, ElementKind element) {
  return cuda::dynamic_range_workspace(
      {shape, scope, element, ElementKind::S8, compute_of(element), {}, AnyTensorRef{}, AnyTensorMut{}});
}

enum class Wanted { All, CodesOnly, QParamsOnly };

/// Both runs of a case, compared. `room` is what part of the workspace that is asked for there is.
void expect_same(const Case& c, const Mode& mode, Wanted wanted, double room, Numbers numbers) {
  const ElementKind scale_element = mode.narrow_scale ? mode.element : compute_of(mode.element);
  const Shape segments = qparams_shape(c.shape, c.scope);
  Tensor input(mode.element, c.shape, c.input);
  input.fill(numbers);
  struct Outputs {
    Tensor codes, scale, zero_point, row_sum;
  };
  const auto outputs = [&] {
    return Outputs{{mode.codes, c.shape, c.output},
                   {scale_element, segments, Lay::Padded},
                   {ElementKind::S32, segments, Lay::Reversed},
                   {ElementKind::S32, segments, Lay::Apart}};
  };
  const auto run = [&](Outputs& to, const auto& body) {
    const AnyTensorRef x = input.read();
    const AnyTensorMut codes = to.codes.view();
    const AnyTensorMut scale = to.scale.view();
    const AnyTensorMut zero_point = to.zero_point.view();
    const AnyTensorMut row_sum = to.row_sum.view();
    body(quantize::DynamicRangeJob{c.shape, c.scope, mode.element, mode.codes, scale_element, mode.rule, x, scale,
                                   wanted == Wanted::CodesOnly && mode.rule.symmetric ? nullptr : &zero_point,
                                   wanted == Wanted::QParamsOnly ? nullptr : &codes,
                                   wanted == Wanted::All ? &row_sum : nullptr});
  };
  Outputs expected = outputs();
  run(expected, by_reference);

  const std::size_t asked = workspace_for(c.shape, c.scope, mode.element);
  std::vector<std::byte> workspace(static_cast<std::size_t>(room * static_cast<double>(asked)) + 1, std::byte{0xA5});
  Outputs found = outputs();
  run(found, [&](const quantize::DynamicRangeJob& job) {
    // One byte further on: workspaces have no alignment.
    ASSERT_TRUE(cuda::run_dynamic_range(run_in({workspace.data() + 1, workspace.size() - 1}), job));
  });
  EXPECT_TRUE(expected.scale.same_bytes(found.scale)) << "scale";
  EXPECT_TRUE(expected.zero_point.same_bytes(found.zero_point)) << "zero_point";
  EXPECT_TRUE(expected.codes.same_bytes(found.codes)) << "codes";
  EXPECT_TRUE(expected.row_sum.same_bytes(found.row_sum)) << "row_sum";
}

class DynamicRangeCuda : public testing::TestWithParam<Case> {};

TEST_P(DynamicRangeCuda, EqualsTheReference) {
  std::uint32_t seed = 1;
  for (const Mode& mode : kModes) {
    for (const Wanted wanted : {Wanted::All, Wanted::CodesOnly, Wanted::QParamsOnly}) {
      SCOPED_TRACE(testing::Message() << to_string(mode.element) << " to " << to_string(mode.codes) << ", wanted "
                                      << static_cast<int>(wanted));
      cuda_on_cpu::set_seed(seed);
      expect_same(GetParam(), mode, wanted, 1.0, Numbers(seed++));
    }
  }
}

/// One block, and two, do the work of many.
TEST_P(DynamicRangeCuda, LoopsOverMoreThanItsBlocks) {
  for (const std::int64_t blocks : {1, 2}) {
    const FewBlocks few(blocks);
    expect_same(GetParam(), kModes[0], Wanted::All, 1.0, Numbers(9));
    expect_same(GetParam(), kModes[3], Wanted::All, 1.0, Numbers(10));
  }
}

/// Less workspace than asked for makes fewer pieces, none at all a single one.
TEST_P(DynamicRangeCuda, DoesWithLessWorkspace) {
  if (workspace_for(GetParam().shape, GetParam().scope, ElementKind::F32) == 0) return;
  for (const double room : {0.0, 0.3}) {
    expect_same(GetParam(), kModes[1], Wanted::All, room, Numbers(7));
    expect_same(GetParam(), kModes[5], Wanted::All, room, Numbers(8));
  }
}

const Case kCases[] = {
    // Rows for a part of a warp: 16 bytes of f64 are 2 elements, of 16-bit kinds 8.
    {"token_1", {5, 1}, PerToken{}},
    {"token_7", {9, 7}, PerToken{}},
    {"token_8", {33, 8}, PerToken{}},
    {"token_31_shifted", {9, 31}, PerToken{}, Lay::Shifted, Lay::Shifted},
    {"token_64_three_dims", {3, 5, 64}, PerToken{}, Lay::Padded, Lay::Packed},
    {"token_100_output_apart", {4, 100}, PerToken{}, Lay::Padded, Lay::Apart},
    {"group_32", {7, 128}, PerGroup{1, 32}},
    {"group_48_and_rest", {5, 100}, PerGroup{1, 48}},
    {"group_larger_than_axis", {5, 100}, PerGroup{-1, 1000}},
    {"group_of_one", {3, 9}, PerGroup{1, 1}},
    // A warp, a block, a large block, and longer: held, and read twice.
    {"token_511", {3, 511}, PerToken{}, Lay::Shifted, Lay::Packed},
    {"token_512", {3, 512}, PerToken{}},
    {"token_1100", {3, 1100}, PerToken{}, Lay::Shifted, Lay::Packed},
    {"token_4096", {2, 4096}, PerToken{}},
    {"token_4100", {2, 4100}, PerToken{}, Lay::Packed, Lay::Padded},
    {"token_8192", {2, 8192}, PerToken{}},
    {"token_9000", {2, 9000}, PerToken{}},
    {"token_elements_apart", {6, 75}, PerToken{}, Lay::Apart, Lay::Packed},
    {"token_elements_apart_long", {2, 2600}, PerToken{}, Lay::Apart, Lay::Apart},
    {"token_backwards", {6, 75}, PerToken{}, Lay::Backwards, Lay::Backwards},
    {"token_backwards_to_forwards", {6, 75}, PerToken{}, Lay::Backwards, Lay::Packed},
    {"token_repeated", {6, 75}, PerToken{}, Lay::Repeated, Lay::Packed},
    // Segments of several runs.
    {"channel_middle", {3, 4, 50}, PerChannel{1}},
    {"channel_middle_padded", {2, 3, 5, 30}, PerChannel{1}, Lay::Padded, Lay::Packed},
    {"tensor_padded", {7, 9, 11}, PerTensor{}, Lay::Padded, Lay::Padded},
    {"tensor_apart", {7, 90}, PerTensor{}, Lay::Apart, Lay::Packed},
    // Pieces.
    {"tensor_20000", {20000}, PerTensor{}},
    {"tensor_shifted", {3, 7001}, PerTensor{}, Lay::Shifted, Lay::Shifted},
    {"tensor_padded_long", {90, 233}, PerTensor{}, Lay::Padded, Lay::Packed},
    {"channel_front_long", {2, 17000}, PerChannel{0}},
    {"channel_middle_long", {20, 3, 900}, PerChannel{1}},
    {"tensor_apart_long", {17000}, PerTensor{}, Lay::Apart, Lay::Packed},
    // Columns.
    {"channel_last", {40, 33}, PerChannel{-1}},
    {"channel_last_300", {5, 300}, PerChannel{-1}, Lay::Padded, Lay::Packed},
    {"channel_last_three", {200, 3}, PerChannel{-1}},
    {"channel_last_one_row", {1, 70}, PerChannel{-1}},
    {"channel_last_reversed", {40, 33}, PerChannel{-1}, Lay::Reversed, Lay::Packed},
    {"channel_front_reversed", {33, 40}, PerChannel{0}, Lay::Reversed, Lay::Reversed},
    {"token_reversed", {70, 6, 35}, PerToken{}, Lay::Reversed, Lay::Packed},
    {"group_front", {130, 35}, PerGroup{0, 64}},
    {"group_front_long", {300, 20}, PerGroup{0, 150}},
    {"group_middle", {2, 37, 5}, PerGroup{1, 16}},
    {"channel_last_runs", {6, 7, 9, 20}, PerChannel{-1}, Lay::Padded, Lay::Packed},
    {"channel_middle_reversed", {9, 40, 8}, PerChannel{1}, Lay::Reversed, Lay::Packed},
    {"channel_last_pieces", {700, 40}, PerChannel{-1}},
    {"channel_last_three_pieces", {3000, 3}, PerChannel{-1}, Lay::Shifted, Lay::Packed},
    {"channel_last_runs_pieces", {5, 13, 7, 30}, PerChannel{-1}, Lay::Padded, Lay::Apart},
    // Little and nothing.
    {"scalar", {}, PerTensor{}},
    {"tensor_empty", {0}, PerTensor{}},
    {"channel_of_nothing", {0, 5}, PerChannel{1}},
    {"token_of_nothing", {5, 0}, PerToken{}},
    {"no_tokens", {0, 5}, PerToken{}},
    {"no_groups", {5, 0}, PerGroup{1, 4}},
};
INSTANTIATE_TEST_SUITE_P(Segments, DynamicRangeCuda, testing::ValuesIn(kCases),
                         [](const auto& each) { return std::string(each.param.name); });

/// Segments without a finite number, or of zeros only.
TEST(DynamicRangeCudaValues, NothingToRange) {
  struct Same {
    double value;
    double operator()() const { return value; }
  };
  for (const double value : {0.0, -0.0, std::numeric_limits<double>::quiet_NaN(),
                             std::numeric_limits<double>::infinity(), 1e300, -3.5, 4e38, 1e-320}) {
    for (const Mode& mode : kModes) {
      const ElementKind scale_element = mode.narrow_scale ? mode.element : compute_of(mode.element);
      for (const Case& c : {Case{"rows", {3, 40}, PerToken{}}, Case{"columns", {9, 20}, PerChannel{1}}}) {
        Tensor input(mode.element, c.shape, Lay::Packed);
        input.fill(Same{value});
        const Shape segments = qparams_shape(c.shape, c.scope);
        const AnyTensorRef x = input.read();
        const auto run = [&](const auto& body) {
          Tensor codes(mode.codes, c.shape, Lay::Packed), scale(scale_element, segments, Lay::Packed),
              zero_point(ElementKind::S32, segments, Lay::Packed);
          const AnyTensorMut q = codes.view(), s = scale.view(), z = zero_point.view();
          body(quantize::DynamicRangeJob{c.shape, c.scope, mode.element, mode.codes, scale_element, mode.rule, x, s, &z,
                                         &q, nullptr});
          return std::vector<Tensor>{codes, scale, zero_point};
        };
        const auto expected = run(by_reference);
        const auto found =
            run([](const quantize::DynamicRangeJob& job) { ASSERT_TRUE(cuda::run_dynamic_range(run_in({}), job)); });
        for (std::size_t i = 0; i < expected.size(); ++i) {
          EXPECT_TRUE(expected[i].same_bytes(found[i])) << value << " " << to_string(mode.element) << " " << c.name;
        }
      }
    }
  }
}

/// The workspace is bounded for every number of segments, and 0 where these are many.
TEST(DynamicRangeCudaWorkspace, IsBounded) {
  for (std::int64_t segments = 1; segments < (1 << 21); segments = segments * 5 / 4 + 1) {
    const std::size_t bytes = workspace_for({segments, 1 << 20}, PerToken{}, ElementKind::F64);
    EXPECT_LE(bytes, std::size_t{3} << 20) << segments;
    if (segments > 100000) {
      EXPECT_EQ(bytes, 0U) << segments;
    }
  }
}

}  // namespace
}  // namespace planck
