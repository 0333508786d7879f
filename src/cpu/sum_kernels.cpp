#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/sum_kernels.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "cpu/sum_kernels.hpp"

#include "cpu/kernel_types.hpp"
#include "cpu/simd_lanes-inl.h"
#include "cpu/sum_codes-inl.h"
#include "numerics/canonical_order.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

using numerics::kRadix;

template <class Term>
double sum_block(const Term* x) {
  auto sum = static_cast<double>(x[0]);
  for (int j = 1; j < kRadix; ++j) sum += static_cast<double>(x[j]);
  return sum;
}

#if HWY_TARGET != HWY_SCALAR
/// Sums in f64 of as many blocks as Term has lanes.
template <class Term>
class Sums {
 public:
  using Raw = hn::Vec<Tag<Term>>;
  PLANCK_MATH explicit Sums(Raw x) : low_(low(x)), high_(high(x)) {}
  PLANCK_MATH void add(Raw x) {
    low_ = hn::Add(low_, low(x));
    high_ = hn::Add(high_, high(x));
  }
  PLANCK_MATH void store(double* to) const {
    hn::StoreU(low_, Tag<double>(), to);
    if constexpr (sizeof(Term) == 4) hn::StoreU(high_, Tag<double>(), to + hn::Lanes(Tag<double>()));
  }

 private:
  using Wide = hn::Vec<Tag<double>>;
  static PLANCK_MATH Wide low(Raw x) {
    if constexpr (sizeof(Term) == 8) {
      return x;
    } else {
      return hn::PromoteTo(Tag<double>(), hn::LowerHalf(hn::Half<Tag<float>>(), x));
    }
  }
  static PLANCK_MATH Wide high(Raw x) {
    if constexpr (sizeof(Term) == 8) {
      return x;
    } else {
      return hn::PromoteTo(Tag<double>(), hn::UpperHalf(hn::Half<Tag<float>>(), x));
    }
  }
  Wide low_;
  Wide high_;
};

/// One block to a lane: the first four elements of all blocks, then the last four.
template <class Term>
PLANCK_MATH void sum_lanes_of_blocks(const Term* terms, double* totals) {
  const Tag<Term> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  using Raw = hn::Vec<Tag<Term>>;
  Raw a0, a1, a2, a3, b0, b1, b2, b3;  // element k of the first and second half blocks in turn
  hn::LoadInterleaved4(d, terms, a0, a1, a2, a3);
  hn::LoadInterleaved4(d, terms + 4 * lanes, b0, b1, b2, b3);
  Sums<Term> sums(hn::ConcatEven(d, b0, a0));
  sums.add(hn::ConcatEven(d, b1, a1));
  sums.add(hn::ConcatEven(d, b2, a2));
  sums.add(hn::ConcatEven(d, b3, a3));
  sums.add(hn::ConcatOdd(d, b0, a0));
  sums.add(hn::ConcatOdd(d, b1, a1));
  sums.add(hn::ConcatOdd(d, b2, a2));
  sums.add(hn::ConcatOdd(d, b3, a3));
  sums.store(totals);
}
#endif

template <class Term>
void sum_blocks(const Term* terms, std::int64_t blocks, double* totals) {
  std::int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<Term>()));
  for (; b + lanes <= blocks; b += lanes) sum_lanes_of_blocks(terms + kRadix * b, totals + b);
#endif
  for (; b < blocks; ++b) totals[b] = sum_block(terms + kRadix * b);
}

template <class Term>
void add_terms(const Term* terms, std::int64_t n, double* sums) {
  const Tag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    hn::Vec<Tag<double>> x;
    if constexpr (sizeof(Term) == 8) {
      x = hn::LoadU(d, terms + i);
    } else {
      x = hn::PromoteTo(d, hn::LoadU(Narrow<float, double>(), terms + i));
    }
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), x), d, sums + i);
  }
  for (; i < n; ++i) sums[i] += static_cast<double>(terms[i]);
}

constexpr SumKernels kSumKernels = {&sum_blocks<float>,
                                    &sum_blocks<double>,
                                    &add_terms<float>,
                                    &add_terms<double>,
                                    &sum_codes<std::int8_t>,
                                    &sum_codes<std::uint8_t>,
                                    &add_code_columns<std::int8_t>,
                                    &add_code_columns<std::uint8_t>};

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct SumFamily;
template <>
struct TargetRows<SumFamily, HWY_TARGET, SumKernels> {
  static std::span<const SumKernels> get() { return {&HWY_NAMESPACE::kSumKernels, 1}; }
};
}  // namespace planck::cpu

#if HWY_ONCE
namespace planck::cpu {
const SumKernels& sum_kernels(ArchSku arch) noexcept { return rows_of<SumFamily, SumKernels>(arch).front(); }
}  // namespace planck::cpu
#endif
