// Rectangles of every element size, transposed and not, with strides of either sign.
#include "cpu/strided/rectangle.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace planck::cpu {
namespace {

/// Copies rows × columns elements between two views of guarded buffers and compares byte by byte.
void check(std::int64_t size, std::int64_t rows, std::int64_t columns, bool from_turned, bool to_turned, int sign) {
  constexpr std::int64_t kPad = 3;  // elements between rows, so that they are no one run
  const auto stride = [&](bool turned, bool row) {
    if (row != turned) return ((turned ? rows : columns) + kPad) * size * sign;
    return size;
  };
  const std::int64_t bytes = (rows + kPad) * (columns + kPad) * size;
  std::vector<std::byte> from(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i < from.size(); ++i) from[i] = static_cast<std::byte>(i * 37 + i / 256);
  std::vector<std::byte> to(from.size(), std::byte{0xAB});
  std::vector<std::byte> expected = to;
  // A negative stride starts at the far end.
  const auto start = [&](bool turned) {
    return sign > 0 ? 0 : ((turned ? columns : rows) - 1) * ((turned ? rows : columns) + kPad) * size;
  };
  const std::byte* source = from.data() + start(from_turned);
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < columns; ++c) {
      for (std::int64_t b = 0; b < size; ++b) {
        expected[static_cast<std::size_t>(start(to_turned) + r * stride(to_turned, true) +
                                          c * stride(to_turned, false) + b)] =
            source[r * stride(from_turned, true) + c * stride(from_turned, false) + b];
      }
    }
  }
  copy_rectangle(size, source, stride(from_turned, true), stride(from_turned, false), to.data() + start(to_turned),
                 stride(to_turned, true), stride(to_turned, false), rows, columns);
  ASSERT_EQ(to, expected) << size << " bytes, " << rows << " x " << columns << (from_turned ? ", from turned" : "")
                          << (to_turned ? ", to turned" : "") << ", sign " << sign;
}

TEST(CopyRectangle, KeepsEveryElementAndTouchesNothingElse) {
  for (const std::int64_t size : {1, 2, 4, 8}) {
    for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 16, 33}) {
      for (const std::int64_t columns : {1, 2, 4, 5, 8, 17, 64}) {
        for (const int sign : {1, -1}) {
          for (int turned = 0; turned < 4; ++turned) check(size, rows, columns, turned % 2 == 1, turned / 2 == 1, sign);
        }
      }
    }
  }
}

}  // namespace
}  // namespace planck::cpu
