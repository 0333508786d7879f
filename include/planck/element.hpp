// Element kinds and the two 16-bit storage types.
//
// A kind names what is stored, never how it is computed: f16 and bf16 are widened to f32 on load and
// rounded once, to nearest-even, on store. The list is open: packed int4 and fp8 get numbers after S64.
#pragma once

#include <cstdint>
#include <string_view>
#include <type_traits>

#include "planck/export.hpp"

namespace planck {

/// What one element of a tensor is. The numbers are part of the C ABI.
enum class ElementKind : std::int32_t { F16 = 0, Bf16 = 1, F32 = 2, F64 = 3, S8 = 4, U8 = 5, S32 = 6, S64 = 7 };

/// IEEE-754 binary16, for storage. Conversions are explicit and correctly rounded (nearest-even, once); NaN stays NaN.
struct PLANCK_API f16 {
  std::uint16_t bits = 0;

  constexpr f16() = default;
  explicit f16(float value) noexcept;
  explicit f16(double value) noexcept;
  explicit operator float() const noexcept;
  explicit operator double() const noexcept;
  static constexpr f16 from_bits(std::uint16_t b) noexcept {
    f16 r;
    r.bits = b;
    return r;
  }
};

/// bfloat16: the upper half of an f32, for storage. Conversions as for f16.
struct PLANCK_API bf16 {
  std::uint16_t bits = 0;

  constexpr bf16() = default;
  explicit bf16(float value) noexcept;
  explicit bf16(double value) noexcept;
  explicit operator float() const noexcept;
  explicit operator double() const noexcept;
  static constexpr bf16 from_bits(std::uint16_t b) noexcept {
    bf16 r;
    r.bits = b;
    return r;
  }
};

namespace detail {
template <class T>
struct ElementOf {};
template <>
struct ElementOf<f16> : std::integral_constant<ElementKind, ElementKind::F16> {};
template <>
struct ElementOf<bf16> : std::integral_constant<ElementKind, ElementKind::Bf16> {};
template <>
struct ElementOf<float> : std::integral_constant<ElementKind, ElementKind::F32> {};
template <>
struct ElementOf<double> : std::integral_constant<ElementKind, ElementKind::F64> {};
template <>
struct ElementOf<std::int8_t> : std::integral_constant<ElementKind, ElementKind::S8> {};
template <>
struct ElementOf<std::uint8_t> : std::integral_constant<ElementKind, ElementKind::U8> {};
template <>
struct ElementOf<std::int32_t> : std::integral_constant<ElementKind, ElementKind::S32> {};
template <>
struct ElementOf<std::int64_t> : std::integral_constant<ElementKind, ElementKind::S64> {};
}  // namespace detail

/// The kind that stores a C++ type; does not compile for a type that is no element.
template <class T>
inline constexpr ElementKind element_of = detail::ElementOf<std::remove_cv_t<T>>::value;

/// Bytes of one element; 0 for a number that names no kind.
constexpr std::int64_t size_of(ElementKind kind) noexcept {
  switch (kind) {
    case ElementKind::S8:
    case ElementKind::U8:
      return 1;
    case ElementKind::F16:
    case ElementKind::Bf16:
      return 2;
    case ElementKind::F32:
    case ElementKind::S32:
      return 4;
    case ElementKind::F64:
    case ElementKind::S64:
      return 8;
  }
  return 0;
}

/// f16, bf16, f32 or f64.
constexpr bool is_float(ElementKind kind) noexcept {
  return kind == ElementKind::F16 || kind == ElementKind::Bf16 || kind == ElementKind::F32 || kind == ElementKind::F64;
}

/// s8 or u8: what quantised codes are stored in.
constexpr bool is_quantized(ElementKind kind) noexcept { return kind == ElementKind::S8 || kind == ElementKind::U8; }

/// The compute type C of a float kind: f64 for f64, f32 for the others.
constexpr ElementKind compute_of(ElementKind kind) noexcept {
  return kind == ElementKind::F64 ? ElementKind::F64 : ElementKind::F32;
}

/// "f32", "bf16", …; "unknown" for a number that names no kind.
PLANCK_API std::string_view to_string(ElementKind kind) noexcept;

}  // namespace planck
