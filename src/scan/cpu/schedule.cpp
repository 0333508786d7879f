// The choice of a scan's schedule on the CPU, and the workspace that it can use.
#include "scan/cpu/schedule.hpp"

#include <algorithm>

#include "core/workspace.hpp"
#include "cpu/parallel.hpp"
#include "scan/cpu/column_tiles.hpp"
#include "scan/cpu/rows.hpp"

namespace planck::cpu {
namespace {

ScanStates states_of(const ScanKernel& kernel) {
  return {kernel.parts, kernel.lags, kernel.feed == nullptr ? 0 : kernel.feed->parts};
}

/// Blocks that fill registers and threads.
constexpr std::int64_t kManyBlocks = 4 * kFewColumns;
constexpr int kLeastCutLevel = 2;

/// The level that makes enough blocks, if there is one.
Cut choose_cut(std::int64_t length) {
  Cut cut;
  for (int level = kCarryLevel; level >= kLeastCutLevel; --level) {
    cut.level = level;
    cut.blocks = (length - 1) / cut.size();
    if (cut.blocks >= kManyBlocks) return cut;
  }
  return cut.blocks >= kFewColumns ? cut : Cut{};
}

/// Memory for a cut scan: the stack where that is enough, or the workspace; empty if neither is.
template <class T>
std::span<T> memory_for(std::int64_t needed, std::span<T> stack, const Workspace& workspace) {
  const std::span<T> memory = needed <= std::ssize(stack) ? stack : core::values_in<T>(workspace);
  return std::ssize(memory) >= needed ? memory : std::span<T>();
}

/// Shorter rows, which leave half of a register's lanes empty, are better off side by side, if there are enough of them
/// to fill registers.
constexpr std::int64_t kShortRow = 32;
constexpr std::int64_t kManyRows = 16;
/// Places along longer ones do not fit the lanes of 32 bits that extrema are chosen in.
constexpr std::int64_t kLongestPlacedRow = std::int64_t{1} << 32;

/// Whether rows are the way: the elements along the axis lie side by side for every operand, in one order for all
/// inputs and in one for all outputs, and registers are filled that way. Two inputs in different orders, or one that is
/// broadcast along the axis, go as columns, at half the speed.
bool runs_along_rows(const ScanPass& scan) {
  const ScanKernel& kernel = scan.kernel;
  const std::int64_t length = scan.loop.extent[scan.axis];
  if (kernel.row == nullptr || (kernel.feed != nullptr && kernel.feed->row == nullptr)) return false;
  if (scan.carry_in() >= 0 || scan.carry_out() >= 0) return false;
  if (kernel.variant.position_bytes > 0 && length > kLongestPlacedRow) return false;
  if (length < kShortRow && scan.loop.count() / length >= kManyRows) return false;
  const auto in_one_order = [&](int begin, int end) {
    bool up = false;
    bool down = false;
    for (int k = begin; k < end; ++k) {
      const core::LoopOperand& op = scan.loop.operand[k];
      const std::int64_t step = op.stride[scan.axis];
      if (op.base == nullptr) continue;
      if (step != op.element_bytes && step != -op.element_bytes) return false;
      (step < 0 ? down : up) = true;
    }
    return !(up && down);
  };
  return in_one_order(0, kernel.inputs) &&
         in_one_order(kernel.inputs, kernel.inputs + std::min(kernel.outputs, kEdgeOutput));
}

bool feed_fits_whole_rows(const ScanKernel& kernel, std::int64_t length) {
  return kernel.feed == nullptr || row_segments(length) * kernel.feed->parts <= kStackRowValues;
}

/// Whether threads should share a row, or a whole one's feed has too many states for the stack.
bool rows_want_cut(const Stream& stream, const ScanPass& scan) {
  const std::int64_t length = scan.loop.extent[scan.axis];
  const std::int64_t segments = row_segments(length);
  const bool shared = segments > 1 && scan.loop.count() / length < stream.threads() && segments > stream.threads();
  return shared || !feed_fits_whole_rows(scan.kernel, length);
}

/// False where no way along rows has the memory that it needs.
bool run_along_rows(const Stream& stream, const ScanPass& scan, const Workspace& workspace) noexcept {
  if (scan.cuttable && rows_want_cut(stream, scan)) {
    double stack[kStackRowValues];
    const std::span<double> values = memory_for<double>(cut_row_values(scan), stack, workspace);
    if (!values.empty()) {
      run_cut_rows(stream, scan, values.data());
      return true;
    }
  }
  if (!feed_fits_whole_rows(scan.kernel, scan.loop.extent[scan.axis])) return false;
  run_whole_rows(stream, scan);
  return true;
}

void run_across_columns(const Stream& stream, const ScanPass& scan, const Workspace& workspace) noexcept {
  core::StridedLoop loop = scan.loop;
  const std::int64_t length = loop.extent[scan.axis];
  arrange_columns(loop, scan.axis);
  const std::int64_t all = loop.count() / length;
  const std::int64_t columns = loop.extent[loop.rank - 2];
  const std::int64_t strips = all / columns * ceil_div(columns, kFewColumns);  // the narrowest that are worth it
  const Cut cut = choose_cut(length);
  if (scan.cuttable && cut.blocks > 0 && (columns < kFewColumns || strips < stream.threads())) {
    std::uint64_t stack[kStackStates];
    const std::int64_t needed = cut_column_values(all, length, cut, states_of(scan.kernel));
    const std::span<std::uint64_t> states = memory_for<std::uint64_t>(needed, stack, workspace);
    if (!states.empty()) {
      return run_cut_columns(stream, scan, loop, cut, reinterpret_cast<std::byte*>(states.data()));
    }
  }
  run_whole_columns(stream, scan, loop, std::as_writable_bytes(core::values_in<std::uint64_t>(workspace)));
}

}  // namespace

std::size_t scan_workspace(std::int64_t rows, std::int64_t length, const ScanStates& states, int threads) noexcept {
  if (rows == 0 || length == 0) return 0;
  std::int64_t values = 0;
  const Cut cut = choose_cut(length);
  if (rows < kFewColumns * threads && cut.blocks > 0) values = cut_column_values(rows, length, cut, states);
  if (values <= kStackStates) values = 0;
  std::int64_t feed = 0;
  if (states.feed_parts > 0) {
    const std::int64_t row_bytes = ColumnTiles::feed_bytes(length, states.feed_parts);
    const std::int64_t shares = std::min<std::int64_t>(rows, threads);
    const std::int64_t width = std::min(ColumnTiles::kFedColumns, ceil_div(rows, shares));
    const std::int64_t each = std::max(row_bytes, std::min(kFeedBytes, row_bytes * width));
    if (each > kStackFeedBytes) feed = shares * each;
  }
  const std::int64_t bytes = std::max(values * kPartBytes, feed);
  return bytes == 0 ? 0 : static_cast<std::size_t>(bytes + kPartBytes);
}

std::size_t longest_scan_workspace(std::int64_t rows, std::int64_t length, const ScanStates& states,
                                   int threads) noexcept {
  std::size_t most = scan_workspace(rows, length, states, threads);
  // A longer axis has more blocks, but for those of a higher level.
  for (int level = kLeastCutLevel + 1; level <= kCarryLevel; ++level) {
    const std::int64_t longest = kManyBlocks * numerics::block_size(level);
    if (longest < length) most = std::max(most, scan_workspace(rows, longest, states, threads));
  }
  return most;
}

void run_scan_pass(const Stream& stream, const ScanPass& scan, const Workspace& workspace) noexcept {
  if (scan.loop.count() == 0) return;
  if (runs_along_rows(scan) && run_along_rows(stream, scan, workspace)) return;
  run_across_columns(stream, scan, workspace);
}

}  // namespace planck::cpu
