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
#include <string>
#include <version>
#ifdef __cpp_lib_source_location
#include <source_location>
#endif

namespace cuda_on_cpu {

#ifdef __cpp_lib_source_location
using Place = std::source_location;
#else
/// The same for clang 14, with which clang-tidy reads the kernels.
class Place {
 public:
  static constexpr Place current(const char* file = __builtin_FILE(), unsigned line = __builtin_LINE(),
                                 unsigned column = __builtin_COLUMN()) {
    Place place;
    place.file_ = file;
    place.line_ = line;
    place.column_ = column;
    return place;
  }
  constexpr const char* file_name() const { return file_; }
  constexpr unsigned line() const { return line_; }
  constexpr unsigned column() const { return column_; }

 private:
  const char* file_ = "";
  unsigned line_ = 0, column_ = 0;
};
#endif

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
void block_barrier(const Place& where);
/// Every lane of the mask brings a value; a shuffle gives that of the lane meant by `lane` among `width`, a ballot the
/// lanes that brought something other than 0.
std::uint64_t warp_operation(WarpOperation operation, unsigned mask, std::uint64_t value, unsigned lane, int width,
                             const Place& where);
/// A place at which other warps may go on.
void may_interrupt();

}  // namespace cuda_on_cpu
