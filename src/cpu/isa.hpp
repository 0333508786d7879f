// Which instruction sets there are, and which of them this machine has.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "planck/error.hpp"
#include "planck/plan.hpp"

namespace planck::cpu {

/// Every CPU instruction set that Planck knows, best first; Scalar is last.
std::span<const ArchSku> known_archs() noexcept;

/// Whether this machine can run it.
bool supported(ArchSku arch) noexcept;

/// The value of the environment's PLANCK_ISA; null if it is unset or empty.
const char* isa_asked_for() noexcept;

/// The instruction set of such a value ("avx2", "scalar", …), or nothing.
std::optional<ArchSku> arch_from_name(std::string_view name) noexcept;

}  // namespace planck::cpu
