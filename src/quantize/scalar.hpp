// The quantise formulas for one number at a time: what the reference and CUDA device code call.
#pragma once

#include <limits>

#include "numerics/storage.hpp"

namespace planck::scalar {
#include "quantize/math.inl"
}  // namespace planck::scalar
