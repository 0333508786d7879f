// The scans in scalar lanes, and from an operation's number to its scan.
#pragma once

#include <limits>

#include "numerics/dispatch.hpp"
#include "numerics/scalar_lanes.hpp"
#include "scan/ops.hpp"

namespace planck::scalar {
#include "scan/math.inl"
}  // namespace planck::scalar

namespace planck::scan {

/// Calls body(T{}) with the C++ type of an element that scans know.
template <class Body>
void with_element(ElementKind kind, const Body& body) {
  if (kind == ElementKind::S32) return body(std::int32_t{});
  if (kind == ElementKind::S64) return body(std::int64_t{});
  numerics::with_float(kind, body);
}

/// What sums and products of T are held in; integers wrap.
template <class T>
using Accumulator = std::conditional_t<std::is_integral_v<T>, std::uint64_t, double>;
/// What elements of T are compared in.
template <class T>
using Comparable = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;

/// Calls body(V{}, Scan{}) with an operation's scan over T.
template <class T, class Body>
void with_scan(const ScanKey& key, const Body& body) {
  using V = Accumulator<T>;
  using W = Comparable<T>;
  const auto extremum = [&]<bool largest>() {
    const bool positions = key.indices.has_value();
    if (key.ties == ScanTies::Last) {
      positions ? body(W{}, scalar::ExtremumScan<W, largest, true, true>{})
                : body(W{}, scalar::ExtremumScan<W, largest, true, false>{});
    } else {
      positions ? body(W{}, scalar::ExtremumScan<W, largest, false, true>{})
                : body(W{}, scalar::ExtremumScan<W, largest, false, false>{});
    }
  };
  switch (key.kind) {
    case ScanKind::Cumsum:
      return body(V{}, scalar::CumsumScan<V>{});
    case ScanKind::Cumprod:
      return body(V{}, scalar::CumprodScan<V>{});
    case ScanKind::Cummax:
      return extremum.template operator()<true>();
    case ScanKind::Cummin:
      return extremum.template operator()<false>();
    default:
      break;
  }
  if constexpr (!std::is_integral_v<T>) {
    if (key.kind == ScanKind::LogCumsumExp) {
      body(V{}, scalar::LogCumsumExpScan<V>{});
    } else {
      body(V{}, scalar::LinearRecurrenceScan<V>{});
    }
  }
}

}  // namespace planck::scan
