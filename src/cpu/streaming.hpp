// When to store non-temporally. An output much larger than the last-level cache would only evict what is
// still needed, and an ordinary store first reads the line it is about to overwrite: a third of the traffic.
#pragma once

#include "core/layout.hpp"
#include "planck/stream.hpp"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace planck::cpu {

/// Whether the `outputs` after the first `inputs` operands are streamed; absent ones do not count. Those that together
/// have as many bytes as the executor's cache are, and any beside which as much again is read: what was written first
/// would be gone at the end. Below, the next operation may find them in the cache.
bool worth_streaming(const Stream& stream, const core::StridedLoop& loop, int inputs, int outputs) noexcept;

/// Makes streamed stores visible before the thread reports that it is done.
inline void stream_fence() noexcept {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

}  // namespace planck::cpu
