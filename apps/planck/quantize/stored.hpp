// Tensors as they were meant: codes with scales (and zero points) and GGUF's blocks read as floats, everything else as
// it is.
//
// Any block of a matrix may share a scale, as long as the scales' extents divide the matrix's: one for all, one for a
// row or a column, for groups along either axis, or for rectangles. Elements come back as `scale * (code - zero point)`
// by DequantizePlan, blocks by their own decoding, piece by piece from any element on.
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

  /// llama.cpp keeps the rows of queries and keys in another order: each head's pairs that a rotation turns are
  /// neighbours. With so many heads they come back as Hugging Face has them, a head's first halves of pairs, then the
  /// second ones; 0: in the file's order.
  std::int64_t rotary_heads = 0;

  bool coded() const noexcept { return scale != nullptr; }
  bool copied() const noexcept { return !coded() && tensor->blocks == nullptr && rotary_heads == 0; }
  /// What comes back: the scale's type for codes, F32 for blocks.
  const Dtype& dtype() const noexcept;

  /// Elements [first, first + count) of dtype().kind, in `scratch` from slot `slot` on (it takes four).
  const std::byte* read(std::int64_t first, std::int64_t count, RestorePlans& plans, Scratch& scratch,
                        std::size_t slot) const;

 private:
  void load(std::int64_t first, std::int64_t count, std::byte* to, Scratch& scratch, std::size_t slot) const;
  void load_rotary(std::int64_t first, std::int64_t count, std::byte* to, Scratch& scratch, std::size_t slot) const;
  void restore(std::int64_t first, std::int64_t rows_now, std::int64_t columns_now, std::byte* to, RestorePlans& plans,
               Scratch& scratch, std::size_t slot) const;
};

/// Slots that one StoredTensor takes in a Scratch.
inline constexpr std::size_t kStoredSlots = 4;
/// Elements that are worked on at once; whole blocks of every type.
inline constexpr std::int64_t kStoredPiece = 1 << 17;

/// A Failure (Refused) that names the type if it is one of GGUF's blocks that are not decoded.
void check_decodes(const TensorInfo& tensor);

/// Every tensor but the scales and zero points that belong to codes, in the order of the files; a Failure (BadFile)
/// that names the tensor where scales do not fit it.
std::vector<StoredTensor> stored_tensors(const Checkpoint& checkpoint);

}  // namespace planck::cli
