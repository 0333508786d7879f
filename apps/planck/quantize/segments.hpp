// Which elements of a tensor share a scale: a tensor is [outer, length, inner], and the `length` elements of one
// (outer, inner) do.
#pragma once

#include <cstdint>
#include <vector>

#include "checkpoint/safetensors.hpp"
#include "quantize/settings.hpp"

namespace planck::cli {

struct Segments {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
  std::vector<std::int64_t> scale_shape;  ///< in the file
};

/// The most axes of a weight: those of a convolution over three dimensions.
inline constexpr std::size_t kMostAxes = 5;

/// Of a tensor with 2 to kMostAxes axes; the shape of the scales is the tensor's, with 1 along each axis that shares
/// them and the number of groups along one that is cut, or [1] for the whole tensor. A Failure (Refused) that names the
/// tensor where the settings do not fit it.
Segments segments_of(const TensorInfo& tensor, const QuantizeSettings& settings);

}  // namespace planck::cli
