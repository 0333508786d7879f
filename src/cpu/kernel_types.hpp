// What kernels of all targets share: type lists, and which Highway target serves which instruction set.
#pragma once

#include <hwy/highway.h>

#include <array>
#include <cstdint>
#include <span>

#include "cpu/kernel.hpp"

namespace planck::cpu {

template <class... T>
struct Types {};

/// Arrays one after the other.
template <std::size_t... Sizes>
constexpr auto join(const std::array<KernelRow, Sizes>&... arrays) {
  std::array<KernelRow, (Sizes + ...)> all{};
  std::size_t at = 0;
  const auto append = [&](const auto& array) {
    for (const KernelRow& row : array) all[at++] = row;
  };
  (append(arrays), ...);
  return all;
}

/// A family's rows for one Highway target: nothing, unless a pass of foreach_target specialises it. `Family` is a
/// tag of the family's own.
template <class Family, std::int64_t target, class Row = KernelRow>
struct TargetRows {
  static std::span<const Row> get() { return {}; }
};

/// A family's rows for an instruction set.
template <class Family, class Row = KernelRow>
std::span<const Row> rows_of(ArchSku arch) noexcept {
  const auto first_of = [](std::span<const Row> best, std::span<const Row> other) {
    return best.empty() ? other : best;
  };
  switch (arch) {
    case ArchSku::Avx512:
      return TargetRows<Family, HWY_AVX3, Row>::get();
    case ArchSku::Avx2:
      return TargetRows<Family, HWY_AVX2, Row>::get();
    case ArchSku::Sse4:
      return TargetRows<Family, HWY_SSE4, Row>::get();
#ifdef HWY_SSE2
    case ArchSku::Sse2:
      return TargetRows<Family, HWY_SSE2, Row>::get();
#endif
#ifdef HWY_NEON_WITHOUT_AES
    case ArchSku::Neon:
      return first_of(TargetRows<Family, HWY_NEON, Row>::get(), TargetRows<Family, HWY_NEON_WITHOUT_AES, Row>::get());
#else
    case ArchSku::Neon:
      return TargetRows<Family, HWY_NEON, Row>::get();
#endif
    case ArchSku::Scalar:
      return first_of(TargetRows<Family, HWY_EMU128, Row>::get(), TargetRows<Family, HWY_SCALAR, Row>::get());
    default:
      return {};
  }
}

}  // namespace planck::cpu
