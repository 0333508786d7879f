// Launches with fewer blocks than there is work, as beyond 2^31 blocks on a device: kernels must loop.
#pragma once

#include "cuda/launch.hpp"

namespace planck {

/// While one lives, a launch has at most so many blocks; 0 is no limit.
class FewBlocks {
 public:
  explicit FewBlocks(std::int64_t most) {
    if (most > 0) cuda::max_blocks = most;
  }
  ~FewBlocks() { cuda::max_blocks = cuda::kMaxBlocks; }
  FewBlocks(const FewBlocks&) = delete;
  FewBlocks& operator=(const FewBlocks&) = delete;
};

}  // namespace planck
