// Ragged batches: long segments one after the other by all threads, the others whole by one thread each.
//
// A segment is run by the schedules of a job without segments, so what is here decides who does it, and with what part
// of the workspace: no bit of a result.
#include "scan/cpu/ragged.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <limits>

#include "cpu/parallel.hpp"
#include "cpu/streaming.hpp"
#include "scan/cpu/inclusive.hpp"
#include "scan/cpu/schedule.hpp"

namespace planck::cpu {
namespace {

using backend::Run;
using core::StridedLoop;
using scan::ScanJob;
using scan::Segments;

/// Segments longer than this are shared by all threads: one of them alone would keep a thread busy when the others are
/// done. Shorter ones would not be cut finer than they are.
std::int64_t longest_alone(std::int64_t length, std::int64_t step_bytes, int threads) {
  if (threads <= 1) return length;
  return std::max(length / (2 * threads), kInlineBytes / std::max<std::int64_t>(step_bytes, 1));
}

/// The calling thread alone, for schedules that would otherwise look for more. Whether outputs are stored past the
/// caches is the whole batch's to decide, of which a segment knows nothing.
class OneThread final : public Executor {
 public:
  explicit OneThread(bool streamed) : cache_bytes_(streamed ? 0 : std::numeric_limits<std::int64_t>::max()) {}
  int concurrency() const noexcept override { return 1; }
  void for_each(std::int64_t count, int, Task task, void* context) noexcept override {
    for (std::int64_t i = 0; i < count; ++i) task(context, i);
  }
  std::int64_t cache_bytes() const noexcept override { return cache_bytes_; }

 private:
  std::int64_t cache_bytes_;
};

/// Equal parts of a workspace, which tasks take and give back. Who comes too late has none, and is content.
class Shares {
 public:
  Shares(const Workspace& workspace, int threads)
      : workspace_(workspace), count_(std::min(threads, kMost)), free_(~std::uint64_t{0} >> (kMost - count_)) {
    bytes_ = workspace.bytes / static_cast<std::size_t>(count_) / kPartBytes * kPartBytes;
  }

  int take() noexcept {
    std::uint64_t free = free_.load(std::memory_order_relaxed);
    while (free != 0 && !free_.compare_exchange_weak(free, free & (free - 1), std::memory_order_acquire)) continue;
    return free == 0 ? -1 : std::countr_zero(free);
  }
  void give_back(int share) noexcept {
    if (share >= 0) free_.fetch_or(std::uint64_t{1} << share, std::memory_order_release);
  }
  Workspace at(int share) const noexcept {
    if (share < 0 || bytes_ == 0) return {};
    return {static_cast<std::byte*>(workspace_.data) + static_cast<std::size_t>(share) * bytes_, bytes_};
  }

 private:
  static constexpr int kMost = 64;
  Workspace workspace_;
  int count_;
  std::size_t bytes_;
  std::atomic<std::uint64_t> free_;
};

/// The first segment that begins at `place` or later.
std::int64_t first_from(const Segments& segments, std::int64_t place) {
  std::int64_t low = 0;
  for (std::int64_t high = segments.count; low < high;) {
    const std::int64_t middle = low + (high - low) / 2;
    if (segments.offset(middle) < place) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

/// Row r of a loop alone.
StridedLoop row_of(const StridedLoop& loop, int axis, std::int64_t r) {
  StridedLoop row = loop;
  for (int d = loop.rank - 1; d >= 0; --d) {
    if (d == axis) continue;
    const std::int64_t index = r % loop.extent[d];
    r /= loop.extent[d];
    row.extent[d] = 1;
    for (int k = 0; k < loop.operands; ++k) {
      if (row.operand[k].base != nullptr) row.operand[k].base += index * loop.operand[k].stride[d];
    }
  }
  return row;
}

/// The segments of a job, in the order in which they are run.
class SegmentLoop {
 public:
  SegmentLoop(const Run& run, const ScanJob& job, RunScan run_one)
      : run_(run), job_(job), run_one_(run_one), segments_(*job.segments), length_(job.loop->extent[job.axis]) {
    const StridedLoop& loop = *job.loop;
    const std::int64_t rows = length_ == 0 ? 0 : loop.count() / length_;
    step_bytes_ = rows * loop.element_bytes();
    const bool small = length_ * step_bytes_ < kInlineBytes;
    threads_ = small ? 1 : run.stream.threads();
    alone_ = longest_alone(length_, step_bytes_, threads_);
    // Where segments lie behind one another in memory, row by row: so much is fetched ahead. Rows of short ones are
    // side by side in registers instead.
    constexpr std::int64_t kShort = 32;
    const bool along = std::abs(loop.operand[0].stride[job.axis]) == loop.operand[0].element_bytes;
    rows_ = along && length_ / kShort >= segments_.count ? std::max<std::int64_t>(rows, 1) : 1;
    const ScanKernel& kernel = scan_kernel(run.choice);
    streamed_ = !small && worth_streaming(run.stream, loop, kernel.inputs, kernel.outputs);
  }

  void run() const noexcept {
    // There are fewer than 2 * threads of them.
    for (std::int64_t i = 0; threads_ > 1 && i < segments_.count; ++i) {
      if (is_long(i)) run_segment(run_, job_, i);
    }
    OneThread executor(streamed_);
    const Stream stream = Stream::cpu(executor, 1);
    Shares shares(run_.workspace, threads_);
    for_each_range(run_.stream, rows_ * length_, step_bytes_ / rows_,
                   [&](std::int64_t begin, std::int64_t end) noexcept {
                     const int share = shares.take();
                     run_range({run_.plan, stream, shares.at(share), run_.choice}, begin, end);
                     shares.give_back(share);
                   });
  }

 private:
  bool is_long(std::int64_t i) const { return segments_.offset(i + 1) - segments_.offset(i) > alone_; }

  void run_segment(const Run& run, const ScanJob& job, std::int64_t i) const noexcept {
    StridedLoop loop = *job.loop;
    run_one_(run, scan::job_of_segment(job, i, &loop));
  }

  /// Those that begin at these places, counted from row to row: about as many elements as any other task has.
  void run_range(const Run& run, std::int64_t begin, std::int64_t end) const noexcept {
    if (rows_ == 1) return run_places(run, job_, begin, end);
    while (begin < end) {
      const std::int64_t r = begin / length_;
      const std::int64_t row_begin = r * length_;
      StridedLoop loop = row_of(*job_.loop, job_.axis, r);
      ScanJob row = job_;
      row.loop = &loop;
      run_places(run, row, begin - row_begin, std::min(end - row_begin, length_));
      begin = std::min(end, row_begin + length_);
    }
  }

  void run_places(const Run& run, const ScanJob& job, std::int64_t begin, std::int64_t end) const noexcept {
    const std::int64_t last = end == length_ ? segments_.count : first_from(segments_, end);
    for (std::int64_t i = first_from(segments_, begin); i < last; ++i) {
      if (!is_long(i)) run_segment(run, job, i);
    }
  }

  const Run& run_;
  const ScanJob& job_;
  RunScan run_one_;
  const Segments& segments_;
  std::int64_t length_;
  std::int64_t step_bytes_;  ///< of one place along the axis, in all rows
  int threads_;
  std::int64_t alone_;  ///< the longest segment that one thread has
  std::int64_t rows_;   ///< that are taken one after the other
  bool streamed_;
};

}  // namespace

void run_segments(const Run& run, const ScanJob& job, RunScan run_one) noexcept {
  SegmentLoop(run, job, run_one).run();
}

std::size_t segments_workspace(std::int64_t rows, std::int64_t length, std::int64_t step_bytes,
                               const ScanStates& states, int threads) noexcept {
  const std::int64_t alone = std::min(length, longest_alone(length, step_bytes, threads));
  const std::size_t together = longest_scan_workspace(rows, length, states, threads);
  return std::max(together, static_cast<std::size_t>(threads) * longest_scan_workspace(rows, alone, states, 1));
}

}  // namespace planck::cpu
