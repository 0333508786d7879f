// Texts and numbers of the HTML report. A checkpoint's names come from strangers: whatever could end an element or
// attribute, hide itself or turn the direction of the text is made visible here, in one place.
#include "report_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>

namespace planck::cli {
namespace {

struct Decoded {
  char32_t character = 0;
  std::size_t bytes = 0;  ///< 0 if it is no UTF-8
};

/// The character at the front, by the rules of Unicode's table 3-7: no overlong forms, no surrogates.
Decoded decode(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {first, 1};
  const std::size_t length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : 4;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return {};
  char32_t character = first & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U) return {};
    character = character << 6U | (byte(i) & 0x3FU);
  }
  constexpr std::array<char32_t, 5> kSmallest{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xD800 && character < 0xE000;
  if (character < kSmallest[length] || character > 0x10FFFF || surrogate) return {};
  return {character, length};
}

/// Characters that show nothing, break the line or change the direction of what follows.
bool is_invisible(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0xAD || (c >= 0x200B && c <= 0x200F) ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2060 && c <= 0x206F) || c == 0xFEFF;
}

template <class... Args>
std::string printed(const char* format, Args... args) {
  std::array<char, 64> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, args...);
  return buffer.data();
}

/// What is shown instead of digits, or nothing for a finite number.
std::string_view no_digits(double value) {
  if (std::isnan(value)) return "–";
  if (std::isinf(value)) return value > 0 ? "∞" : "−∞";
  return {};
}

/// A minus sign as wide as the digits.
std::string with_minus(std::string digits) {
  for (std::size_t at = digits.find('-'); at != std::string::npos; at = digits.find('-', at + 1)) {
    digits.replace(at, 1, "−");
  }
  return digits;
}

}  // namespace

std::string html_text(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const Decoded decoded = decode(text);
    const std::string_view bytes = text.substr(0, decoded.bytes);
    text.remove_prefix(decoded.bytes == 0 ? 1 : decoded.bytes);
    if (decoded.bytes == 0) {
      result += "\uFFFD";
    } else if (is_invisible(decoded.character)) {
      result += printed("\\u%04x", static_cast<unsigned>(decoded.character));
    } else if (bytes == "&") {
      result += "&amp;";
    } else if (bytes == "<") {
      result += "&lt;";
    } else if (bytes == ">") {
      result += "&gt;";
    } else if (bytes == "\"") {
      result += "&quot;";
    } else if (bytes == "'") {
      result += "&#39;";
    } else {
      result += bytes;
    }
  }
  return result;
}

std::string short_number(double value) {
  if (const auto sign = no_digits(value); !sign.empty()) return std::string(sign);
  return with_minus(printed("%.3g", value));
}

std::string fixed_number(double value, int decimals) {
  if (const auto sign = no_digits(value); !sign.empty()) return std::string(sign);
  if (std::fabs(value) >= 1e15) return short_number(value);
  return with_minus(printed("%.*f", decimals, value));
}

std::string exact_number(double value) {
  if (!std::isfinite(value)) return {};
  return printed("%.17g", value);
}

std::string byte_size(double bytes) {
  if (const auto sign = no_digits(bytes); !sign.empty()) return std::string(sign);
  constexpr std::array<const char*, 5> kUnits{"B", "kB", "MB", "GB", "TB"};
  std::size_t unit = 0;
  while (bytes >= 999.5 && unit + 1 < kUnits.size()) {
    bytes /= 1000;
    ++unit;
  }
  const int decimals = unit == 0 || bytes >= 99.95 ? 0 : bytes >= 9.995 ? 1 : 2;
  return printed("%.*f\u00A0%s", decimals, bytes, kUnits[unit]);
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  if (shape.empty()) return "scalar";
  std::string result;
  for (const std::int64_t size : shape) result += (result.empty() ? "" : " × ") + std::to_string(size);
  return result;
}

}  // namespace planck::cli
