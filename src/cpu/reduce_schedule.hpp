// The schedule of a reduction: three ways, chosen by strides and lengths, with the same bits. Each makes a panel of
// terms and adds it up while it is in the cache. Rows: the innermost reduced dimension is contiguous, and one sum
// advances by spans of terms. Short rows: a panel holds all terms of several sums. Columns: a kept dimension is
// contiguous, up to 2048 sums advance side by side, and a panel is four rows of them. When there are too few sums for
// the threads, the outer reduced dimensions are cut into whole canonical blocks; their totals go through the workspace
// and are combined in order at the end.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/canonical_sums.hpp"
#include "cpu/reduce.hpp"
#include "numerics/canonical_order.hpp"

namespace planck::cpu {

inline constexpr int kMaxPanels = 3;
inline constexpr std::int64_t kPanelArena = 257 << 10;  // bytes of stack for open sums and panels
inline constexpr std::int64_t kPanelGap = 192;  // bytes that keep panels from sharing the low twelve bits of addresses
inline constexpr std::int64_t kPanelRows = 4;   // of columns
inline constexpr std::int64_t kPanelColumns =
    2048;  // sums side by side: shorter runs of memory are fetched more slowly

/// The reduction in its final form: kept dimensions first, then the reduced ones in logical order.
struct ReductionSchedule {
  const Reduction* reduction;
  core::StridedLoop loop;
  int kept = 0;
  bool columns = false;        ///< the last kept dimension is walked as columns
  bool short_rows = false;     ///< all terms of a sum fit a panel
  bool streamed = false;       ///< outputs that are not summed are stored non-temporally
  std::int64_t sums = 1;       ///< elements of the gradient
  std::int64_t levels = 0;     ///< f64 values that are kept open for each sum of all gradients
  std::int64_t width = 1;      ///< sums that advance side by side in one task
  std::int64_t row_tasks = 1;  ///< combinations of kept indices that are no columns
  std::int64_t tasks = 1;      ///< row_tasks × column blocks
  // A part is one canonical block of split_level in split_dim, at one index combination of the reduced
  // dimensions before it.
  int split_dim = 0;
  int split_level = 0;
  std::int64_t outer = 1;  ///< those combinations
  std::int64_t parts = 1;  ///< parts in each

  int gradients() const { return reduction->sums.count; }
  int outputs() const { return loop.operands - reduction->inputs - gradients(); }
  /// The operand that is gradient g; the last of them tells which dimensions are kept.
  int gradient(int g) const { return loop.operands - gradients() + g; }
  int last_operand() const { return loop.operands - 1; }
  std::int64_t compute_bytes() const { return size_of(reduction->compute); }
  const core::LoopOperand& output(int o) const { return loop.operand[reduction->inputs + o]; }
  bool summed(int o) const {
    const auto end = reduction->sums.term.begin() + gradients();
    return std::find(reduction->sums.term.begin(), end, o) != end;
  }
  /// An output that is wanted as elements, and made as terms of another kind.
  bool narrowed(int o) const {
    return o >= reduction->rounded && output(o).base != nullptr && output(o).element_bytes != compute_bytes();
  }
  bool has_panel(int o) const { return summed(o) || narrowed(o); }
  /// Terms that a panel has room for.
  std::int64_t panel_terms() const {
    return columns ? kPanelRows * width : short_rows ? CanonicalSums::kShortRows : CanonicalSums::kSpan;
  }
  /// Whether tasks are blocks of `width` sums along the last kept dimension.
  bool side_by_side() const { return kept > 0 && (columns || short_rows); }
  /// A panel's columns and rows run along these dimensions; -1: it has one row.
  int column_dim() const { return columns ? kept - 1 : loop.rank - 1; }
  int row_dim() const { return columns ? loop.rank - 1 : short_rows ? kept - 1 : -1; }
  /// Terms from one row of a panel to the next.
  std::int64_t pitch() const { return columns ? width : loop.extent[loop.rank - 1]; }
  bool split() const { return outer * parts > 1; }
  std::int64_t part_begin(std::int64_t part) const { return part * numerics::block_size(split_level); }
  std::int64_t part_end(std::int64_t part) const {
    const std::int64_t extent = loop.extent[split_dim];
    return parts == 1 ? extent : std::min(extent, (part + 1) * numerics::block_size(split_level));
  }
  /// f64 values per sum that each outer combination leaves in the workspace: totals, then the last part's levels.
  std::int64_t slots() const { return parts == 1 ? 1 : parts - 1 + split_level; }
};

/// Everything but how sums are split among threads.
ReductionSchedule schedule_reduction(const Stream& stream, const Reduction& reduction) noexcept;
/// Cuts the outer reduced dimensions into parts until every thread has some, as far as `room` (f64 values per sum)
/// goes. Any answer gives the same bits.
void split_reduction(ReductionSchedule& p, int threads, std::int64_t room) noexcept;

}  // namespace planck::cpu
