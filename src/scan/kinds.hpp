// The table of scan kinds. Whatever differs from kind to kind and is no formula stands here once: checks, carries,
// schedules, the reference and the bindings of types (scan/scalar.hpp) all read it.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "numerics/canonical_order.hpp"
#include "planck/scan.hpp"

namespace planck::scan {

/// Inputs, a fed one included.
inline constexpr int kMaxScanInputs = 3;
inline constexpr int kMaxScanOutputs = 3;
/// Eight-byte parts of a state.
inline constexpr int kMaxScanParts = 2;

/// Places of a backward pass's inputs: dy, and then what the kind needs of x (or the indices instead) and y; or dh, a,
/// h.
inline constexpr int kX = 1;
inline constexpr int kIndices = 1;
inline constexpr int kH = 2;
/// Among the outputs da, db, d_initial.
inline constexpr int kDInitial = 2;

/// Carries are the open blocks from this level of the canonical order on: pieces of an axis are multiples of 4096.
using numerics::kCarryBlock;
using numerics::kCarryLevel;

/// When a gradient reads something.
enum class Reads { Never, Always, WithoutIndices, FromNarrow, FromWide };

struct ScanKindRow {
  ScanKind kind;
  std::string_view name;
  int inputs;        ///< of the forward scan
  bool integers;     ///< s32 and s64 too, forward
  bool exclusive;    ///< may leave out the element itself,
  double identity;   ///< and then begins with this
  bool extremum;     ///< has ties and, if asked for, indices
  Reads x;           ///< the saved input
  Reads y;           ///< the saved result
  Reads feed;        ///< what a scan from the axis' start finds at each element
  bool own_reverse;  ///< the gradient is the same scan from the other end
};

inline constexpr std::array kScanKinds = {
    ScanKindRow{ScanKind::Cumsum, "Cumsum", 1, true, true, 0.0, false, Reads::Never, Reads::Never, Reads::Never, true},
    ScanKindRow{ScanKind::Cumprod, "Cumprod", 1, true, true, 1.0, false, Reads::Always, Reads::Never, Reads::Always,
                false},
    ScanKindRow{ScanKind::Cummax, "Cummax", 1, true, false, 0.0, true, Reads::WithoutIndices, Reads::Never,
                Reads::WithoutIndices, false},
    ScanKindRow{ScanKind::Cummin, "Cummin", 1, true, false, 0.0, true, Reads::WithoutIndices, Reads::Never,
                Reads::WithoutIndices, false},
    // Storage of 16 bits loses too much of y: it is found again.
    ScanKindRow{ScanKind::LogCumsumExp, "LogCumsumExp", 1, false, true, -std::numeric_limits<double>::infinity(), false,
                Reads::Always, Reads::FromWide, Reads::FromNarrow, false},
    ScanKindRow{ScanKind::LinearRecurrence, "LinearRecurrence", 2, false, false, 0.0, false, Reads::Never, Reads::Never,
                Reads::Never, false},
};

/// Null for a number that names no kind.
constexpr const ScanKindRow* find_kind(ScanKind kind) {
  for (const ScanKindRow& row : kScanKinds) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

constexpr bool is_extremum(ScanKind kind) { return find_kind(kind)->extremum; }

/// A scan as kernels tell them apart.
struct ScanKey {
  ScanKind kind;
  ElementKind element;
  ScanTies ties = ScanTies::First;       ///< Cummax and Cummin only
  std::optional<ElementKind> indices{};  ///< of the winners, for those two
  bool initial = false;                  ///< LinearRecurrence from a given state
  bool exclusive = false;                ///< no kernel's business, but a carry's

  constexpr const ScanKindRow& row() const { return *find_kind(kind); }
  constexpr bool reads(Reads what) const {
    const bool wide = info_of(element).bits >= 32;
    switch (what) {
      case Reads::Always:
        return true;
      case Reads::WithoutIndices:
        return !indices;
      case Reads::FromNarrow:
        return !wide;
      case Reads::FromWide:
        return wide;
      default:
        return false;
    }
  }
  /// What the backward pass needs; see the table.
  constexpr bool reads_x() const { return reads(row().x); }
  constexpr bool reads_y() const { return reads(row().y); }
  constexpr bool is_fed() const { return reads(row().feed); }
};

}  // namespace planck::scan
