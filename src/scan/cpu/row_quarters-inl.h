// What lanes of 64 and of 32 bits share: where their steps lie, and shuffles within quarters of 128 bits. Re-included
// once per target.
#if defined(PLANCK_SCAN_ROW_QUARTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_QUARTERS_INL_H_
#undef PLANCK_SCAN_ROW_QUARTERS_INL_H_
#else
#define PLANCK_SCAN_ROW_QUARTERS_INL_H_
#endif

#include <hwy/highway.h>

#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Where so many steps of all lanes are: the first of them in memory, of lane b, lies at at(b).
template <class T, int steps>
struct RowPlaces {
  const std::byte* const* lanes;
  std::int64_t first;
  bool back;
  template <class U = const T>
  PLANCK_MATH U* at(int b) const {
    constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
    const std::int64_t low = back ? -(first + steps - 1) : first;
    return reinterpret_cast<U*>(const_cast<std::byte*>(lanes[b]) + low * kBytes);
  }
};

struct RowQuarters {
  using Bits = Vec<std::uint32_t>;
  using Bits16 = hn::Vec<Tag<std::uint16_t>>;
  static constexpr int kRows = 4;  ///< registers that are transposed together

  /// Rows to columns, in all quarters alike.
  static PLANCK_MATH void transpose(Bits* rows) {
    const Tag<std::uint32_t> d;
    const Tag<std::uint64_t> pairs;
    const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0].raw, rows[1].raw));
    const auto high = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0].raw, rows[1].raw));
    const auto next_low = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2].raw, rows[3].raw));
    const auto next_high = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2].raw, rows[3].raw));
    rows[0] = Bits(hn::BitCast(d, hn::InterleaveLower(pairs, low, next_low)));
    rows[1] = Bits(hn::BitCast(d, hn::InterleaveUpper(pairs, low, next_low)));
    rows[2] = Bits(hn::BitCast(d, hn::InterleaveLower(pairs, high, next_high)));
    rows[3] = Bits(hn::BitCast(d, hn::InterleaveUpper(pairs, high, next_high)));
  }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  /// Pairs of 16 bits to even elements and odd ones, or back.
  static PLANCK_MATH Bits16 sort_pairs(Bits16 x, bool apart) {
    const Tag<std::uint8_t> bytes;
    alignas(16) static constexpr std::uint8_t kApart[16] = {0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15};
    alignas(16) static constexpr std::uint8_t kTogether[16] = {0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    const auto order = hn::LoadDup128(bytes, apart ? kApart : kTogether);
    return hn::BitCast(Tag<std::uint16_t>(), hn::TableLookupBytes(hn::BitCast(bytes, x), order));
  }
  /// Halves of quarters to where `order` says.
  static PLANCK_MATH Bits16 sort_halves(Bits16 x, const std::int64_t* order) {
    const Tag<std::uint64_t> words;
    const auto moved = hn::TableLookupLanes(hn::BitCast(words, x), hn::SetTableIndices(words, order));
    return hn::BitCast(Tag<std::uint16_t>(), moved);
  }
#endif

  /// From scalars that are still in registers: a load of what was just stored piece by piece would wait for it.
  template <class D>
  static PLANCK_MATH hn::Vec<D> of_lanes(D d, const hn::TFromD<D>* x) {
    constexpr int kCount = static_cast<int>(hn::MaxLanes(D()));
    if constexpr (kCount == 2) {
      return hn::InterleaveLower(d, hn::Set(d, x[0]), hn::Set(d, x[1]));
    } else {
      const hn::Half<D> half;
      return hn::Combine(d, of_lanes(half, x + kCount / 2), of_lanes(half, x));
    }
  }
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
