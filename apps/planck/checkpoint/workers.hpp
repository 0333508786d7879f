// A few threads that share the pieces of a tensor: each reads, computes and writes its own pieces in memory of its own,
// so that the disk and the processor work at the same time. Which thread takes a piece changes nothing but the time.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "checkpoint/scratch.hpp"

namespace planck::cli {

class Workers {
 public:
  /// Each worker holds buffers of a few MiB: more would leave the bound on memory.
  static constexpr int kMaxThreads = 16;

  /// `threads` counts the caller; 0 means one for each processor.
  explicit Workers(int threads);
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  ~Workers();

  int threads() const noexcept { return static_cast<int>(helpers_.size()) + 1; }

  /// The memory of a worker; between calls of for_each the caller's too.
  Scratch& scratch(int worker) noexcept { return scratch_[static_cast<std::size_t>(worker)]; }

  /// Calls body(worker, index) once for each index in [0, count), worker in [0, threads()). What a call throws is
  /// thrown again here, once all have ended; so is a Failure after a signal to stop.
  void for_each(std::int64_t count, const std::function<void(int, std::int64_t)>& body);

 private:
  void work(int worker) noexcept;
  void help(int worker);

  std::mutex mutex_;
  std::condition_variable start_;
  std::condition_variable done_;
  const std::function<void(int, std::int64_t)>* body_ = nullptr;
  std::int64_t count_ = 0;
  std::atomic<std::int64_t> next_{0};
  std::uint64_t round_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::vector<Scratch> scratch_;
  std::vector<std::thread> helpers_;
};

}  // namespace planck::cli
