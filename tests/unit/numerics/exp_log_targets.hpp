// exp_small and log_normal over arrays, on whichever Highway target is chosen: for tests and benchmarks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace planck::test {

enum class Function { Exp, Log };

/// The targets that this build has and this machine can run.
std::vector<std::int64_t> exp_log_targets();
std::string target_name(std::int64_t target);

/// y[i] = function(x[i]) for n elements, a multiple of 16, with the lanes of a target.
void apply(std::int64_t target, Function function, const float* x, float* y, std::int64_t n);
void apply(std::int64_t target, Function function, const double* x, double* y, std::int64_t n);

}  // namespace planck::test
