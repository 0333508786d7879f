// Rows, each by one thread.
#include "scan/cpu/rows.hpp"

#include <algorithm>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

/// Each row by one thread.
void run_whole(const Stream& stream, const Rows& rows, std::int64_t count, std::int64_t row_bytes) noexcept {
  const ScanKernel& kernel = rows.kernel();
  const std::int64_t length = rows.length();
  if (kernel.feed == nullptr) {
    return for_each_range(stream, count, row_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
      rows.for_each(begin, end, end - begin, [&](const RowStretch& stretch) {
        RowRun run = rows.run_of(stretch);
        kernel.row(run);
      });
      if (rows.streamed()) stream_fence();
    });
  }
  for_each_range(stream, count, row_bytes, [&](std::int64_t begin, std::int64_t end) noexcept {
    const RowFeed feed(rows);
    double stack[kStackRowValues];
    const SegmentStates prefixes{stack, kernel.feed->parts};
    alignas(64) double values[RowFeed::kValues];
    const std::int64_t most = std::max<std::int64_t>(kRowSegment / length, 1);
    rows.for_each(begin, end, most, [&](const RowStretch& stretch) {
      if (length <= kRowSegment) {
        // The feed asks for what the gradient reads beside it, and that for what the next feed will.
        RowRun run = rows.run_of(stretch);
        rows.feed(run, feed.values_of(stretch, run, values, rows.ahead(run, 0, 0)));
        run.ahead = rows.ahead(run, kFeedInput, 0, run.rows);
        kernel.row(run);
        return;
      }
      const core::LoopPointers& row = stretch.first;
      feed.find_prefixes(row, prefixes);
      OneColumnFold fold(kernel);
      double lag = kernel.lag_start;
      for (std::int64_t q = 0; q < row_segments(length); ++q) {
        RowRun run = rows.segment(row, q);
        rows.feed(run, feed.values_of(row, prefixes, q * kRowSegment, run.n, values, rows.ahead(run, 0, 0)));
        run.ahead = rows.ahead(run, kFeedInput, kRowSegment);
        double total[kMaxScanParts];
        run.prefix = reinterpret_cast<const double*>(fold->prefix());
        run.lag = lag;
        run.total = run.n == kRowSegment ? total : nullptr;
        kernel.row(run);
        lag = run.lag;
        if (run.n == kRowSegment) fold->push_block(kCarryLevel, reinterpret_cast<const std::byte*>(total));
      }
    });
    if (rows.streamed()) stream_fence();
  });
}

}  // namespace

void run_whole_rows(const Stream& stream, const ScanPass& scan) noexcept {
  const Rows rows(stream, scan);
  run_whole(stream, rows, scan.loop.count() / rows.length(), rows.length() * scan.loop.element_bytes());
}

}  // namespace planck::cpu
