// The default executor: oneTBB's workers pull tasks off shared counters, and the caller pulls with them, so
// an operation ends even if no worker ever comes.
#include <pthread.h>
#include <tbb/blocked_range.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <atomic>
#include <exception>

#include "core/task_shares.hpp"
#include "planck/stream.hpp"

namespace planck {
namespace {

// Workers do not survive a fork. A child forked after the pool was started runs on its own thread alone; one
// forked before starts a pool of its own.
std::atomic<bool> pool_started{false};
std::atomic<bool> pool_lost{false};

void after_fork_in_child() {
  if (pool_started.load(std::memory_order_relaxed)) pool_lost.store(true, std::memory_order_relaxed);
}

class TbbExecutor final : public Executor {
 public:
  TbbExecutor() noexcept { pthread_atfork(nullptr, nullptr, after_fork_in_child); }

  int concurrency() const noexcept override {
    return pool_lost.load(std::memory_order_relaxed) ? 1 : std::max(1, tbb::this_task_arena::max_concurrency());
  }

  void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept override {
    const auto helpers = static_cast<int>(std::min<std::int64_t>(count, max_threads));
    core::TaskShares shares(count, helpers);
    const auto pull = [&](int helper) noexcept { shares.pull(helper, [&](std::int64_t i) { task(context, i); }); };
    if (helpers > 1 && concurrency() > 1) {
      pool_started.store(true, std::memory_order_relaxed);
      try {
        // Isolated: while it waits, the caller must not pick up the application's own TBB tasks.
        tbb::this_task_arena::isolate([&] {
          tbb::parallel_for(
              tbb::blocked_range<int>(0, helpers, 1),
              [&](const tbb::blocked_range<int>&) { pull(tbb::this_task_arena::current_thread_index()); },
              tbb::simple_partitioner());
        });
      } catch (const std::exception&) {
        // TBB could not start (out of memory or threads): the caller does what is left.
      }
    }
    pull(0);
  }
};

}  // namespace

Executor& Executor::default_executor() noexcept {
  static TbbExecutor executor;
  return executor;
}

int Stream::threads() const noexcept {
  const int available = std::max(1, executor().concurrency());
  return max_threads_ > 0 ? std::min(max_threads_, available) : available;
}

}  // namespace planck
