#include "checkpoint/workers.hpp"

#include <algorithm>

#include "checkpoint/file.hpp"

namespace planck::cli {

Workers::Workers(int threads) {
  const int wanted = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  scratch_.resize(static_cast<std::size_t>(std::min(wanted, kMaxThreads)));
  for (int worker = 1; worker < std::min(wanted, kMaxThreads); ++worker) {
    helpers_.emplace_back([this, worker] { help(worker); });
  }
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& helper : helpers_) helper.join();
}

void Workers::for_each(std::int64_t count, const std::function<void(int, std::int64_t)>& body) {
  const bool shared = count > 1 && !helpers_.empty();
  {
    const std::lock_guard lock(mutex_);
    body_ = &body;
    count_ = count;
    next_ = 0;
    error_ = nullptr;
    if (shared) {
      busy_ = static_cast<int>(helpers_.size());
      ++round_;
    }
  }
  if (shared) start_.notify_all();
  work(0);
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return busy_ == 0; });
  if (error_) std::rethrow_exception(error_);
}

void Workers::work(int worker) noexcept {
  try {
    for (std::int64_t i = next_++; i < count_; i = next_++) {
      throw_if_stopped();
      (*body_)(worker, i);
    }
  } catch (...) {
    next_ = count_;  // the others need not go on
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
}

void Workers::help(int worker) {
  std::uint64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      start_.wait(lock, [&] { return stop_ || round_ != seen; });
      if (stop_) return;
      seen = round_;
    }
    work(worker);
    const std::lock_guard lock(mutex_);
    if (--busy_ == 0) done_.notify_all();
  }
}

}  // namespace planck::cli
