// What a scan's schedule chooses among: along rows or across columns, each row or column whole or cut among threads.
// schedule.cpp chooses; rows.cpp, cut_rows.cpp, columns.cpp and cut_columns.cpp run. All give the same bits.
#pragma once

#include <span>

#include "numerics/canonical_order.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"
#include "scan/cpu/pass.hpp"

namespace planck::cpu {

/// Bytes that let a few long rows or columns be shared among threads, and feeds keep their states.
std::size_t scan_workspace(std::int64_t rows, std::int64_t length, const ScanStates& states, int threads) noexcept;
/// Enough for an axis of any length up to this one.
std::size_t longest_scan_workspace(std::int64_t rows, std::int64_t length, const ScanStates& states,
                                   int threads) noexcept;

/// An output may be an input's view. The engine is content with less workspace, down to nothing.
void run_scan_pass(const Stream& stream, const ScanPass& scan, const Workspace& workspace) noexcept;

// ---- along rows ----

/// States of rows that need no workspace.
inline constexpr std::int64_t kStackRowValues = 1024;

void run_whole_rows(const Stream& stream, const ScanPass& scan) noexcept;
/// Eight-byte values that run_cut_rows needs: no more than scan_workspace asks for.
std::int64_t cut_row_values(const ScanPass& scan) noexcept;
void run_cut_rows(const Stream& stream, const ScanPass& scan, double* values) noexcept;

// ---- across columns ----

/// Fewer columns than this leave registers empty: then blocks of a column are scanned side by side.
inline constexpr std::int64_t kFewColumns = 16;
/// States of blocks that need no workspace.
inline constexpr std::int64_t kStackStates = 1024;
/// Enough for the feed of a thread, unless a single column needs more; and what needs no workspace.
inline constexpr std::int64_t kFeedBytes = 4 << 20;
inline constexpr std::int64_t kStackFeedBytes = 32 << 10;

/// How an axis is cut: `blocks` whole canonical blocks of a level, and one last part of 1 to block_size elements.
struct Cut {
  int level = 0;
  std::int64_t blocks = 0;
  std::int64_t size() const { return numerics::block_size(level); }
};

/// Axis last, the dimension nearest to contiguous next to it; at least these two.
void arrange_columns(core::StridedLoop& loop, int axis) noexcept;
/// The loop is arranged. Memory for a feed's states may be less than all of them.
void run_whole_columns(const Stream& stream, const ScanPass& scan, const core::StridedLoop& loop,
                       std::span<std::byte> memory) noexcept;
/// Eight-byte values that scanning a cut axis needs.
std::int64_t cut_column_values(std::int64_t columns, std::int64_t length, const Cut& cut,
                               const ScanStates& states) noexcept;
void run_cut_columns(const Stream& stream, const ScanPass& scan, const core::StridedLoop& loop, const Cut& cut,
                     std::byte* states) noexcept;

}  // namespace planck::cpu
