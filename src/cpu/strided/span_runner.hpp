// Feeds strided operands to a span kernel, which takes contiguous ones only.
//
// Where an operand is contiguous the kernel works on its memory; where not, on a small scratch row that is
// packed before and unpacked after. A tile of several rows lets a transposed operand be packed along its own
// contiguous direction, so that each cache line is used whole.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"

namespace planck::cpu {

class SpanRunner {
 public:
  /// Elements of scratch per operand: a row, or a tile of kTileRows × kTileColumns.
  static constexpr std::int64_t kScratch = 1024;
  static constexpr std::int64_t kTileRows = 16;
  static constexpr std::int64_t kTileColumns = kScratch / kTileRows;

  /// The loop's first `inputs` operands are read, the `outputs` after them written. Columns run along
  /// `column_dim` of the loop, rows along `row_dim`; -1 stands for a dimension of size 1.
  /// `streamed` has a bit for each output that is stored non-temporally where it is contiguous; the caller fences.
  SpanRunner(const KernelRow& kernel, const void* params, const core::StridedLoop& loop, int inputs, int outputs,
             int column_dim, int row_dim, unsigned streamed) noexcept;

  /// Applies the kernel to rows × columns elements whose first ones `at` points to.
  void run(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept;

 private:
  enum class OperandForm : std::uint8_t { Direct, Repeat, Pack, Absent };

  /// Whether the rows lie one behind the other for every operand that is there and not repeated along them.
  bool rows_are_one_span(std::int64_t columns) const noexcept;
  void run_as_spans(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept;
  void pack_inputs(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept;
  void run_tile(const core::LoopPointers& at, std::int64_t rows, std::int64_t columns) noexcept;
  std::byte* scratch(int operand) noexcept { return scratch_[operand].data(); }
  /// Scale or zero point of a segment kernel, which reads them where they are.
  bool read_in_place(int operand) const noexcept {
    return run_segments_ && operand < inputs_ && operand >= inputs_ - 2;
  }

  const KernelRow& kernel_;
  const void* params_;
  int inputs_;
  int operands_;
  unsigned streamed_ = 0;      ///< the kernel's mask of outputs
  bool segments_ = false;      ///< scale and zero point are broadcast along a row
  bool run_segments_ = false;  ///< and this run's rows are long enough to make use of it
  bool tiled_ = false;
  std::array<OperandForm, core::kMaxLoopOperands> form_;
  std::array<std::int64_t, core::kMaxLoopOperands> size_;
  std::array<std::int64_t, core::kMaxLoopOperands> column_stride_;
  std::array<std::int64_t, core::kMaxLoopOperands> row_stride_;
  // What a repeated operand's scratch row holds, so that it is filled once and not for every row.
  std::array<const std::byte*, core::kMaxLoopOperands> filled_from_{};
  std::array<std::int64_t, core::kMaxLoopOperands> filled_columns_{};
  // Left uninitialised: 64 KiB that most runs never touch. The odd cache lines keep rows from sharing the low
  // twelve bits of their addresses, which loads and stores are told apart by.
  std::array<std::array<std::byte, kScratch * 8 + 192>, core::kMaxLoopOperands> scratch_;
};

}  // namespace planck::cpu
