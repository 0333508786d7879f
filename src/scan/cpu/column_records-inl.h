// Blocks of columns of the gradient of Cummax and Cummin from x. Its feed leaves no positions but a bit for each
// element, whether it is a record: the winner changes nowhere else. Values are compared in the type that they are
// stored in, or f32, and where no lane has a record, as mostly, a step is one addition. Re-included once per target.
#if defined(PLANCK_SCAN_COLUMN_RECORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_COLUMN_RECORDS_INL_H_
#undef PLANCK_SCAN_COLUMN_RECORDS_INL_H_
#else
#define PLANCK_SCAN_COLUMN_RECORDS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstring>
#include <tuple>

#include "scan/cpu/column_kernel-inl.h"
#include "scan/cpu/exponential_lanes-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// A step's bits, that of column i at bit i % 8 of byte i / 8.
template <class Lanes>
struct RecordBits;

template <>
struct RecordBits<OneLane<double>> {
  using V = double;
  static PLANCK_MATH std::uint32_t load(const std::byte* from, std::int64_t i) {
    return (std::to_integer<std::uint32_t>(from[i / 8]) >> (i % 8)) & 1U;
  }
  static PLANCK_MATH void store(std::uint32_t bit, std::byte* to, std::int64_t i) {
    const std::byte others = i % 8 == 0 ? std::byte{0} : to[i / 8];
    to[i / 8] = others | static_cast<std::byte>(bit << (i % 8));
  }
  static PLANCK_MATH V choose(std::uint32_t bits, int, V yes, V no) { return bits != 0 ? yes : no; }
  static PLANCK_MATH std::uint32_t not_zero(const V* x) { return x[0] < 0 || 0 < x[0] ? 1 : 0; }
};

#if PLANCK_SCAN_VECTORS
template <>
struct RecordBits<ManyLanes> {
  using V = Vec<double>;
  static PLANCK_MATH std::size_t bytes() { return static_cast<std::size_t>(ManyLanes::lanes()) / 8; }
  static PLANCK_MATH std::uint32_t load(const std::byte* from, std::int64_t i) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, from + i / 8, bytes());
    return bits;
  }
  static PLANCK_MATH void store(std::uint32_t bits, std::byte* to, std::int64_t i) {
    std::memcpy(to + i / 8, &bits, bytes());
  }
  static PLANCK_MATH V choose(std::uint32_t bits, int r, V yes, V no) {
    const auto lanes = static_cast<int>(hn::Lanes(Tag<double>()));
    const std::uint8_t own[8] = {static_cast<std::uint8_t>(bits >> (r * lanes))};
    return select(Mask<double>{hn::LoadMaskBits(Tag<double>(), own)}, yes, no);
  }
  template <class C>
  static PLANCK_MATH std::uint32_t of(Mask<C> mask, int r) {
    std::uint8_t own[8] = {};
    hn::StoreMaskBits(Tag<C>(), mask.raw, own);
    const std::uint32_t bits = own[0] + (std::uint32_t{own[1]} << 8);
    return bits << (r * static_cast<int>(hn::Lanes(Tag<C>())));
  }
  static PLANCK_MATH std::uint32_t not_zero(const V* x) {
    std::uint32_t bits = 0;
    for (int r = 0; r < ManyLanes::kRegisters; ++r) bits |= of(V(0) < abs(x[r]), r);
    return bits;
  }
};
#endif

/// The feed, as ColumnBlock. A state's own block has what came before it, too: the winner is the same. Positions, the
/// states' second part, are what rows alone have there.
template <class Lanes, class Scan, class In, class Out>
class RecordFeed : public ColumnBlock<Lanes, Scan, In, Out> {
 public:
  using T = std::tuple_element_t<0, In>;

  static PLANCK_MATH void run(const ColumnSteps& s, std::int64_t i) {
    const bool joins = s.writes && s.prefix != nullptr;
    Values own;
    own.get(s.first && joins ? s.prefix : s.own, i);
    for (std::int64_t step = 0; step < s.steps; ++step) {
      Values x;
      x.load(reinterpret_cast<const T*>(s.input[0] + step * s.input_step[0]) + i, s.variant.flip != 0);
      const bool begins = s.first && step == 0 && !joins;
      if (begins) own = x;
      const std::uint32_t records = own.take(x);
      if (s.writes) {
        RecordBits<Lanes>::store(begins ? ~0U >> (32 - Lanes::lanes()) : records, s.output[0] + step * s.output_step[0],
                                 i);
      }
    }
    own.put(s.own, i);
  }

 private:
  struct One {
    double value;

    PLANCK_MATH void get(const std::byte* from, std::int64_t i) {
      std::memcpy(&value, from + i * kPartBytes, sizeof value);
    }
    PLANCK_MATH void put(std::byte* to, std::int64_t i) const {
      std::memcpy(to + i * kPartBytes, &value, sizeof value);
    }
    PLANCK_MATH void load(const T* from, bool flip) {
      OneLane<double>::load<T>(reinterpret_cast<const std::byte*>(from), &value);
      if (flip) value = -value;
    }
    PLANCK_MATH std::uint32_t take(const One& x) {
      const bool wins = Scan::right_wins(value, x.value);
      if (wins) value = x.value;
      return wins ? 1 : 0;
    }
  };
#if PLANCK_SCAN_VECTORS
  struct Many {
    using C = Compute<T>;
    using Full = ComputeLanes<C>;
    Vec<C> value[Full::kRegisters];

    PLANCK_MATH void get(const std::byte* from, std::int64_t i) {
      Vec<double> wide[ManyLanes::kRegisters];
      ManyLanes::load<double>(from + i * kPartBytes, wide);
      Full::narrow(wide, value);
    }
    PLANCK_MATH void put(std::byte* to, std::int64_t i) const {
      Vec<double> wide[ManyLanes::kRegisters];
      Full::widen(value, wide);
      ManyLanes::store<double>(wide, to + i * kPartBytes);
    }
    PLANCK_MATH void load(const T* from, bool flip) {
      for (int r = 0; r < Full::kRegisters; ++r) value[r] = HWY_NAMESPACE::load<C>(from + r * Full::lanes());
      if (!flip) return;
      for (Vec<C>& x : value) x = Vec<C>(hn::Neg(x.raw));
    }
    PLANCK_MATH std::uint32_t take(const Many& x) {
      std::uint32_t bits = 0;
      for (int r = 0; r < Full::kRegisters; ++r) {
        const auto wins = Scan::right_wins(value[r], x.value[r]);
        value[r] = select(wins, x.value[r], value[r]);
        bits |= RecordBits<ManyLanes>::of(wins, r);
      }
      return bits;
    }
  };
  using Values = std::conditional_t<Lanes::kRegisters == 1, One, Many>;
#else
  using Values = One;
#endif
};

/// The gradient, as ColumnBlock, with bits in the place of winners: the sum starts anew where the step before has a
/// record, and only a record has a gradient.
template <class Lanes, class Scan, class In, class Out>
class RecordGradient : public ColumnBlock<Lanes, Scan, In, Out> {
 public:
  using Base = ColumnBlock<Lanes, Scan, In, Out>;
  using V = typename Lanes::V;
  using State = typename Scan::State;

  static PLANCK_MATH void run(const ColumnSteps& s, std::int64_t i) {
    using Bits = RecordBits<Lanes>;
    using T = std::tuple_element_t<0, In>;
    State own[kRegisters];
    State prefix[kRegisters];
    V lag[kRegisters];
    const bool joins = s.writes && s.prefix != nullptr;
    Base::get(s.own, i, s.part_stride, own);
    Base::get(joins ? s.prefix : s.own, i, s.part_stride, prefix);
    Lanes::template load<double>(s.lag + i * kPartBytes, lag);
    std::uint32_t starts = Bits::not_zero(lag);
    for (std::int64_t step = 0; step < s.steps; ++step) {
      const std::uint32_t records = Bits::load(s.input[kFed] + step * s.input_step[kFed], i);
      V dy[kRegisters];
      V y[1][kRegisters];
      Lanes::template load<T>(s.input[0] + step * s.input_step[0] + i * static_cast<std::int64_t>(sizeof(T)), dy);
      const bool first = s.first && step == 0;
      if (!s.lag_only && !first && (starts | records) == 0) {
        for (int r = 0; r < kRegisters; ++r) {
          own[r].part[1] = own[r].part[1] + dy[r];
          y[0][r] = V(0);
        }
      } else if (!s.lag_only) {
        for (int r = 0; r < kRegisters; ++r) {
          const State fresh = {{Bits::choose(starts, r, V(1), V(0)), dy[r]}};
          own[r] = first ? fresh : Scan::combine(own[r], fresh);
          const State inclusive = joins ? Scan::combine(prefix[r], own[r]) : own[r];
          y[0][r] = Bits::choose(records, r, inclusive.part[1], V(0));
        }
      }
      starts = records;
      if (s.writes && !s.lag_only) Base::template store<0>(s, step, i, y);
    }
    for (int r = 0; r < kRegisters; ++r) lag[r] = Bits::choose(starts, r, V(1), V(0));
    Lanes::template store<double>(lag, s.lag + i * kPartBytes);
    if (!s.lag_only) Base::put(own, i, s.part_stride, s.own);
  }

 private:
  static constexpr int kRegisters = Lanes::kRegisters;
  static constexpr int kFed = std::tuple_size_v<In> - 1;
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
