// The scans' kernels for f16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/cpu/kernels_f16.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "scan/cpu/backward_kernels-inl.h"
#include "scan/cpu/forward_kernels-inl.h"

namespace planck::cpu {
struct ScanF16;
template <>
struct TargetRows<ScanF16, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows =
        join(HWY_NAMESPACE::forward_rows_of_floats<f16>(), HWY_NAMESPACE::backward_rows<f16>());
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> scan_kernels<f16>(ArchSku arch) noexcept {
  return rows_of<ScanF16>(arch);
}
}  // namespace planck::cpu
#endif
