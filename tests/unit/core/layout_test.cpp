// Views, collapsing strided loops, and the overlap test: each against brute force over all elements.
#include "core/layout.hpp"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "core/overlap.hpp"
#include "core/reference_loop.hpp"
#include "core/small_operands.hpp"
#include "planck/tensor.hpp"

namespace planck {
namespace {

using core::ByteView;
using core::StridedLoop;

TEST(Tensor, ViewsSliceTransposeFlipAndExpand) {
  std::vector<float> data(24);
  for (int i = 0; i < 24; ++i) data[static_cast<std::size_t>(i)] = static_cast<float>(i);
  const auto at = [](const auto& t, std::int64_t i, std::int64_t j) {
    return t.data[static_cast<std::size_t>(t.offset + i * t.stride[0] + j * t.stride[1])];
  };
  const TensorMut<float, 2> m = view(data, {4, 6});
  EXPECT_EQ(at(m, 1, 2), 8);
  EXPECT_EQ(at(m.transpose(0, 1), 2, 1), 8);
  EXPECT_EQ(at(m.slice(1, 1, 2, 3), 1, 1), 10);
  EXPECT_EQ(at(m.flip(0), 0, 0), 18);
  EXPECT_EQ(at(m.flip(0).flip(0), 0, 0), 0);
  EXPECT_EQ(at(m.slice(0, 2, 1).expand(0, 5), 4, 3), 15);
  const AnyTensorRef any = m.slice(1, 5, 3, -2);
  EXPECT_EQ(any.offset, 5);
  EXPECT_EQ(any.stride[1], -2);
  EXPECT_EQ(any.capacity, 24);
  EXPECT_EQ(any.shape, (Shape{4, 3}));
  EXPECT_EQ(any.element, ElementKind::F32);
  const std::vector<float>& constant = data;
  const TensorRef<float, 1> flat = view(constant, {24});
  EXPECT_EQ(flat.shape[0], 24);
}

/// Where the operands stand at each index, as a multiset: what collapsing must keep.
std::multiset<std::vector<const std::byte*>> visits(const StridedLoop& loop) {
  std::multiset<std::vector<const std::byte*>> all;
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t i = loop.count(); i > 0; --i) {
    std::vector<const std::byte*> place;
    for (int k = 0; k < loop.operands; ++k) {
      const std::byte* p = loop.operand[k].base;
      for (int d = 0; d < loop.rank; ++d) p += index[d] * loop.operand[k].stride[d];
      place.push_back(p);
    }
    all.insert(place);
    for (int d = loop.rank - 1; d >= 0 && ++index[d] == loop.extent[d]; --d) index[d] = 0;
  }
  return all;
}

TEST(Layout, ContiguousProblemsCollapseToOneDimension) {
  std::vector<float> a(2 * 3 * 4 * 5);
  std::vector<float> b(a.size());
  StridedLoop loop(Shape{2, 3, 4, 5});
  loop.add(AnyTensorRef(view(a, {2, 3, 4, 5})));
  loop.add(AnyTensorRef(view(b, {2, 3, 4, 5})));
  core::collapse(loop);
  EXPECT_EQ(loop.rank, 1);
  EXPECT_EQ(loop.extent[0], 120);

  StridedLoop both_transposed(Shape{5, 4, 3, 2});
  both_transposed.add(AnyTensorRef(view(a, {2, 3, 4, 5}).transpose(0, 3).transpose(1, 2)));
  both_transposed.add(AnyTensorRef(view(b, {2, 3, 4, 5}).transpose(0, 3).transpose(1, 2)));
  core::collapse(both_transposed);
  EXPECT_EQ(both_transposed.rank, 1);

  StridedLoop both_flipped(Shape{24, 5});
  both_flipped.add(AnyTensorRef(view(a, {24, 5}).flip(0).flip(1)));
  both_flipped.add(AnyTensorRef(view(b, {24, 5}).flip(0).flip(1)));
  core::collapse(both_flipped);
  EXPECT_EQ(both_flipped.rank, 1);
  EXPECT_EQ(both_flipped.operand[0].base, reinterpret_cast<std::byte*>(a.data()));
}

TEST(Layout, OffsetAndStridesOfAnEmptyViewAreNotFollowed) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  std::byte memory{};
  StridedLoop loop(Shape{3, 0});
  loop.add(AnyTensorRef{&memory, 0, -kHuge, ElementKind::F32, Shape{3, 0}, {kHuge, -kHuge}});
  EXPECT_EQ(loop.operand[0].base, &memory);
  EXPECT_EQ(loop.operand[0].stride[0], 0);
  EXPECT_EQ(loop.operand[0].stride[1], 0);
}

TEST(Layout, CollapsingKeepsWhatMeetsWhat) {
  std::mt19937 random(1);
  std::vector<std::byte> memory(1 << 20);
  for (int trial = 0; trial < 2000; ++trial) {
    Shape shape(std::vector<std::int64_t>(random() % 6));
    for (int d = 0; d < shape.rank(); ++d) shape[d] = 1 + random() % 4;
    StridedLoop loop(shape);
    for (int k = 0; k < 3; ++k) {
      AnyTensorRef t;
      t.data = memory.data();
      t.offset = 1 << 17;
      t.shape = shape;
      std::int64_t step = 1;
      std::vector<int> order;
      for (int d = 0; d < shape.rank(); ++d) order.insert(order.begin() + random() % (order.size() + 1), d);
      for (const int d : order) {
        t.stride[d] = (random() % 4 == 0 ? -step : step) * (k < 2 && random() % 5 == 0 ? 0 : 1);
        step *= shape[d] + (random() % 3 == 0 ? 1 : 0);
      }
      loop.add(t);
    }
    const auto before = visits(loop);
    core::collapse(loop);
    ASSERT_EQ(visits(loop), before);
    for (int d = 0; d < loop.rank; ++d) {
      ASSERT_GT(loop.extent[d], 1);
      ASSERT_GT(loop.operand[2].stride[d], 0);
      if (d == 0) continue;
      ASSERT_GT(loop.operand[2].stride[d - 1], loop.operand[2].stride[d]);
    }
  }
}

std::set<std::int64_t> bytes_of(const ByteView& v) {
  std::set<std::int64_t> bytes;
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t count = 1;
  for (int d = 0; d < v.rank; ++d) count *= v.extent[d];
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t at = v.first;
    for (int d = 0; d < v.rank; ++d) at += index[d] * v.stride[d];
    for (std::int64_t b = 0; b < v.element_bytes; ++b) bytes.insert(at + b);
    for (int d = v.rank - 1; d >= 0 && ++index[d] == v.extent[d]; --d) index[d] = 0;
  }
  return bytes;
}

TEST(Overlap, AgreesWithBruteForceOnSmallViews) {
  std::mt19937 random(2);
  int disjoint = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::array<ByteView, 2> v{};
    for (auto& view : v) {
      view.element_bytes = 1 << random() % 4;
      view.first = 1000 + static_cast<std::int64_t>(random() % 64);
      view.rank = static_cast<int>(random() % 4);
      for (int d = 0; d < view.rank; ++d) {
        view.extent[d] = 1 + random() % 5;
        view.stride[d] = static_cast<std::int64_t>(random() % 41) - 20;
      }
    }
    const auto a = bytes_of(v[0]);
    const auto b = bytes_of(v[1]);
    bool shared = false;
    for (const std::int64_t byte : a) shared |= b.contains(byte);
    ASSERT_EQ(core::provably_disjoint(v[0], v[1]), !shared);
    disjoint += shared ? 0 : 1;
  }
  EXPECT_GT(disjoint, 1000);
}

TEST(Overlap, ProvesLargeInterleavedViewsDisjoint) {
  // Even and odd elements of 2^40, left and right halves of a matrix, every third column against the others.
  const std::int64_t n = std::int64_t{1} << 40;
  EXPECT_TRUE(core::provably_disjoint({0, 4, 1, {n}, {8}}, {4, 4, 1, {n}, {8}}));
  EXPECT_FALSE(core::provably_disjoint({0, 4, 1, {n}, {8}}, {2, 4, 1, {n}, {8}}));
  EXPECT_TRUE(core::provably_disjoint({0, 4, 2, {4096, 2048}, {16384, 4}}, {8192, 4, 2, {4096, 2048}, {16384, 4}}));
  EXPECT_TRUE(core::provably_disjoint({0, 2, 2, {1000, 300}, {2000, 6}}, {2, 2, 2, {1000, 300}, {2000, 6}}));
  EXPECT_TRUE(core::provably_disjoint({0, 4, 2, {4096, 2048}, {-16384, 4}}, {8192, 4, 2, {4096, 2048}, {-16384, 4}}));
}

TEST(SmallOperands, TakesNothingThatTheChecksRefuse) {
  using core::Role;
  std::mt19937 random(3);
  alignas(64) std::array<std::byte, 256> memory;
  const Shape shape{2, 3};
  const auto pick = [&](std::initializer_list<std::int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  const auto draw = [&] {
    AnyTensorMut view{memory.data() + pick({0, 0, 2, 8, 24, 64, 128}),
                      pick({5, 6, 7, 30, -1, kUnknownCapacity}),
                      pick({0, 0, 0, 1, 2, -1, std::numeric_limits<std::int64_t>::max()}),
                      ElementKind::F32,
                      shape,
                      {pick({3, 3, 3, 4, -3}), pick({1, 1, 1, 2, 0})}};
    if (random() % 16 == 0) view.data = nullptr;
    if (random() % 16 == 0) view.element = random() % 2 == 0 ? ElementKind::S32 : ElementKind::Bf16;
    if (random() % 16 == 0) view.shape = random() % 2 == 0 ? Shape{3, 2} : Shape{2, 0};
    return view;
  };
  int taken = 0;
  int in_place = 0;
  for (int trial = 0; trial < 200000; ++trial) {
    const AnyTensorMut input = draw();
    const AnyTensorMut output = random() % 4 == 0 ? input : draw();
    const ElementKind wanted = random() % 4 == 0 ? ElementKind::S32 : ElementKind::F32;
    core::SmallOperands operands(shape);
    if (!operands.add_input(input, ElementKind::F32) || !operands.add_output(output, wanted)) continue;
    core::OperandChecks checks("Plan");
    ASSERT_TRUE(checks.add({"input", Role::Input, input, ElementKind::F32, &shape}));
    ASSERT_TRUE(checks.add({"output", Role::Output, output, wanted, &shape}));
    ASSERT_TRUE(checks.check_overlaps());
    ASSERT_EQ(operands.data()[0], static_cast<std::byte*>(input.data) + 4 * input.offset);
    ASSERT_EQ(operands.data()[1], static_cast<std::byte*>(output.data) + 4 * output.offset);
    ++taken;
    in_place += operands.data()[0] == operands.data()[1] ? 1 : 0;
  }
  EXPECT_GT(taken, 1000);
  EXPECT_GT(in_place, 100);
}

}  // namespace
}  // namespace planck
