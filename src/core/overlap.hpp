// Whether two strided views share a byte: the bounded exact test behind the aliasing rule.
#pragma once

#include <array>
#include <cstdint>

#include "planck/tensor.hpp"

namespace planck::core {

/// A view in bytes: the address of its first element, and byte strides.
struct ByteView {
  std::int64_t first;
  std::int64_t element_bytes;
  int rank;
  std::array<std::int64_t, kMaxRank> extent;
  std::array<std::int64_t, kMaxRank> stride;
};

/// True if no byte belongs to both; false if one does or the search would take too long. Both are non-empty.
bool provably_disjoint(const ByteView& a, const ByteView& b) noexcept;

}  // namespace planck::core
