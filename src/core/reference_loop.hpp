// The loops of every reference implementation: each index of the space in turn, slow and plain.
#pragma once

#include <array>
#include <cstring>

#include "core/layout.hpp"
#include "numerics/canonical_order.hpp"

namespace planck::core {

/// One element of an operand at the current index.
class Cell {
 public:
  explicit Cell(std::byte* at) : at_(at) {}
  template <class T>
  T get() const {
    T value;
    std::memcpy(&value, at_, sizeof value);
    return value;
  }
  template <class T>
  void set(T value) const {
    std::memcpy(at_, &value, sizeof value);
  }
  bool present() const { return at_ != nullptr; }
  std::byte* address() const { return at_; }

 private:
  std::byte* at_;
};

using LoopIndex = std::array<std::int64_t, kMaxLoopRank>;

inline Cell cell_at(const StridedLoop& loop, const LoopIndex& index, int k) {
  const LoopOperand& operand = loop.operand[k];
  std::int64_t offset = 0;
  for (int d = 0; d < loop.rank; ++d) offset += index[d] * operand.stride[d];
  return Cell(operand.base == nullptr ? nullptr : operand.base + offset);
}

/// Calls body(index) for every index of the loop.
template <class Body>
void for_each_loop_index(const StridedLoop& loop, const Body& body) {
  LoopIndex index{};
  for (std::int64_t i = loop.count(); i > 0; --i) {
    body(index);
    for (int d = loop.rank - 1; d >= 0 && ++index[d] == loop.extent[d]; --d) index[d] = 0;
  }
}

/// Calls body(cell) for every index, where cell(k) is operand k's element there.
template <class Body>
void for_each_index(const StridedLoop& loop, const Body& body) {
  for_each_loop_index(loop, [&](const LoopIndex& index) { body([&](int k) { return cell_at(loop, index, k); }); });
}

/// The sum of term(cell) over the dimensions from `dim` on in which the last operand is broadcast, innermost first.
template <class Term>
double sum_from(const StridedLoop& loop, int dim, LoopIndex& index, const Term& term) {
  if (dim == loop.rank) return static_cast<double>(term([&](int k) { return cell_at(loop, index, k); }));
  if (loop.operand[loop.operands - 1].stride[dim] != 0 || loop.extent[dim] == 1) {
    return sum_from(loop, dim + 1, index, term);
  }
  const double sum = numerics::canonical_sum(loop.extent[dim], [&](std::int64_t t) {
    index[dim] = t;
    return sum_from(loop, dim + 1, index, term);
  });
  index[dim] = 0;
  return sum;
}

/// Calls store(cell, sum) for every element of the last operand, a gradient, with the sum of term(cell) over the
/// dimensions in which it is broadcast: one at a time, innermost first, each in the canonical order.
template <class Term, class Store>
void for_each_sum(const StridedLoop& loop, const Term& term, const Store& store) {
  StridedLoop kept = loop;
  for (int d = 0; d < loop.rank; ++d) {
    if (loop.operand[loop.operands - 1].stride[d] == 0) kept.extent[d] = 1;
  }
  for_each_loop_index(kept, [&](LoopIndex index) {
    const Cell gradient = cell_at(loop, index, loop.operands - 1);
    store(gradient, sum_from(loop, 0, index, term));
  });
}

}  // namespace planck::core
