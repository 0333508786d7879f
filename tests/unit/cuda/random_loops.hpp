// Random loops for the kernels' entry points: tensors of any layout in memory of their own, once for the kernels and
// once for the reference, and what to expect of them afterwards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "numerics/storage.hpp"

namespace planck::cuda_test {

using Extents = std::vector<std::int64_t>;

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  std::int64_t below(std::int64_t n) { return std::uniform_int_distribution<std::int64_t>(0, n - 1)(engine_); }
  bool one_in(int n) { return below(n) == 0; }
  template <class T>
  T of(std::initializer_list<T> list) {
    return *(list.begin() + below(static_cast<std::int64_t>(list.size())));
  }
  double value() {
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-42, 0.5, -1.5};
    if (one_in(40)) return special[below(8)];
    return std::normal_distribution<double>(0, 10)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// A tensor of its own memory, twice: for the kernels and for the reference. Strides are in elements.
struct Tensor {
  ElementKind kind = ElementKind::F32;
  std::int64_t start = 0;
  Extents stride;
  std::vector<std::byte> memory[2];

  void set(std::int64_t i, double value) {
    const auto put = [&](auto stored) {
      for (auto& m : memory)
        std::memcpy(m.data() + i * static_cast<std::int64_t>(sizeof stored), &stored, sizeof stored);
    };
    switch (kind) {
      case ElementKind::F16:
        return put(scalar::narrow<f16>(value));
      case ElementKind::Bf16:
        return put(scalar::narrow<bf16>(value));
      case ElementKind::F32:
        return put(static_cast<float>(value));
      case ElementKind::F64:
        return put(value);
      case ElementKind::S32:
        return put(static_cast<std::int32_t>(value));
      default:
        return put(static_cast<std::int8_t>(static_cast<int>(value)));
    }
  }
  bool is_nan(int which, std::int64_t i) const {
    const auto get = [&](auto stored) {
      std::memcpy(&stored, memory[which].data() + i * static_cast<std::int64_t>(sizeof stored), sizeof stored);
      return stored;
    };
    switch (kind) {
      case ElementKind::F16:
        return std::isnan(scalar::widen<float>(get(f16{})));
      case ElementKind::Bf16:
        return std::isnan(scalar::widen<float>(get(bf16{})));
      case ElementKind::F32:
        return std::isnan(get(float{}));
      case ElementKind::F64:
        return std::isnan(get(double{}));
      default:
        return false;
    }
  }
  std::int64_t elements() const { return static_cast<std::int64_t>(memory[0].size()) / size_of(kind); }
};

/// Memory for `extent`, in which dimensions without `moves` are repeated; laid out in some way or other.
inline Tensor make_tensor(Random& random, const Extents& extent, unsigned moves, ElementKind kind, bool plain = false) {
  Tensor t;
  t.kind = kind;
  const int rank = static_cast<int>(extent.size());
  t.stride.assign(extent.size(), 0);
  std::vector<int> order(extent.size());
  for (int d = 0; d < rank; ++d) order[d] = d;
  if (!plain && random.one_in(3)) std::shuffle(order.begin(), order.end(), std::mt19937(unsigned(random.below(1000))));
  std::int64_t next = !plain && random.one_in(6) ? 2 : 1;
  std::int64_t lowest = 0;
  std::int64_t highest = 0;
  for (int i = rank - 1; i >= 0; --i) {
    const int d = order[i];
    if ((moves >> d & 1U) == 0 || extent[d] <= 1) continue;
    const bool back = !plain && random.one_in(8);
    t.stride[d] = back ? -next : next;
    (back ? lowest : highest) += (extent[d] - 1) * t.stride[d];
    next *= extent[d];
    if (!plain && random.one_in(4)) next += random.below(3);
  }
  t.start = random.below(5) - lowest;
  const std::int64_t count = t.start + highest + 1;
  for (auto& m : t.memory) m.resize(static_cast<std::size_t>(count * size_of(kind)));
  for (std::int64_t i = 0; i < count; ++i) t.set(i, random.value());
  return t;
}

inline core::StridedLoop loop_over(const Extents& extent) {
  return core::StridedLoop(Shape(std::span<const std::int64_t>(extent)));
}

inline void add(core::StridedLoop& loop, Tensor& t, int which) {
  core::LoopOperand& operand = loop.operand[loop.operands++];
  operand.element_bytes = size_of(t.kind);
  operand.base = t.memory[which].data() + t.start * operand.element_bytes;
  for (std::size_t d = 0; d < t.stride.size(); ++d) operand.stride[d] = t.stride[d] * operand.element_bytes;
}

/// The same bytes everywhere, written or not, up to NaN's payload.
inline void expect_same(const Tensor& t, const char* name) {
  const std::int64_t size = size_of(t.kind);
  int shown = 0;
  for (std::int64_t i = 0; i < t.elements() && shown < 3; ++i) {
    if (std::memcmp(t.memory[0].data() + i * size, t.memory[1].data() + i * size, size) == 0) continue;
    if (t.is_nan(0, i) && t.is_nan(1, i)) continue;
    ADD_FAILURE() << name << " differs at element " << i << " of " << t.elements();
    ++shown;
  }
}

inline Extents random_extents(Random& random, std::int64_t most) {
  Extents extent(static_cast<std::size_t>(random.below(5)));
  std::int64_t count = 1;
  for (auto& e : extent) {
    e = random.of<std::int64_t>({1, 2, 3, 4, 7, 8, 9, 16, 17, 31, 33, 64, 65, 100, 257, 513, 2100});
    if (count * e > most) e = random.of<std::int64_t>({1, 2, 3});
    count *= e;
  }
  return extent;
}

inline constexpr unsigned kAll = ~0U;
inline const std::initializer_list<ElementKind> kFloats = {ElementKind::F32, ElementKind::F64, ElementKind::F16,
                                                           ElementKind::Bf16};

/// A run with a workspace of no alignment.
inline backend::Run run_with(std::vector<std::byte>& workspace, std::size_t bytes) {
  static const Stream stream = Stream::cuda(nullptr);
  static const backend::Choice choice;
  if (bytes == 0) return {"test", stream, {}, choice};
  workspace.assign(bytes + 1, std::byte{0xA5});
  return {"test", stream, {workspace.data() + 1, bytes}, choice};
}

inline std::string text_of(const Extents& extent) {
  std::string text;
  for (const std::int64_t e : extent) text += std::to_string(e) + " ";
  return text;
}

/// Dimensions of more than one element over which sums go.
inline int reduced_count(const Extents& extent, unsigned moves) {
  int count = 0;
  for (std::size_t d = 0; d < extent.size(); ++d) count += extent[d] != 1 && (moves >> d & 1U) == 0 ? 1 : 0;
  return count;
}

/// Ends of sums at the borders of blocks, tiles and rounds, along rows and columns, cut into parts and not.
inline const Extents kLengths[] = {{1},        {7},
                                   {8},        {9},
                                   {64},       {65},
                                   {72},       {511},
                                   {512},      {513},
                                   {4095},     {4096},
                                   {4097},     {4105},
                                   {8192},     {12289},
                                   {33000},    {40, 3},
                                   {3, 40},    {513, 3},
                                   {3, 513},   {4097, 2},
                                   {2, 4097},  {600, 20},
                                   {20, 600},  {513, 17},
                                   {1025, 33}, {5, 7, 9},
                                   {2, 65, 3}, {0},
                                   {0, 3},     {3, 0},
                                   {1, 5, 1},  {17, 1},
                                   {1, 1},     {3, 4, 5, 6},
                                   {9, 1, 70}, {2, 3, 4, 2, 3},
                                   {4200, 16}, {50, 300},
                                   {9, 2500},  {40, 129}};

}  // namespace planck::cuda_test
