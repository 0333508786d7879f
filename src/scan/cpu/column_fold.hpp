// The canonical fold of scans: columns that advance together, one kernel call for up to eight steps of all of them.
//
// The bookkeeping is numerics::OpenBlocks, the states lie in memory that the caller gives. Beside the open blocks the
// fold keeps, for each level, the combination of that level and those above it: a block that closes then costs one
// combination more, not one a level, to know the prefix before the next block.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/kernel.hpp"

namespace planck::cpu {

/// States of every column, outside the fold's own memory: part by part, `stride` bytes from column to column.
struct StateView {
  std::byte* base = nullptr;
  std::int64_t part = 0;
  std::int64_t stride = 0;
};

/// Totals of open blocks: at each level the states of n columns, part by part, and room for a combination with them.
class ColumnTotals {
 public:
  using Total = const std::byte*;

  /// Eight-byte values for each column and part: one for the block of eight, and two for every level above.
  static constexpr std::int64_t states_for(std::int64_t length) { return 1 + 2 * (numerics::levels_for(length) + 1); }

  ColumnTotals(const ScanKernel& kernel, std::byte* storage, std::int64_t n)
      : kernel_(kernel), storage_(storage), n_(n) {}

  std::byte* at(int level) const { return storage_ + (level == 0 ? 0 : 2 * level - 1) * state_bytes(); }
  void set(int level, Total states) const { std::memcpy(at(level), states, static_cast<std::size_t>(state_bytes())); }
  void add(int level, Total states) const { kernel_.combine(at(level), at(level), states, n_, part_stride()); }
  /// What lies above a level combined with the level, in the room beside it.
  Total join(Total above, int level) const {
    std::byte* const into = at(level) + state_bytes();
    kernel_.combine(into, above, at(level), n_, part_stride());
    return into;
  }

  const ScanKernel& kernel() const { return kernel_; }
  std::int64_t columns() const { return n_; }
  std::int64_t part_stride() const { return n_ * kPartBytes; }
  std::int64_t state_bytes() const { return kernel_.parts * part_stride(); }

 private:
  const ScanKernel& kernel_;
  std::byte* storage_;
  std::int64_t n_;
};

class ColumnFold {
 public:
  /// `storage` has ColumnTotals::states_for the elements of a column, those before a resumed one included.
  ColumnFold(const ScanKernel& kernel, std::byte* storage, std::int64_t n) : blocks_(kernel, storage, n) {}
  ColumnFold(const ColumnFold&) = delete;
  ColumnFold& operator=(const ColumnFold&) = delete;

  /// From nothing, or from the states of the whole blocks that came before.
  void start(const std::byte* prefix) {
    blocks_.resume_after(0);
    from_.fill(prefix);
    stale_ = 0;
  }
  /// From the open blocks of every level that `elements` before have; levels are two parts of the view apart.
  void resume(std::int64_t elements, const StateView& totals);
  /// What a later scan resumes from, zeros where nothing is open. As many elements as a block of kCarryLevel has, or a
  /// multiple of that, were taken.
  void save(const StateView& totals);

  /// Takes every column `count` elements further, and the pointers of `steps` with them.
  void advance(ColumnSteps& steps, std::int64_t count);

  /// The states of exactly one whole block of `level`, when that is what was stepped through.
  const std::byte* block_total(int level) {
    close();
    return blocks_.open(level);
  }

  /// A whole block's states instead of its steps.
  void push_block(int level, const std::byte* total) { stale_ = std::max(stale_, blocks_.push_block(level, total)); }

  /// The states of all whole blocks so far, when nothing else was; null if none.
  const std::byte* prefix();

  std::int64_t state_bytes() const { return blocks_.totals().state_bytes(); }

 private:
  void close() { stale_ = std::max(stale_, blocks_.close()); }

  numerics::OpenBlocks<ColumnTotals> blocks_;
  /// Levels from here on, combined, the largest blocks first; null if all are empty.
  std::array<const std::byte*, numerics::kMaxLevels + 1> from_{};
  int stale_ = 0;  ///< of from_, the highest level whose blocks have changed; so have all below
};

/// One column with memory of its own: finds the prefix before each of a row's blocks from their totals.
class OneColumnFold {
 public:
  explicit OneColumnFold(const ScanKernel& kernel) : fold_(kernel, storage_, 1) { fold_.start(nullptr); }

  ColumnFold* operator->() { return &fold_; }

 private:
  static constexpr std::int64_t kStates = ColumnTotals::states_for(std::numeric_limits<std::int64_t>::max());
  alignas(kPartBytes) std::byte storage_[kMaxScanParts * kPartBytes * kStates];
  ColumnFold fold_;
};

}  // namespace planck::cpu
