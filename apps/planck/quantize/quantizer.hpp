// Quantises one tensor from a file into a file, piece by piece.
//
// A tensor is [outer, length, inner]: the `length` elements of one (outer, inner) share a scale. While a segment fits
// a piece, ranges and codes are found in one pass by DynamicRangeQuantizePlan; longer segments (one scale for a large
// tensor) take two, the ranges first. Either way the bits are those of one run over the whole tensor, because a range
// has no order; so neither the pieces nor the threads show.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "checkpoint/file.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/workers.hpp"
#include "planck/planck.hpp"
#include "quantize/statistics.hpp"

namespace planck::cli {

enum class Scope { Channel, Group, Tensor, Token };

struct QuantizeSettings {
  Scope scope = Scope::Channel;
  std::int64_t group_size = 128;
  int axis = 0;  ///< channels: 0 or 1; groups: the axis that is cut
  bool symmetric = true;
  ElementKind codes = ElementKind::S8;

  std::int64_t q_min() const noexcept { return codes == ElementKind::U8 ? 0 : symmetric ? -127 : -128; }
  std::int64_t q_max() const noexcept { return codes == ElementKind::U8 ? 255 : 127; }
};

/// Which elements share a scale, and the shape of the scales in the file.
struct Segments {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
  std::vector<std::int64_t> scale_shape;

  std::int64_t count() const noexcept { return outer * inner; }
};

/// The most axes of a weight: those of a convolution over three dimensions.
inline constexpr std::size_t kMostAxes = 5;

/// Of a tensor with 2 to kMostAxes axes; the shape of the scales is the tensor's, with 1 along each axis that shares
/// them and the number of groups along one that is cut, or [1] for the whole tensor. A Failure (Refused) that names the
/// tensor where the settings do not fit it.
Segments segments_of(const TensorInfo& tensor, const QuantizeSettings& settings);

/// Memory of one worker, grown as needed and kept.
class Scratch {
 public:
  /// At least `bytes`, aligned to a cache line; the contents of slot `slot` are lost.
  std::byte* slot(std::size_t slot, std::size_t bytes);

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept { ::operator delete[](memory, std::align_val_t{64}); }
  };
  struct Buffer {
    std::unique_ptr<std::byte[], Free> memory;
    std::size_t bytes = 0;
  };
  std::vector<Buffer> buffers_;
};

/// The most bytes of a tensor that are worked on at once: in the second-level cache, and enough for a disk.
inline constexpr std::int64_t kPieceBytes = 1 << 20;

/// What a tensor becomes, and where: places in the output file.
struct QuantizeJob {
  const File* input = nullptr;
  const TensorInfo* tensor = nullptr;
  const File* output = nullptr;
  std::uint64_t codes_at = 0;
  std::uint64_t scale_at = 0;
  std::uint64_t zero_point_at = 0;  ///< asymmetric only
};

struct QuantizedSums {
  RangeSums range;
  RangeSums scales;
  ErrorSums errors;  ///< of what comes back, in the tensor's own type

  void merge(const QuantizedSums& other) noexcept {
    range.merge(other.range);
    scales.merge(other.scales);
    errors.merge(other.errors);
  }
};

/// Told how many bytes of the input are done; called from any worker.
using Advance = std::function<void(std::uint64_t bytes)>;

class Quantizer {
 public:
  Quantizer(Workers& workers, const QuantizeSettings& settings, Advance advance)
      : workers_(workers), settings_(settings), advance_(std::move(advance)), scratch_(workers.threads()) {}

  /// Quantises; a Failure (Refused) if the tensor holds NaN or infinities, which no code can stand for.
  QuantizedSums run(const QuantizeJob& job);
  /// Copies the bytes of a tensor, or of a whole file.
  void copy(const File& from, std::uint64_t from_offset, std::uint64_t bytes, const File& to, std::uint64_t to_offset);

 private:
  struct Piece;
  QuantizedSums whole_segments(const QuantizeJob& job, const Segments& segments, std::int64_t first, std::int64_t count,
                               Scratch& scratch) const;
  QuantizedSums long_segment(const QuantizeJob& job, const Segments& segments, std::int64_t index);
  QuantizedSums measure(const Piece& piece, Scratch& scratch) const;
  void write(const QuantizeJob& job, const Piece& piece) const;

  Workers& workers_;
  QuantizeSettings settings_;
  Advance advance_;
  std::vector<Scratch> scratch_;
};

}  // namespace planck::cli
