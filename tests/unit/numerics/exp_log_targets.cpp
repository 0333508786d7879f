#include "tests/unit/numerics/exp_log_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tests/unit/numerics/exp_log_targets.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "cpu/simd/lanes-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

template <class T>
void apply(test::Function function, const T* x, T* y, std::int64_t n) {
  const auto step = static_cast<std::int64_t>(hn::Lanes(Tag<T>()));
  if (function == test::Function::Exp) {
    for (std::int64_t i = 0; i < n; i += step) store(exp_small(load<T>(x + i)), y + i);
  } else {
    for (std::int64_t i = 0; i < n; i += step) store(log_normal(load<T>(x + i)), y + i);
  }
}

void apply_f32(test::Function function, const float* x, float* y, std::int64_t n) { apply(function, x, y, n); }
void apply_f64(test::Function function, const double* x, double* y, std::int64_t n) { apply(function, x, y, n); }

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace planck::cpu {
namespace {

HWY_EXPORT(apply_f32);
HWY_EXPORT(apply_f64);

// What HWY_DYNAMIC_DISPATCH takes is the best of the allowed targets; here only one is allowed.
void dispatch(std::int64_t target, test::Function function, const float* x, float* y, std::int64_t n) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  HWY_DYNAMIC_DISPATCH(apply_f32)(function, x, y, n);
  hwy::SetSupportedTargetsForTest(0);
}
void dispatch(std::int64_t target, test::Function function, const double* x, double* y, std::int64_t n) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  HWY_DYNAMIC_DISPATCH(apply_f64)(function, x, y, n);
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace
}  // namespace planck::cpu

namespace planck::test {

std::vector<std::int64_t> exp_log_targets() { return hwy::SupportedAndGeneratedTargets(); }
std::string target_name(std::int64_t target) { return hwy::TargetName(target); }

void apply(std::int64_t target, Function function, const float* x, float* y, std::int64_t n) {
  cpu::dispatch(target, function, x, y, n);
}
void apply(std::int64_t target, Function function, const double* x, double* y, std::int64_t n) {
  cpu::dispatch(target, function, x, y, n);
}

}  // namespace planck::test
#endif
