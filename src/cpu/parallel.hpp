// Running the tasks of one operation on a stream: inline when small, otherwise through its executor. The
// caller has set the floating-point environment (numerics/fp_env.hpp) for its own thread; workers set theirs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/task_shares.hpp"
#include "numerics/fp_env.hpp"
#include "planck/stream.hpp"

namespace planck::cpu {

/// Less than this many bytes is done by the calling thread: waking a worker costs about 5 µs.
inline constexpr std::int64_t kInlineBytes = 128 << 10;
/// About what one task should touch: fits the second-level cache.
inline constexpr std::int64_t kTaskBytes = 256 << 10;

/// Small operations are cut finer, so that the calling thread can go on until a worker comes, but no finer than this.
inline constexpr std::int64_t kLeastTaskBytes = 128 << 10;
inline constexpr std::int64_t kTasksPerThread = 4;

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// Calls body(begin, end) over sub-ranges that together are [0, units); `unit_bytes` is what one unit touches.
template <class Body>
void for_each_range(const Stream& stream, std::int64_t units, std::int64_t unit_bytes, const Body& body) noexcept {
  const std::int64_t bytes = units * std::max<std::int64_t>(unit_bytes, 1);
  const int threads = bytes < kInlineBytes ? 1 : stream.threads();
  if (threads <= 1 || units <= 1) return body(std::int64_t{0}, units);
  struct Context {
    const Body& body;
    std::int64_t units;
    std::int64_t tasks;
  };
  const std::int64_t finer = std::min(kTasksPerThread * threads, bytes / kLeastTaskBytes);
  const auto wanted = std::max<std::int64_t>({threads, finer, bytes / kTaskBytes});
  Context context{body, units, std::min(units, wanted)};
  stream.executor().for_each(
      context.tasks, threads,
      [](void* opaque, std::int64_t i) noexcept {
        const numerics::FpEnvironmentGuard guard;
        const auto& c = *static_cast<const Context*>(opaque);
        c.body(core::share_begin(c.units, c.tasks, i), core::share_begin(c.units, c.tasks, i + 1));
      },
      &context);
}

}  // namespace planck::cpu
