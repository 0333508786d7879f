// What kernels of all targets share: type lists, and which Highway target serves which instruction set.
#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <span>

#include "cpu/kernel.hpp"

namespace planck::cpu {

template <class... T>
struct Types {};

/// A family's rows for an instruction set. `Rows<target>::get()` is the family's template: the primary returns
/// nothing, and each pass of foreach_target specialises it for its own target.
template <template <std::int64_t> class Rows>
std::span<const KernelRow> rows_of(ArchSku arch) noexcept {
  const auto first_of = [](std::span<const KernelRow> best, std::span<const KernelRow> other) {
    return best.empty() ? other : best;
  };
  switch (arch) {
    case ArchSku::Avx512:
      return Rows<HWY_AVX3>::get();
    case ArchSku::Avx2:
      return Rows<HWY_AVX2>::get();
    case ArchSku::Sse4:
      return Rows<HWY_SSE4>::get();
    case ArchSku::Ssse3:
      return Rows<HWY_SSSE3>::get();
#ifdef HWY_SSE2
    case ArchSku::Sse2:
      return Rows<HWY_SSE2>::get();
#endif
#ifdef HWY_NEON_WITHOUT_AES
    case ArchSku::Neon:
      return first_of(Rows<HWY_NEON>::get(), Rows<HWY_NEON_WITHOUT_AES>::get());
#else
    case ArchSku::Neon:
      return Rows<HWY_NEON>::get();
#endif
    case ArchSku::Scalar:
      return first_of(Rows<HWY_EMU128>::get(), Rows<HWY_SCALAR>::get());
    default:
      return {};
  }
}

}  // namespace planck::cpu
