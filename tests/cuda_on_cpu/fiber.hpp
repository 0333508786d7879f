// One stack of its own for each CUDA thread, and switching to and from it in a way that the sanitizers follow.
//
// boost.context's plain jumps: a switch takes a few nanoseconds. AddressSanitizer is told which stack is in use,
// ThreadSanitizer which fiber runs; a switch orders nothing for it, barriers do (see scheduler.cpp).
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#define PLANCK_FIBER_ASAN 1
#else
#define PLANCK_FIBER_ASAN 0
#endif

namespace cuda_on_cpu {

class Fiber {
 public:
  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From the scheduler: the next resume() calls body(argument), which must not return but end in finish().
  void start(void (*body)(void* argument), void* argument);
  /// From the scheduler: runs the fiber until it suspends or finishes.
  void resume();
  /// From the fiber: back to the scheduler, until the next resume().
  void suspend();
  /// From the fiber, at its end: back to the scheduler for good.
  [[noreturn]] void finish();

 private:
  static void enter(boost::context::detail::transfer_t from);
  void arrived(void* kept);
  void leave(bool for_good);

  std::byte* stack_;
  boost::context::detail::fcontext_t context_ = nullptr;    // where resume() goes
  boost::context::detail::fcontext_t scheduler_ = nullptr;  // where suspend() goes
  void (*body_)(void*) = nullptr;
  void* argument_ = nullptr;
  void* kept_ = nullptr;  // AddressSanitizer's frames of this fiber while it is suspended
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
  void* race_fiber_ = nullptr;  // ThreadSanitizer's names for the two sides
  void* race_scheduler_ = nullptr;
};

}  // namespace cuda_on_cpu
