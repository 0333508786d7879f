// Quantises one tensor from a file into a file, piece by piece.
//
// A tensor is [outer, length, inner]: the `length` elements of one (outer, inner) share a scale. While a segment fits
// a piece, ranges and codes are found in one pass by DynamicRangeQuantizePlan; longer segments (one scale for a large
// tensor) take two, the ranges first. Either way the bits are those of one run over the whole tensor, because a range
// has no order; so neither the pieces nor the threads show.
#pragma once

#include <cstdint>
#include <utility>

#include "checkpoint/copy.hpp"
#include "checkpoint/safetensors.hpp"
#include "planck/planck.hpp"
#include "quantize/segments.hpp"
#include "quantize/statistics.hpp"

namespace planck::cli {

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

class Quantizer {
 public:
  Quantizer(Workers& workers, const QuantizeSettings& settings, Advance advance)
      : workers_(workers), settings_(settings), advance_(std::move(advance)) {}

  /// Quantises; a Failure (Refused) if the tensor holds NaN or infinities, which no code can stand for.
  QuantizedSums run(const QuantizeJob& job);

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
};

}  // namespace planck::cli
