#include "openmp_executor.hpp"

#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>

#include "../../src/core/task_shares.hpp"

namespace planck::python {
namespace {

// GNU's and LLVM's libraries both have these.
using Parallel = void (*)(void (*body)(void*), void* data, unsigned threads, unsigned flags);
using MaxThreads = int (*)();
using ThreadNumber = int (*)();

// Threads do not survive a fork, and waiting for them would never end. Whether there were any only PyTorch knows.
std::atomic<bool> threads_lost{false};

void after_fork_in_child() { threads_lost.store(true, std::memory_order_relaxed); }

class OpenMpExecutor final : public Executor {
 public:
  OpenMpExecutor(Parallel parallel, MaxThreads max_threads, ThreadNumber thread_number) noexcept
      : parallel_(parallel), max_threads_(max_threads), thread_number_(thread_number) {
    pthread_atfork(nullptr, nullptr, after_fork_in_child);
  }

  int concurrency() const noexcept override {
    return threads_lost.load(std::memory_order_relaxed) ? 1 : std::max(1, max_threads_());
  }

  void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept override {
    const auto threads = static_cast<int>(std::min<std::int64_t>({count, max_threads, concurrency()}));
    Work work{core::TaskShares(count, threads), task, context, thread_number_};
    if (threads > 1) {
      parallel_(
          [](void* data) {
            auto& shared = *static_cast<Work*>(data);
            shared.pull(shared.thread_number());
          },
          &work, static_cast<unsigned>(threads), 0);
    }
    work.pull(0);
  }

 private:
  struct Work {
    core::TaskShares shares;
    Task task;
    void* context;
    ThreadNumber thread_number;

    void pull(int thread) noexcept {
      shares.pull(thread, [&](std::int64_t i) { task(context, i); });
    }
  };

  Parallel parallel_;
  MaxThreads max_threads_;
  ThreadNumber thread_number_;
};

}  // namespace

Executor* openmp_executor() {
  auto* const parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  auto* const max_threads = reinterpret_cast<MaxThreads>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
  auto* const thread_number = reinterpret_cast<ThreadNumber>(dlsym(RTLD_DEFAULT, "omp_get_thread_num"));
  if (parallel == nullptr || max_threads == nullptr || thread_number == nullptr) return nullptr;
  static OpenMpExecutor executor(parallel, max_threads, thread_number);
  return &executor;
}

}  // namespace planck::python
