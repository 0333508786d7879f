#include "gguf/blocks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gguf/decode.hpp"

namespace planck::cli::gguf {
namespace {

/// `count` blocks of one kind. Only where a scale is no finite number can an element be NaN: a finite f16 times a code
/// stays far below the largest f32, and MXFP4's powers of two meet no infinity.
template <class Block>
void decode_blocks(const std::byte* blocks, std::int64_t count, float* to) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(blocks);
  for (std::int64_t i = 0; i < count; ++i, from += Block::kBytes, to += Block::kElements) {
    Block::decode(from, to);
    bool finite = true;
    for (const int scale : Block::kScales) finite = finite && is_finite_f16(from + scale);
    if (finite) continue;
    std::replace_if(
        to, to + Block::kElements, [](float x) { return std::isnan(x); }, std::numeric_limits<float>::quiet_NaN());
  }
}

template <class Block>
constexpr BlockType row(std::uint32_t number, std::string_view name) {
  return {number, name, Block::kElements, Block::kBytes, {}, decode_blocks<Block>};
}

constexpr BlockType kTypes[] = {
    {0, "F32", 1, 4, "F32"},
    {1, "F16", 1, 2, "F16"},
    row<Q4_0>(2, "Q4_0"),
    row<Q4_1>(3, "Q4_1"),
    {4, "Q4_2"},
    {5, "Q4_3"},
    row<Q5_0>(6, "Q5_0"),
    row<Q5_1>(7, "Q5_1"),
    row<Q8_0>(8, "Q8_0"),
    {9, "Q8_1", 32, 36},
    row<Q2_K>(10, "Q2_K"),
    row<Q3_K>(11, "Q3_K"),
    row<Q4_K>(12, "Q4_K"),
    row<Q5_K>(13, "Q5_K"),
    row<Q6_K>(14, "Q6_K"),
    {15, "Q8_K", 256, 292},
    {16, "IQ2_XXS", 256, 66},
    {17, "IQ2_XS", 256, 74},
    {18, "IQ3_XXS", 256, 98},
    {19, "IQ1_S", 256, 50},
    row<IQ4_NL>(20, "IQ4_NL"),
    {21, "IQ3_S", 256, 110},
    {22, "IQ2_S", 256, 82},
    row<IQ4_XS>(23, "IQ4_XS"),
    {24, "I8", 1, 1, "I8"},
    {25, "I16", 1, 2, "I16"},
    {26, "I32", 1, 4, "I32"},
    {27, "I64", 1, 8, "I64"},
    {28, "F64", 1, 8, "F64"},
    {29, "IQ1_M", 256, 56},
    {30, "BF16", 1, 2, "BF16"},
    {31, "Q4_0_4_4"},
    {32, "Q4_0_4_8"},
    {33, "Q4_0_8_8"},
    {34, "TQ1_0", 256, 54},
    {35, "TQ2_0", 256, 66},
    {36, "IQ4_NL_4_4"},
    {37, "IQ4_NL_4_8"},
    {38, "IQ4_NL_8_8"},
    row<Mxfp4>(39, "MXFP4"),
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

}  // namespace

std::span<const BlockType> block_types() noexcept { return kTypes; }

const BlockType* block_type(std::uint32_t number) noexcept {
  const auto* const found =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const BlockType& type) { return type.number == number; });
  return found == std::end(kTypes) ? nullptr : found;
}

}  // namespace planck::cli::gguf
