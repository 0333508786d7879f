// The vector kernels of the scans' backward passes, compiled once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/scan_backward_cpu.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "scan/scan_cpu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

template <bool largest, bool last>
struct WinnerOf {
  template <class V>
  using Many = WinnerScan<V, largest, last>;
  template <class V>
  using One = scalar::WinnerScan<V, largest, last>;
};
template <int inputs>
struct ExtremumGradientOf {
  template <class V>
  using Many = ExtremumGradient<V, inputs>;
  template <class V>
  using One = scalar::ExtremumGradient<V, inputs>;
};

template <class ScanOf, class In, class Out>
constexpr LaneScanKernel kKernel = Lanes<ScanOf, double, In, Out>::kernel();

/// A scan of T from the axis' start on, whose values stay f64.
template <class ScanOf, class T>
constexpr const LaneScanKernel* kFeed = &kKernel<ScanOf, std::tuple<T>, std::tuple<double>>;
template <class GradientOf, class FeedOf, class In, class T>
constexpr LaneScanKernel kFedKernel = Lanes<GradientOf, double, In, std::tuple<T>>::kernel(
    kFeed<FeedOf, T>, !std::is_same_v<FeedOf, ProductBeforeScanOf>);

/// With one tie rule: from x, and from either kind of indices.
template <ScanKind kind, ScanTies ties, class T>
constexpr std::array<KernelRow, 3> extremum_rows() {
  constexpr scan::ScanKey kKey{kind, element_of<T>, ties};
  constexpr scan::ScanKey kS32{kind, element_of<T>, ties, ElementKind::S32};
  constexpr scan::ScanKey kS64{kind, element_of<T>, ties, ElementKind::S64};
  using Winner = WinnerOf<kind == ScanKind::Cummax, ties == ScanTies::Last>;
  using FromIndices = ExtremumGradientOf<2>;
  return {
      scan::kernel_row(kKey, &kFedKernel<ExtremumGradientOf<3>, Winner, std::tuple<T, Unread, double>, T>, true),
      scan::kernel_row(kS32, &kKernel<FromIndices, std::tuple<T, std::int32_t>, std::tuple<T>>, true),
      scan::kernel_row(kS64, &kKernel<FromIndices, std::tuple<T, std::int64_t>, std::tuple<T>>, true),
  };
}

/// From the saved y, or from y found again where 16-bit storage lost it.
template <class T>
constexpr const LaneScanKernel* log_cumsum_exp_kernel() {
  if constexpr (sizeof(T) == 2) {
    return &kFedKernel<LogCumsumExpGradientOf, LogCumsumExpScanOf, std::tuple<T, T, double>, T>;
  } else {
    return &kKernel<LogCumsumExpGradientOf, std::tuple<T, T, T>, std::tuple<T>>;
  }
}

template <class T>
constexpr auto rows() {
  constexpr ElementKind kElement = element_of<T>;
  using K = ScanKind;
  constexpr const LaneScanKernel* kRecurrence =
      &kKernel<LinearRecurrenceGradientOf, std::tuple<T, T, T>, std::tuple<T, T, T>>;
  return join(
      std::array{
          scan::kernel_row({.kind = K::Cumsum, .element = kElement},
                           &kKernel<CumsumScanOf, std::tuple<T>, std::tuple<T>>, true),
          scan::kernel_row({.kind = K::Cumprod, .element = kElement},
                           &kFedKernel<CumprodGradientOf, ProductBeforeScanOf, std::tuple<T, T, double>, T>, true),
          scan::kernel_row({.kind = K::LogCumsumExp, .element = kElement}, log_cumsum_exp_kernel<T>(), true),
          scan::kernel_row({.kind = K::LinearRecurrence, .element = kElement}, kRecurrence, true),
          scan::kernel_row({.kind = K::LinearRecurrence, .element = kElement, .initial = true}, kRecurrence, true),
      },
      extremum_rows<K::Cummax, ScanTies::First, T>(), extremum_rows<K::Cummax, ScanTies::Last, T>(),
      extremum_rows<K::Cummin, ScanTies::First, T>(), extremum_rows<K::Cummin, ScanTies::Last, T>());
}

constexpr auto kRows = join(rows<float>(), rows<double>(), rows<f16>(), rows<bf16>());

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct ScanBackwardFamily;
template <>
struct TargetRows<ScanBackwardFamily, HWY_TARGET> {
  static std::span<const KernelRow> get() { return HWY_NAMESPACE::kRows; }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
std::span<const KernelRow> scan_backward_kernels(ArchSku arch) noexcept { return rows_of<ScanBackwardFamily>(arch); }
}  // namespace planck::cpu
#endif
