// A caller's own pool, as small as it can be: starts its threads for each operation. Lets tests use more
// threads than the machine has cores, and keeps oneTBB out of the thread sanitizer's sight.
#pragma once

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "planck/stream.hpp"

namespace planck::test {

class ThreadExecutor final : public Executor {
 public:
  explicit ThreadExecutor(int threads) : threads_(threads), cache_bytes_(Executor::cache_bytes()) {}
  /// With a small cache short tensors are scheduled like long ones.
  ThreadExecutor(int threads, std::int64_t cache_bytes) : threads_(threads), cache_bytes_(cache_bytes) {}

  int concurrency() const noexcept override { return threads_; }
  std::int64_t cache_bytes() const noexcept override { return cache_bytes_; }

  void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept override {
    std::atomic<std::int64_t> next{0};
    const auto pull = [&] {
      for (std::int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) task(context, i);
    };
    std::vector<std::thread> helpers;
    const int wanted = static_cast<int>(std::min<std::int64_t>({count, threads_, max_threads}));
    for (int i = 1; i < wanted; ++i) helpers.emplace_back(pull);
    pull();
    for (auto& helper : helpers) helper.join();
  }

 private:
  int threads_;
  std::int64_t cache_bytes_;
};

}  // namespace planck::test
