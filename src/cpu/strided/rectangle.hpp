// Copying rectangles of elements between any strides: how operands that lie unhandily are packed and unpacked.
#pragma once

#include <cstddef>
#include <cstdint>

namespace planck::cpu {

/// Copies rows × columns elements of `size` bytes (1, 2, 4 or 8); strides in bytes. Where one side is contiguous along
/// the rows and the other along the columns, whole blocks are transposed in registers.
void copy_rectangle(std::int64_t size, const std::byte* from, std::int64_t from_row, std::int64_t from_column,
                    std::byte* to, std::int64_t to_row, std::int64_t to_column, std::int64_t rows,
                    std::int64_t columns);

}  // namespace planck::cpu
