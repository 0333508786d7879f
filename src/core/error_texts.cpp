#include "core/error_texts.hpp"

#include <algorithm>
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstring>

namespace planck {

Error::Error(ErrorKind kind, std::string_view message, std::int64_t needed, std::int64_t got,
             std::int32_t backend_code) noexcept
    : kind_(kind),
      backend_code_(backend_code),
      needed_(needed),
      got_(got),
      length_(std::min(message.size(), kMaxMessage)) {
  std::memcpy(text_.data(), message.data(), length_);
  text_[length_] = '\0';
}

std::string_view to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::MisalignedOperand:
      return "MisalignedOperand";
    case ErrorKind::InvalidProblem:
      return "InvalidProblem";
    case ErrorKind::Unsupported:
      return "Unsupported";
    case ErrorKind::WorkspaceTooSmall:
      return "WorkspaceTooSmall";
    case ErrorKind::BackendFailure:
      return "BackendFailure";
    case ErrorKind::BufferTooSmall:
      return "BufferTooSmall";
  }
  return "unknown";
}

namespace core {

const TextEntry& entry(Text text) noexcept {
  static constexpr std::array<TextEntry, kTextCount> kEntries{{
#define PLANCK_ERROR_TEXT(name, kind, text) {#name, ErrorKind::kind, text},
#include "core/error_texts.def"
#undef PLANCK_ERROR_TEXT
  }};
  return kEntries[static_cast<std::size_t>(text)];
}

std::size_t TextValue::print(char* to, std::size_t room) const noexcept {
  char number[32];
  std::string_view out;
  switch (kind_) {
    case Kind::Text:
      out = text_;
      break;
    case Kind::Integer:
      out = {number, static_cast<std::size_t>(std::snprintf(number, sizeof number, "%" PRId64, integer_))};
      break;
    case Kind::Real:
      out = {number, static_cast<std::size_t>(std::snprintf(number, sizeof number, "%.9g", real_))};
      break;
    case Kind::List: {
      std::size_t used = TextValue("[").print(to, room);
      for (const std::int64_t& extent : list_) {
        if (&extent != list_.begin()) used += TextValue(", ").print(to + used, room - used);
        used += TextValue(extent).print(to + used, room - used);
      }
      return used + TextValue(list_.rank() > kMaxRank ? ", …]" : "]").print(to + used, room - used);
    }
  }
  const std::size_t length = std::min(out.size(), room);
  std::memcpy(to, out.data(), length);
  return length;
}

Error make_error(Text text, std::initializer_list<TextValue> values, std::int64_t needed, std::int64_t got,
                 std::int32_t backend_code) noexcept {
  std::array<char, Error::kMaxMessage> message;
  std::size_t used = 0;
  const auto* value = values.begin();
  std::string_view rest = entry(text).text;
  while (!rest.empty()) {
    const std::size_t hole = value == values.end() ? std::string_view::npos : rest.find("{}");
    used += TextValue(rest.substr(0, hole)).print(message.data() + used, message.size() - used);
    if (hole == std::string_view::npos) break;
    used += (value++)->print(message.data() + used, message.size() - used);
    rest.remove_prefix(hole + 2);
  }
  return Error(entry(text).kind, {message.data(), used}, needed, got, backend_code);
}

Failure fail(Text text, std::initializer_list<TextValue> values, std::int64_t needed, std::int64_t got,
             std::int32_t backend_code) noexcept {
  thread_local Error pending(ErrorKind::InvalidProblem, "");
  pending = make_error(text, values, needed, got, backend_code);
  return Failure(pending);
}

TextValue printable(ElementKind kind) noexcept {
  if (size_of(kind) == 0) return TextValue(static_cast<std::int64_t>(kind));
  return TextValue(to_string(kind));
}

}  // namespace core
}  // namespace planck
