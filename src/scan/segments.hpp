// A ragged batch: an axis of segments, which one call scans each by itself, at the places where its offsets say.
//
// A segment is a job of its own over a part of every operand: a backend runs it as it runs any job, so its bits are
// those of a call of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/error_texts.hpp"
#include "core/layout.hpp"

namespace planck::scan {

struct ScanJob;

/// Where the segments of an axis lie; `count` alone is known before a run.
struct Segments {
  std::int64_t count = 0;
  const std::byte* offsets = nullptr;  ///< count + 1 of them
  std::int64_t step = 0;               ///< bytes from one to the next
  ElementKind element = ElementKind::S64;
  std::int64_t initial_step = 0;    ///< bytes from one segment's initial state to the next's
  std::int64_t d_initial_step = 0;  ///< and to its gradient

  /// Segment i has the elements from offset(i) to offset(i + 1) - 1 of the tensors as the caller gave them.
  std::int64_t offset(std::int64_t i) const noexcept {
    const std::byte* const at = offsets + i * step;
    if (element == ElementKind::S64) {
      std::int64_t value = 0;
      std::memcpy(&value, at, sizeof value);
      return value;
    }
    std::int32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
};

/// Offsets rise from 0 to the length of the axis: names the first that does not.
core::Status check_offsets(std::string_view plan, const Segments& segments, std::int64_t length) noexcept;

/// Segment i as a job without segments. `loop`, a copy of the job's, becomes the segment's part of it.
ScanJob job_of_segment(const ScanJob& job, std::int64_t i, core::StridedLoop* loop) noexcept;

}  // namespace planck::scan
