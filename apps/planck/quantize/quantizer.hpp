// Quantises one tensor from a file into a file, piece by piece.
//
// While a segment, the elements that share a scale, fits a piece, ranges and codes are found in one pass by
// DynamicRangeQuantizePlan; longer segments (one scale for a large tensor) take two, the ranges first. Either way the
// bits are those of one run over the whole tensor, because a range has no order; so neither the pieces nor the threads
// show.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "checkpoint/copy.hpp"
#include "checkpoint/safetensors.hpp"
#include "planck/planck.hpp"
#include "quantize/plans.hpp"
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
  struct LongSegment;
  struct QParams;

  QuantizedSums whole_segments(const QuantizeJob& job, const Segments& segments, std::int64_t first, std::int64_t count,
                               Scratch& scratch);
  QuantizedSums long_segment(const QuantizeJob& job, const Segments& segments, std::int64_t index);
  std::vector<RangeSums> ranges_of(const LongSegment& segment);
  QParams qparams_of(ElementKind element, const std::vector<RangeSums>& ranges);
  QuantizedSums code_rows(const LongSegment& segment, QParams& qparams, std::int64_t index, Scratch& scratch);

  std::byte* read(const QuantizeJob& job, ElementKind element, std::int64_t first, std::int64_t count,
                  Scratch& scratch) const;
  DynamicRangeQuantizeDescriptor range_descriptor(const Shape& shape, const Granularity& scope,
                                                  ElementKind element) const;
  QuantizedSums measure(const Piece& piece, Scratch& scratch);
  void write(const QuantizeJob& job, const Piece& piece) const;

  Workers& workers_;
  QuantizeSettings settings_;
  Advance advance_;
  KeptPlans<DynamicRangeQuantizePlan<>> range_plans_{kPieceBytes};
  KeptPlans<QuantizePlan<>> quantize_plans_{kPieceBytes};
  KeptPlans<DequantizePlan<>> dequantize_plans_{kPieceBytes};
};

}  // namespace planck::cli
