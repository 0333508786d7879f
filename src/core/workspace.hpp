// A run's workspace as values of one type: callers may lend memory of any alignment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "planck/plan.hpp"

namespace planck::core {

/// As many T as the workspace holds from its first aligned byte on.
template <class T>
std::span<T> values_in(const Workspace& workspace) noexcept {
  const std::size_t skipped = -reinterpret_cast<std::uintptr_t>(workspace.data) & (alignof(T) - 1);
  if (workspace.bytes < skipped + sizeof(T)) return {};
  return {reinterpret_cast<T*>(static_cast<std::byte*>(workspace.data) + skipped),
          (workspace.bytes - skipped) / sizeof(T)};
}

}  // namespace planck::core
