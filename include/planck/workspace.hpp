// Memory lent to a run: a plan says how much it needs, the caller says where it is.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <utility>

namespace planck {

/// Memory lent to one run: any alignment, overlapping no tensor of the run.
struct Workspace {
  void* data = nullptr;
  std::size_t bytes = 0;

  static Workspace none() noexcept { return {}; }
  static Workspace of(std::span<std::byte> memory) noexcept { return {memory.data(), memory.size()}; }
};

/// Memory of the host that is lent to one run after the other, on CPU streams: reserve what each plan's
/// workspace_size() says. It grows and never shrinks; concurrent runs need one each.
///
///   WorkspaceBuffer memory(plan->workspace_size());
///   if (!plan->run(stream, memory, args)) …
class WorkspaceBuffer {
 public:
  WorkspaceBuffer() = default;
  explicit WorkspaceBuffer(std::size_t bytes) noexcept { static_cast<void>(reserve(bytes)); }
  WorkspaceBuffer(WorkspaceBuffer&& other) noexcept
      : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, 0)) {}
  WorkspaceBuffer& operator=(WorkspaceBuffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, 0);
    return *this;
  }

  /// At least so many bytes from here on, of which none keeps its value. False if there is no memory: the buffer is
  /// then as it was, and runs report WorkspaceTooSmall.
  [[nodiscard]] bool reserve(std::size_t bytes) noexcept {
    if (bytes <= bytes_) return true;
    std::unique_ptr<std::byte[]> larger(new (std::nothrow) std::byte[bytes]);
    if (larger == nullptr) return false;
    memory_ = std::move(larger);
    bytes_ = bytes;
    return true;
  }

  std::size_t bytes() const noexcept { return bytes_; }
  operator Workspace() const noexcept { return {memory_.get(), bytes_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace planck
