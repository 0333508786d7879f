// Dynamic range's vector kernels: ranges of rows and of columns, and rows that are ranged and quantised while they are
// in the first-level cache. Each quantize/cpu/kernels_<kind>.cpp compiles them for one element kind and every target.
//
// A range is first taken as if all elements were finite, which halves the price; elements that are not are gone through
// again. Minima, maxima and integer sums do not depend on order, so none of this can change a bit.

#if defined(PLANCK_DYNAMIC_RANGE_CPU_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_DYNAMIC_RANGE_CPU_INL_H_
#undef PLANCK_DYNAMIC_RANGE_CPU_INL_H_
#else
#define PLANCK_DYNAMIC_RANGE_CPU_INL_H_
#endif

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "cpu/simd/sum_codes-inl.h"
#include "dynamic_range/cpu/kernels.hpp"
#include "quantize/cpu/kernels-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

using scalar::Range;

/// Infinities and NaN take no part in a range.
template <class V, class C>
PLANCK_MATH V finite_or(V x, C otherwise) {
  return select(abs(x) <= V(std::numeric_limits<C>::max()), x, V(otherwise));
}

/// The range of elements that a register holds each lane's share of.
template <class T>
struct RangeLanes {
  using C = Compute<T>;
  using V = Vec<C>;
  static constexpr C kInf = std::numeric_limits<C>::infinity();

  V lo;
  V hi;

  PLANCK_MATH RangeLanes() : lo(kInf), hi(-kInf) {}
  PLANCK_MATH RangeLanes(V low, V high) : lo(low), hi(high) {}
  PLANCK_MATH void add(V x) { join({finite_or(x, kInf), finite_or(x, -kInf)}); }
  PLANCK_MATH void join(const RangeLanes& other) {
    lo = V(hn::Min(lo.raw, other.lo.raw));
    hi = V(hn::Max(hi.raw, other.hi.raw));
  }
  PLANCK_MATH void widen(Range<C>& range) const {
    range.join({hn::GetLane(hn::MinOfLanes(Tag<C>(), lo.raw)), hn::GetLane(hn::MaxOfLanes(Tag<C>(), hi.raw))});
  }
};

/// The same for elements that are all finite, at half the price, and whether they were.
template <class T, bool in_lanes_of_c = sizeof(T) != 2>
struct FiniteRange {
  using C = Compute<T>;
  using V = Vec<C>;

  RangeLanes<T> lanes;
  V rest;  // x - x: 0, and NaN for infinities and NaN

  PLANCK_MATH FiniteRange() : rest(C(0)) {}
  static PLANCK_MATH std::int64_t elements() { return static_cast<std::int64_t>(hn::Lanes(Tag<C>())); }
  PLANCK_MATH void add(const T* from) {
    const V x = load<C>(from);
    lanes.join({x, x});
    rest = rest | (x - x);
  }
  PLANCK_MATH void join(const FiniteRange& other) {
    lanes.join(other.lanes);
    rest = rest | other.rest;
  }
  PLANCK_MATH bool all_finite() const { return hn::AllFalse(Tag<C>(), hn::IsNaN(rest.raw)); }
  PLANCK_MATH void widen(Range<C>& range) const { lanes.widen(range); }
  /// Every lane's range, as elements.
  PLANCK_MATH void store_lanes(T* lo, T* hi) const {
    store(lanes.lo, lo);
    store(lanes.hi, hi);
  }
};

/// The patterns of an element kind as signed integers.
template <class T>
using Pattern = std::conditional_t<sizeof(T) == 2, std::int16_t, std::int32_t>;
template <class T>
constexpr auto kInfinityPattern = static_cast<Pattern<T>>(numerics::kInfinityBits<T>);
template <class T>
constexpr auto kMagnitudeBits = std::numeric_limits<Pattern<T>>::max();

template <class T>
Compute<T> value_of(Pattern<T> pattern) {
  return scalar::widen<Compute<T>>(std::bit_cast<T>(pattern));
}

/// 16-bit kinds are ordered as integers once the magnitude of negative ones is complemented; twice the lanes, and
/// nothing to widen.
template <class T>
struct FiniteRange<T, false> {
  using D = Tag<std::int16_t>;
  using Raw = hn::Vec<D>;

  Raw lo;
  Raw hi;
  Raw magnitude;

  PLANCK_MATH FiniteRange()
      : lo(hn::Set(D(), kInfinityPattern<T>)),
        hi(hn::Set(D(), static_cast<std::int16_t>(~kInfinityPattern<T>))),  // the key of -Inf
        magnitude(hn::Zero(D())) {}
  static PLANCK_MATH std::int64_t elements() { return static_cast<std::int64_t>(hn::Lanes(D())); }
  PLANCK_MATH void add(const T* from) {
    const Raw x = hn::LoadU(D(), reinterpret_cast<const std::int16_t*>(from));
    const Raw key = ordered(x);
    lo = hn::Min(lo, key);
    hi = hn::Max(hi, key);
    magnitude = hn::Max(magnitude, hn::And(x, hn::Set(D(), kMagnitudeBits<T>)));
  }
  PLANCK_MATH void join(const FiniteRange& other) {
    lo = hn::Min(lo, other.lo);
    hi = hn::Max(hi, other.hi);
    magnitude = hn::Max(magnitude, other.magnitude);
  }
  PLANCK_MATH bool all_finite() const { return hn::AllTrue(D(), hn::Lt(magnitude, hn::Set(D(), kInfinityPattern<T>))); }
  PLANCK_MATH void widen(Range<float>& range) const {
    range.join({value_of<T>(hn::GetLane(ordered(hn::MinOfLanes(D(), lo)))),
                value_of<T>(hn::GetLane(ordered(hn::MaxOfLanes(D(), hi))))});
  }
  PLANCK_MATH void store_lanes(T* to_lo, T* to_hi) const {
    hn::StoreU(ordered(lo), D(), reinterpret_cast<std::int16_t*>(to_lo));
    hn::StoreU(ordered(hi), D(), reinterpret_cast<std::int16_t*>(to_hi));
  }

 private:
  /// Its own inverse.
  static PLANCK_MATH Raw ordered(Raw x) {
    return hn::Xor(x, hn::And(hn::ShiftRight<15>(x), hn::Set(D(), kMagnitudeBits<T>)));
  }
};

/// The symmetric range -m to m of the largest magnitude m, which is all that symmetric codes ask for. Magnitudes are
/// ordered as their patterns are, infinities and NaN last.
template <class T>
struct FiniteMagnitude {
  using D = Tag<Pattern<T>>;
  using C = Compute<T>;

  hn::Vec<D> most;

  PLANCK_MATH FiniteMagnitude() : most(hn::Zero(D())) {}
  static PLANCK_MATH std::int64_t elements() { return static_cast<std::int64_t>(hn::Lanes(D())); }
  PLANCK_MATH void add(const T* from) {
    const auto x = hn::LoadU(D(), reinterpret_cast<const Pattern<T>*>(from));
    most = hn::Max(most, hn::And(x, hn::Set(D(), kMagnitudeBits<T>)));
  }
  PLANCK_MATH void join(const FiniteMagnitude& other) { most = hn::Max(most, other.most); }
  PLANCK_MATH bool all_finite() const { return hn::AllTrue(D(), hn::Lt(most, hn::Set(D(), kInfinityPattern<T>))); }
  PLANCK_MATH void widen(Range<C>& range) const {
    const C m = value_of<T>(hn::GetLane(hn::MaxOfLanes(D(), most)));
    range.join({-m, m});
  }
  PLANCK_MATH void store_lanes(T* lo, T* hi) const {
    hn::StoreU(hn::Or(most, hn::Set(D(), std::numeric_limits<Pattern<T>>::min())), D(),
               reinterpret_cast<Pattern<T>*>(lo));
    hn::StoreU(most, D(), reinterpret_cast<Pattern<T>*>(hi));
  }
};

/// Calls body with the kind of range that a rule asks for. Integers of 64 bits have no cheap maximum, and Highway 1.0.3
/// finds none across lanes of 8.
template <class T, class Body>
PLANCK_MATH void with_range_kind(bool symmetric, const Body& body) {
  if constexpr (sizeof(T) == 2 || sizeof(T) == 4) {
    if (symmetric) return body(FiniteMagnitude<T>());
  }
  body(FiniteRange<T>());
}

/// Widens a range by the n elements of a row.
template <class Finite, class T>
PLANCK_MATH void widen_by_row(Range<Compute<T>>& range, const T* x, std::int64_t n) {
  using C = Compute<T>;
  constexpr int kChains = 4;             // as many independent minima and maxima as hide their latency
  constexpr std::int64_t kPiece = 2048;  // elements that the first-level cache still holds when they are not finite
  const auto add_any = [&](const T* from, std::int64_t count) {
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    RangeLanes<T> all;
    std::int64_t i = 0;
    for (; i + lanes <= count; i += lanes) all.add(load<C>(from + i));
    if (i > 0) all.widen(range);
    for (; i < count; ++i) range.add(scalar::widen<C>(from[i]));
  };
  const std::int64_t elements = Finite::elements();
  std::int64_t i = 0;
  while (n - i >= kChains * elements) {
    const std::int64_t end = i + std::min(kPiece, n - i) / (kChains * elements) * (kChains * elements);
    Finite chain[kChains];
    for (std::int64_t j = i; j < end; j += kChains * elements) {
      for (int k = 0; k < kChains; ++k) chain[k].add(x + j + k * elements);
    }
    chain[0].join(chain[1]);
    chain[2].join(chain[3]);
    chain[0].join(chain[2]);
    if (chain[0].all_finite()) {
      chain[0].widen(range);
    } else {
      add_any(x + i, end - i);
    }
    i = end;
  }
  if (i < n) add_any(x + i, n - i);
}

/// Widens the Range<C> in operands[1] by the n elements in operands[0]. The parameters are a RangeRule.
template <class T>
struct RangeOfSpan {
  static void run(const void* params, void* const* operands, std::int64_t n, unsigned) {
    auto& range = *static_cast<Range<Compute<T>>*>(operands[1]);
    with_range_kind<T>(static_cast<const scalar::RangeRule*>(params)->symmetric, [&]<class Finite>(Finite) {
      widen_by_row<Finite>(range, static_cast<const T*>(operands[0]), n);
    });
  }
};

/// Widens the ranges of n columns, lo in operands[1] and hi in operands[2], by the rows of operands[0].
template <class T>
struct RangesOfColumns {
  using C = Compute<T>;

  static void run(const void* params, void* const* operands, std::int64_t n, unsigned) {
    const auto& rows = *static_cast<const quantize::RowsOfColumns*>(params);
    with_range_kind<T>(rows.symmetric, [&]<class Finite>(Finite) {
      widen<Finite>(rows, static_cast<const std::byte*>(operands[0]), static_cast<C*>(operands[1]),
                    static_cast<C*>(operands[2]), n);
    });
  }

 private:
  static PLANCK_MATH const T* row_at(const quantize::RowsOfColumns& rows, const std::byte* x, std::int64_t r) {
    return reinterpret_cast<const T*>(x + r * rows.stride);
  }

  template <class Finite>
  static PLANCK_MATH void widen(const quantize::RowsOfColumns& rows, const std::byte* x, C* lo, C* hi, std::int64_t n) {
    const std::int64_t elements = Finite::elements();
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(Tag<C>()));
    const auto join = [&](std::int64_t i, RangeLanes<T> range) {
      range.join({load<C>(lo + i), load<C>(hi + i)});
      store(range.lo, lo + i);
      store(range.hi, hi + i);
    };
    const auto take = [&](std::int64_t i, const Finite& range) {
      if (range.all_finite()) {
        alignas(64) T low[HWY_MAX_BYTES / sizeof(T)];
        alignas(64) T high[HWY_MAX_BYTES / sizeof(T)];
        range.store_lanes(low, high);
        for (std::int64_t k = 0; k < elements; k += lanes) join(i + k, {load<C>(low + k), load<C>(high + k)});
        return;
      }
      for (std::int64_t k = i; k < i + elements; k += lanes) {
        RangeLanes<T> any;
        for (std::int64_t r = 0; r < rows.count; ++r) any.add(load<C>(row_at(rows, x, r) + k));
        join(k, any);
      }
    };
    std::int64_t i = 0;
    // Whole cache lines: of rows a power of two apart, the first-level cache holds few at a time.
    constexpr int kRegisters = HWY_MAX_BYTES < 64 ? 64 / HWY_MAX_BYTES : 1;
    for (; i + kRegisters * elements <= n; i += kRegisters * elements) {
      Finite range[kRegisters];
      for (std::int64_t r = 0; r < rows.count; ++r) {
        for (int k = 0; k < kRegisters; ++k) range[k].add(row_at(rows, x, r) + i + k * elements);
      }
      for (int k = 0; k < kRegisters; ++k) take(i + k * elements, range[k]);
    }
    for (; i + elements <= n; i += elements) {
      Finite range;
      for (std::int64_t r = 0; r < rows.count; ++r) range.add(row_at(rows, x, r) + i);
      take(i, range);
    }
    for (; i < n; ++i) {
      Range<C> range{lo[i], hi[i]};
      for (std::int64_t r = 0; r < rows.count; ++r) range.add(scalar::widen<C>(row_at(rows, x, r)[i]));
      lo[i] = range.lo;
      hi[i] = range.hi;
    }
  }
};

/// Rows of n contiguous elements, each a segment: range, scale, zero point, codes, their sum.
template <class T, class Q>
struct DynamicRowsKernel {
  using C = Compute<T>;
  using QParams = scalar::DynamicQParams<C>;
  using Quantize = Kernel<Formula::Quantize, T, Q, RunQParams<T, ScaleForm::Divide>>;

  static void run(const void* params, void* const* operands, std::int64_t n, unsigned streamed) {
    const auto& rows = *static_cast<const quantize::DynamicRows*>(params);
    with_range_kind<T>(rows.rule.symmetric,
                       [&]<class Finite>(Finite) { quantize_rows<Finite>(rows, operands, n, streamed); });
  }

 private:
  // Short rows are ranged several at a time and then quantised, so that one's range, a chain of dependent steps down to
  // its scale, is found while others are worked on.
  static constexpr std::int64_t kRowsAtOnce = 16;
  static constexpr std::int64_t kElementsAtOnce = 2048;

  template <class Finite>
  static PLANCK_MATH void quantize_rows(const quantize::DynamicRows& rows, void* const* operands, std::int64_t n,
                                        unsigned streamed) {
    using namespace quantize::dynamic_operand;
    const auto at = [&](int operand, std::int64_t row) {
      return static_cast<std::byte*>(operands[operand]) + row * rows.stride[operand];
    };
    const std::int64_t at_once = std::clamp<std::int64_t>(kElementsAtOnce / n, 1, kRowsAtOnce);
    for (std::int64_t first = 0; first < rows.count; first += at_once) {
      const std::int64_t last = std::min(first + at_once, rows.count);
      QParams qparams[kRowsAtOnce];
      for (std::int64_t r = first; r < last; ++r) {
        Range<C> range;
        widen_by_row<Finite>(range, reinterpret_cast<const T*>(at(kInput, r)), n);
        qparams[r - first] = rows.narrow_scale ? write_scale<T>(range, rows.rule, at(kScale, r))
                                               : write_scale<C>(range, rows.rule, at(kScale, r));
        if (operands[kZeroPoint] != nullptr) write(qparams[r - first].zero_point, at(kZeroPoint, r));
      }
      if (operands[kOutput] == nullptr) continue;
      for (std::int64_t r = first; r < last; ++r) {
        const std::byte* next = r + at_once < rows.count ? at(kInput, r + at_once) : nullptr;
        const std::int32_t sum =
            quantize_row(rows.rule, qparams[r - first], reinterpret_cast<const T*>(at(kInput, r)),
                         reinterpret_cast<Q*>(at(kOutput, r)), n, operands[kRowSum] != nullptr, next, streamed);
        if (operands[kRowSum] != nullptr) write(sum, at(kRowSum, r));
      }
    }
  }

  template <class Value>
  static PLANCK_MATH void write(Value value, std::byte* to) {
    std::memcpy(to, &value, sizeof value);
  }
  template <class S>
  static PLANCK_MATH QParams write_scale(const Range<C>& range, const scalar::RangeRule& rule, std::byte* to) {
    const QParams qparams = scalar::dynamic_qparams<S>(range, rule);
    write(scalar::narrow<S>(qparams.scale), to);
    return qparams;
  }

  /// Returns the sum of the codes if it is wanted. `next` is an input that is read soon, or null.
  static PLANCK_MATH std::int32_t quantize_row(const scalar::RangeRule& rule, const QParams& qparams, const T* x,
                                               Q* codes, std::int64_t n, bool summed, const std::byte* next,
                                               unsigned streamed) {
    constexpr std::int64_t kPiece = 1024;
    const quantize::Params<C> params(static_cast<double>(qparams.scale), qparams.zero_point,
                                     static_cast<double>(rule.q_min), static_cast<double>(rule.q_max));
    const Quantize kernel(params);
    std::int64_t sum = 0;
    for (std::int64_t i = 0; i < n; i += kPiece) {
      const std::int64_t count = std::min(kPiece, n - i);
      // Arithmetic leaves memory idle: meanwhile it brings what comes next.
      for (std::int64_t k = 0; next != nullptr && k < count; k += 64 / static_cast<std::int64_t>(sizeof(T))) {
        __builtin_prefetch(next + (i + k) * static_cast<std::int64_t>(sizeof(T)));
      }
      void* const operands[] = {const_cast<T*>(x + i), codes + i};
      Span<Quantize>::apply_to(kernel, operands, count, streamed);
      if constexpr (std::is_integral_v<Q>) {
        if (summed) sum += sum_codes(codes + i, count);
      }
    }
    return static_cast<std::int32_t>(sum);
  }
};

template <class T, class... Q>
constexpr auto dynamic_range_rows(TypeList<Q...>) {
  return std::array{
      quantize::kernel_row(Formula::Range, element_of<T>, {}, 0, false, &RangeOfSpan<T>::run),
      quantize::kernel_row(Formula::ColumnRanges, element_of<T>, {}, 0, false, &RangesOfColumns<T>::run),
      quantize::kernel_row(Formula::DynamicRows, element_of<T>, element_of<Q>, 0, false,
                           &DynamicRowsKernel<T, Q>::run)...,
  };
}
template <class T>
constexpr auto dynamic_range_rows() {
  return dynamic_range_rows<T>(TypesOf<ElementClass::Codes>());
}

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
