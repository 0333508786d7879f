// What the sanitizers have to be told about fibers. The scheduler itself is compiled without them, which is seven times
// as fast; their functions are there when the kernels were compiled with them, and null otherwise.
#pragma once

#include <cstddef>

extern "C" {
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* address, std::size_t bytes);
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* tag);
[[gnu::weak]] void __tsan_release(void* tag);
}

namespace cuda_on_cpu {

/// What was written before a release of a tag is seen after an acquire of it.
inline void release(void* tag) {
  if (__tsan_release != nullptr) __tsan_release(tag);
}
inline void acquire(void* tag) {
  if (__tsan_acquire != nullptr) __tsan_acquire(tag);
}

}  // namespace cuda_on_cpu
