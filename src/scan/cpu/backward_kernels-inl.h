// The kernels of the scans' backward passes, element by element. Re-included once per target.
#if defined(PLANCK_SCAN_SCAN_BACKWARD_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_SCAN_BACKWARD_CPU_INL_H_
#undef PLANCK_SCAN_SCAN_BACKWARD_CPU_INL_H_
#else
#define PLANCK_SCAN_SCAN_BACKWARD_CPU_INL_H_
#endif

#include <hwy/highway.h>

#include <array>
#include <tuple>

#include "scan/cpu/kernel-inl.h"
#include "scan/cpu/kernel_row.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// Of Cummax; Cummin's are variants of them.
template <bool last>
struct WinnerOf {
  template <class V>
  using Many = WinnerScan<V, true, last>;
  template <class V>
  using One = scalar::WinnerScan<V, true, last>;
};
template <int inputs>
struct ExtremumGradientOf {
  template <class V>
  using Many = ExtremumGradient<V, inputs>;
  template <class V>
  using One = scalar::ExtremumGradient<V, inputs>;
};

/// A scan of T from the axis' start on, whose values stay f64.
template <class ScanOf, class T, bool smallest = false>
constexpr const ScanKernel* kFeed =
    &kVariant<smallest, std::int64_t, ScanOf, double, std::tuple<T>, std::tuple<double>>;
template <class GradientOf, class FeedOf, class In, class T, bool smallest = false>
constexpr ScanKernel kFedKernel = ScanKernelOf<GradientOf, double, In, std::tuple<T>>::kernel(
    kFeed<FeedOf, T, smallest>, !std::is_same_v<FeedOf, ProductBeforeScanOf>);

/// With one tie rule: from x, and from either kind of indices.
template <ScanKind kind, ScanTies ties, class T>
constexpr std::array<KernelRow, 3> extremum_gradient_rows() {
  constexpr scan::ScanKey kKey{kind, element_of<T>, ties};
  constexpr scan::ScanKey kS32{kind, element_of<T>, ties, ElementKind::S32};
  constexpr scan::ScanKey kS64{kind, element_of<T>, ties, ElementKind::S64};
  constexpr bool kSmallest = kind == ScanKind::Cummin;
  using Winner = WinnerOf<ties == ScanTies::Last>;
  using FromX = std::tuple<T, Unread, double>;
  using FromIndices = ExtremumGradientOf<2>;
  using In = std::tuple<T, Position>;
  using Out = std::tuple<T>;
  return {
      scan::kernel_row(kKey, &kFedKernel<ExtremumGradientOf<3>, Winner, FromX, T, kSmallest>, true),
      scan::kernel_row(kS32, &kVariant<false, std::int32_t, FromIndices, double, In, Out>, true),
      scan::kernel_row(kS64, &kVariant<false, std::int64_t, FromIndices, double, In, Out>, true),
  };
}

/// From the saved y, or from y found again where narrow storage lost it.
template <class T>
constexpr const ScanKernel* log_cumsum_exp_kernel() {
  if constexpr (sizeof(T) < 4) {
    return &kFedKernel<LogCumsumExpGradientOf<float, true>, WideLogScanOf, std::tuple<T, T, double>, T>;
  } else {
    return &kKernel<LogCumsumExpGradientOf<T, false>, double, std::tuple<T, T, T>, std::tuple<T>>;
  }
}

template <class T>
constexpr auto backward_rows() {
  constexpr ElementKind kElement = element_of<T>;
  using K = ScanKind;
  constexpr const ScanKernel* kRecurrence =
      &kKernel<LinearRecurrenceGradientOf, double, std::tuple<T, T, T>, std::tuple<T, T, T>>;
  return join(
      std::array{
          scan::kernel_row({.kind = K::Cumsum, .element = kElement},
                           &kKernel<CumsumScanOf, double, std::tuple<T>, std::tuple<T>>, true),
          scan::kernel_row({.kind = K::Cumprod, .element = kElement},
                           &kFedKernel<CumprodGradientOf, ProductBeforeScanOf, std::tuple<T, T, double>, T>, true),
          scan::kernel_row({.kind = K::LogCumsumExp, .element = kElement}, log_cumsum_exp_kernel<T>(), true),
          scan::kernel_row({.kind = K::LinearRecurrence, .element = kElement}, kRecurrence, true),
          scan::kernel_row({.kind = K::LinearRecurrence, .element = kElement, .initial = true}, kRecurrence, true),
      },
      extremum_gradient_rows<K::Cummax, ScanTies::First, T>(), extremum_gradient_rows<K::Cummax, ScanTies::Last, T>(),
      extremum_gradient_rows<K::Cummin, ScanTies::First, T>(), extremum_gradient_rows<K::Cummin, ScanTies::Last, T>());
}

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
