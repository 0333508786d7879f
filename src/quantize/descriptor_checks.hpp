// What the descriptors of the whole family have in common: element kinds and code ranges.
#pragma once

#include <string_view>

#include "core/error_texts.hpp"
#include "planck/element.hpp"
#include "quantize/float_codes.hpp"

namespace planck::quantize {

/// The element kinds of a descriptor, with the names it has for them.
struct Elements {
  std::string_view floats_field;
  ElementKind floats;
  std::string_view codes_field;
  ElementKind codes;
  ElementKind scale;
};

inline core::Status check_elements(std::string_view plan, const Elements& e) noexcept {
  using core::printable;
  using core::Text;
  if (!is_float(e.floats)) return core::fail(Text::ElementUnsupported, {plan, e.floats_field, printable(e.floats)});
  if (!is_quantized(e.codes)) return core::fail(Text::ElementUnsupported, {plan, e.codes_field, printable(e.codes)});
  if (e.scale != e.floats && e.scale != compute_of(e.floats)) {
    return core::fail(Text::ElementUnsupported, {plan, "scale_element", printable(e.scale)});
  }
  return {};
}

/// CUDA has kernels for integer codes.
inline core::Status check_device_codes(std::string_view plan, ElementKind codes) noexcept {
  if (!is_float_code(codes)) return {};
  return core::fail(core::Text::ElementUnsupported, {plan, "a CUDA stream and codes", to_string(codes)});
}

struct CodeLimits {
  std::int64_t lowest;
  std::int64_t highest;
};

/// What a kind of codes can hold.
constexpr CodeLimits limits_of(ElementKind codes) {
  const ElementInfo& info = info_of(codes);
  return {static_cast<std::int64_t>(info.lowest), static_cast<std::int64_t>(info.largest)};
}

inline core::Status check_code_range(std::string_view plan, std::int64_t q_min, std::int64_t q_max,
                                     CodeLimits limits) noexcept {
  if (q_min > q_max) return core::fail(core::Text::CodeRangeEmpty, {plan, q_min, q_max});
  if (q_min < limits.lowest || q_max > limits.highest) {
    return core::fail(core::Text::CodeRangeTooWide, {plan, q_min, q_max, limits.lowest, limits.highest});
  }
  return {};
}

/// Both ends of the range are codes.
inline core::Status check_code_range(std::string_view plan, std::int64_t q_min, std::int64_t q_max,
                                     ElementKind codes) noexcept {
  PLANCK_TRY(check_code_range(plan, q_min, q_max, limits_of(codes)));
  core::Status status;
  with_float_codes(codes, [&]<class Q>(Q) {
    const auto check = [&](std::string_view name, std::int64_t q) {
      const double nearest = rounded_to<Q>(static_cast<double>(q));
      if (!status || nearest == static_cast<double>(q)) return;
      status = core::fail(core::Text::CodeRangeRounds, {plan, name, q, to_string(codes), nearest});
    };
    check("q_min", q_min);
    check("q_max", q_max);
  });
  return status;
}

}  // namespace planck::quantize
