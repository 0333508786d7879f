// Where work runs. A Stream is a small value: a backend and what that backend needs.
//
// On the CPU that is an Executor (who runs the tasks) and a limit on threads. A CUDA stream travels as an
// opaque pointer, so that this header needs no CUDA.
#pragma once

#include <cstdint>

#include "planck/export.hpp"

namespace planck {

/// Runs the tasks of one operation, possibly at the same time. Bring your own pool by deriving from this.
///
/// Tasks may start in any order, on any threads, late or one after the other: the bits are the same. A task that has
/// started must be let run on: one that started later may sleep until it has done its part. Implementations must not
/// throw; the caller's thread should take part, so that an operation ends even when every other thread is busy.
class PLANCK_API Executor {
 public:
  /// Runs task `index` of the operation behind `context`.
  using Task = void (*)(void* context, std::int64_t index) noexcept;

  virtual ~Executor() = default;
  /// How many tasks may run at once (at least 1).
  virtual int concurrency() const noexcept = 0;
  /// Calls task(context, i) once for each i in [0, count), on at most max_threads threads, and returns when all are
  /// done.
  virtual void for_each(std::int64_t count, int max_threads, Task task, void* context) noexcept = 0;
  /// Bytes of the cache that its threads share: outputs as large, or twice as large with what is read beside them, are
  /// stored non-temporally, and chunks of rows whose gradients are found in several passes are a quarter of it. Any
  /// value gives the same bits.
  virtual std::int64_t cache_bytes() const noexcept { return std::int64_t{32} << 20; }

  /// The default: oneTBB's workers. In a child forked after its first use it runs on the calling thread alone.
  static Executor& default_executor() noexcept;
};

/// Which device a stream belongs to.
enum class Device : std::int32_t { Cpu = 0, Cuda = 1 };

/// Where a plan is made for and run: a value that is cheap to copy.
class PLANCK_API Stream {
 public:
  /// The CPU with the default executor; max_threads 0 means as many as the executor has.
  static Stream cpu(int max_threads = 0) noexcept { return Stream(Device::Cpu, nullptr, max_threads, nullptr); }
  /// The CPU with the caller's executor, which must outlive the runs that use it.
  static Stream cpu(Executor& executor, int max_threads = 0) noexcept {
    return Stream(Device::Cpu, &executor, max_threads, nullptr);
  }
  /// A CUDA stream handle, passed through untouched. Plans for it need the CUDA library.
  static Stream cuda(void* native) noexcept { return Stream(Device::Cuda, nullptr, 0, native); }

  Device device() const noexcept { return device_; }
  void* native() const noexcept { return native_; }
  /// The threads a run may use: the limit and the executor's concurrency, whichever is smaller.
  int threads() const noexcept;
  Executor& executor() const noexcept { return executor_ ? *executor_ : Executor::default_executor(); }

 private:
  Stream(Device device, Executor* executor, int max_threads, void* native) noexcept
      : device_(device), max_threads_(max_threads), executor_(executor), native_(native) {}

  Device device_;
  int max_threads_;
  Executor* executor_;
  void* native_;
};

}  // namespace planck
