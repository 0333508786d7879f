// How a scan is scheduled and what it keeps in the workspace: from its shape alone.
#pragma once

#include <cstdint>

namespace planck::cuda {

/// Fewer rows than this leave a large device idle, so that long ones are cut.
inline constexpr std::int64_t kFewRows = 256;
/// The same for columns, which have a thread each.
inline constexpr std::int64_t kFewColumns = std::int64_t{1} << 15;
/// Fewer neighbours than this are no columns: they share lines of memory, and blocks of threads take them as rows.
inline constexpr std::int64_t kLeastInner = 8;

struct ScanSchedule {
  bool columns;
  int level;              ///< of the segments
  std::int64_t segments;  ///< of a row; 0 if it is not cut

  constexpr ScanSchedule(std::int64_t rows, std::int64_t length, std::int64_t inner)
      : columns(inner >= kLeastInner), level(columns ? 3 : 4), segments(0) {
    const std::int64_t segment = std::int64_t{1} << (3 * level);
    // Columns that pass on a carry have a multiple of 4096 steps, and only cut ones have open blocks for it.
    const bool cuts =
        columns ? length >= 4096 || (length > segment && rows < kFewColumns) : length > segment && rows < kFewRows;
    if (cuts) segments = (length - 1) / segment + 1;
  }

  constexpr bool cut() const { return segments > 0; }
};

}  // namespace planck::cuda
