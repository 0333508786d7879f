// Errors as values. Nothing in Planck throws; an Error holds its text inside itself, so reporting one
// allocates nothing either.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>

#include "planck/export.hpp"

namespace planck {

/// The six ways a call can fail. The numbers are the C ABI's status codes; 0 is success.
enum class ErrorKind : std::int32_t {
  MisalignedOperand = 1,  ///< a pointer is not aligned to its own element type
  InvalidProblem = 2,     ///< sizes, shapes, ranges, aliasing, null pointers or a scalar make no sense
  Unsupported = 3,        ///< makes sense, but there is no kernel for it
  WorkspaceTooSmall = 4,  ///< needed() and got() are bytes
  BackendFailure = 5,     ///< backend_code() is the backend's own number
  BufferTooSmall = 6,     ///< needed() and got() are elements
};

PLANCK_API std::string_view to_string(ErrorKind kind) noexcept;

/// What went wrong: a kind to branch on and a sentence for people that names the plan, the argument and the values.
class PLANCK_API Error {
 public:
  static constexpr std::size_t kMaxMessage = 383;

  /// Keeps the first kMaxMessage bytes of `message`.
  Error(ErrorKind kind, std::string_view message, std::int64_t needed = 0, std::int64_t got = 0,
        std::int32_t backend_code = 0) noexcept;

  ErrorKind kind() const noexcept { return kind_; }
  std::string_view message() const noexcept { return {text_.data(), length_}; }
  /// The message as a C string.
  const char* c_str() const noexcept { return text_.data(); }
  std::int64_t needed() const noexcept { return needed_; }
  std::int64_t got() const noexcept { return got_; }
  std::int32_t backend_code() const noexcept { return backend_code_; }

 private:
  ErrorKind kind_;
  std::int32_t backend_code_;
  std::int64_t needed_;
  std::int64_t got_;
  std::size_t length_;
  std::array<char, kMaxMessage + 1> text_;
};

/// A value or an Error. `if (!result) puts(result.error().c_str());`
template <class T>
using Result = tl::expected<T, Error>;

}  // namespace planck
