// The quantise family's kernels for bf16.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantize/cpu/kernels_bf16.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "quantize/cpu/kernels-inl.h"

namespace planck::cpu {
struct QuantizeBf16;
template <>
struct TargetRows<QuantizeBf16, HWY_TARGET> {
  static std::span<const KernelRow> get() {
    static constexpr auto kRows = HWY_NAMESPACE::rows_for<bf16>();
    return kRows;
  }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
template <>
std::span<const KernelRow> quantize_kernels<bf16>(ArchSku arch) noexcept {
  return rows_of<QuantizeBf16>(arch);
}
}  // namespace planck::cpu
#endif
