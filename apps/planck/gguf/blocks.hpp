// The types of a GGUF file's tensors, all in one table: number, name, size of a block, and how a block is decoded.
//
// A block holds some neighbours of a row: their codes, and one scale or a few. Decoding computes in f32 in the order of
// ggml's dequantize_row_*, so that every element has the bits that ggml gives it; a NaN is always 0x7FC00000, whatever
// the machine makes of infinity times zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace planck::cli::gguf {

struct BlockType {
  std::uint32_t number = 0;  ///< in the file
  std::string_view name;
  std::int64_t elements = 0;    ///< of a block; 0: ggml has given the type up
  std::int64_t bytes = 0;       ///< of a block
  std::string_view plain = {};  ///< the element's name in safetensors, where elements are stored as they are
  void (*decode)(const std::byte* blocks, std::int64_t count, float* to) = nullptr;

  bool decodes() const noexcept { return decode != nullptr; }
};

/// Every type that ggml has or had.
std::span<const BlockType> block_types() noexcept;
/// The type of this number, or null.
const BlockType* block_type(std::uint32_t number) noexcept;

}  // namespace planck::cli::gguf
