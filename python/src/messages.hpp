// The library's errors in the words of those who call from Python: their functions' arguments, dtypes and options.
//
// The library says which of its own arguments is wrong: `scan_axis`, `y`, `input_element`. Here stands what each of
// them is called in Python, function by function, and messages.cpp has a Python wording for every text of the library.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

#include "planck/error.hpp"

namespace planck::python {

/// An argument of the library, and what it is in Python.
struct Rename {
  std::string_view library;
  std::string_view python;
};
using Renames = std::span<const Rename>;

namespace names {

inline constexpr Rename kScan[] = {{"input_shape", "x"}, {"y", "out"}};
inline constexpr Rename kExtremum[] = {{"input_shape", "x"}, {"y", "out[0]"}, {"indices", "out[1]"}};
inline constexpr Rename kScanBackward[] = {{"input_shape", "dy"}, {"dx", "out"}};
inline constexpr Rename kRecurrence[] = {{"input_shape", "the result"}, {"h", "out"}};
inline constexpr Rename kRecurrenceBackward[] = {
    {"input_shape", "dh"}, {"da", "out[0]"}, {"db", "out[1]"}, {"d_initial", "out[2]"}};
inline constexpr Rename kLerp[] = {
    {"shape", "the result"}, {"a_shape", "a"}, {"b_shape", "b"}, {"weight_shape", "weight"}, {"y", "out"}};
inline constexpr Rename kAddScaled[] = {{"shape", "the result"},   {"a_shape", "a"}, {"b_shape", "b"},
                                        {"weight_shape", "alpha"}, {"y", "out"},     {"weight", "alpha"}};
inline constexpr Rename kLerpBackward[] = {{"shape", "the result"},    {"a_shape", "a"}, {"b_shape", "b"},
                                           {"weight_shape", "weight"}, {"da", "out[0]"}, {"db", "out[1]"},
                                           {"d_weight", "out[2]"}};
inline constexpr Rename kAddScaledBackward[] = {{"shape", "the result"},   {"a_shape", "a"},   {"b_shape", "b"},
                                                {"weight_shape", "alpha"}, {"da", "out[0]"},   {"db", "out[1]"},
                                                {"d_weight", "out[2]"},    {"weight", "alpha"}};
inline constexpr Rename kQuantize[] = {{"shape", "x"}, {"input", "x"}, {"output", "out"}};
inline constexpr Rename kQuantizeBackward[] = {{"shape", "x"}, {"input", "x"}, {"d_output", "dy"}, {"d_input", "out"}};
inline constexpr Rename kDequantize[] = {{"shape", "q"}, {"input", "q"}, {"output", "out"}};
inline constexpr Rename kDequantizeBackward[] = {
    {"shape", "dy"}, {"input", "dy"}, {"d_output", "dy"}, {"d_input", "out"}};
inline constexpr Rename kLearnableBackward[] = {{"shape", "x"},        {"input", "x"},
                                                {"d_output", "dy"},    {"d_input", "out[0]"},
                                                {"d_scale", "out[1]"}, {"d_zero_point", "out[2]"}};
inline constexpr Rename kDynamicQuantize[] = {
    {"shape", "x"},       {"input", "x"}, {"output", "out[0]"}, {"scale_out", "out[1]"}, {"zero_point_out", "out[2]"},
    {"row_sum", "out[3]"}};

/// Sums of gradients of what a recurrence broadcasts, which the plans of AddScaled make.
inline constexpr Rename kFactorSum[] = {{"weight", "a"}, {"b", "h"}, {"dy", "out[1]"}, {"d_weight", "out[0]"}};
inline constexpr Rename kFirstFactorSum[] = {
    {"weight", "a"}, {"b", "initial"}, {"dy", "out[1]"}, {"d_weight", "out[0]"}};
inline constexpr Rename kRaggedFactorSum[] = {{"da", "out[0]"}, {"dy", "dh"}};
inline constexpr Rename kTermSum[] = {{"da", "out[1]"}, {"dy", "dh"}};
inline constexpr Rename kStateSum[] = {{"da", "out[2]"}, {"dy", "dh"}};

}  // namespace names

/// One at the top of every function that runs a plan, as long as its names hold.
class CallNames {
 public:
  explicit CallNames(Renames renames) : renames_(renames), outer_(current()) { current() = this; }
  ~CallNames() { current() = outer_; }
  CallNames(const CallNames&) = delete;
  CallNames& operator=(const CallNames&) = delete;

 private:
  friend std::string_view caller_name(std::string_view name);
  static const CallNames*& current();

  Renames renames_;
  const CallNames* outer_;
};

/// One around every call that comes from planck.torch, whose functions have PyTorch's names for some arguments.
class FromTorch {
 public:
  FromTorch() : outer_(current()) { current() = true; }
  ~FromTorch() { current() = outer_; }
  FromTorch(const FromTorch&) = delete;
  FromTorch& operator=(const FromTorch&) = delete;

 private:
  friend std::string_view option_name(std::string_view name);
  static bool& current();

  bool outer_;
};

/// What the caller calls an option of `planck`.
std::string_view option_name(std::string_view name);

/// What the caller calls an argument of the library: its own name, if nothing else is said.
std::string_view caller_name(std::string_view name);

/// The message of an error, in the caller's words.
std::string python_text(const Error& error);

/// "a, b or c".
std::string one_of(std::span<const std::string_view> names);

}  // namespace planck::python
