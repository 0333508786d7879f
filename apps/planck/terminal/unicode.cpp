#include "terminal/unicode.hpp"

#include <algorithm>
#include <iterator>

namespace planck::cli {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

/// The general categories Cc, Cf, Zl and Zp and the property Default_Ignorable_Code_Point of Unicode 16, with the code
/// points between them that are reserved for more of the kind.
constexpr Range kHidden[] = {
    {0x00, 0x1F},       {0x7F, 0x9F},       {0xAD, 0xAD},       {0x34F, 0x34F},     {0x600, 0x605},
    {0x61C, 0x61C},     {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},
    {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},   {0x2028, 0x202E},
    {0x2060, 0x206F},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},   {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},
    {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3},
    {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF},
};

}  // namespace

std::size_t utf8_length(std::string_view bytes) noexcept {
  if (bytes.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || bytes.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  // Overlong forms, surrogates, and what lies beyond Unicode.
  if ((first == 0xE0 && at(1) < 0xA0) || (first == 0xED && at(1) >= 0xA0)) return 0;
  if ((first == 0xF0 && at(1) < 0x90) || (first == 0xF4 && at(1) >= 0x90)) return 0;
  return length;
}

char32_t utf8_code(std::string_view character) noexcept {
  const auto first = static_cast<unsigned char>(character.front());
  if (character.size() == 1) return first;
  char32_t code = first & (0x7FU >> character.size());
  for (const char next : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3FU);
  return code;
}

std::string lowered(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_hidden(char32_t code) noexcept {
  const auto* const after = std::upper_bound(std::begin(kHidden), std::end(kHidden), code,
                                             [](char32_t value, const Range& range) { return value < range.first; });
  return after != std::begin(kHidden) && code <= std::prev(after)->last;
}

}  // namespace planck::cli
