// One stack of its own for each CUDA thread, and switching to and from it: boost.context's plain jumps, which take a
// few nanoseconds. ThreadSanitizer is told which fiber runs; a switch orders nothing for it, barriers do
// (scheduler.cpp).
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace cuda_on_cpu {

class Fiber {
 public:
  using Body = void (*)(void* argument);

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// From the scheduler: the next resume() calls body(argument), which never returns: it suspends at its end. A body
  /// that was suspended is given up.
  void start(Body body, void* argument);
  /// From the scheduler: runs the fiber until it suspends.
  void resume();
  /// From the fiber: back to the scheduler, until the next resume().
  void suspend();

 private:
  static void enter(boost::context::detail::transfer_t from);

  std::byte* stack_;
  boost::context::detail::fcontext_t context_ = nullptr;    // where resume() goes
  boost::context::detail::fcontext_t scheduler_ = nullptr;  // where suspend() goes
  Body body_ = nullptr;
  void* argument_ = nullptr;
  void* race_fiber_ = nullptr;  // ThreadSanitizer's names for the two sides
  void* race_scheduler_ = nullptr;
};

}  // namespace cuda_on_cpu
