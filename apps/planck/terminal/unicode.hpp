// Texts from files that somebody may read on a terminal: UTF-8, and which of its characters cannot be seen.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace planck::cli {

/// Bytes of the UTF-8 character at the start of `bytes`; 0 if there is none.
std::size_t utf8_length(std::string_view bytes) noexcept;
/// The code point of one valid UTF-8 character.
char32_t utf8_code(std::string_view character) noexcept;

/// With small letters for ASCII's capitals; all other bytes stay.
std::string lowered(std::string_view text);

/// Characters that a name can hide behind: controls, which steer a terminal; those that turn the direction of writing
/// around; separators of lines; and all others that leave no mark of their own (format characters and fillers).
bool is_hidden(char32_t code) noexcept;

}  // namespace planck::cli
