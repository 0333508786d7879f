// The kernels of the scans, element by element. Re-included once per target.
#if defined(PLANCK_SCAN_SCAN_FORWARD_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_SCAN_FORWARD_CPU_INL_H_
#undef PLANCK_SCAN_SCAN_FORWARD_CPU_INL_H_
#else
#define PLANCK_SCAN_SCAN_FORWARD_CPU_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <tuple>

#include "scan/cpu/kernel-inl.h"
#include "scan/cpu/kernel_row.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// Of Cummax; Cummin's are variants of them.
template <bool last, bool positions>
struct ExtremumOf {
  template <class V>
  using Many = ExtremumScan<V, true, last, positions>;
  template <class V>
  using One = scalar::ExtremumScan<V, true, last, positions>;
};

using scan::Accumulator;
using scan::Comparable;
using scan::ScanKey;

template <class ScanOf, class T>
constexpr KernelRow forward_row(ScanKind kind) {
  return scan::kernel_row({.kind = kind, .element = element_of<T>},
                          &kKernel<ScanOf, Accumulator<T>, std::tuple<T>, std::tuple<T>>);
}

template <class T>
constexpr KernelRow recurrence_row(bool initial) {
  return scan::kernel_row({.kind = ScanKind::LinearRecurrence, .element = element_of<T>, .initial = initial},
                          &kKernel<LinearRecurrenceScanOf, double, std::tuple<T, T, T>, std::tuple<T>>);
}

/// With one tie rule: without positions, and with either kind of them.
template <bool largest, ScanTies ties, class T>
constexpr std::array<KernelRow, 3> extremum_rows() {
  constexpr ScanKey kKey{largest ? ScanKind::Cummax : ScanKind::Cummin, element_of<T>, ties};
  constexpr ScanKey kS32{kKey.kind, kKey.element, ties, ElementKind::S32};
  constexpr ScanKey kS64{kKey.kind, kKey.element, ties, ElementKind::S64};
  constexpr bool kLast = ties == ScanTies::Last;
  using V = Comparable<T>;
  using Values = ExtremumOf<kLast, false>;
  using Placed = ExtremumOf<kLast, true>;
  using In = std::tuple<T>;
  using Out = std::tuple<T, Position>;
  return {scan::kernel_row(kKey, &kVariant<!largest, std::int64_t, Values, V, In, std::tuple<T>>),
          scan::kernel_row(kS32, &kVariant<!largest, std::int32_t, Placed, V, In, Out>),
          scan::kernel_row(kS64, &kVariant<!largest, std::int64_t, Placed, V, In, Out>)};
}

/// What every element has.
template <class T>
constexpr auto forward_rows_of_all() {
  return join(
      std::array{forward_row<CumsumScanOf, T>(ScanKind::Cumsum), forward_row<CumprodScanOf, T>(ScanKind::Cumprod)},
      extremum_rows<true, ScanTies::First, T>(), extremum_rows<true, ScanTies::Last, T>(),
      extremum_rows<false, ScanTies::First, T>(), extremum_rows<false, ScanTies::Last, T>());
}
template <class T>
constexpr auto forward_rows_of_floats() {
  return join(forward_rows_of_all<T>(), std::array{forward_row<LogCumsumExpOf<Compute<T>>, T>(ScanKind::LogCumsumExp),
                                                   recurrence_row<T>(false), recurrence_row<T>(true)});
}

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
