// Launching a kernel on a run's stream, and the CUDA library's own error as a Status.
#pragma once

#include <cstdint>

#include "backend/backend.hpp"
#include "cuda/platform.hpp"

namespace planck::cuda {

/// The failure of a CUDA call, with its code and name; nothing to do for success.
core::Status status_of(std::string_view plan, std::string_view what, int code) noexcept;

inline constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;
#if defined(PLANCK_CUDA_ON_CPU)
/// Tests allow fewer, so that kernels have to loop.
inline std::int64_t max_blocks = kMaxBlocks;
/// And look where the last kernel went.
inline void* last_stream = nullptr;
#else
inline constexpr std::int64_t max_blocks = kMaxBlocks;
#endif

/// Runs kernel(args...) on `blocks` blocks of `threads` threads, both along x. Kernels loop over what more blocks than
/// kMaxBlocks would take. No block, no launch.
template <class... Params, class... Args>
core::Status launch(const backend::Run& run, std::int64_t blocks, int threads, void (*kernel)(Params...),
                    const Args&... args) noexcept {
  if (blocks <= 0) return {};
  const auto grid = static_cast<unsigned>(blocks < max_blocks ? blocks : max_blocks);
#if defined(PLANCK_CUDA_ON_CPU)
  last_stream = run.stream.native();
  const int code = cuda_on_cpu::launch(dim3(grid), dim3(static_cast<unsigned>(threads)),
                                       [&] { kernel(static_cast<Params>(args)...); });
#else
  auto* const stream = static_cast<cudaStream_t>(run.stream.native());
  // In a .hpp file clang-format 14 takes this for two shifts and a comparison.
  // clang-format off
  kernel<<<grid, static_cast<unsigned>(threads), 0, stream>>>(static_cast<Params>(args)...);
  // clang-format on
  const int code = static_cast<int>(cudaGetLastError());
#endif
  return status_of(run.plan, "a kernel launch", code);
}

}  // namespace planck::cuda
