// Elements of a row, transposed in registers: one block of eight in each lane. Re-included once per target.
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
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// Blocks side by side, one in each lane: their elements come in as rows of eight and are transposed.
struct RowRegisters {
  using V = Vec<double>;
  static constexpr int kLanes = static_cast<int>(hn::MaxLanes(Tag<double>()));
  static constexpr int kBlock = numerics::kRadix;
  static constexpr int kGroup = kBlock * kLanes;  ///< elements of all of them
  static_assert(kLanes == 2 || kLanes == 4 || kLanes == 8);

  /// x[s] = element s of every block. `from` is the first; with `back` the others lie before it.
  template <class T>
  static PLANCK_MATH void load(const std::byte* from, bool back, V* x) {
    if (back) return load_transposed<T, true>(from - (kGroup - 1) * static_cast<std::int64_t>(sizeof(T)), x);
    load_transposed<T, false>(from, x);
  }
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool back, bool streamed) {
    if (back) return store_transposed<T, true>(x, to - (kGroup - 1) * static_cast<std::int64_t>(sizeof(T)), streamed);
    store_transposed<T, false>(x, to, streamed);
  }

  /// A group as lanes have it, not transposed; and one that was stored so, as a run the other way has it.
  static PLANCK_MATH void store_lanes(const V* x, std::byte* to) {
    for (int s = 0; s < kBlock; ++s) hn::StoreU(x[s].raw, Tag<double>(), reinterpret_cast<double*>(to) + s * kLanes);
  }
  static PLANCK_MATH void load_lanes_back(const std::byte* from, V* x) {
    const Tag<double> d;
    const double* const lowest = reinterpret_cast<const double*>(from) - (kGroup - 1);
    for (int s = 0; s < kBlock; ++s) x[s] = V(hn::Reverse(d, hn::LoadU(d, lowest + (kBlock - 1 - s) * kLanes)));
  }

  static PLANCK_MATH V broadcast_last(V v) {
    const Tag<double> d;
    alignas(64) std::int64_t last[kLanes];
    for (int b = 0; b < kLanes; ++b) last[b] = kLanes - 1;
    return V(hn::TableLookupLanes(v.raw, hn::SetTableIndices(d, last)));
  }
  /// Every lane gets its neighbour's value, the first one `prefix`.
  static PLANCK_MATH V move_up(V v, V prefix) {
    const Tag<double> d;
    alignas(64) std::int64_t neighbours[kLanes];
    for (int b = 0; b < kLanes; ++b) neighbours[b] = (b + kLanes - 1) % kLanes;
    const V moved(hn::TableLookupLanes(v.raw, hn::SetTableIndices(d, neighbours)));
    return select(first_lanes(1), prefix, moved);
  }
  static PLANCK_MATH Mask<double> first_lanes(int n) {
    return {hn::FirstN(Tag<double>(), static_cast<std::size_t>(n))};
  }
  static PLANCK_MATH double first(V v) { return hn::GetLane(v.raw); }
  static PLANCK_MATH V numbers() { return V(hn::Iota(Tag<double>(), 0.0)); }

 private:
  static constexpr int kRegisters = kBlock;                  ///< of a group
  static constexpr int kRowRegisters = kRegisters / kLanes;  ///< of a block, as it lies in memory

  /// With AVX2 a row of f32 fills a register: transposed before it is widened, half as much has to move, and nothing
  /// from one half of a register to the other.
  template <class T>
  static constexpr bool kNarrow = kLanes == 4 && sizeof(T) <= 4;
  using Row32 = hn::Vec<Tag<float>>;

  template <class T, bool back>
  static PLANCK_MATH void load_transposed(const std::byte* from, V* x) {
    if constexpr (kNarrow<T>) {
      load_narrow<T, back>(reinterpret_cast<const T*>(from), x);
    } else {
      load_wide<T, back>(from, x);
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void store_transposed(const V* x, std::byte* to, bool streamed) {
    if constexpr (kNarrow<T>) {
      Row32 rows[kLanes];
      narrow<T, back>(x, rows);
      if (streamed) return store_narrow<T, true>(rows, reinterpret_cast<T*>(to));
      store_narrow<T, false>(rows, reinterpret_cast<T*>(to));
    } else {
      store_wide<T, back>(x, to, streamed);
    }
  }

  template <class T, bool back>
  static PLANCK_MATH void load_narrow(const T* from, V* x) {
    const Tag<float> d;
    Row32 rows[kLanes];
    for (int b = 0; b < kLanes; ++b) {
      const T* row = from + (back ? kLanes - 1 - b : b) * kBlock;
      if constexpr (std::is_same_v<T, std::int32_t>) {
        rows[b] = hn::BitCast(d, hn::LoadU(Tag<std::int32_t>(), row));
      } else {
        rows[b] = HWY_NAMESPACE::load<float>(row).raw;
      }
    }
    transpose_in_halves(rows);
    const hn::Half<Tag<float>> half;
    for (int s = 0; s < kLanes; ++s) {
      x[back ? kBlock - 1 - s : s] = widen<T>(hn::LowerHalf(half, rows[s]));
      x[back ? kLanes - 1 - s : kLanes + s] = widen<T>(hn::UpperHalf(half, rows[s]));
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void narrow(const V* x, Row32* rows) {
    for (int s = 0; s < kLanes; ++s) {
      const auto low = narrow_half<T>(x[back ? kBlock - 1 - s : s]);
      const auto high = narrow_half<T>(x[back ? kLanes - 1 - s : kLanes + s]);
      rows[s] = hn::Combine(Tag<float>(), high, low);
    }
    transpose_in_halves(rows);
    for (int b = 0; back && b < kLanes / 2; ++b) std::swap(rows[b], rows[kLanes - 1 - b]);
  }
  template <class T, bool streamed>
  static PLANCK_MATH void store_narrow(const Row32* rows, T* to) {
    for (int b = 0; b < kLanes; b += sizeof(T) < 4 ? 2 : 1) {
      T* const at = to + b * kBlock;
      if constexpr (std::is_same_v<T, std::int32_t>) {
        const Tag<std::int32_t> d;
        store_full<streamed>(Vec<std::int32_t>(hn::BitCast(d, rows[b])), at);
      } else if constexpr (sizeof(T) == 4) {
        store_full<streamed>(Vec<float>(rows[b]), at);
      } else {
        store_two<streamed>(Vec<float>(rows[b]), Vec<float>(rows[b + 1]), at);
      }
    }
  }
  template <class T, class Half>
  static PLANCK_MATH V widen(Half half) {
    if constexpr (std::is_same_v<T, std::int32_t>) {
      return V(hn::PromoteTo(Tag<double>(), hn::BitCast(Narrow<std::int32_t, double>(), half)));
    } else {
      return V(hn::PromoteTo(Tag<double>(), half));
    }
  }
  template <class T>
  static PLANCK_MATH auto narrow_half(V x) {
    const Narrow<float, double> half;
    if constexpr (std::is_same_v<T, std::int32_t>) {
      return hn::BitCast(half, hn::DemoteTo(Narrow<std::int32_t, double>(), x.raw));
    } else {
      return hn::DemoteTo(half, x.raw);
    }
  }
  /// Four registers of 32-bit lanes: rows to columns, in both halves alike.
  static PLANCK_MATH void transpose_in_halves(Row32* rows) {
    const Tag<float> d;
    const Tag<double> pairs;
    const auto low = hn::BitCast(pairs, hn::InterleaveLower(d, rows[0], rows[1]));
    const auto high = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[0], rows[1]));
    const auto next_low = hn::BitCast(pairs, hn::InterleaveLower(d, rows[2], rows[3]));
    const auto next_high = hn::BitCast(pairs, hn::InterleaveUpper(d, rows[2], rows[3]));
    rows[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low, next_low));
    rows[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low, next_low));
    rows[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high, next_high));
    rows[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high, next_high));
  }

  template <class T, bool back>
  static PLANCK_MATH void load_wide(const std::byte* from, V* x) {
    V rows[kRegisters];
    constexpr std::int64_t kHalf = kGroup / 2 * sizeof(T);
    static_assert(2 * ManyLanes::kRegisters == kRegisters);
    ManyLanes::load<T>(from, rows);
    ManyLanes::load<T>(from + kHalf, rows + ManyLanes::kRegisters);
    for (int c = 0; c < kRowRegisters; ++c) {
      V tile[kLanes];
      for (int b = 0; b < kLanes; ++b) tile[b] = rows[(back ? kLanes - 1 - b : b) * kRowRegisters + c];
      transpose(tile);
      for (int j = 0; j < kLanes; ++j) {
        const int step = c * kLanes + j;
        x[back ? kBlock - 1 - step : step] = tile[j];
      }
    }
  }
  template <class T, bool back>
  static PLANCK_MATH void store_wide(const V* x, std::byte* to, bool streamed) {
    V rows[kRegisters];
    constexpr std::int64_t kHalf = kGroup / 2 * sizeof(T);
    for (int c = 0; c < kRowRegisters; ++c) {
      V tile[kLanes];
      for (int j = 0; j < kLanes; ++j) {
        const int step = c * kLanes + j;
        tile[j] = x[back ? kBlock - 1 - step : step];
      }
      transpose(tile);
      for (int b = 0; b < kLanes; ++b) rows[(back ? kLanes - 1 - b : b) * kRowRegisters + c] = tile[b];
    }
    ManyLanes::store<T>(rows, to, streamed);
    ManyLanes::store<T>(rows + ManyLanes::kRegisters, to + kHalf, streamed);
  }

  /// A square tile, rows to columns.
  static PLANCK_MATH void transpose(V* tile) {
    const Tag<double> d;
    hn::Vec<Tag<double>> even[kLanes / 2];  // of two rows, their even columns side by side
    hn::Vec<Tag<double>> odd[kLanes / 2];
    for (int p = 0; p < kLanes / 2; ++p) {
      even[p] = hn::InterleaveLower(d, tile[2 * p].raw, tile[2 * p + 1].raw);
      odd[p] = hn::InterleaveUpper(d, tile[2 * p].raw, tile[2 * p + 1].raw);
    }
    transpose_pairs(even, tile);
    transpose_pairs(odd, tile + 1);
  }
  /// Pair k of every register to the columns 2 k.
  static PLANCK_MATH void transpose_pairs(const hn::Vec<Tag<double>>* pairs, V* columns) {
    const Tag<double> d;
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

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
