// Where the tensors and workspaces of tests lie: on the heap, or where a device reaches them too.
#pragma once

#include <cstddef>
#include <new>
#include <vector>

#include "planck/plan.hpp"

namespace planck::test {

/// How memory is had; a program that tests a device changes it before its first tensor.
struct MemorySource {
  void* (*allocate)(std::size_t bytes) = [](std::size_t bytes) { return ::operator new(bytes, kLine); };
  void (*release)(void* memory) = [](void* memory) { ::operator delete(memory, kLine); };
  /// Back when all runs on the stream are done and the CPU sees what they wrote.
  void (*wait)(const Stream& stream) = [](const Stream&) {};

 private:
  static constexpr std::align_val_t kLine{64};
};
inline MemorySource memory_source;

/// Buffers that begin on a cache line, as outputs do that are streamed.
template <class T>
struct LineAllocator {
  using value_type = T;
  T* allocate(std::size_t n) { return static_cast<T*>(memory_source.allocate(n * sizeof(T))); }
  void deallocate(T* p, std::size_t) { memory_source.release(p); }
  bool operator==(const LineAllocator&) const { return true; }
};
using Bytes = std::vector<std::byte, LineAllocator<std::byte>>;

/// A workspace of a plan, full of nonsense, one byte away from any alignment.
class TestWorkspace {
 public:
  explicit TestWorkspace(std::size_t bytes) : memory_(bytes + 1, std::byte{0xA5}) {}
  Workspace get() { return {memory_.data() + 1, memory_.size() - 1}; }

 private:
  Bytes memory_;
};

}  // namespace planck::test
