// Blocks of 64 elements side by side, one in each lane of a register: the transpose on the way in and out, a few steps
// of all blocks at a time. Elements of 16 and 32 bits are transposed before they are widened, within quarters of a
// register alone. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_REGISTERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_REGISTERS_INL_H_
#undef PLANCK_SCAN_ROW_REGISTERS_INL_H_
#else
#define PLANCK_SCAN_ROW_REGISTERS_INL_H_
#endif

#include <hwy/highway.h>

#include <type_traits>
#include <utility>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/row_quarters-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

template <class Value>
struct RowRegistersOf {
  using V = Vec<Value>;
  using Many = ManyLanesOf<Value>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<Value>()));
  static constexpr int kBlock = numerics::kRadix;
  static constexpr int kLaneElements = static_cast<int>(kRowLane);
  static_assert(kLanes == 2 || kLanes == 4 || kLanes == 8);

  /// Steps that an element kind is loaded and stored in: 16-bit elements travel as pairs.
  template <class T>
  static constexpr int kSteps = sizeof(T) == 2 ? 2 * kBlock : kBlock;

  /// x[s] = element s of every lane, for as many steps as `steps`. `from` has each lane's first element; with `back`
  /// the others lie before it. No branch chooses the way: registers then need not wait for it in memory.
  template <class T, int steps, bool back>
  static PLANCK_MATH void load(const std::byte* const* from, std::int64_t first, V* x) {
    for (int s = 0; s < steps; s += kSteps<T>) load_steps<T, back>({from, first + s, back}, x + s);
  }
  template <class T, int steps, bool back>
  static PLANCK_MATH void store(const V* x, std::byte* const* to, std::int64_t first) {
    for (int s = 0; s < steps; s += kSteps<T>) store_steps<T, back>(x + s, {to, first + s, back});
  }

  /// Steps as lanes have them, not transposed; and those that were stored so by a run the other way: `first` is then
  /// counted from the end, and so are the lanes.
  template <int steps>
  static PLANCK_MATH void store_lanes(const V* x, std::int64_t first, Value* to) {
    for (int s = 0; s < steps; ++s) hn::StoreU(x[s].raw, Tag<Value>(), to + (first + s) * kLanes);
  }
  template <int steps>
  static PLANCK_MATH void load_lanes_back(const Value* lowest, std::int64_t first, V* x) {
    const Tag<Value> d;
    for (int s = 0; s < steps; ++s) {
      x[s] = V(hn::Reverse(d, hn::LoadU(d, lowest + (kLaneElements - 1 - first - s) * kLanes)));
    }
  }

  static PLANCK_MATH V of_lanes(const Value* x) { return V(RowQuarters::of_lanes(Tag<Value>(), x)); }
  static PLANCK_MATH Value first(V v) { return hn::GetLane(v.raw); }

  static PLANCK_MATH V flip(V x, std::uint64_t mask) { return Many::flip(x, mask); }
  /// A place along the row in a lane, and further on.
  static PLANCK_MATH Value place(std::int64_t p) { return static_cast<Value>(p); }
  static PLANCK_MATH V moved(V place, V by) { return place + by; }
  /// A state's part, perhaps a place, as scalar lanes have it, and back.
  static PLANCK_MATH Value wide(Value part, bool) { return part; }
  static PLANCK_MATH Value narrow(Value part, bool) { return part; }

 private:
  template <class T>
  using Places = RowPlaces<T, kSteps<T>>;
  using Bits = Vec<std::uint32_t>;
  using Bits16 = hn::Vec<Tag<std::uint16_t>>;
  /// Elements of 32 bits, or pairs of 16, fill registers before they are widened; two lanes would leave half of one
  /// empty.
  template <class T>
  static constexpr bool kNarrow = kLanes >= 4 && sizeof(T) <= 4;
  static constexpr int kRows = RowQuarters::kRows;  ///< each has a piece of kLanes / 4 lanes

  template <class T, bool back>
  static PLANCK_MATH void load_steps(const Places<T>& from, V* x) {
    if constexpr (!kNarrow<T>) {
      load_wide<T, back>(from, x);
    } else {
      Bits rows[kRows];
      for (int r = 0; r < kRows; ++r) rows[r] = load_row(from, r);
      RowQuarters::transpose(rows);
      for (int r = 0; r < kRows; ++r) {
        if constexpr (sizeof(T) == 4) {
          V pair[2];
          widen<T>(rows[r].raw, pair);
          for (int h = 0; h < 2; ++h) x[step<T, back>(r + kRows * h)] = pair[h];
        } else {
          V four[4];
          widen_pairs(T(), rows[r], four);
          for (int h = 0; h < 2; ++h) {
            for (int odd = 0; odd < 2; ++odd) x[step<T, back>(2 * (r + kRows * h) + odd)] = four[2 * h + odd];
          }
        }
      }
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void store_steps(const V* x, const Places<T>& to) {
    if constexpr (!kNarrow<T>) {
      store_wide<T, back>(x, to);
    } else {
      Bits rows[kRows];
      for (int r = 0; r < kRows; ++r) {
        if constexpr (sizeof(T) == 4) {
          rows[r] = narrow<T>(x[step<T, back>(r)], x[step<T, back>(r + kRows)]);
        } else {
          V four[4];
          for (int h = 0; h < 2; ++h) {
            for (int odd = 0; odd < 2; ++odd) four[2 * h + odd] = x[step<T, back>(2 * (r + kRows * h) + odd)];
          }
          rows[r] = narrow_pairs(T(), four);
        }
      }
      RowQuarters::transpose(rows);
      for (int r = 0; r < kRows; ++r) store_row(rows[r], to, r);
    }
  }
  template <class T, bool back>
  static constexpr int step(int s) {
    return back ? kSteps<T> - 1 - s : s;
  }

  // ---- rows of 32-bit words: a step's word of the first four lanes comes in one quarter, of the next four beside it
  // ----

  template <class T>
  static PLANCK_MATH Bits load_row(const Places<T>& from, int r) {
    const Tag<std::uint32_t> d;
    if constexpr (kLanes == 4) {
      return Bits(hn::LoadU(d, from.template at<const std::uint32_t>(r)));
    } else {
      const hn::Half<Tag<std::uint32_t>> half;
      const auto low = hn::LoadU(half, from.template at<const std::uint32_t>(r));
      const auto high = hn::LoadU(half, from.template at<const std::uint32_t>(r + kRows));
      return swap_middle_quarters(hn::Combine(d, high, low));
    }
  }
  template <class T>
  static PLANCK_MATH void store_row(Bits row, const Places<T>& to, int r) {
    const Tag<std::uint32_t> d;
    if constexpr (kLanes == 4) {
      hn::StoreU(row.raw, d, to.template at<std::uint32_t>(r));
    } else {
      const hn::Half<Tag<std::uint32_t>> half;
      const auto both = swap_middle_quarters(row.raw).raw;
      hn::StoreU(hn::LowerHalf(half, both), half, to.template at<std::uint32_t>(r));
      hn::StoreU(hn::UpperHalf(half, both), half, to.template at<std::uint32_t>(r + kRows));
    }
  }
  template <class Raw>
  static PLANCK_MATH Bits swap_middle_quarters(Raw words) {
    const Tag<std::uint64_t> d;
    alignas(64) static constexpr std::int64_t kOrder[8] = {0, 1, 4, 5, 2, 3, 6, 7};
    const auto moved = hn::TableLookupLanes(hn::BitCast(d, words), hn::SetTableIndices(d, kOrder));
    return Bits(hn::BitCast(Tag<std::uint32_t>(), moved));
  }

  // ---- from words to f64 and back ----

  template <class T, class Raw>
  static PLANCK_MATH void widen(Raw words, V* halves) {
    using W = std::conditional_t<std::is_same_v<T, std::int32_t>, std::int32_t, float>;
    const auto row = hn::BitCast(Tag<W>(), words);
    const hn::Half<Tag<W>> half;
    halves[0] = Many::widen(hn::LowerHalf(half, row));
    halves[1] = Many::widen(hn::UpperHalf(half, row));
  }
  template <class T>
  static PLANCK_MATH Bits narrow(V low, V high) {
    using W = std::conditional_t<std::is_same_v<T, std::int32_t>, std::int32_t, float>;
    return Bits(hn::BitCast(Tag<std::uint32_t>(), Many::template narrow<W>(low, high).raw));
  }

  /// four[2 h + odd]: of half h of the pairs, the even or the odd elements.
  static PLANCK_MATH void widen_pairs(bf16, Bits pairs, V* four) {
    V even[2];
    V odd[2];
    widen<float>(shift_left<16>(pairs).raw, even);
    widen<float>((pairs & Bits(0xFFFF0000U)).raw, odd);
    for (int h = 0; h < 2; ++h) {
      four[2 * h] = even[h];
      four[2 * h + 1] = odd[h];
    }
  }
  static PLANCK_MATH Bits narrow_pairs(bf16, const V* four) {
    const Bits even = shift_right<16>(round_up(narrow<float>(four[0], four[2])));
    return even | (round_up(narrow<float>(four[1], four[3])) & Bits(0xFFFF0000U));
  }
  /// As round_to_bf16, but for NaN: of one that came from 16 bits, or from no NaN, the lower half is 0, and nothing is
  /// carried into what makes it one.
  static PLANCK_MATH Bits round_up(Bits u) { return u + Bits(0x7FFFU) + (shift_right<16>(u) & Bits(1U)); }

#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
  /// F16C widens eight neighbours: within a quarter the even elements come first, and of two quarters in a half too.
  static PLANCK_MATH void widen_pairs(f16, Bits pairs, V* four) {
    const hn::Half<Tag<std::uint16_t>> half;
    const Bits16 apart = sort_pairs(hn::BitCast(Tag<std::uint16_t>(), pairs.raw), true);
    const auto widened = [&](auto patterns, V* two) {
      const auto singles = hn::PromoteTo(Tag<float>(), hn::BitCast(Narrow<hwy::float16_t, float>(), patterns));
      widen<float>(hn::BitCast(Tag<std::uint32_t>(), singles), two);
    };
    widened(hn::LowerHalf(half, apart), four);
    widened(hn::UpperHalf(half, apart), four + 2);
  }
  static PLANCK_MATH Bits narrow_pairs(f16, const V* four) {
    const auto patterns = [&](const V* two) { return to_patterns<f16>(from_bits(narrow<float>(two[0], two[1]))); };
    const Bits16 apart = hn::Combine(Tag<std::uint16_t>(), patterns(four + 2), patterns(four));
    return Bits(hn::BitCast(Tag<std::uint32_t>(), sort_pairs(apart, false)));
  }
  /// Even elements of a quarter before the odd ones, or back; and so of two quarters in a half.
  static PLANCK_MATH Bits16 sort_pairs(Bits16 x, bool apart) {
    if constexpr (kLanes == 4) {
      return RowQuarters::sort_pairs(x, apart);
    } else {
      alignas(64) static constexpr std::int64_t kOrder[8] = {0, 2, 1, 3, 4, 6, 5, 7};
      if (apart) return RowQuarters::sort_halves(RowQuarters::sort_pairs(x, apart), kOrder);
      return RowQuarters::sort_pairs(RowQuarters::sort_halves(x, kOrder), apart);
    }
  }
#else
  static PLANCK_MATH void widen_pairs(f16, Bits pairs, V* four) {
    V even[2];
    V odd[2];
    widen<float>(bits(widen_f16(pairs & Bits(0xFFFFU))).raw, even);
    widen<float>(bits(widen_f16(shift_right<16>(pairs))).raw, odd);
    for (int h = 0; h < 2; ++h) {
      four[2 * h] = even[h];
      four[2 * h + 1] = odd[h];
    }
  }
  static PLANCK_MATH Bits narrow_pairs(f16, const V* four) {
    const Bits even = narrow_f16(from_bits(narrow<float>(four[0], four[2])));
    return even | shift_left<16>(narrow_f16(from_bits(narrow<float>(four[1], four[3]))));
  }
#endif

  // ---- elements of 64 bits, and two lanes: widened first, then transposed in squares ----

  static constexpr int kRowRegisters = kBlock / kLanes;  ///< of a block of eight, as it lies in memory

  template <class T, bool back>
  static PLANCK_MATH void load_wide(const Places<T>& from, V* x) {
    for (int half = 0; half < kSteps<T> / kBlock; ++half) {
      V rows[kLanes][kRowRegisters];
      for (int b = 0; b < kLanes; ++b) load_block(from.at(b) + half * kBlock, rows[b]);
      for (int c = 0; c < kRowRegisters; ++c) {
        V square[kLanes];
        for (int b = 0; b < kLanes; ++b) square[b] = rows[b][c];
        transpose(square);
        for (int j = 0; j < kLanes; ++j) x[step<T, back>(half * kBlock + c * kLanes + j)] = square[j];
      }
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void store_wide(const V* x, const Places<T>& to) {
    for (int half = 0; half < kSteps<T> / kBlock; ++half) {
      V rows[kLanes][kRowRegisters];
      for (int c = 0; c < kRowRegisters; ++c) {
        V square[kLanes];
        for (int j = 0; j < kLanes; ++j) square[j] = x[step<T, back>(half * kBlock + c * kLanes + j)];
        transpose(square);
        for (int b = 0; b < kLanes; ++b) rows[b][c] = square[b];
      }
      for (int b = 0; b < kLanes; ++b) store_block(rows[b], to.template at<T>(b) + half * kBlock);
    }
  }
  /// Eight elements.
  template <class T>
  static PLANCK_MATH void load_block(const T* from, V* row) {
    if constexpr (sizeof(T) == 8) {
      for (int c = 0; c < kRowRegisters; ++c) row[c] = Many::load_register(from + c * kLanes);
    } else {
      static_assert(sizeof(T) == 8 || Many::kRegisters == kRowRegisters);
      Many::template load<T>(reinterpret_cast<const std::byte*>(from), row);
    }
  }
  template <class T>
  static PLANCK_MATH void store_block(const V* row, T* to) {
    if constexpr (sizeof(T) == 8) {
      for (int c = 0; c < kRowRegisters; ++c) Many::store_register(row[c], to + c * kLanes, false);
    } else {
      static_assert(sizeof(T) == 8 || Many::kRegisters == kRowRegisters);
      Many::template store<T>(row, reinterpret_cast<std::byte*>(to));
    }
  }

  /// A square tile, rows to columns.
  static PLANCK_MATH void transpose(V* tile) {
    const Tag<Value> d;
    hn::Vec<Tag<Value>> even[kLanes / 2];  // of two rows, their even columns side by side
    hn::Vec<Tag<Value>> odd[kLanes / 2];
    for (int p = 0; p < kLanes / 2; ++p) {
      even[p] = hn::InterleaveLower(d, tile[2 * p].raw, tile[2 * p + 1].raw);
      odd[p] = hn::InterleaveUpper(d, tile[2 * p].raw, tile[2 * p + 1].raw);
    }
    transpose_pairs(even, tile);
    transpose_pairs(odd, tile + 1);
  }
  /// Pair k of every register to the columns 2 k.
  static PLANCK_MATH void transpose_pairs(const hn::Vec<Tag<Value>>* pairs, V* columns) {
    const Tag<Value> d;
    if constexpr (kLanes == 2) {
      columns[0] = V(pairs[0]);
    } else if constexpr (kLanes == 4) {
      columns[0] = V(hn::ConcatLowerLower(d, pairs[1], pairs[0]));
      columns[2] = V(hn::ConcatUpperUpper(d, pairs[1], pairs[0]));
    } else {
      transpose_halves(hn::ConcatLowerLower(d, pairs[2], pairs[0]), hn::ConcatLowerLower(d, pairs[3], pairs[1]),
                       columns);
      transpose_halves(hn::ConcatUpperUpper(d, pairs[2], pairs[0]), hn::ConcatUpperUpper(d, pairs[3], pairs[1]),
                       columns + 4);
    }
  }
  template <class Raw>
  static PLANCK_MATH void transpose_halves(Raw a, Raw b, V* columns) {
    columns[0] = V(hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a));
    columns[2] = V(hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a)));
  }
};
using RowRegisters = RowRegistersOf<double>;

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
