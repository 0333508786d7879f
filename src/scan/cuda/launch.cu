// Scans on a CUDA stream: from a job to tasks for the kernels, and what they need of the workspace.
//
// A gradient that needs what a scan from the other end finds (a product before each element, winners' positions, the
// values of 16-bit LogCumsumExp) gets it as one more input, which that scan puts into the workspace first.
#include <limits>

#include "cuda/entries.hpp"
#include "cuda/launch.hpp"
#include "scan/carry.hpp"
#include "scan/cuda/kernels.hpp"
#include "scan/cuda/make_task.hpp"
#include "scan/cuda/segments.cuh"

namespace planck::cuda {
namespace {

using core::Status;

/// A count of bytes or words that sticks at the largest number.
class Count {
 public:
  constexpr Count(std::uint64_t value) : value_(value) {}  // NOLINT(google-explicit-constructor): it is a number
  friend constexpr Count operator+(Count a, Count b) {
    return a.value_ > kMost - b.value_ ? kMost : a.value_ + b.value_;
  }
  friend constexpr Count operator*(Count a, Count b) {
    return b.value_ != 0 && a.value_ > kMost / b.value_ ? kMost : a.value_ * b.value_;
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  static constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t value_;
};

/// The axis among a tensor's elements.
struct Axis {
  std::int64_t rows = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;

  template <class Extents>
  Axis(const Extents& extent, int rank, int axis) : length(extent[axis]) {
    for (int d = 0; d < rank; ++d) {
      if (d != axis) rows *= extent[d];
      if (d > axis) inner *= extent[d];
    }
  }
};

constexpr std::int64_t kMostParts = scan::kStateWords;

/// The parts of the workspace, in words: those of a cut scan for all its passes, then a gradient's fed input.
struct ScanPlaces {
  std::int64_t states;
  std::int64_t ends;
  std::int64_t edges;
  std::int64_t row_words;
};
ScanPlaces places_of(const ScanSchedule& schedule, std::int64_t rows) {
  const std::int64_t segments = rows * schedule.segments;
  ScanPlaces places{};
  places.ends = segments * kMostParts;
  places.edges = places.ends + segments * kMostParts * kTileLevel;
  places.row_words = places.edges + segments * kScanInputs;
  return places;
}
/// All of it, for one length of the axis.
Count words_of(const ScanJob& job, const Axis& axis, std::int64_t length) {
  const ScanSchedule schedule(axis.rows, length, axis.inner);
  const auto rows = static_cast<std::uint64_t>(axis.rows);
  Count words = 0;
  if (schedule.cut() && !job.segments) {
    const auto segments = static_cast<std::uint64_t>(schedule.segments);
    words = Count(rows) * (Count(segments) * (kMostParts + kMostParts * kTileLevel + kScanInputs) + kRowWords);
  }
  if (job.backward && job.key.is_fed()) words = words + Count(rows) * static_cast<std::uint64_t>(length);
  return words;
}

// ---- passes ----

/// One pass over tasks of a shape, with the workspace's places put in.
class Passes {
 public:
  Passes(const Run& run, const ScanJob& job, const Axis& axis, std::int64_t length, std::int64_t* words)
      : run_(run), job_(job), schedule_(axis.rows, length, axis.inner), words_(words), rows_(axis.rows) {
    if (job.segments) schedule_.segments = 0;
  }

  bool columns() const { return schedule_.columns; }
  /// After what cut scans keep.
  std::int64_t* fed_values() const {
    return schedule_.cut() ? words_ + places_of(schedule_, rows_).row_words + rows_ * kRowWords : words_;
  }

  Status forward(ScanTask& task, const scan::ScanKey& key) const noexcept {
    ScanSegments segments{};
    if (job_.segments) segments = segments_along(job_, task.length, false, false);
    const scan::CudaScan scan = prepared(task, segments);
    const bool floats = is_float(key.element);
    switch (key.kind) {
      case ScanKind::Cumsum:
      case ScanKind::Cumprod:
        return scan::cuda_sums(scan, key.kind, floats);
      case ScanKind::Cummax:
      case ScanKind::Cummin: {
        const auto run = floats ? scan::cuda_float_extrema : scan::cuda_integer_extrema;
        return run(scan, key.kind == ScanKind::Cummax, key.ties == ScanTies::Last, key.indices.has_value());
      }
      case ScanKind::LogCumsumExp:
        return scan::cuda_exponentials(scan, false);
      default:
        return scan::cuda_recurrence(scan);
    }
  }

  Status backward(ScanTask& task) const noexcept {
    ScanSegments segments{};
    if (job_.segments) segments = segments_along(job_, task.length, true, job_.key.exclusive);
    const scan::CudaScan scan = prepared(task, segments);
    if (job_.key.kind == ScanKind::LogCumsumExp) return scan::cuda_exponentials(scan, true);
    return scan::cuda_gradient(scan, job_.key.kind);
  }

 private:
  scan::CudaScan prepared(ScanTask& task, const ScanSegments& segments) const {
    collapse_lanes(task);
    if (schedule_.cut()) {
      const ScanPlaces places = places_of(schedule_, rows_);
      task.states = words_ + places.states;
      task.ends = words_ + places.ends;
      task.edges = words_ + places.edges;
      task.row_words = words_ + places.row_words;
    }
    task.level = schedule_.level;
    task.segments = schedule_.segments;
    return {run_, task, schedule_, job_.segments ? &segments : nullptr};
  }

  const Run& run_;
  const ScanJob& job_;
  ScanSchedule schedule_;
  std::int64_t* words_;
  std::int64_t rows_;
};

// ---- ends ----

/// +0 in an operand's first step of every row.
__global__ void __launch_bounds__(kColumnThreads) store_zeros(const ScanTask task, const int slot) {
  for (std::int64_t row = std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x; row < task.rows;
       row += std::int64_t{gridDim.x} * kColumnThreads) {
    store_value(row_of(task, slot, row), task.operand[slot].element, 0.0);
  }
}

/// +0 for what an exclusive gradient leaves out of each segment, or as the gradient of an empty one's initial state.
__global__ void __launch_bounds__(kColumnThreads)
    store_segment_zeros(const ScanTask task, const ScanSegments segments, const int slot) {
  const ScanOperand& operand = task.operand[slot];
  for (std::int64_t item = std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x; item < task.rows * segments.count;
       item += std::int64_t{gridDim.x} * kColumnThreads) {
    const std::int64_t row = item / segments.count;
    const std::int64_t i = item - row * segments.count;
    const SegmentPlace place(segments, i);
    const bool state = slot == kScanOut + scan::kDInitial;
    if (state != (place.length == 0)) continue;
    const std::int64_t at = state ? i * segments.d_initial_step : (place.start + place.length - 1) * operand.step;
    store_value(row_of(task, slot, row) + at, operand.element, 0.0);
  }
}

/// A piece without elements passes on what it got.
__global__ void __launch_bounds__(kColumnThreads) pass_carries_on(const ScanTask task) {
  const ScanOperand& out = task.operand[kScanCarryOut];
  for (std::int64_t row = std::int64_t{blockIdx.x} * kColumnThreads + threadIdx.x; row < task.rows;
       row += std::int64_t{gridDim.x} * kColumnThreads) {
    std::byte* const to = row_of(task, kScanCarryOut, row);
    const CarryStart start(task, row);
    for (int word = scan::kCarryTotals; word < scan::kCarryValue; ++word) {
      word_at(to, out.step, word) = start.carry == nullptr ? 0 : word_at(start.carry, start.step, word);
    }
    start.store(task, to, out.step, start.value);
  }
}

std::int64_t row_blocks(const ScanTask& task) { return (task.rows + kColumnThreads - 1) / kColumnThreads; }

/// The workspace's first aligned word; null if there is none.
std::int64_t* words_in(const Workspace& workspace) {
  const auto address = reinterpret_cast<std::uintptr_t>(workspace.data);
  constexpr std::uintptr_t kMask = kWordBytes - 1;
  return workspace.data == nullptr ? nullptr : reinterpret_cast<std::int64_t*>((address + kMask) & ~kMask);
}

// ---- jobs ----

Status forward(const Run& run, const ScanJob& job) noexcept {
  const StridedLoop& loop = *job.loop;
  ScanTask task = make_task(job, loop);
  if (task.rows == 0) return {};
  const scan::ScanKey& key = job.key;
  set_forward(task, job);
  task.value = key.exclusive ? ScanValue::Exclusive : ScanValue::Inclusive;
  task.carry_id = scan::carry_id(key);
  task.carries_value = key.exclusive;
  const int inputs = key.row().inputs;
  for (int k = 0; k < inputs; ++k) set_operand(task, kScanIn + k, loop, job.axis, k, key.element);
  set_operand(task, kScanOut, loop, job.axis, inputs, key.element);
  if (key.indices) set_operand(task, kScanOut + 1, loop, job.axis, inputs + 1, *key.indices);
  if (key.initial) set_operand(task, kScanInitial, loop, job.axis, loop.operands - 1, key.element);
  if (job.carries != nullptr) {
    for (const int k : {scan::kCarryIn, scan::kCarryOut}) {
      set_operand(task, kScanCarryIn + k, *job.carries, job.axis, k, ElementKind::S64);
    }
  }
  if (task.length == 0) {
    if (task.operand[kScanCarryOut].base == nullptr) return {};
    return launch(run, row_blocks(task), kColumnThreads, pass_carries_on, task);
  }
  const Axis axis(loop.extent, loop.rank, job.axis);
  return Passes(run, job, axis, task.length, words_in(run.workspace)).forward(task, key);
}

/// The scan that a gradient needs something of, into `fed`.
Status feed(const ScanJob& job, const StridedLoop& loop, const Passes& passes, std::int64_t length,
            const ScanOperand& fed) noexcept {
  ScanTask task = make_task(job, loop);
  task.length = length;
  set_forward(task, job);
  scan::ScanKey key = job.key;
  const bool extremum = scan::is_extremum(key.kind);
  if (extremum) key.indices = ElementKind::S64;
  if (key.kind == ScanKind::Cumprod) task.value = ScanValue::Before;
  set_operand(task, kScanIn, loop, job.axis, scan::kX, key.element);
  task.operand[kScanOut + (extremum ? 1 : 0)] = fed;
  return passes.forward(task, key);
}

/// What no element of a segment says of a gradient, whose task's steps are those of the job.
Status store_zeros_of(const Run& run, const ScanJob& job, const ScanTask& task, std::int64_t length) noexcept {
  const int slot = job.key.exclusive ? kScanOut : kScanOut + scan::kDInitial;
  if (task.operand[slot].base == nullptr) return {};
  const std::int64_t items = task.rows * job.segments->count;
  return launch(run, (items + kColumnThreads - 1) / kColumnThreads, kColumnThreads, store_segment_zeros, task,
                segments_along(job, length, false, false), slot);
}

Status backward(const Run& run, const ScanJob& job) noexcept {
  const StridedLoop& loop = *job.loop;
  const scan::ScanKey& key = job.key;
  ScanTask task = make_task(job, loop);
  if (task.rows == 0) return {};
  const std::int64_t n = task.length;
  task.length = n > 0 && key.exclusive && !job.segments ? n - 1 : n;
  for (int k = 0; k < job.inputs; ++k) {
    const bool winners = k == scan::kIndices && key.indices;
    set_operand(task, kScanIn + k, loop, job.axis, k, winners ? *key.indices : key.element);
  }
  for (int k = 0; k < job.outputs; ++k) {
    set_operand(task, kScanOut + k, loop, job.axis, job.inputs + k, key.element);
  }
  if (n == 0 && !job.segments) {
    // No element uses the initial state.
    if (task.operand[kScanOut + scan::kDInitial].base == nullptr) return {};
    return launch(run, row_blocks(task), kColumnThreads, store_zeros, task, kScanOut + scan::kDInitial);
  }
  set_operand(task, kScanInitial, loop, job.axis, job.inputs + job.outputs, key.element);
  ScanTask zeros = task;  // of an exclusive scan, whose last element nothing uses
  if (!job.segments) zeros.operand[kScanOut].base += (n - 1) * zeros.operand[kScanOut].step;
  if (task.length > 0) {
    const Axis axis(loop.extent, loop.rank, job.axis);
    const Passes passes(run, job, axis, task.length, words_in(run.workspace));
    if (key.is_fed()) {
      const bool extremum = scan::is_extremum(key.kind);
      const ScanOperand fed = fed_operand(job, loop, task, passes.columns(), passes.fed_values(),
                                          extremum ? ElementKind::S64 : ElementKind::F64);
      PLANCK_TRY(feed(job, loop, passes, task.length, fed));
      task.operand[kScanIn + (extremum ? scan::kIndices : 2)] = fed;
    }
    for (int slot = kScanIn; slot < kScanInitial; ++slot) {
      if (slot != kScanOut + scan::kDInitial) flip(task, slot);
    }
    task.position = job.reverse ? 0 : n - 1;
    task.position_step = job.reverse ? 1 : -1;
    task.moved_dy = key.exclusive;
    task.moved_y = key.exclusive && key.reads_y();
    PLANCK_TRY(passes.backward(task));
  }
  if (job.segments) return store_zeros_of(run, job, zeros, n);
  if (!key.exclusive) return {};
  return launch(run, row_blocks(zeros), kColumnThreads, store_zeros, zeros, static_cast<int>(kScanOut));
}

}  // namespace

std::size_t scan_workspace(const ScanJob& job) noexcept {
  const Axis axis(job.loop->extent, job.loop->rank, job.axis);
  if (axis.rows == 0 || axis.length == 0) return 0;
  std::uint64_t words = words_of(job, axis, axis.length).value();
  // An exclusive gradient has one element less, and that may be cut otherwise.
  if (job.key.exclusive) words = std::max(words, words_of(job, axis, axis.length - 1).value());
  if (words == 0) return 0;
  constexpr std::uint64_t kMostSkipped = kWordBytes - 1;  // where the workspace is not aligned
  return static_cast<std::size_t>((Count(words) * kWordBytes + kMostSkipped).value());
}

Status prepare_scan(const ScanJob& job, Selection& selection) noexcept {
  selection.want_workspace(scan_workspace(job));
  return {};
}

Status run_scan(const Run& run, const ScanJob& job) noexcept {
  return job.backward ? backward(run, job) : forward(run, job);
}

}  // namespace planck::cuda
