// Making errors from the list of texts in error_texts.def, without allocating.
#pragma once

#include <initializer_list>
#include <string_view>

#include "planck/error.hpp"
#include "planck/tensor.hpp"

namespace planck::core {

enum class Text {
#define PLANCK_ERROR_TEXT(name, kind, text) name,
#include "core/error_texts.def"
#undef PLANCK_ERROR_TEXT
};

struct TextEntry {
  std::string_view name;
  ErrorKind kind;
  std::string_view text;
};

/// The row of error_texts.def.
const TextEntry& entry(Text text) noexcept;
inline constexpr int kTextCount = 0
#define PLANCK_ERROR_TEXT(name, kind, text) +1
#include "core/error_texts.def"
#undef PLANCK_ERROR_TEXT
    ;

/// Something to print in place of a {}.
class TextValue {
 public:
  TextValue(std::string_view text) noexcept : kind_(Kind::Text), text_(text) {}
  TextValue(const char* text) noexcept : TextValue(std::string_view(text)) {}
  TextValue(double number) noexcept : kind_(Kind::Real), real_(number) {}
  template <class I>
  requires std::is_integral_v<I> TextValue(I number)
  noexcept : kind_(Kind::Integer), integer_(static_cast<std::int64_t>(number)) {}
  TextValue(const Shape& shape) noexcept : kind_(Kind::List), list_(shape) {}

  /// Writes at most `room` characters and returns how many.
  std::size_t print(char* to, std::size_t room) const noexcept;

 private:
  enum class Kind { Text, Integer, Real, List };
  Kind kind_;
  std::string_view text_;
  std::int64_t integer_ = 0;
  double real_ = 0;
  Shape list_;
};

/// The error for a text, with its {} filled in order.
Error make_error(Text text, std::initializer_list<TextValue> values, std::int64_t needed = 0, std::int64_t got = 0,
                 std::int32_t backend_code = 0) noexcept;

/// A failed check on its way up: points to this thread's pending error, and becomes a Result of any type.
class Failure {
 public:
  explicit Failure(const Error& error) noexcept : error_(&error) {}
  const Error& error() const noexcept { return *error_; }
  template <class T>
  operator Result<T>() const noexcept {
    return tl::unexpected(*error_);
  }

 private:
  const Error* error_;
};

/// What a check returns: a pointer's worth, where Result<void> is 400 bytes. Checks run on every call.
class [[nodiscard]] Status {
 public:
  Status() noexcept = default;
  Status(Failure failure) noexcept : error_(&failure.error()) {}
  explicit operator bool() const noexcept { return error_ == nullptr; }
  Failure failure() const noexcept { return Failure(*error_); }
  operator Result<void>() const noexcept {
    if (error_ != nullptr) return tl::unexpected(*error_);
    return {};
  }

 private:
  const Error* error_ = nullptr;
};

/// Makes the error, keeps it as this thread's pending one, and is ready to return.
Failure fail(Text text, std::initializer_list<TextValue> values, std::int64_t needed = 0, std::int64_t got = 0,
             std::int32_t backend_code = 0) noexcept;

/// "f32" or, for a number that names no kind, the number itself.
TextValue printable(ElementKind kind) noexcept;

}  // namespace planck::core

/// Returns the failure of a Status expression from the enclosing function.
#define PLANCK_TRY(expression)                                                                    \
  do {                                                                                            \
    if (const ::planck::core::Status planck_status_ = (expression); !planck_status_) [[unlikely]] \
      return planck_status_.failure();                                                            \
  } while (false)
