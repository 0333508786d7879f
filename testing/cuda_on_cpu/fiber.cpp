#include "testing/cuda_on_cpu/fiber.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>

#include "testing/cuda_on_cpu/sanitizers.hpp"

namespace cuda_on_cpu {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

// Instrumented frames are large. Pages that are never touched cost nothing; the lowest one is a wall.
constexpr std::size_t kStackBytes = 256 << 10;
constexpr std::size_t kWallBytes = 4096;
constexpr unsigned kOrdersNothing = 1;  // __tsan_switch_to_fiber_no_sync

}  // namespace

Fiber::Fiber() {
  void* const memory =
      mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, kWallBytes, PROT_NONE) != 0) {
    std::fputs("cuda_on_cpu: no memory for a stack\n", stderr);
    std::abort();
  }
  stack_ = static_cast<std::byte*>(memory);
  if (__tsan_create_fiber != nullptr) race_fiber_ = __tsan_create_fiber(0);
}

Fiber::~Fiber() { munmap(stack_, kStackBytes); }

void Fiber::start(Body body, void* argument) {
  body_ = body;
  argument_ = argument;
  // A body that was given up leaves AddressSanitizer's marks around its variables.
  if (__asan_unpoison_memory_region != nullptr) {
    auto* const bottom = static_cast<std::byte*>(context_ != nullptr ? context_ : stack_ + kStackBytes);
    __asan_unpoison_memory_region(bottom, static_cast<std::size_t>(stack_ + kStackBytes - bottom));
  }
  context_ = make_fcontext(stack_ + kStackBytes, kStackBytes - kWallBytes, &Fiber::enter);
}

void Fiber::enter(transfer_t from) {
  auto* const fiber = static_cast<Fiber*>(from.data);
  fiber->scheduler_ = from.fctx;
  fiber->body_(fiber->argument_);
  std::abort();
}

void Fiber::resume() {
  if (race_fiber_ != nullptr) {
    race_scheduler_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(race_fiber_, kOrdersNothing);
  }
  context_ = jump_fcontext(context_, this).fctx;
}

void Fiber::suspend() {
  if (race_fiber_ != nullptr) __tsan_switch_to_fiber(race_scheduler_, kOrdersNothing);
  scheduler_ = jump_fcontext(scheduler_, nullptr).fctx;
}

}  // namespace cuda_on_cpu
