// The kernels of dynamic-range quantisation for bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dynamic_range/cpu/kernels_bf16.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "dynamic_range/cpu/kernels-inl.h"

namespace planck::cpu {
struct DynamicRangeBf16;
template <>
struct TargetRows<DynamicRangeBf16, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows = HWY_NAMESPACE::dynamic_range_rows<bf16>();
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> dynamic_range_kernels<bf16>(ArchSku arch) noexcept {
  return rows_of<DynamicRangeBf16>(arch);
}
}  // namespace planck::cpu
#endif
