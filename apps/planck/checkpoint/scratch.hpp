// The memory in which a worker holds its piece of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

namespace planck::cli {

/// The most bytes of a tensor that are worked on at once: in the second-level cache, and enough for a disk.
inline constexpr std::int64_t kPieceBytes = 1 << 20;

/// Buffers of one worker, grown as needed and kept.
class Scratch {
 public:
  /// At least `bytes`, aligned to a cache line; the contents of slot `slot` are lost.
  std::byte* slot(std::size_t slot, std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, std::align_val_t{64}); }
  };
  struct Buffer {
    std::unique_ptr<std::byte[], Free> memory;
    std::size_t bytes = 0;
  };
  std::vector<Buffer> buffers_;
};

}  // namespace planck::cli
