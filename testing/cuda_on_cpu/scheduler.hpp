// Runs a CUDA launch on one thread of the CPU: one fiber for each CUDA thread, one block after the other.
//
// Blocks come in a random order. Warps run ahead of each other in a random order: one runs until all its lanes wait at
// a barrier, or is interrupted at a warp operation; so does a lane until it waits at either. What a missing barrier
// lets happen on a device so happens here in some of the schedules. CUDA_ON_CPU_SEED in the environment chooses them.
//
// A launch fails, with a report that names threads and lines, where threads wait for each other in vain: at a barrier
// that others do not reach (they returned, or wait at another one), or in a warp operation whose mask names lanes that
// are not in it.
#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace cuda_on_cpu {

struct Index3 {
  unsigned x, y, z;
};

enum class WarpOperation { Sync, Shuffle, ShuffleUp, ShuffleDown, ShuffleXor, Ballot };

/// The codes of cudaError_t.
enum Code : int { kSuccess = 0, kInvalidConfiguration = 9, kLaunchFailure = 719 };

using Kernel = void (*)(const void* arguments);

/// Runs kernel(arguments) for every thread of the grid. Launches from several threads take turns.
int launch(Index3 grid, Index3 block, Kernel kernel, const void* arguments);

/// What the last launch that failed did wrong.
std::string last_report();

/// The schedules from here on; without a call, those of CUDA_ON_CPU_SEED, or of seed 1.
void set_seed(std::uint64_t seed);

// The words of the language, called by the shim from inside a kernel.
Index3 thread_index();
Index3 block_index();
Index3 block_extent();
Index3 grid_extent();
void block_barrier(const std::source_location& where);
/// Every lane of the mask brings a value; a shuffle gives that of the lane meant by `lane` among `width`, a ballot the
/// lanes that brought something other than 0.
std::uint64_t warp_operation(WarpOperation operation, unsigned mask, std::uint64_t value, unsigned lane, int width,
                             const std::source_location& where);
/// A place at which other warps may go on.
void may_interrupt();

}  // namespace cuda_on_cpu
