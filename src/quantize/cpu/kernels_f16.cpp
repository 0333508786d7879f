// The quantise family's kernels for f16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/cpu/kernels_f16.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "quantize/cpu/kernels-inl.h"

namespace planck::cpu {
struct QuantizeF16;
template <>
struct TargetRows<QuantizeF16, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows = HWY_NAMESPACE::rows_for<f16>();
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> quantize_kernels<f16>(ArchSku arch) noexcept {
  return rows_of<QuantizeF16>(arch);
}
}  // namespace planck::cpu
#endif
