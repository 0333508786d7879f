// The floating-point environment that docs/concepts.md promises: round to nearest, no flush to zero, nothing trapped.
// Set for the lifetime of the guard and put back after, on every thread that computes.
#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <xmmintrin.h>
#elif !defined(__aarch64__)
#include <cfenv>
#endif

namespace planck::numerics {

class FpEnvironmentGuard {
 public:
#if defined(__x86_64__)
  FpEnvironmentGuard() noexcept : saved_(_mm_getcsr()) {
    // Writing the register costs about 10 ns, reading it 2: write only what is not already so.
    if ((saved_ & ~kFlags) != kDefault) _mm_setcsr(kDefault);
  }
  ~FpEnvironmentGuard() {
    if (_mm_getcsr() != saved_) _mm_setcsr(saved_);
  }

 private:
  static constexpr unsigned kDefault = 0x1F80;  // all exceptions masked
  static constexpr unsigned kFlags = 0x3F;      // the sticky exception flags
  unsigned saved_;
#elif defined(__aarch64__)
  FpEnvironmentGuard() noexcept : saved_(get()) {
    if (saved_ != 0) set(0);
  }
  ~FpEnvironmentGuard() {
    if (saved_ != 0) set(saved_);
  }

 private:
  static std::uint64_t get() noexcept {
    std::uint64_t v;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(v));
    return v;
  }
  static void set(std::uint64_t v) noexcept { __asm__ __volatile__("msr fpcr, %0" : : "r"(v)); }
  std::uint64_t saved_;
#else
  FpEnvironmentGuard() noexcept { std::feholdexcept(&saved_), std::fesetround(FE_TONEAREST); }
  ~FpEnvironmentGuard() { std::fesetenv(&saved_); }

 private:
  std::fenv_t saved_;
#endif

 public:
  FpEnvironmentGuard(const FpEnvironmentGuard&) = delete;
  FpEnvironmentGuard& operator=(const FpEnvironmentGuard&) = delete;
};

}  // namespace planck::numerics
