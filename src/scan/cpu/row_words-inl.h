// Blocks of 64 elements side by side in lanes of 32 bits, twice as many as there are of 64: for scans that choose among
// elements and add nothing up. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_WORDS_INL_H_
#undef PLANCK_SCAN_ROW_WORDS_INL_H_
#else
#define PLANCK_SCAN_ROW_WORDS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <type_traits>

#include "scan/cpu/row_quarters-inl.h"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Every f32, f16 and bf16 fits, and a place below 2^32 by its bits.
template <>
struct RowRegistersOf<float> {
  using V = Vec<float>;
  using Value = float;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<float>()));
  static constexpr int kBlock = numerics::kRadix;
  static constexpr int kLaneElements = static_cast<int>(kRowLane);
  static_assert(kLanes == 4 || kLanes == 8 || kLanes == 16);
  template <class T>
  static constexpr int kSteps = sizeof(T) == 2 ? 2 * kBlock : kBlock;

  template <class T, int steps, bool back>
  static PLANCK_MATH void load(const std::byte* const* from, std::int64_t first, V* x) {
    for (int s = 0; s < steps; s += kSteps<T>) load_steps<T, back>({from, first + s, back}, x + s);
  }
  template <class T, int steps, bool back>
  static PLANCK_MATH void store(const V* x, std::byte* const* to, std::int64_t first) {
    for (int s = 0; s < steps; s += kSteps<T>) store_steps<T, back>(x + s, {to, first + s, back});
  }

  static PLANCK_MATH V of_lanes(const float* x) { return V(RowQuarters::of_lanes(Tag<float>(), x)); }
  static PLANCK_MATH V flip(V x, std::uint64_t mask) {
    return V(hn::Xor(x.raw, from_bits(Bits(static_cast<std::uint32_t>(mask >> 32))).raw));
  }
  static PLANCK_MATH float place(std::int64_t p) { return std::bit_cast<float>(static_cast<std::uint32_t>(p)); }
  static PLANCK_MATH V moved(V place, V by) { return from_bits(bits(place) + bits(by)); }
  /// A state's part as scalar lanes have it, and back.
  static PLANCK_MATH double wide(float part, bool place) {
    return place ? static_cast<double>(std::bit_cast<std::uint32_t>(part)) : static_cast<double>(part);
  }
  static PLANCK_MATH float narrow(double part, bool place) {
    return place ? RowRegistersOf::place(static_cast<std::int64_t>(part)) : static_cast<float>(part);
  }

 private:
  using Bits = Vec<std::uint32_t>;
  template <class T>
  using Places = RowPlaces<T, kSteps<T>>;
  static constexpr int kRows = RowQuarters::kRows;
  static constexpr int kQuarters = kLanes / kRows;

  template <class T, bool back>
  static constexpr int step(int s) {
    return back ? kSteps<T> - 1 - s : s;
  }

  /// Words 0 … 3 of all lanes' eight, then the others.
  template <class T, bool back>
  static PLANCK_MATH void load_steps(const Places<T>& from, V* x) {
    for (int half = 0; half < 2; ++half) {
      Bits rows[kRows];
      for (int r = 0; r < kRows; ++r) rows[r] = Bits(load_row<kQuarters>(from, r, half * kRows));
      RowQuarters::transpose(rows);
      for (int r = 0; r < kRows; ++r) {
        const int word = half * kRows + r;
        if constexpr (sizeof(T) == 4) {
          x[step<T, back>(word)] = from_bits(rows[r]);
        } else {
          V pair[2];
          widen_pairs(T(), rows[r], pair);
          for (int odd = 0; odd < 2; ++odd) x[step<T, back>(2 * word + odd)] = pair[odd];
        }
      }
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void store_steps(const V* x, const Places<T>& to) {
    for (int half = 0; half < 2; ++half) {
      Bits rows[kRows];
      for (int r = 0; r < kRows; ++r) {
        const int word = half * kRows + r;
        if constexpr (sizeof(T) == 2) {
          rows[r] = narrow_pairs(T(), x[step<T, back>(2 * word)], x[step<T, back>(2 * word + 1)]);
        } else {
          rows[r] = bits(x[step<T, back>(word)]);
        }
      }
      RowQuarters::transpose(rows);
      for (int r = 0; r < kRows; ++r) store_row<kQuarters>(rows[r].raw, to, r, half * kRows);
    }
  }

  /// Four words of each of so many lanes, kRows apart: a quarter of 128 bits each.
  template <int quarters>
  using Words = hn::FixedTag<std::uint32_t, quarters * kRows>;
  template <int quarters, class T>
  static PLANCK_MATH hn::Vec<Words<quarters>> load_row(const Places<T>& from, int lane, int word) {
    if constexpr (quarters == 1) {
      return hn::LoadU(Words<1>(), from.template at<const std::uint32_t>(lane) + word);
    } else {
      const auto low = load_row<quarters / 2>(from, lane, word);
      const auto high = load_row<quarters / 2>(from, lane + quarters / 2 * kRows, word);
      return hn::Combine(Words<quarters>(), high, low);
    }
  }
  template <int quarters, class T>
  static PLANCK_MATH void store_row(hn::Vec<Words<quarters>> row, const Places<T>& to, int lane, int word) {
    if constexpr (quarters > 1) {
      const Words<quarters / 2> half;
      store_row<quarters / 2>(hn::LowerHalf(half, row), to, lane, word);
      store_row<quarters / 2>(hn::UpperHalf(half, row), to, lane + quarters / 2 * kRows, word);
    } else if constexpr (sizeof(T) <= 4) {
      hn::StoreU(row, Words<1>(), to.template at<std::uint32_t>(lane) + word);
    } else {
      store_wide(row, to.template at<std::uint64_t>(lane) + word);
    }
  }
  /// Four places in 64 bits.
  template <class Raw>
  static PLANCK_MATH void store_wide(Raw places, std::uint64_t* to) {
    using D = hn::DFromV<Raw>;
    if constexpr (kLanes == 4) {
      const hn::Half<D> half;
      const hn::RepartitionToWide<D> d;
      hn::StoreU(hn::PromoteTo(d, hn::LowerHalf(half, places)), d, to);
      hn::StoreU(hn::PromoteTo(d, hn::UpperHalf(half, places)), d, to + 2);
    } else {
      const hn::Rebind<std::uint64_t, D> d;
      hn::StoreU(hn::PromoteTo(d, places), d, to);
    }
  }

  // ---- pairs of 16 bits; elements go out as they came, and so nothing is rounded ----

  static PLANCK_MATH void widen_pairs(bf16, Bits pairs, V* pair) {
    pair[0] = from_bits(shift_left<16>(pairs));
    pair[1] = from_bits(pairs & Bits(0xFFFF0000U));
  }
  static PLANCK_MATH Bits narrow_pairs(bf16, V even, V odd) {
    return shift_right<16>(bits(even)) | (bits(odd) & Bits(0xFFFF0000U));
  }
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  /// Even elements of all quarters before the odd ones, or back.
  alignas(64) static constexpr std::int64_t kApart[8] = {0, 2, kLanes == 8 ? 1 : 4, kLanes == 8 ? 3 : 6, 1, 3, 5, 7};
  alignas(64) static constexpr std::int64_t kTogether[8] = {0, kLanes == 8 ? 2 : 4, 1, kLanes == 8 ? 3 : 5, 2, 6, 3, 7};
  static PLANCK_MATH void widen_pairs(f16, Bits pairs, V* pair) {
    const hn::Half<Tag<std::uint16_t>> half;
    const auto in_quarters = RowQuarters::sort_pairs(hn::BitCast(Tag<std::uint16_t>(), pairs.raw), true);
    const auto apart = RowQuarters::sort_halves(in_quarters, kApart);
    const auto widened = [&](auto patterns) {
      return V(hn::PromoteTo(Tag<float>(), hn::BitCast(Narrow<hwy::float16_t, float>(), patterns)));
    };
    pair[0] = widened(hn::LowerHalf(half, apart));
    pair[1] = widened(hn::UpperHalf(half, apart));
  }
  static PLANCK_MATH Bits narrow_pairs(f16, V even, V odd) {
    const Tag<std::uint16_t> d;
    const auto apart = hn::Combine(d, to_patterns<f16>(odd), to_patterns<f16>(even));
    const auto in_quarters = RowQuarters::sort_halves(apart, kTogether);
    return Bits(hn::BitCast(Tag<std::uint32_t>(), RowQuarters::sort_pairs(in_quarters, false)));
  }
#else
  static PLANCK_MATH void widen_pairs(f16, Bits pairs, V* pair) {
    pair[0] = widen_f16(pairs & Bits(0xFFFFU));
    pair[1] = widen_f16(shift_right<16>(pairs));
  }
  static PLANCK_MATH Bits narrow_pairs(f16, V even, V odd) {
    return narrow_f16(even) | shift_left<16>(narrow_f16(odd));
  }
#endif
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
