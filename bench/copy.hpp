// A plain copy by the threads of a stream: the yardstick of every benchmark.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "planck/stream.hpp"

namespace planck::bench {

/// Each thread copies one large part by memcpy; less than 64 KiB is one part. Whether stores are non-temporal is the C
/// library's choice, by the size of a part: docs/benchmarks.md has what that makes of ratios.
inline void copy(const Stream& stream, void* to, const void* from, std::int64_t bytes) noexcept {
  struct Work {
    std::byte* to;
    const std::byte* from;
    std::int64_t bytes;
    std::int64_t parts;
  };
  Work work{static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes,
            bytes < (64 << 10) ? 1 : stream.threads()};
  const auto copy_part = [](void* opaque, std::int64_t i) noexcept {
    const auto& all = *static_cast<Work*>(opaque);
    const std::int64_t begin = all.bytes * i / all.parts;
    const std::int64_t end = all.bytes * (i + 1) / all.parts;
    std::memcpy(all.to + begin, all.from + begin, static_cast<std::size_t>(end - begin));
  };
  if (work.parts == 1) return copy_part(&work, 0);
  stream.executor().for_each(work.parts, static_cast<int>(work.parts), copy_part, &work);
}

}  // namespace planck::bench
