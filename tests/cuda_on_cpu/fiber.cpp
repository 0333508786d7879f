#include "cuda_on_cpu/fiber.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#if PLANCK_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(PLANCK_FIBER_TSAN)
#include <sanitizer/tsan_interface.h>
#endif

namespace cuda_on_cpu {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Instrumented frames are large. Pages that are never touched cost nothing; the first one is a wall.
constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kWallBytes = 4096;

}  // namespace

Fiber::Fiber() {
  void* const memory =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kWallBytes, PROT_NONE) != 0) {
    std::fputs("cuda_on_cpu: no memory for a stack\n", stderr);
    std::abort();
  }
  stack_ = static_cast<std::byte*>(memory);
#if defined(PLANCK_FIBER_TSAN)
  race_fiber_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(PLANCK_FIBER_TSAN)
  __tsan_destroy_fiber(race_fiber_);
#endif
  munmap(stack_, kStackBytes);
}

void Fiber::start(void (*body)(void*), void* argument) {
  body_ = body;
  argument_ = argument;
  kept_ = nullptr;
#if PLANCK_FIBER_ASAN
  // A thread that was left behind by a failed launch leaves the marks of its variables.
  if (context_ != nullptr) __asan_unpoison_memory_region(stack_ + kWallBytes, kStackBytes - kWallBytes);
#endif
  context_ = make_fcontext(stack_ + kStackBytes, kStackBytes - kWallBytes, &Fiber::enter);
}

void Fiber::enter(transfer_t from) {
  auto* const fiber = static_cast<Fiber*>(from.data);
  fiber->scheduler_ = from.fctx;
  fiber->arrived(nullptr);
  fiber->body_(fiber->argument_);
  std::abort();
}

/// The fiber's side of a switch to it.
void Fiber::arrived([[maybe_unused]] void* kept) {
#if PLANCK_FIBER_ASAN
  __sanitizer_finish_switch_fiber(kept, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
}

void Fiber::resume() {
#if PLANCK_FIBER_ASAN
  void* kept = nullptr;
  __sanitizer_start_switch_fiber(&kept, stack_ + kWallBytes, kStackBytes - kWallBytes);
#endif
#if defined(PLANCK_FIBER_TSAN)
  race_scheduler_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(race_fiber_, __tsan_switch_to_fiber_no_sync);
#endif
  context_ = jump_fcontext(context_, this).fctx;
#if PLANCK_FIBER_ASAN
  __sanitizer_finish_switch_fiber(kept, nullptr, nullptr);
#endif
}

void Fiber::leave([[maybe_unused]] bool for_good) {
#if PLANCK_FIBER_ASAN
  __sanitizer_start_switch_fiber(for_good ? nullptr : &kept_, scheduler_stack_, scheduler_stack_bytes_);
#endif
#if defined(PLANCK_FIBER_TSAN)
  __tsan_switch_to_fiber(race_scheduler_, __tsan_switch_to_fiber_no_sync);
#endif
  scheduler_ = jump_fcontext(scheduler_, nullptr).fctx;
  arrived(kept_);
}

void Fiber::suspend() { leave(false); }

void Fiber::finish() {
  leave(true);
  std::abort();
}

}  // namespace cuda_on_cpu
