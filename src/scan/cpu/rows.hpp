// The rows of a scan's loop: an axis whose elements lie side by side, one row after the other or in segments.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "core/layout.hpp"
#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "scan/cpu/column_fold.hpp"
#include "scan/cpu/pass.hpp"

namespace planck::cpu {

constexpr std::int64_t row_segments(std::int64_t length) { return ceil_div(length, kRowSegment); }

/// A state for each segment of a row.
struct SegmentStates {
  double* values;
  int parts;
  double* at(std::int64_t segment) const { return values + segment * parts; }
};

/// Puts the prefix before a segment in the place of its total, which is taken in if another segment follows.
inline void replace_total(OneColumnFold& fold, int parts, double* state, bool follows) {
  double total[kMaxScanParts];
  if (follows) std::copy_n(state, parts, total);
  if (const std::byte* prefix = fold->prefix())
    std::memcpy(state, prefix, static_cast<std::size_t>(parts * kPartBytes));
  if (follows) fold->push_block(kCarryLevel, reinterpret_cast<const std::byte*>(total));
}

/// What a feed says: the first element's value, before which the others' lie, in order or as registers have them.
struct FeedValues {
  const double* first;
  bool in_lanes;
};

/// Rows one after the other along a dimension, or just one.
struct RowStretch {
  core::LoopPointers first;
  std::int64_t rows;
  int dim;    ///< -1 if there is none beside the axis
  bool back;  ///< the first row comes last in memory
};

/// The rows of a loop: where they are, and what a run over one or a segment of it needs to know.
class Rows {
 public:
  Rows(const Stream& stream, const ScanPass& scan)
      : scan_(scan),
        kernel_(scan.kernel),
        loop_(scan.loop),
        length_(loop_.extent[scan.axis]),
        streamed_(worth_streaming(stream, loop_, scan.kernel.inputs, scan.kernel.outputs)) {}

  std::int64_t length() const { return length_; }
  bool streamed() const { return streamed_; }

  /// Calls body with the rows from begin to end - 1, at most `most` at a time, in the order that goes on through memory
  /// where a row leaves off: processors fetch ahead only so, and short rows the other way round took three times as
  /// long.
  template <class Body>
  void for_each(std::int64_t begin, std::int64_t end, std::int64_t most, const Body& body) const {
    int dim = loop_.rank - 1;
    while (dim > 0 && (dim == scan_.axis || loop_.extent[dim] == 1)) --dim;
    if (dim == scan_.axis) dim = -1;
    const std::int64_t extent = dim < 0 ? 1 : loop_.extent[dim];
    const bool back = loop_.operand[0].stride[scan_.axis] < 0;
    for (std::int64_t done = begin; done < end;) {
      const std::int64_t first = back ? begin + (end - 1 - done) : done;
      const std::int64_t here = first % extent;
      const std::int64_t rows = std::min({most, end - done, back ? here + 1 : extent - here});
      body(RowStretch{row(first), rows, dim, back});
      done += rows;
    }
  }

  /// Every operand's first element of a row.
  core::LoopPointers row(std::int64_t index) const {
    core::LoopPointers at;
    for (int k = 0; k < loop_.operands; ++k) at[k] = loop_.operand[k].base;
    for (int d = loop_.rank - 1; d >= 0 && index > 0; --d) {
      if (d == scan_.axis) continue;
      const std::int64_t here = index % loop_.extent[d];
      index /= loop_.extent[d];
      for (int k = 0; k < loop_.operands; ++k) {
        if (at[k] != nullptr) at[k] += here * loop_.operand[k].stride[d];
      }
    }
    return at;
  }

  /// Elements start … start + n - 1 of a row.
  RowRun run_of(const core::LoopPointers& row, std::int64_t start, std::int64_t n) const {
    RowRun run = row_run(kernel_);
    for (int k = 0; k < kernel_.inputs; ++k) {
      const std::int64_t step = loop_.operand[k].stride[scan_.axis];
      run.input[k] = row[k] == nullptr ? nullptr : row[k] + start * step;
      run.input_back[k] = step < 0;
    }
    run.writes = true;
    run.streamed = streamed_;
    for (int k = 0; k < kernel_.outputs; ++k) {
      const core::LoopOperand& op = loop_.operand[kernel_.inputs + k];
      const std::int64_t step = k == kEdgeOutput ? 0 : op.stride[scan_.axis];
      std::byte* const to = row[kernel_.inputs + k];
      if (to == nullptr) continue;
      run.output[k] = to + start * step;
      run.output_back = run.output_back || step < 0;
      const auto line_end = reinterpret_cast<std::uintptr_t>(run.output[k] + (step < 0 ? op.element_bytes : 0));
      if (k != kEdgeOutput && line_end % std::uintptr_t{kLine} != 0) run.streamed = false;
    }
    run.n = n;
    run.position_step = scan_.descends ? -1 : 1;
    run.position = scan_.descends ? length_ - 1 - start : start;
    const bool has_edge = scan_.edge == ScanEdge::First ? start == 0 : start + n == length_;
    if (scan_.edge != ScanEdge::None && has_edge) {
      run.edge = scan_.edge;
      run.edge_input = row[kernel_.inputs + kernel_.outputs];
    }
    return run;
  }

  /// Whole rows.
  RowRun run_of(const RowStretch& stretch) const {
    RowRun run = run_of(stretch.first, 0, length_);
    run.rows = stretch.rows;
    const auto stride = [&](int k) {
      if (stretch.dim < 0) return std::int64_t{0};
      const std::int64_t up = loop_.operand[k].stride[stretch.dim];
      return stretch.back ? -up : up;
    };
    for (int k = 0; k < kernel_.inputs; ++k) run.input_row[k] = stride(k);
    for (int k = 0; k < kernel_.outputs; ++k) {
      run.output_row[k] = stride(kernel_.inputs + k);
      const bool aligned = run.output[k] == nullptr || k == kEdgeOutput || run.output_row[k] % kLine == 0;
      if (!aligned && run.rows > 1) run.streamed = false;
    }
    run.edge_row = stride(kernel_.inputs + kernel_.outputs);
    return run;
  }

  /// Segment q of a row.
  RowRun segment(const core::LoopPointers& row, std::int64_t q) const {
    const std::int64_t start = q * kRowSegment;
    return run_of(row, start, std::min(kRowSegment, length_ - start));
  }

  /// Gives a run its fed input: the first element's value, before which the others' lie.
  void feed(RowRun& run, const FeedValues& values) const {
    run.input[kernel_.inputs] = reinterpret_cast<const std::byte*>(values.first);
    run.input_back[kernel_.inputs] = true;
    run.input_row[kernel_.inputs] = -run.n * kPartBytes;
    run.in_lanes = values.in_lanes;
  }

  /// The lowest address of an input's elements `elements` and `rows` further on than those of a run, wherever that is:
  /// rows follow each other in memory, mostly.
  const std::byte* ahead(const RowRun& run, int input, std::int64_t elements, std::int64_t rows = 0) const {
    const std::int64_t step = loop_.operand[input].stride[scan_.axis];
    const std::int64_t row = run.input_row[input];
    const std::int64_t within = step < 0 ? (run.n - 1) * step + (run.rows - 1) * row : 0;
    const std::int64_t lowest = elements * step + rows * row + within;
    const auto from = reinterpret_cast<std::uintptr_t>(run.input[input]);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): it may lie outside of the tensor, and is fetched but never read
    return reinterpret_cast<const std::byte*>(from + static_cast<std::uintptr_t>(lowest));
  }

  const ScanKernel& kernel() const { return kernel_; }

 private:
  static constexpr std::int64_t kLine = 64;

  const ScanPass& scan_;
  const ScanKernel& kernel_;
  const core::StridedLoop& loop_;
  std::int64_t length_;
  bool streamed_;
};

/// What a feed has to say about each element of a segment. It runs the other way, and so its own segments begin
/// elsewhere: two of them have a part in it.
class RowFeed {
 public:
  explicit RowFeed(const Rows& rows) : rows_(rows), kernel_(*rows.kernel().feed) {}

  std::int64_t segments() const { return row_segments(rows_.length()); }

  /// The prefix before each of the feed's segments in a row, from the second on.
  void find_prefixes(const core::LoopPointers& row, const SegmentStates& prefixes) const {
    for (std::int64_t q = 0; q + 1 < segments(); ++q) find_total(row, q, prefixes);
    totals_to_prefixes(prefixes);
  }
  void find_total(const core::LoopPointers& row, std::int64_t q, const SegmentStates& totals) const {
    RowRun run = run_of(row, q, kRowSegment);
    run.total = totals.at(q);
    kernel_.row(run);
  }
  void totals_to_prefixes(const SegmentStates& states) const {
    OneColumnFold fold(kernel_);
    for (std::int64_t q = 0; q < segments(); ++q) replace_total(fold, kernel_.parts, states.at(q), q + 1 < segments());
  }

  /// The values for a row's elements start … start + n - 1, where n is at most kRowSegment + 1, in `values`, which has
  /// room for kValues. `ahead` is wanted soon after.
  FeedValues values_of(const core::LoopPointers& row, const SegmentStates& prefixes, std::int64_t start, std::int64_t n,
                       double* values, const std::byte* ahead = nullptr) const {
    // In the feed's own order the elements are first … last.
    const std::int64_t last = rows_.length() - 1 - start;
    const std::int64_t first = last - (n - 1);
    const std::int64_t from = first / kRowSegment * kRowSegment;
    const bool in_lanes = first % kernel_.row_batch == 0 && (last + 1) % kernel_.row_batch == 0;
    for (std::int64_t t = from; t <= last; t += kRowSegment) {
      const std::int64_t q = t / kRowSegment;
      RowRun segment = run_of(row, q, std::min(kRowSegment, last + 1 - t));
      segment.prefix = q == 0 ? nullptr : prefixes.at(q);
      segment.writes = true;
      segment.output[0] = reinterpret_cast<std::byte*>(values + (t - from));
      segment.in_lanes = in_lanes;
      segment.ahead = ahead;
      kernel_.row(segment);
    }
    return {values + (last - from), in_lanes};
  }
  static constexpr std::int64_t kValues = 2 * kRowSegment;

  /// The same for whole rows, of kRowSegment elements at most altogether. The last row comes first, so that all of it
  /// is the gradient's way in reverse.
  FeedValues values_of(const RowStretch& stretch, const RowRun& gradient, double* values,
                       const std::byte* ahead) const {
    core::LoopPointers last = stretch.first;
    const std::int64_t row = gradient.input_row[kFeedInput];
    last[kFeedInput] += (stretch.rows - 1) * row;
    RowRun run = run_of(last, 0, rows_.length());
    run.rows = stretch.rows;
    run.input_row[0] = -row;
    run.output[0] = reinterpret_cast<std::byte*>(values);
    run.output_row[0] = run.n * kPartBytes;
    run.writes = true;
    run.in_lanes = run.n % kRowLane == 0 && run.rows * run.n % kernel_.row_batch == 0;
    run.ahead = ahead;
    kernel_.row(run);
    return {values + run.rows * run.n - 1, run.in_lanes};
  }

 private:
  /// n elements from the first of the feed's segment q on, for their states alone.
  RowRun run_of(const core::LoopPointers& row, std::int64_t q, std::int64_t n) const {
    const RowRun here = rows_.run_of(row, rows_.length() - 1 - q * kRowSegment, 1);
    RowRun run = row_run(kernel_);
    run.input[0] = here.input[kFeedInput];
    run.input_back[0] = !here.input_back[kFeedInput];
    run.n = n;
    run.position = here.position;
    run.position_step = -here.position_step;
    return run;
  }

  const Rows& rows_;
  const ScanKernel& kernel_;
};

}  // namespace planck::cpu
