// Rows that threads share, in segments.
#include <algorithm>
#include <atomic>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "scan/cpu/rows.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

/// A row in segments that threads share: the totals of some segments, then the prefix before each, then the segments.
/// That is one hand-over; a few for each chunk where what a segment's last step leaves for the next comes from a feed.
class CutRow {
 public:
  /// For each segment the state before it, perhaps a feed's too, and perhaps what the step before it left: no more than
  /// scan_workspace asks for.
  static std::int64_t values_needed(const ScanKernel& kernel, std::int64_t length) {
    const int feed_parts = kernel.feed == nullptr ? 0 : kernel.feed->parts;
    return row_segments(length) * (kernel.parts + feed_parts + (kernel.lags ? 1 : 0));
  }

  CutRow(const Stream& stream, const Rows& rows, const core::LoopPointers& row, double* values)
      : stream_(stream),
        rows_(rows),
        kernel_(rows.kernel()),
        row_(row),
        segments_(row_segments(rows.length())),
        prefixes_{values, kernel_.parts},
        feed_prefixes_{prefixes_.at(segments_), kernel_.feed == nullptr ? 0 : kernel_.feed->parts},
        lags_(feed_prefixes_.at(segments_)) {}

  void run(std::int64_t element_bytes) noexcept {
    const std::int64_t segment_bytes = kRowSegment * element_bytes;
    if (kernel_.feed != nullptr) {
      const RowFeed feed(rows_);
      each_segment(0, segments_ - 1, segment_bytes, [&](std::int64_t q) { feed.find_total(row_, q, feed_prefixes_); });
      feed.totals_to_prefixes(feed_prefixes_);
    }
    OneColumnFold fold(kernel_);
    if (kernel_.lags) lags_[0] = kernel_.lag_start;
    if (!lags_from_feed()) return hand_on(fold, segment_bytes);
    // What is read twice, chunk by chunk, is still in the last-level cache the second time.
    const std::int64_t chunk_bytes = stream_.executor().cache_bytes() / 4;
    const std::int64_t chunk = std::max<std::int64_t>(chunk_bytes / segment_bytes, stream_.threads());
    for (std::int64_t begin = 0; begin < segments_; begin += chunk) {
      const std::int64_t end = std::min(begin + chunk, segments_);
      // Of the last segment nobody needs the total.
      each_segment(begin, std::min(end, segments_ - 1), segment_bytes,
                   [&](std::int64_t q) { find_total_and_lag(q, q == begin); });
      for (std::int64_t q = begin; q < end; ++q) replace_total(fold, kernel_.parts, prefixes_.at(q), q + 1 < segments_);
      each_segment(begin, end, segment_bytes, [&](std::int64_t q) {
        alignas(64) double values[RowFeed::kValues];
        scan_segment(q, values);
      });
    }
  }

 private:
  bool needs_feed() const { return kernel_.feed != nullptr && kernel_.states_need_feed; }
  bool lags_from_feed() const { return kernel_.lags && needs_feed(); }

  /// Threads take pieces of the row in turn: the totals of a piece's segments, then the prefix from whoever has the
  /// piece before, then its results, while the piece is still in the second-level cache. A thread that has to wait
  /// sleeps: a piece is only taken by a running thread, so the one before it is being worked on.
  void hand_on(OneColumnFold& fold, std::int64_t segment_bytes) noexcept {
    const int threads = stream_.threads();
    const std::int64_t most = std::clamp(segments_ / (kTasksPerThread * threads), std::int64_t{1}, kPieceSegments);
    // What a feed took long to find is used twice; there is room for that of one segment.
    const std::int64_t size = needs_feed() ? 1 : most;
    std::atomic<std::int64_t> taken{0};
    std::atomic<std::int64_t> done{0};  // segments whose prefix is known
    if (kernel_.lags) find_lags(segment_bytes);
    for_each_range(stream_, threads, segments_ * segment_bytes / threads, [&](std::int64_t, std::int64_t) noexcept {
      alignas(64) double values[RowFeed::kValues];
      for (;;) {
        const std::int64_t begin = taken.fetch_add(size, std::memory_order_relaxed);
        if (begin >= segments_) break;
        const std::int64_t end = std::min(begin + size, segments_);
        FeedValues fed{};
        // Of the last segment nobody needs the total.
        for (std::int64_t q = begin; q < std::min(end, segments_ - 1); ++q) fed = find_total(q, values);
        for (std::int64_t known; (known = done.load(std::memory_order_acquire)) != begin;) done.wait(known);
        for (std::int64_t q = begin; q < end; ++q)
          replace_total(fold, kernel_.parts, prefixes_.at(q), q + 1 < segments_);
        done.store(end, std::memory_order_release);
        done.notify_all();
        for (std::int64_t q = begin; q < end; ++q) scan_segment(q, values, fed);
      }
      if (rows_.streamed()) stream_fence();
    });
  }
  /// What the step before each segment leaves, before anything is overwritten.
  void find_lags(std::int64_t segment_bytes) const noexcept {
    const std::int64_t line_bytes = std::min<std::int64_t>(segment_bytes, kLagBytes);
    each_segment(1, segments_, line_bytes, [&](std::int64_t q) { lags_[q] = lag_before(q, {}); });
  }

  template <class Body>
  void each_segment(std::int64_t begin, std::int64_t end, std::int64_t segment_bytes, const Body& body) const noexcept {
    for_each_range(stream_, end - begin, segment_bytes, [&](std::int64_t from, std::int64_t to) noexcept {
      for (std::int64_t q = from; q < to; ++q) body(begin + q);
      if (rows_.streamed()) stream_fence();
    });
  }

  double lag_before(std::int64_t q, const FeedValues& fed) const noexcept {
    RowRun step = rows_.run_of(row_, q * kRowSegment - 1, 1);
    if (fed.first != nullptr) rows_.feed(step, fed);
    step.writes = false;
    kernel_.row(step);
    return step.lag;
  }

  /// Gives what a feed says, if that was needed.
  FeedValues find_total(std::int64_t q, double* values) const noexcept {
    FeedValues fed{};
    if (needs_feed()) fed = feed_values(q, 0, values, nullptr);
    find_total(q, fed, kernel_.lags ? lags_[q] : kernel_.lag_start);
    return fed;
  }
  /// And what the segment's last step leaves. What the step before it left is known for the first of a chunk, whose
  /// neighbour may have been overwritten since; for the others it is found anew, as the neighbour may not be there yet.
  void find_total_and_lag(std::int64_t q, bool lag_known) const noexcept {
    const std::int64_t more = lag_known ? 0 : 1;
    alignas(64) double values[RowFeed::kValues];
    const FeedValues fed = feed_values(q, more, values, nullptr);
    const double lag = lag_known ? lags_[q] : lag_before(q, fed);
    lags_[q + 1] = find_total(q, {fed.first - more, fed.in_lanes}, lag);
  }
  double find_total(std::int64_t q, const FeedValues& fed, double lag) const noexcept {
    RowRun run = rows_.segment(row_, q);
    if (fed.first != nullptr) rows_.feed(run, fed);
    run.lag = lag;
    run.writes = false;
    run.total = prefixes_.at(q);
    kernel_.row(run);
    return run.lag;
  }
  /// For a segment, and `more` elements before it.
  FeedValues feed_values(std::int64_t q, std::int64_t more, double* values, const std::byte* ahead) const noexcept {
    const std::int64_t start = q * kRowSegment;
    const std::int64_t n = std::min(kRowSegment, rows_.length() - start);
    return RowFeed(rows_).values_of(row_, feed_prefixes_, start - more, n + more, values, ahead);
  }

  /// `fed` if it is known.
  void scan_segment(std::int64_t q, double* values, FeedValues fed = {}) const noexcept {
    RowRun run = rows_.segment(row_, q);
    if (kernel_.feed != nullptr) {
      if (fed.first == nullptr) fed = feed_values(q, 0, values, rows_.ahead(run, 0, 0));
      rows_.feed(run, fed);
      run.ahead = rows_.ahead(run, kFeedInput, kRowSegment);
    }
    run.prefix = q == 0 ? nullptr : prefixes_.at(q);
    if (kernel_.lags) run.lag = lags_[q];
    kernel_.row(run);
  }

  /// Of a piece: 32 Ki elements.
  static constexpr std::int64_t kPieceSegments = 8;
  /// A lag is one element, from memory that has not been read yet.
  static constexpr std::int64_t kLagBytes = 1 << 10;

  const Stream& stream_;
  const Rows& rows_;
  const ScanKernel& kernel_;
  const core::LoopPointers& row_;
  std::int64_t segments_;
  SegmentStates prefixes_;
  SegmentStates feed_prefixes_;
  double* lags_;
};

}  // namespace

std::int64_t cut_row_values(const ScanPass& scan) noexcept {
  return CutRow::values_needed(scan.kernel, scan.loop.extent[scan.axis]);
}

void run_cut_rows(const Stream& stream, const ScanPass& scan, double* values) noexcept {
  const Rows rows(stream, scan);
  const std::int64_t count = scan.loop.count() / rows.length();
  for (std::int64_t r = 0; r < count; ++r) {
    const core::LoopPointers row = rows.row(r);
    CutRow(stream, rows, row, values).run(scan.loop.element_bytes());
  }
}

}  // namespace planck::cpu
