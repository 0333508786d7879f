#include "cpu/strided/rectangle.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace planck::cpu {
namespace {

/// One element after the other, along the smaller stride of source or destination.
template <class T>
void copy_elements(const std::byte* from, std::int64_t from_row, std::int64_t from_column, std::byte* to,
                   std::int64_t to_row, std::int64_t to_column, std::int64_t rows, std::int64_t columns) {
  const std::int64_t by_rows = std::abs(from_row) + std::abs(to_row);
  const std::int64_t by_columns = std::abs(from_column) + std::abs(to_column);
  if (rows > 1 && by_rows < by_columns + static_cast<std::int64_t>(64 * sizeof(T)) &&
      std::min(std::abs(from_row), std::abs(to_row)) == static_cast<std::int64_t>(sizeof(T))) {
    std::swap(rows, columns);
    std::swap(from_row, from_column);
    std::swap(to_row, to_column);
  }
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::byte* source = from + r * from_row;
    std::byte* target = to + r * to_row;
    for (std::int64_t c = 0; c < columns; ++c) {
      std::memcpy(target + c * to_column, source + c * from_column, sizeof(T));
    }
  }
}

// Sixteen bytes of elements, as every 64-bit machine has registers for.
template <class T>
struct Register {
  using Type __attribute__((vector_size(16))) = T;
};
using Pairs = Register<std::uint64_t>::Type;
using Quads = Register<std::uint32_t>::Type;
using Octets = Register<std::uint16_t>::Type;

// The first (second) halves of a and b, taken in turn.
Pairs lower(Pairs a, Pairs b) { return __builtin_shufflevector(a, b, 0, 2); }
Pairs upper(Pairs a, Pairs b) { return __builtin_shufflevector(a, b, 1, 3); }
Quads lower(Quads a, Quads b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
Quads upper(Quads a, Quads b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
Octets lower(Octets a, Octets b) { return __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11); }
Octets upper(Octets a, Octets b) { return __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15); }

/// Interleaves neighbouring registers of `count`, then neighbouring pairs of these, with elements twice as wide, until
/// each register holds a column.
void turn(Pairs* r) {
  const Pairs first = lower(r[0], r[1]);
  r[1] = upper(r[0], r[1]);
  r[0] = first;
}
void turn(Quads* r) {
  const Pairs a[] = {reinterpret_cast<Pairs>(lower(r[0], r[1])), reinterpret_cast<Pairs>(upper(r[0], r[1]))};
  const Pairs b[] = {reinterpret_cast<Pairs>(lower(r[2], r[3])), reinterpret_cast<Pairs>(upper(r[2], r[3]))};
  for (int k = 0; k < 2; ++k) {
    r[2 * k] = reinterpret_cast<Quads>(lower(a[k], b[k]));
    r[2 * k + 1] = reinterpret_cast<Quads>(upper(a[k], b[k]));
  }
}
void turn(Octets* r) {
  Quads top[4];     // rows 0 to 3: two columns to a register
  Quads bottom[4];  // rows 4 to 7
  for (int half = 0; half < 2; ++half) {
    Octets* rows = r + 4 * half;
    const Quads a[] = {reinterpret_cast<Quads>(lower(rows[0], rows[1])),
                       reinterpret_cast<Quads>(upper(rows[0], rows[1]))};
    const Quads b[] = {reinterpret_cast<Quads>(lower(rows[2], rows[3])),
                       reinterpret_cast<Quads>(upper(rows[2], rows[3]))};
    Quads* out = half == 0 ? top : bottom;
    for (int k = 0; k < 2; ++k) {
      out[2 * k] = lower(a[k], b[k]);
      out[2 * k + 1] = upper(a[k], b[k]);
    }
  }
  for (int k = 0; k < 4; ++k) {
    const auto a = reinterpret_cast<Pairs>(top[k]);
    const auto b = reinterpret_cast<Pairs>(bottom[k]);
    r[2 * k] = reinterpret_cast<Octets>(lower(a, b));
    r[2 * k + 1] = reinterpret_cast<Octets>(upper(a, b));
  }
}

/// Rows that are contiguous become columns that are.
template <class T>
void transpose(const std::byte* from, std::int64_t from_row, std::byte* to, std::int64_t to_column, std::int64_t rows,
               std::int64_t columns) {
  constexpr std::int64_t kSize = sizeof(T);
  constexpr std::int64_t kBlock = 16 / kSize;
  const std::int64_t whole_rows = rows - rows % kBlock;
  const std::int64_t whole_columns = columns - columns % kBlock;
  // Down the rows first: the destination is written in long runs, and lines of the source are used again soon.
  for (std::int64_t c = 0; c < whole_columns; c += kBlock) {
    for (std::int64_t r = 0; r < whole_rows; r += kBlock) {
      typename Register<T>::Type block[kBlock];
      for (int k = 0; k < kBlock; ++k) std::memcpy(&block[k], from + (r + k) * from_row + c * kSize, 16);
      turn(block);
      for (int k = 0; k < kBlock; ++k) std::memcpy(to + (c + k) * to_column + r * kSize, &block[k], 16);
    }
  }
  copy_elements<T>(from + whole_rows * from_row, from_row, kSize, to + whole_rows * kSize, kSize, to_column,
                   rows - whole_rows, columns);
  copy_elements<T>(from + whole_columns * kSize, from_row, kSize, to + whole_columns * to_column, kSize, to_column,
                   whole_rows, columns - whole_columns);
}

template <class T>
void copy_rectangle(const std::byte* from, std::int64_t from_row, std::int64_t from_column, std::byte* to,
                    std::int64_t to_row, std::int64_t to_column, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t kSize = sizeof(T);
  // What runs backwards through contiguous elements is walked from its other end.
  if (from_row == -kSize || to_row == -kSize) {
    from += (rows - 1) * from_row;
    to += (rows - 1) * to_row;
    from_row = -from_row;
    to_row = -to_row;
  }
  if (from_column == -kSize || to_column == -kSize) {
    from += (columns - 1) * from_column;
    to += (columns - 1) * to_column;
    from_column = -from_column;
    to_column = -to_column;
  }
  if constexpr (kSize > 1) {
    if (from_column == kSize && to_row == kSize) return transpose<T>(from, from_row, to, to_column, rows, columns);
    if (from_row == kSize && to_column == kSize) return transpose<T>(from, from_column, to, to_row, columns, rows);
  }
  copy_elements<T>(from, from_row, from_column, to, to_row, to_column, rows, columns);
}

}  // namespace

void copy_rectangle(std::int64_t size, const std::byte* from, std::int64_t from_row, std::int64_t from_column,
                    std::byte* to, std::int64_t to_row, std::int64_t to_column, std::int64_t rows,
                    std::int64_t columns) {
  switch (size) {
    case 1:
      return copy_rectangle<std::uint8_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    case 2:
      return copy_rectangle<std::uint16_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    case 4:
      return copy_rectangle<std::uint32_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
    default:
      return copy_rectangle<std::uint64_t>(from, from_row, from_column, to, to_row, to_column, rows, columns);
  }
}

}  // namespace planck::cpu
