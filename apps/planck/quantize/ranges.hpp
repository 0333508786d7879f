// The range of a stored tensor's elements, exactly: floats of 8 to 64 bits, integers of any size, truth values.
#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/file.hpp"
#include "checkpoint/safetensors.hpp"
#include "checkpoint/workers.hpp"

namespace planck::cli {

/// The least and the largest finite element, and how many others there are.
struct TensorRange {
  std::string min = "–";  ///< for people
  std::string max = "–";
  std::string min_json = "null";  ///< every digit
  std::string max_json = "null";
  std::int64_t nans = 0;
  std::int64_t infinities = 0;
};

/// Not for complex numbers and elements of less than a byte, but for GGUF's blocks that are decoded.
bool has_range(const TensorInfo& tensor) noexcept;

/// Of a tensor that `has_range`, piece by piece.
TensorRange range_in_file(const File& file, const TensorInfo& tensor, Workers& workers);

}  // namespace planck::cli
