// The scans in scalar lanes, and from an operation's number to its scan, its gradient and what feeds that.
#pragma once

#include <limits>

#include "numerics/dispatch.hpp"
#include "numerics/element_traits.hpp"
#include "numerics/scalar_lanes.hpp"
#include "scan/kinds.hpp"

namespace planck::scalar {
#include "scan/math.inl"
}  // namespace planck::scalar

namespace planck::scan {

/// Calls body(T{}) with the C++ type of an element that scans know.
template <class Body>
void with_element(ElementKind kind, const Body& body) {
  with_type(TypesOf<ElementClass::Float>() + TypesOf<ElementClass::Integer>(), kind, body);
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
      body(V{}, scalar::LogCumsumExpScan<V, numerics::Compute<T>>{});
    } else {
      body(V{}, scalar::LinearRecurrenceScan<V>{});
    }
  }
}

/// In the place of a scan that feeds a gradient, where there is none.
struct NoFeed {};

/// Calls body(Gradient{}, Feed{}) with the backward pass of every kind but Cumsum, whose gradient is its own scan from
/// the other end.
template <class Body>
void with_gradient(const ScanKey& key, const Body& body) {
  const auto extremum = [&]<bool largest>() {
    using Gradient = scalar::ExtremumGradient<double, 3>;
    if (key.indices) {
      body(scalar::ExtremumGradient<double, 2>{}, NoFeed{});
    } else if (key.ties == ScanTies::Last) {
      body(Gradient{}, scalar::WinnerScan<double, largest, true>{});
    } else {
      body(Gradient{}, scalar::WinnerScan<double, largest, false>{});
    }
  };
  switch (key.kind) {
    case ScanKind::Cumsum:
      return;
    case ScanKind::Cumprod:
      return body(scalar::CumprodGradient<double>{}, scalar::ProductBeforeScan<double>{});
    case ScanKind::Cummax:
      return extremum.template operator()<true>();
    case ScanKind::Cummin:
      return extremum.template operator()<false>();
    case ScanKind::LogCumsumExp:
      if (key.is_fed()) return body(scalar::LogCumsumExpGradient<double, float, true>{}, scalar::WideLogScan<double>{});
      return key.element == ElementKind::F64 ? body(scalar::LogCumsumExpGradient<double, double, false>{}, NoFeed{})
                                             : body(scalar::LogCumsumExpGradient<double, float, false>{}, NoFeed{});
    case ScanKind::LinearRecurrence:
      return body(scalar::LinearRecurrenceGradient<double>{}, NoFeed{});
  }
}

}  // namespace planck::scan
