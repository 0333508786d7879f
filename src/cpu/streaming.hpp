// When to store non-temporally. An output much larger than the last-level cache would only evict what is
// still needed, and an ordinary store first reads the line it is about to overwrite: a third of the traffic.
#pragma once

#include <cstdint>

#include "core/layout.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace planck::cpu {

/// Outputs that together have this many bytes are streamed, and any beside which as much again is read: what was
/// written first would be gone at the end. Below, the next operation may find them in a common last-level cache of 32
/// MiB.
inline constexpr std::int64_t kStreamBytes = std::int64_t{32} << 20;
/// The same as a variable, for tests that stream small tensors.
extern std::int64_t stream_bytes;

/// Whether the `outputs` after the first `inputs` operands are; absent ones do not count.
bool worth_streaming(const core::StridedLoop& loop, int inputs, int outputs) noexcept;

/// Makes streamed stores visible before the thread reports that it is done.
inline void stream_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace planck::cpu
