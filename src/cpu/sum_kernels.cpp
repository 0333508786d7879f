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
#include "cpu/simd/span-inl.h"
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

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define PLANCK_LOOKS_FOR_NAN
PLANCK_MATH bool any_nan(const Pair<bf16>& a, const Pair<bf16>& b) {
#if HWY_TARGET == HWY_AVX3
  return (_mm512_cmp_ps_mask(a.first.raw.raw, a.second.raw.raw, _CMP_UNORD_Q) |
          _mm512_cmp_ps_mask(b.first.raw.raw, b.second.raw.raw, _CMP_UNORD_Q)) != 0;
#else
  return _mm256_movemask_ps(_mm256_or_ps(_mm256_cmp_ps(a.first.raw.raw, a.second.raw.raw, _CMP_UNORD_Q),
                                         _mm256_cmp_ps(b.first.raw.raw, b.second.raw.raw, _CMP_UNORD_Q))) != 0;
#endif
}
#endif

/// The same for n elements from i on, as far as they fill registers; gives where that ends.
template <bool streamed, class T>
PLANCK_MATH std::int64_t narrow_steps(const float* from, std::int64_t i, std::int64_t n, T* to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<float>()));
#ifdef PLANCK_LOOKS_FOR_NAN
  // NaN is looked for in two registers at once, and seldom found.
  if constexpr (std::is_same_v<T, bf16>) {
    const float* x = from + i;
    T* y = to + i;
    for (; i + 4 * lanes <= n; i += 4 * lanes, x += 4 * lanes, y += 4 * lanes) {
      const Pair<T> low{load<float>(x), load<float>(x + lanes)};
      const Pair<T> high{load<float>(x + 2 * lanes), load<float>(x + 3 * lanes)};
      if (any_nan(low, high)) {
        store_in_order<streamed>(low, y);
        store_in_order<streamed>(high, y + 2 * lanes);
      } else {
        store_numbers_in_order<streamed>(low, y);
        store_numbers_in_order<streamed>(high, y + 2 * lanes);
      }
    }
  }
#undef PLANCK_LOOKS_FOR_NAN
#endif
  for (; i + 2 * lanes <= n; i += 2 * lanes) narrow_step<streamed>(from + i, to + i);
  return i;
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
  /// Sums to go on from, or the first terms.
  PLANCK_MATH explicit BlockSums(const double* from)
      : low_(hn::LoadU(Tag<double>(), from)),
        high_(sizeof(Term) == 8 ? low_ : hn::LoadU(Tag<double>(), from + hn::Lanes(Tag<double>()))) {}
  PLANCK_MATH explicit BlockSums(const float* from) : low_(low(from)), high_(high(from)) {}
  /// From memory: half a register is loaded and widened in one instruction.
  PLANCK_MATH void add(const Term* from) {
    low_ = hn::Add(low_, low(from));
    if constexpr (sizeof(Term) == 4) high_ = hn::Add(high_, high(from));
  }
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
  static PLANCK_MATH Wide low(const double* from) { return hn::LoadU(Tag<double>(), from); }
  static PLANCK_MATH Wide low(const float* from) {
    return hn::PromoteTo(Tag<double>(), hn::LoadU(hn::Half<Tag<float>>(), from));
  }
  static PLANCK_MATH Wide high(const float* from) { return low(from + hn::Lanes(Tag<double>())); }
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
/// The totals of four blocks of f32, each a register, `pitch` apart: transposed within halves, a third fewer shuffles
/// than the above.
PLANCK_MATH auto sum_of_four_blocks(const float* terms, std::int64_t pitch) {
  const hn::FixedTag<float, 8> d;
  const hn::Half<decltype(d)> half;
  const hn::FixedTag<double, 4> wide;
  using Raw = hn::Vec<decltype(d)>;
  const Raw x0 = hn::LoadU(d, terms);
  const Raw x1 = hn::LoadU(d, terms + pitch);
  const Raw x2 = hn::LoadU(d, terms + 2 * pitch);
  const Raw x3 = hn::LoadU(d, terms + 3 * pitch);
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
  return sums;
}

#if HWY_TARGET == HWY_AVX3
/// The totals of eight blocks, two to a register: a third fewer instructions for each.
PLANCK_MATH auto sum_of_eight_blocks(const float* terms, std::int64_t pitch) {
  const Tag<float> d;
  const Tag<double> wide;
  const hn::Half<Tag<float>> half;
  using Raw = hn::Vec<Tag<float>>;
  Raw x[4];  // blocks k and 4 + k
  for (int k = 0; k < 4; ++k) {
    x[k] = hn::Combine(d, hn::LoadU(half, terms + (4 + k) * pitch), hn::LoadU(half, terms + k * pitch));
  }
  const auto low_01 = hn::BitCast(wide, hn::InterleaveLower(d, x[0], x[1]));
  const auto low_23 = hn::BitCast(wide, hn::InterleaveLower(d, x[2], x[3]));
  const auto high_01 = hn::BitCast(wide, hn::InterleaveUpper(d, x[0], x[1]));
  const auto high_23 = hn::BitCast(wide, hn::InterleaveUpper(d, x[2], x[3]));
  // Element k of the eight blocks in the lower half of each register, 4 + k in the upper one.
  const __m512i order = _mm512_setr_epi64(0, 1, 4, 5, 2, 3, 6, 7);
  const auto turned = [&](hn::Vec<Tag<double>> v) {
    return Raw{_mm512_castpd_ps(_mm512_permutexvar_pd(order, v.raw))};
  };
  const Raw transposed[] = {
      turned(hn::InterleaveLower(wide, low_01, low_23)), turned(hn::InterleaveUpper(wide, low_01, low_23)),
      turned(hn::InterleaveLower(wide, high_01, high_23)), turned(hn::InterleaveUpper(wide, high_01, high_23))};
  auto sums = hn::PromoteTo(wide, hn::LowerHalf(half, transposed[0]));
  for (int k = 1; k < 4; ++k) sums = hn::Add(sums, hn::PromoteTo(wide, hn::LowerHalf(half, transposed[k])));
  for (const Raw& each : transposed) sums = hn::Add(sums, hn::PromoteTo(wide, hn::UpperHalf(half, each)));
  return sums;
}
#endif

/// As many blocks of f32 as one register of f64 has lanes, and their totals.
#if HWY_TARGET == HWY_AVX3
using WideSums = Tag<double>;
PLANCK_MATH auto sum_of_blocks(const float* terms, std::int64_t pitch) { return sum_of_eight_blocks(terms, pitch); }
#else
using WideSums = hn::FixedTag<double, 4>;
PLANCK_MATH auto sum_of_blocks(const float* terms, std::int64_t pitch) { return sum_of_four_blocks(terms, pitch); }
#endif

/// So many blocks of 64, one to a lane.
PLANCK_MATH void sum_lanes_of_blocks_of_64(const float* terms, double* sevens, double* eighths) {
  constexpr std::int64_t kBlock = kRadix * kRadix;
  auto sums = sum_of_blocks(terms, kBlock);
#pragma GCC unroll 1  // g++ would take the additions of all blocks last, through memory
  for (int b = 1; b < kRadix - 1; ++b) sums = hn::Add(sums, sum_of_blocks(terms + b * kRadix, kBlock));
  hn::StoreU(sums, WideSums(), sevens);
  hn::StoreU(sum_of_blocks(terms + (kRadix - 1) * kRadix, kBlock), WideSums(), eighths);
}
#endif
#endif

template <class Term>
void sum_blocks(const Term* terms, std::int64_t blocks, double* totals) {
  std::int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_MAX_BYTES >= 32
  if constexpr (sizeof(Term) == 4) {
    constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(WideSums()));
    for (; b + kLanes <= blocks; b += kLanes) {
      hn::StoreU(sum_of_blocks(terms + kRadix * b, kRadix), WideSums(), totals + b);
    }
  }
#endif
#if HWY_TARGET != HWY_SCALAR
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<Term>()));
  for (; b + lanes <= blocks; b += lanes) sum_lanes_of_blocks(terms + kRadix * b, totals + b);
#endif
  for (; b < blocks; ++b) totals[b] = sum_block(terms + kRadix * b);
}

template <class Term>
void sum_blocks_of_64(const Term* terms, std::int64_t blocks, double* sevens, double* eighths) {
  std::int64_t b = 0;
#if HWY_TARGET != HWY_SCALAR && HWY_MAX_BYTES >= 32
  if constexpr (sizeof(Term) == 4) {
    constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(WideSums()));
    for (; b + kLanes <= blocks; b += kLanes) {
      sum_lanes_of_blocks_of_64(terms + kRadix * kRadix * b, sevens + b, eighths + b);
    }
  }
#endif
  for (; b < blocks; ++b) {
    double of_8[kRadix];
    sum_blocks(terms + kRadix * kRadix * b, kRadix, of_8);
    sevens[b] = of_8[0];
    for (int k = 1; k < kRadix - 1; ++k) sevens[b] += of_8[k];
    eighths[b] = of_8[kRadix - 1];
  }
}

#if HWY_TARGET != HWY_SCALAR
/// As sum_rows, for as many columns as fill registers: gives how many those are. `fixed`: so many rows, or 0.
template <bool on, int fixed, class Term>
PLANCK_MATH std::int64_t sum_rows_of_registers(const Term* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n,
                                               double* sums) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<Term>()));
  if (fixed != 0) rows = fixed;
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const Term* const row = terms + i;
    BlockSums<Term> of_columns = on ? BlockSums<Term>(sums + i) : BlockSums<Term>(row);
    for (std::int64_t r = on ? 0 : 1; r < rows; ++r) of_columns.add(row + r * pitch);
    of_columns.store(sums + i);
  }
  return i;
}
#endif

template <class Term>
void sum_rows(const Term* terms, std::int64_t pitch, std::int64_t rows, std::int64_t n, double* sums, bool on) {
  std::int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  constexpr int kUsual = 4;  // rows of a panel
  if (rows == kUsual) {
    i = on ? sum_rows_of_registers<true, kUsual>(terms, pitch, rows, n, sums)
           : sum_rows_of_registers<false, kUsual>(terms, pitch, rows, n, sums);
  } else {
    i = on ? sum_rows_of_registers<true, 0>(terms, pitch, rows, n, sums)
           : sum_rows_of_registers<false, 0>(terms, pitch, rows, n, sums);
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
    i = narrow_steps<true>(terms, i, n, to);
  }
  i = narrow_steps<false>(terms, i, n, to);
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
                                    &sum_blocks_of_64<float>,
                                    &sum_blocks_of_64<double>,
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
