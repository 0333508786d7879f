// The scans' kernels for f64.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/kernels_f64.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "scan/cpu/backward_kernels-inl.h"
#include "scan/cpu/forward_kernels-inl.h"

namespace planck::cpu {
struct ScanF64;
template <>
struct TargetRows<ScanF64, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows =
        join(HWY_NAMESPACE::forward_rows_of_floats<double>(), HWY_NAMESPACE::backward_rows<double>());
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> scan_kernels<double>(ArchSku arch) noexcept {
  return rows_of<ScanF64>(arch);
}
}  // namespace planck::cpu
#endif
