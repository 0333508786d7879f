#include "failure.hpp"

#include "json.hpp"

namespace planck::cli {

std::string printable(std::string_view name, std::size_t limit) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (std::size_t i = 0; i < name.size();) {
    if (out.size() >= limit) return out + "…";
    const std::size_t length = utf8_length(name.substr(i));
    const auto byte = static_cast<unsigned char>(name[i]);
    // C1 controls (U+0080 to U+009F) steer terminals as those below a blank do.
    const bool c1 = length == 2 && byte == 0xC2 && static_cast<unsigned char>(name[i + 1]) < 0xA0;
    if (length == 0 || byte < 0x20 || byte == 0x7F || c1) {
      for (std::size_t end = i + (c1 ? 2 : 1); i < end; ++i) {
        const auto hidden = static_cast<unsigned char>(name[i]);
        out += {'\\', 'x', kDigits[hidden >> 4], kDigits[hidden & 15]};
      }
      continue;
    }
    out.append(name, i, length);
    i += length;
  }
  return out;
}

std::string in_quotes(std::string_view name) { return text('"', printable(name), '"'); }

}  // namespace planck::cli
