#include "cpu/isa.hpp"

#include <hwy/highway.h>
#include <hwy/targets.h>

#include <cstdlib>

namespace planck::cpu {

std::span<const ArchSku> known_archs() noexcept {
  static constexpr ArchSku kKnown[] = {ArchSku::Avx512, ArchSku::Avx2, ArchSku::Sse4,
                                       ArchSku::Sse2,   ArchSku::Neon, ArchSku::Scalar};
  return kKnown;
}

namespace {
std::int64_t highway_targets(ArchSku arch) noexcept {
  switch (arch) {
    case ArchSku::Avx512:
      return HWY_AVX3;
    case ArchSku::Avx2:
      return HWY_AVX2;
    case ArchSku::Sse4:
      return HWY_SSE4;
#ifdef HWY_SSE2
    case ArchSku::Sse2:
      return HWY_SSE2;
#endif
#ifdef HWY_NEON_WITHOUT_AES
    case ArchSku::Neon:
      return HWY_NEON | HWY_NEON_WITHOUT_AES;
#else
    case ArchSku::Neon:
      return HWY_NEON;
#endif
    case ArchSku::Scalar:
      return HWY_EMU128 | HWY_SCALAR;
    default:
      return 0;
  }
}
}  // namespace

bool supported(ArchSku arch) noexcept {
  // Asked once: the processor answers through the hypervisor, which takes microseconds.
  static const std::int64_t targets = hwy::SupportedTargets() & HWY_TARGETS;
  return (targets & highway_targets(arch)) != 0;
}

const char* isa_asked_for() noexcept {
  const char* const name = std::getenv("PLANCK_ISA");
  return name != nullptr && *name != '\0' ? name : nullptr;
}

std::optional<ArchSku> arch_from_name(std::string_view name) noexcept {
  for (const ArchSku arch : known_archs()) {
    if (to_string(arch) == name) return arch;
  }
  return std::nullopt;
}

}  // namespace planck::cpu
