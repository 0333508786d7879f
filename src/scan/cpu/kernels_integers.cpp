// The scans' kernels for s32 and s64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/kernels_integers.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "scan/cpu/forward_kernels-inl.h"

namespace planck::cpu {
struct ScanS32;
template <>
struct TargetRows<ScanS32, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows = HWY_NAMESPACE::forward_rows_of_all<std::int32_t>();
    return kRows;
  }
};
struct ScanS64;
template <>
struct TargetRows<ScanS64, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows = HWY_NAMESPACE::forward_rows_of_all<std::int64_t>();
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> scan_kernels<std::int32_t>(ArchSku arch) noexcept {
  return rows_of<ScanS32>(arch);
}
template <>
std::span<const KernelRow> scan_kernels<std::int64_t>(ArchSku arch) noexcept {
  return rows_of<ScanS64>(arch);
}
}  // namespace planck::cpu
#endif
