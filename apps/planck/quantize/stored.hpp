// Tensors as they were meant: codes with scales (and zero points) read as floats, everything else as it is.
//
// Any block of a matrix may share a scale, as long as the scales' extents divide the matrix's: one for all, one for a
// row or a column, for groups along either axis, or for rectangles. Elements come back as `scale * (code - zero point)`
// by DequantizePlan, piece by piece from any element on.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/checkpoint.hpp"
#include "planck/quantize.hpp"
#include "quantize/plans.hpp"

namespace planck::cli {

/// For all tensors of a checkpoint that are read.
using RestorePlans = KeptPlans<DequantizePlan<>>;

/// One tensor of a checkpoint, with what belongs to it.
struct StoredTensor {
  const TensorInfo* tensor = nullptr;
  const File* file = nullptr;
  const TensorInfo* scale = nullptr;  ///< null: the elements are stored as they are
  const File* scale_file = nullptr;
  const TensorInfo* zero_point = nullptr;
  const File* zero_point_file = nullptr;
  std::size_t shard = 0;
  std::int64_t rows = 0;  ///< coded tensors: the last axis is `columns`
  std::int64_t columns = 0;
  std::int64_t scale_rows = 1;
  std::int64_t scale_columns = 1;

  bool coded() const noexcept { return scale != nullptr; }
  /// What comes back: the scale's type for codes.
  const Dtype& dtype() const noexcept { return coded() ? scale->dtype : tensor->dtype; }

  /// Elements [first, first + count) of dtype().kind, in `scratch` from slot `slot` on (it takes four).
  const std::byte* read(std::int64_t first, std::int64_t count, RestorePlans& plans, Scratch& scratch,
                        std::size_t slot) const;

 private:
  void restore(std::int64_t first, std::int64_t rows_now, std::int64_t columns_now, std::byte* to, RestorePlans& plans,
               Scratch& scratch, std::size_t slot) const;
};

/// Slots that one StoredTensor takes in a Scratch.
inline constexpr std::size_t kStoredSlots = 4;
/// Elements that are worked on at once.
inline constexpr std::int64_t kStoredPiece = 1 << 17;

/// Every tensor but the scales and zero points that belong to codes, in the order of the files; a Failure (BadFile)
/// that names the tensor where scales do not fit it.
std::vector<StoredTensor> stored_tensors(const Checkpoint& checkpoint);

}  // namespace planck::cli
