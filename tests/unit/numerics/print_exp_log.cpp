// Applies exp_small or log_normal to patterns: each line of the input is a function, a type and the bits of x, for
// instance "exp f32 3f800000"; each line of the output is the bits of the result. tests/oracle/test_exp_log.py reads
// it.
#include <cinttypes>
#include <cstdio>
#include <cstring>

#include "numerics/scalar_lanes.hpp"

namespace {

template <class U>
U apply(bool exponential, U u) {
  const auto x = planck::scalar::from_bits(u);
  return planck::scalar::bits(exponential ? planck::scalar::exp_small(x) : planck::scalar::log_normal(x));
}

}  // namespace

int main() {
  char function[8];
  char type[8];
  std::uint64_t u = 0;
  while (std::scanf("%7s %7s %" SCNx64, function, type, &u) == 3) {
    const bool exponential = std::strcmp(function, "exp") == 0;
    const bool f32 = std::strcmp(type, "f32") == 0;
    std::printf("%" PRIx64 "\n", f32 ? apply(exponential, static_cast<std::uint32_t>(u)) : apply(exponential, u));
  }
  return 0;
}
