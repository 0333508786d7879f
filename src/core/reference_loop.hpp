// The loop of every reference implementation: each index of the space in turn, slow and plain.
#pragma once

#include <array>
#include <cstring>

#include "core/layout.hpp"

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

 private:
  std::byte* at_;
};

/// Calls body(cell) for every index, where cell(k) is operand k's element there.
template <class Body>
void for_each_index(const StridedLoop& loop, const Body& body) {
  std::array<std::int64_t, kMaxRank> index{};
  for (std::int64_t i = loop.count(); i > 0; --i) {
    body([&](int k) {
      const LoopOperand& operand = loop.operand[k];
      std::int64_t offset = 0;
      for (int d = 0; d < loop.rank; ++d) offset += index[d] * operand.stride[d];
      return Cell(operand.base == nullptr ? nullptr : operand.base + offset);
    });
    for (int d = loop.rank - 1; d >= 0 && ++index[d] == loop.extent[d]; --d) index[d] = 0;
  }
}

}  // namespace planck::core
