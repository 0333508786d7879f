// Writing past the caches. An output much larger than the last-level cache would only evict what is still
// needed, and an ordinary store first reads the line it is about to overwrite: a third of the traffic.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace planck::cpu {

/// Outputs together above this are streamed. Twice a common last-level cache: below, the next operation would
/// have found them there.
inline constexpr std::int64_t kStreamBytes = std::int64_t{64} << 20;

#if defined(__x86_64__)
inline constexpr bool kHasStreamCopy = true;

inline void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept {
  const auto misaligned = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(to) & 15U);
  const std::int64_t head = misaligned < bytes ? misaligned : bytes;
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t i = head;
  for (; i + 16 <= bytes; i += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i)));
  }
  std::memcpy(to + i, from + i, static_cast<std::size_t>(bytes - i));
}

/// Makes streamed stores visible before the thread reports that it is done.
inline void stream_fence() noexcept { _mm_sfence(); }
#else
inline constexpr bool kHasStreamCopy = false;

inline void stream_copy(std::byte* to, const std::byte* from, std::int64_t bytes) noexcept {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
inline void stream_fence() noexcept {}
#endif

}  // namespace planck::cpu
