#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "cpu/sum_kernels.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include "cpu/sum_kernels.hpp"

#include <algorithm>
#include <cstdint>

#include "cpu/kernel_types.hpp"
#include "cpu/simd/lanes-inl.h"
#include "cpu/simd/sum_codes-inl.h"
#include "numerics/canonical_order.hpp"
#include "numerics/element_traits.hpp"
#include "numerics/storage.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

using numerics::kRadix;

/// Two registers of f32 lanes as one of T.
template <bool streamed, class T>
PLANCK_MATH void narrow_step(const float* from, T* to) {
  store_two<streamed>(load<float>(from), load<float>(from + hn::Lanes(Tag<float>())), to);
}

template <class Term>
double sum_block(const Term* x) {
  auto sum = static_cast<double>(x[0]);
  for (int j = 1; j < kRadix; ++j) sum += static_cast<double>(x[j]);
  return sum;
}

#if HWY_TARGET != HWY_SCALAR
/// Sums in f64 of as many blocks as Term has lanes.
template <class Term>
class BlockSums {
 public:
  using Raw = hn::Vec<Tag<Term>>;
  PLANCK_MATH explicit BlockSums(Raw x) : low_(low(x)), high_(high(x)) {}
  PLANCK_MATH explicit BlockSums(const double* from)
      : low_(hn::LoadU(Tag<double>(), from)),
        high_(sizeof(Term) == 8 ? low_ : hn::LoadU(Tag<double>(), from + hn::Lanes(Tag<double>()))) {}
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
  BlockSums<Term> sums(hn::ConcatEven(d, b0, a0));
  sums.add(hn::ConcatEven(d, b1, a1));
  sums.add(hn::ConcatEven(d, b2, a2));
  sums.add(hn::ConcatEven(d, b3, a3));
  sums.add(hn::ConcatOdd(d, b0, a0));
  sums.add(hn::ConcatOdd(d, b1, a1));
  sums.add(hn::ConcatOdd(d, b2, a2));
  sums.add(hn::ConcatOdd(d, b3, a3));
  sums.store(totals);
}

#if HWY_MAX_BYTES >= 32
/// Four blocks of f32, each a register: transposed within halves, a third fewer shuffles than the above.
PLANCK_MATH void sum_four_blocks(const float* terms, double* totals) {
  const hn::FixedTag<float, 8> d;
  const hn::Half<decltype(d)> half;
  const hn::FixedTag<double, 4> wide;
  using Raw = hn::Vec<decltype(d)>;
  const Raw x0 = hn::LoadU(d, terms);
  const Raw x1 = hn::LoadU(d, terms + kRadix);
  const Raw x2 = hn::LoadU(d, terms + 2 * kRadix);
  const Raw x3 = hn::LoadU(d, terms + 3 * kRadix);
  const auto low_01 = hn::BitCast(wide, hn::InterleaveLower(d, x0, x1));
  const auto low_23 = hn::BitCast(wide, hn::InterleaveLower(d, x2, x3));
  const auto high_01 = hn::BitCast(wide, hn::InterleaveUpper(d, x0, x1));
  const auto high_23 = hn::BitCast(wide, hn::InterleaveUpper(d, x2, x3));
  // Elements k and 4 + k of the four blocks.
  const Raw transposed[] = {hn::BitCast(d, hn::InterleaveLower(wide, low_01, low_23)),
                            hn::BitCast(d, hn::InterleaveUpper(wide, low_01, low_23)),
                            hn::BitCast(d, hn::InterleaveLower(wide, high_01, high_23)),
                            hn::BitCast(d, hn::InterleaveUpper(wide, high_01, high_23))};
  auto sums = hn::PromoteTo(wide, hn::LowerHalf(half, transposed[0]));
  for (int k = 1; k < 4; ++k) sums = hn::Add(sums, hn::PromoteTo(wide, hn::LowerHalf(half, transposed[k])));
  for (const Raw& x : transposed) sums = hn::Add(sums, hn::PromoteTo(wide, hn::UpperHalf(half, x)));
  hn::StoreU(sums, wide, totals);
}
#endif
#endif

template <class Term>
void sum_blocks(const Term* terms, std::int64_t blocks, double* totals) {
  std::int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_MAX_BYTES >= 32
  if constexpr (sizeof(Term) == 4) {
    for (; b + 4 <= blocks; b += 4) sum_four_blocks(terms + kRadix * b, totals + b);
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<Term>()));
  for (; b + lanes <= blocks; b += lanes) sum_lanes_of_blocks(terms + kRadix * b, totals + b);
#endif
  for (; b < blocks; ++b) totals[b] = sum_block(terms + kRadix * b);
}

template <class Term>
void sum_rows(const Term* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n, double* sums, bool on) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const Tag<Term> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (; i + lanes <= n; i += lanes) {
    const Term* row = terms + i;
    BlockSums<Term> of_columns = on ? BlockSums<Term>(sums + i) : BlockSums<Term>(hn::LoadU(d, row));
    for (std::int64_t r = on ? 0 : 1; r < rows; ++r) of_columns.add(hn::LoadU(d, row + r * pitch));
    of_columns.store(sums + i);
  }
#endif
  for (; i < n; ++i) {
    double sum = on ? sums[i] : static_cast<double>(terms[i]);
    for (std::int64_t r = on ? 0 : 1; r < rows; ++r) sum += static_cast<double>(terms[r * pitch + i]);
    sums[i] = sum;
  }
}

void add_sums(const double* from, std::int64_t n, double* sums) {
  const Tag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, from + i)), d, sums + i);
  for (; i < n; ++i) sums[i] += from[i];
}

template <class T>
void narrow_terms(const float* terms, std::int64_t n, std::byte* bytes, bool streamed) {
  T* const to = reinterpret_cast<T*>(bytes);
  const std::int64_t step = 2 * static_cast<std::int64_t>(hn::Lanes(Tag<float>()));
  std::int64_t i = 0;
  if (streamed) {
    const std::uintptr_t missing =
        -reinterpret_cast<std::uintptr_t>(to) & (static_cast<std::size_t>(step) * sizeof(T) - 1);
    const std::int64_t head = std::min(n, static_cast<std::int64_t>(missing / sizeof(T)));
    for (; i < head; ++i) to[i] = scalar::narrow<T>(terms[i]);
    for (; i + step <= n; i += step) narrow_step<true>(terms + i, to + i);
  }
  for (; i + step <= n; i += step) narrow_step<false>(terms + i, to + i);
  for (; i < n; ++i) to[i] = scalar::narrow<T>(terms[i]);
}

template <class... T>
constexpr std::array<NarrowTerms, sizeof...(T)> narrow_terms_of(TypeList<T...>) {
  const auto of = []<class U>(U) -> NarrowTerms {
    if constexpr (numerics::Pattern<U>) return &narrow_terms<U>;
    return nullptr;
  };
  return {of(T())...};
}

constexpr SumKernels kSumKernels = {&sum_blocks<float>,
                                    &sum_blocks<double>,
                                    &sum_rows<float>,
                                    &sum_rows<double>,
                                    &add_sums,
                                    narrow_terms_of(ElementTypes()),
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
