// How each block of GGUF is decoded: a struct with the number of elements and bytes, where its f16 scales lie, and the
// arithmetic. Integers are exact in f32, so the order of the products and sums alone decides the bits; it is ggml's.
//
// Bytes are read one by one, so a block may lie anywhere, and the machine's byte order does not matter.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "planck/element.hpp"

namespace planck::cli::gguf {

using Bytes = const std::uint8_t*;

inline std::uint16_t u16_at(Bytes b) noexcept { return static_cast<std::uint16_t>(b[0] | b[1] << 8); }
inline float f16_at(Bytes b) noexcept { return static_cast<float>(f16::from_bits(u16_at(b))); }
inline bool is_finite_f16(Bytes b) noexcept { return (b[1] & 0x7C) != 0x7C; }
inline float s8_at(Bytes b) noexcept { return static_cast<float>(static_cast<std::int8_t>(*b)); }
inline float number(int code) noexcept { return static_cast<float>(code); }

struct Q4_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  static constexpr std::array<int, 1> kScales{0};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    for (int j = 0; j < 16; ++j) {
      y[j] = d * number((b[2 + j] & 0xF) - 8);
      y[j + 16] = d * number((b[2 + j] >> 4) - 8);
    }
  }
};

struct Q4_1 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 20;
  static constexpr std::array<int, 2> kScales{0, 2};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    const float m = f16_at(b + 2);
    for (int j = 0; j < 16; ++j) {
      y[j] = d * number(b[4 + j] & 0xF) + m;
      y[j + 16] = d * number(b[4 + j] >> 4) + m;
    }
  }
};

/// Element j of 32 whose low four bits lie as in Q4_0 and whose fifth is bit j of `high`.
inline int five_bits(Bytes high, Bytes low, int j) noexcept {
  const int nibble = j < 16 ? low[j] & 0xF : low[j - 16] >> 4;
  return nibble | (high[j / 8] >> (j % 8) & 1) << 4;
}

struct Q5_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 22;
  static constexpr std::array<int, 1> kScales{0};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    for (int j = 0; j < 32; ++j) y[j] = d * number(five_bits(b + 2, b + 6, j) - 16);
  }
};

struct Q5_1 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 24;
  static constexpr std::array<int, 2> kScales{0, 2};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    const float m = f16_at(b + 2);
    for (int j = 0; j < 32; ++j) y[j] = d * number(five_bits(b + 4, b + 8, j)) + m;
  }
};

struct Q8_0 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 34;
  static constexpr std::array<int, 1> kScales{0};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    for (int j = 0; j < 32; ++j) y[j] = s8_at(b + 2 + j) * d;
  }
};

struct Q2_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 84;
  static constexpr std::array<int, 2> kScales{80, 82};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b + 80);
    const float dmin = f16_at(b + 82);
    for (int s = 0; s < 16; ++s) {  // sixteen elements share a scale and a minimum
      const float scale = d * number(b[s] & 0xF);
      const float least = dmin * number(b[s] >> 4);
      const Bytes codes = b + 16 + s / 8 * 32 + s % 2 * 16;
      const int shift = s % 8 / 2 * 2;
      for (int j = 0; j < 16; ++j) *y++ = scale * number(codes[j] >> shift & 3) - least;
    }
  }
};

struct Q3_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 110;
  static constexpr std::array<int, 1> kScales{108};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b + 108);
    const Bytes scales = b + 96;
    for (int s = 0; s < 16; ++s) {
      const int low = s < 8 ? scales[s] & 0xF : scales[s - 8] >> 4;
      const int high = scales[8 + s % 4] >> (s / 4 * 2) & 3;
      const float scale = d * number((low | high << 4) - 32);
      const Bytes third = b + s % 2 * 16;  // the codes' third bits; where one is missing, 4 is taken away
      const Bytes codes = b + 32 + s / 8 * 32 + s % 2 * 16;
      const int shift = s % 8 / 2 * 2;
      for (int j = 0; j < 16; ++j)
        *y++ = scale * number((codes[j] >> shift & 3) - ((third[j] >> (s / 2) & 1) != 0 ? 0 : 4));
    }
  }
};

/// Scale and minimum of sub-block s of 8 in Q4_K and Q5_K, whose block begins with what both are multiplied by: six
/// bits each, packed into the twelve bytes after that.
struct ScaleAndLeast {
  float scale;
  float least;
};
inline ScaleAndLeast six_bits(Bytes b, int s) noexcept {
  const Bytes packed = b + 4;
  const int scale = s < 4 ? packed[s] & 0x3F : (packed[s + 4] & 0xF) | packed[s - 4] >> 6 << 4;
  const int least = s < 4 ? packed[s + 4] & 0x3F : packed[s + 4] >> 4 | packed[s] >> 6 << 4;
  return {f16_at(b) * number(scale), f16_at(b + 2) * number(least)};
}

struct Q4_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 144;
  static constexpr std::array<int, 2> kScales{0, 2};
  static void decode(Bytes b, float* y) noexcept {
    for (int s = 0; s < 8; ++s) {
      const auto [scale, least] = six_bits(b, s);
      const Bytes codes = b + 16 + s / 2 * 32;
      const int shift = s % 2 * 4;
      for (int j = 0; j < 32; ++j) *y++ = scale * number(codes[j] >> shift & 0xF) - least;
    }
  }
};

struct Q5_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 176;
  static constexpr std::array<int, 2> kScales{0, 2};
  static void decode(Bytes b, float* y) noexcept {
    for (int s = 0; s < 8; ++s) {
      const auto [scale, least] = six_bits(b, s);
      const Bytes codes = b + 48 + s / 2 * 32;
      const int shift = s % 2 * 4;
      for (int j = 0; j < 32; ++j) {
        const int code = (codes[j] >> shift & 0xF) | (b[16 + j] >> s & 1) << 4;
        *y++ = scale * number(code) - least;
      }
    }
  }
};

struct Q6_K {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 210;
  static constexpr std::array<int, 1> kScales{208};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b + 208);
    for (int s = 0; s < 16; ++s) {
      const float scale = d * s8_at(b + 192 + s);
      const int in_half = s % 8 * 16;  // elements of 128 before these
      const Bytes low = b + s / 8 * 64 + in_half % 64;
      const Bytes high = b + 128 + s / 8 * 32 + in_half % 32;
      const int low_shift = in_half / 64 * 4;
      const int high_shift = in_half / 32 * 2;
      for (int j = 0; j < 16; ++j) {
        const int code = (low[j] >> low_shift & 0xF) | (high[j] >> high_shift & 3) << 4;
        *y++ = scale * number(code - 32);
      }
    }
  }
};

/// What the sixteen codes of IQ4_NL and IQ4_XS stand for.
inline constexpr std::array<float, 16> kNonLinear{-127, -104, -83, -65, -49, -35, -22, -10,
                                                  1,    13,   25,  38,  53,  69,  89,  113};
/// Twice the values of an E2M1 element; ggml halves the scale instead.
inline constexpr std::array<float, 16> kTwiceE2M1{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

inline void decode_by_table(float scale, const std::array<float, 16>& table, Bytes codes, float* y) noexcept {
  for (int j = 0; j < 16; ++j) {
    y[j] = scale * table[codes[j] & 0xF];
    y[j + 16] = scale * table[codes[j] >> 4];
  }
}

struct IQ4_NL {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 18;
  static constexpr std::array<int, 1> kScales{0};
  static void decode(Bytes b, float* y) noexcept { decode_by_table(f16_at(b), kNonLinear, b + 2, y); }
};

struct IQ4_XS {
  static constexpr int kElements = 256;
  static constexpr int kBytes = 136;
  static constexpr std::array<int, 1> kScales{0};
  static void decode(Bytes b, float* y) noexcept {
    const float d = f16_at(b);
    for (int s = 0; s < 8; ++s) {
      const int low = b[4 + s / 2] >> (s % 2 * 4) & 0xF;
      const int high = u16_at(b + 2) >> (s * 2) & 3;
      decode_by_table(d * number((low | high << 4) - 32), kNonLinear, b + 8 + s * 16, y + s * 32);
    }
  }
};

struct Mxfp4 {
  static constexpr int kElements = 32;
  static constexpr int kBytes = 17;
  static constexpr std::array<int, 0> kScales{};
  /// Half of 2^(b - 127), which for 0 and 1 has no f32 exponent of its own; 255 is 2^127, as ggml has it, not NaN.
  static float scale_of(std::uint32_t b) noexcept {
    return std::bit_cast<float>(b < 2 ? std::uint32_t{0x00200000} << b : (b - 1) << 23);
  }
  static void decode(Bytes b, float* y) noexcept { decode_by_table(scale_of(b[0]), kTwiceE2M1, b + 1, y); }
};

}  // namespace planck::cli::gguf
