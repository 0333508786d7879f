// Limits that several parts of the library promise.
#pragma once

#include <cstdint>

namespace planck::core {

/// Zero points, and codes of fake quantisation, lie in [-2^20, 2^20]: formulas in f32 are exact there.
inline constexpr std::int64_t kMaxZeroPoint = std::int64_t{1} << 20;

}  // namespace planck::core
