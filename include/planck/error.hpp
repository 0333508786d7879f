// Errors as values. Nothing in Planck throws; an Error holds its text inside itself, so reporting one
// allocates nothing either.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <string_view>
#include <tl/expected.hpp>
#include <type_traits>
#include <utility>

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
class [[nodiscard]] PLANCK_API Error {
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

/// A value or an Error, as tl::expected has them; one that nobody looks at is a warning.
/// `if (!result) puts(result.error().c_str());`
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using Base = tl::expected<T, Error>;

  // Not Base's constructors by `using`: the one that takes any value would also take a Result, for a T made from one.
  // NOLINTNEXTLINE(modernize-use-equals-default): `return {}` would first zero all of it.
  Result() noexcept(std::is_void_v<T> ||
                    std::is_nothrow_default_constructible_v<T>) requires(std::is_void_v<T> ||
                                                                         std::is_default_constructible_v<T>) {}
  Result(Base base) noexcept(std::is_nothrow_move_constructible_v<Base>) : Base(std::move(base)) {}
  Result(const tl::unexpected<Error>& error) noexcept : Base(error) {}
  template <class Value>
  requires(!std::is_void_v<T> && std::convertible_to<Value, T> && !std::derived_from<std::remove_cvref_t<Value>, Base>)
      Result(Value&& value)  // NOLINT(bugprone-forwarding-reference-overload): a Result is no Value
  noexcept(std::is_nothrow_constructible_v<T, Value>) : Base(std::forward<Value>(value)) {}
};

}  // namespace planck
