#include "openmp_executor.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

namespace planck::python {
namespace {

// GNU's and LLVM's libraries both have these.
using Parallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
using MaxThreads = int (*)();

// Threads do not survive a fork, and waiting for them would never end. Whether there were any only PyTorch knows.
std::atomic<bool> threads_lost{false};

void after_fork_in_child() { threads_lost.store(true, std::memory_order_relaxed); }

class OpenMpExecutor final : public Executor {
 public:
  OpenMpExecutor(Parallel parallel, MaxThreads max_threads) noexcept : parallel_(parallel), max_threads_(max_threads) {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }

  int concurrency() const noexcept override {
    return threads_lost.load(std::memory_order_relaxed) ? 1 : std::max(1, max_threads_());
  }

  void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept override {
    Work work{count, task, context, {0}};
    const auto threads = static_cast<int>(std::min<std::int64_t>({count, max_threads, concurrency()}));
    if (threads > 1) {
      parallel_([](void* data) { static_cast<Work*>(data)->pull(); }, &work, static_cast<unsigned>(threads), 0);
    }
    work.pull();
  }

 private:
  struct Work {
    std::int64_t count;
    Task task;
    void* context;
    std::atomic<std::int64_t> next;

    void pull() noexcept {
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(context, i);
    }
  };

  Parallel parallel_;
  MaxThreads max_threads_;
};

}  // namespace

Executor* openmp_executor() {
  auto* const parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  auto* const max_threads = reinterpret_cast<MaxThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  if (parallel == nullptr || max_threads == nullptr) return nullptr;
  static OpenMpExecutor executor(parallel, max_threads);
  return &executor;
}

}  // namespace planck::python
