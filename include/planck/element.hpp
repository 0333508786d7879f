// Element kinds, the storage types of 16 and 8 bits, and the table that says everything else about a kind.
//
// A kind names what is stored, never how it is computed: f16 and bf16 are widened to f32 on load and
// rounded once, to nearest-even, on store. The list is open: packed int4 gets numbers after F8E5M2.
//
// Sizes, names, dispatch, bindings and file formats read the table; only conversions and kernels know a kind by its
// type. A new kind is a number, a type and a row here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <type_traits>

#include "planck/export.hpp"

namespace planck {

/// What one element of a tensor is. The numbers are part of the C ABI.
enum class ElementKind : std::int32_t {
  F16 = 0,
  Bf16 = 1,
  F32 = 2,
  F64 = 3,
  S8 = 4,
  U8 = 5,
  S32 = 6,
  S64 = 7,
  F8E4M3 = 8,
  F8E5M2 = 9
};

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

/// E4M3FN: a sign, four bits of exponent (bias 7), three of fraction; ±448 is the largest number, there is no infinity,
/// and S.1111.111 is NaN. For storage. Conversions are correctly rounded (nearest-even, once) and do not saturate:
/// above 464 they give NaN. NaN keeps its sign.
struct PLANCK_API f8e4m3 {
  std::uint8_t bits = 0;

  constexpr f8e4m3() = default;
  explicit f8e4m3(float value) noexcept;
  explicit f8e4m3(double value) noexcept;
  explicit operator float() const noexcept;
  explicit operator double() const noexcept;
  static constexpr f8e4m3 from_bits(std::uint8_t b) noexcept {
    f8e4m3 r;
    r.bits = b;
    return r;
  }
};

/// A sign, five bits of exponent (bias 15), two of fraction: the upper half of an f16. Conversions as for f8e4m3, but
/// from 61440 on they give infinities. NaN becomes S.11111.10.
struct PLANCK_API f8e5m2 {
  std::uint8_t bits = 0;

  constexpr f8e5m2() = default;
  explicit f8e5m2(float value) noexcept;
  explicit f8e5m2(double value) noexcept;
  explicit operator float() const noexcept;
  explicit operator double() const noexcept;
  static constexpr f8e5m2 from_bits(std::uint8_t b) noexcept {
    f8e5m2 r;
    r.bits = b;
    return r;
  }
};

/// What a kind is for.
enum class ElementClass : std::uint8_t {
  Unknown,  ///< of a number that names no kind
  Float,    ///< what operations compute with
  Codes,    ///< what quantised values are stored in
  Integer,  ///< positions, zero points, carries, and what scans take beside floats
};

/// What is known of an element kind: its row of the table.
struct ElementInfo {
  ElementKind kind{};
  std::string_view name = "unknown";
  ElementClass type_class = ElementClass::Unknown;
  std::uint8_t bits = 0;
  ElementKind compute = ElementKind::F32;  ///< what its values are computed in
  double lowest = 0;                       ///< finite values; those of s64 to the nearest f64
  double largest = 0;
  double least_normal = 0;       ///< of floats, and of codes that are floats
  std::string_view python_name;  ///< of NumPy, ml_dtypes and PyTorch
  std::string_view safetensors_name;
  std::uint8_t dlpack_code = 0;  ///< DLDataTypeCode; the bits beside it are those above, and there is one lane
};

/// C++ types, as a value that functions can be called with.
template <class... T>
struct TypeList {};

namespace detail {

template <class T>
struct ElementRow : ElementInfo {};

template <class... T>
struct ElementTable {
  using Types = TypeList<T...>;
  std::array<ElementInfo, sizeof...(T)> rows;
  constexpr explicit ElementTable(ElementRow<T>... row) : rows{row...} {}
};

constexpr auto element_table() noexcept {
  using enum ElementKind;
  using enum ElementClass;
  using F = std::numeric_limits<float>;
  using D = std::numeric_limits<double>;
  // DLDataTypeCode.
  constexpr std::uint8_t kInt = 0;
  constexpr std::uint8_t kUint = 1;
  constexpr std::uint8_t kFloat = 2;
  constexpr std::uint8_t kBfloat = 4;
  constexpr std::uint8_t kFloat8E4M3Fn = 10;
  constexpr std::uint8_t kFloat8E5M2 = 12;
  return ElementTable{
      ElementRow<f16>{{F16, "f16", Float, 16, F32, -65504.0, 65504.0, 0x1p-14, "float16", "F16", kFloat}},
      ElementRow<bf16>{{Bf16, "bf16", Float, 16, F32, -0x1.FEp127, 0x1.FEp127, F::min(), "bfloat16", "BF16", kBfloat}},
      ElementRow<float>{{F32, "f32", Float, 32, F32, F::lowest(), F::max(), F::min(), "float32", "F32", kFloat}},
      ElementRow<double>{{F64, "f64", Float, 64, F64, D::lowest(), D::max(), D::min(), "float64", "F64", kFloat}},
      ElementRow<std::int8_t>{{S8, "s8", Codes, 8, F32, -128, 127, 0, "int8", "I8", kInt}},
      ElementRow<std::uint8_t>{{U8, "u8", Codes, 8, F32, 0, 255, 0, "uint8", "U8", kUint}},
      ElementRow<std::int32_t>{{S32, "s32", Integer, 32, F32, -0x1p31, 0x1p31 - 1, 0, "int32", "I32", kInt}},
      ElementRow<std::int64_t>{{S64, "s64", Integer, 64, F32, -0x1p63, 0x1p63, 0, "int64", "I64", kInt}},
      ElementRow<f8e4m3>{
          {F8E4M3, "f8e4m3", Codes, 8, F32, -448, 448, 0x1p-6, "float8_e4m3fn", "F8_E4M3", kFloat8E4M3Fn}},
      ElementRow<f8e5m2>{
          {F8E5M2, "f8e5m2", Codes, 8, F32, -57344, 57344, 0x1p-14, "float8_e5m2", "F8_E5M2", kFloat8E5M2}},
  };
}

inline constexpr auto kElementTable = element_table();
inline constexpr ElementInfo kUnknownElement{};

template <class T, class... Types>
constexpr std::size_t index_among(TypeList<Types...>) noexcept {
  static_assert((std::is_same_v<T, Types> || ...), "this type is no element");
  std::size_t index = 0;
  static_cast<void>(((std::is_same_v<T, Types> || (++index, false)) || ...));
  return index;
}

}  // namespace detail

/// The C++ types of all kinds, in the order of their numbers.
using ElementTypes = decltype(detail::kElementTable)::Types;

/// All kinds, in the order of their numbers.
inline constexpr const auto& kElements = detail::kElementTable.rows;

/// A kind's row; for a number that names no kind one that says so.
constexpr const ElementInfo& info_of(ElementKind kind) noexcept {
  const auto number = static_cast<std::size_t>(kind);
  return number < kElements.size() ? kElements[number] : detail::kUnknownElement;
}

/// The row of a C++ type; does not compile for a type that is no element.
template <class T>
inline constexpr const ElementInfo& element_info = kElements[detail::index_among<std::remove_cv_t<T>>(ElementTypes())];

/// The kind that stores a C++ type; does not compile for a type that is no element.
template <class T>
inline constexpr ElementKind element_of = element_info<T>.kind;

namespace detail {

/// What every run asks of a kind, side by side: rows of the table are too large to be found in one instruction.
struct ElementBrief {
  std::uint8_t bytes = 0;
  ElementClass type_class = ElementClass::Unknown;
  std::uint8_t compute = static_cast<std::uint8_t>(ElementKind::F32);
  bool float_code = false;
};
inline constexpr auto kElementBriefs = [] {
  std::array<ElementBrief, kElements.size()> briefs{};
  for (std::size_t i = 0; i < briefs.size(); ++i) {
    const ElementInfo& row = kElements[i];
    briefs[i] = {static_cast<std::uint8_t>(row.bits / 8), row.type_class, static_cast<std::uint8_t>(row.compute),
                 row.type_class == ElementClass::Codes && row.least_normal > 0};
  }
  return briefs;
}();
constexpr ElementBrief brief_of(ElementKind kind) noexcept {
  const auto number = static_cast<std::uint32_t>(kind);
  return number < kElementBriefs.size() ? kElementBriefs[number] : ElementBrief{};
}

}  // namespace detail

/// Bytes of one element; 0 for a number that names no kind.
constexpr std::int64_t size_of(ElementKind kind) noexcept { return detail::brief_of(kind).bytes; }

/// f16, bf16, f32 or f64.
constexpr bool is_float(ElementKind kind) noexcept { return detail::brief_of(kind).type_class == ElementClass::Float; }

/// s8, u8, f8e4m3 or f8e5m2: what quantised codes are stored in.
constexpr bool is_quantized(ElementKind kind) noexcept {
  return detail::brief_of(kind).type_class == ElementClass::Codes;
}

/// f8e4m3 or f8e5m2: codes that are floating-point numbers themselves, and have no zero point.
constexpr bool is_float_code(ElementKind kind) noexcept { return detail::brief_of(kind).float_code; }

/// s32 or s64.
constexpr bool is_integer(ElementKind kind) noexcept {
  return detail::brief_of(kind).type_class == ElementClass::Integer;
}

/// The compute type C of a float kind: f64 for f64, f32 for the others.
constexpr ElementKind compute_of(ElementKind kind) noexcept {
  return static_cast<ElementKind>(detail::brief_of(kind).compute);
}

/// "f32", "bf16", …; "unknown" for a number that names no kind.
PLANCK_API std::string_view to_string(ElementKind kind) noexcept;

template <class... A, class... B>
constexpr TypeList<A..., B...> operator+(TypeList<A...>, TypeList<B...>) noexcept {
  return {};
}

namespace detail {
template <ElementClass type_class, class... T>
constexpr auto types_in(TypeList<T...>) noexcept {
  return (TypeList<>() + ... + std::conditional_t<element_info<T>.type_class == type_class, TypeList<T>, TypeList<>>());
}
}  // namespace detail

/// The C++ types of the kinds of a class, in the order of their numbers. TypeLists can be added.
template <ElementClass type_class>
using TypesOf = decltype(detail::types_in<type_class>(ElementTypes()));

/// Calls body(T{}) with the C++ type of a kind that is among some; of another kind nothing is called.
template <class... T, class Body>
constexpr void with_type(TypeList<T...>, ElementKind kind, const Body& body) {
  static_cast<void>(((kind == element_of<T> && (body(T{}), true)) || ...));
}

}  // namespace planck
