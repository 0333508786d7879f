#include "terminal/failure.hpp"

#include <cstdio>

#include "terminal/unicode.hpp"

namespace planck::cli {

std::string printable(std::string_view name, std::size_t limit) {
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    if (out.size() >= limit) return out + "…";
    const std::size_t length = utf8_length(name.substr(i));
    const bool broken = length == 0;
    const char32_t code = broken ? static_cast<unsigned char>(name[i]) : utf8_code(name.substr(i, length));
    if (broken || is_hidden(code)) {
      char escaped[16];
      std::snprintf(escaped, sizeof escaped,
                    broken || code < 0x80 ? "\\x%02x"
                    : code < 0x10000      ? "\\u%04x"
                                          : "\\U%08x",
                    static_cast<unsigned>(code));
      out += escaped;
    } else {
      out.append(name, i, length);
    }
    i += broken ? 1 : length;
  }
  return out;
}

std::string in_quotes(std::string_view name) {
  std::string out = "\"";
  for (const char c : printable(name)) out += c == '"' ? "\\x22" : std::string(1, c);
  return out + '"';
}

}  // namespace planck::cli
