// The scans' vector kernels, compiled once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/scan_cpu.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "scan/scan_cpu-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

template <bool largest, bool last, bool positions>
struct ExtremumOf {
  template <class V>
  using Many = ExtremumScan<V, largest, last, positions>;
  template <class V>
  using One = scalar::ExtremumScan<V, largest, last, positions>;
};

using scan::Accumulator;
using scan::Comparable;
using scan::ScanKey;

template <class ScanOf, class V, class In, class Out>
constexpr LaneScanKernel kKernel = Lanes<ScanOf, V, In, Out>::kernel();

template <class ScanOf, class T>
constexpr KernelRow row(ScanKind kind) {
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
  using Values = ExtremumOf<largest, kLast, false>;
  using Placed = ExtremumOf<largest, kLast, true>;
  return {scan::kernel_row(kKey, &kKernel<Values, V, std::tuple<T>, std::tuple<T>>),
          scan::kernel_row(kS32, &kKernel<Placed, V, std::tuple<T>, std::tuple<T, std::int32_t>>),
          scan::kernel_row(kS64, &kKernel<Placed, V, std::tuple<T>, std::tuple<T, std::int64_t>>)};
}

/// What every element has.
template <class T>
constexpr auto common_rows() {
  return join(std::array{row<CumsumScanOf, T>(ScanKind::Cumsum), row<CumprodScanOf, T>(ScanKind::Cumprod)},
              extremum_rows<true, ScanTies::First, T>(), extremum_rows<true, ScanTies::Last, T>(),
              extremum_rows<false, ScanTies::First, T>(), extremum_rows<false, ScanTies::Last, T>());
}
template <class T>
constexpr auto float_rows() {
  return join(common_rows<T>(), std::array{row<LogCumsumExpScanOf, T>(ScanKind::LogCumsumExp), recurrence_row<T>(false),
                                           recurrence_row<T>(true)});
}

constexpr auto kRows = join(float_rows<float>(), float_rows<double>(), float_rows<f16>(), float_rows<bf16>(),
                            common_rows<std::int32_t>(), common_rows<std::int64_t>());

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct ScanFamily;
template <>
struct TargetRows<ScanFamily, HWY_TARGET> {
  static std::span<const KernelRow> get() { return HWY_NAMESPACE::kRows; }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
std::span<const KernelRow> scan_kernels(ArchSku arch) noexcept { return rows_of<ScanFamily>(arch); }
}  // namespace planck::cpu
#endif
