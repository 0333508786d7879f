// A scan's kernel, put together from its column block and its row scan. Re-included once per target.
#if defined(PLANCK_SCAN_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_KERNEL_INL_H_
#undef PLANCK_SCAN_KERNEL_INL_H_
#else
#define PLANCK_SCAN_KERNEL_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <tuple>
#include <type_traits>

#include "cpu/kernel_types.hpp"
#include "scan/cpu/column_exponentials-inl.h"
#include "scan/cpu/column_kernel-inl.h"
#include "scan/cpu/column_records-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_exponentials-inl.h"
#include "scan/cpu/row_kernel-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

// A scan in this target's lanes and in scalar ones.
#define PLANCK_SCAN_OF(Name)     \
  struct Name##Of {              \
    template <class V>           \
    using Many = Name<V>;        \
    template <class V>           \
    using One = scalar::Name<V>; \
  };
PLANCK_SCAN_OF(CumsumScan)
PLANCK_SCAN_OF(CumprodScan)
PLANCK_SCAN_OF(LinearRecurrenceScan)
PLANCK_SCAN_OF(ProductBeforeScan)
PLANCK_SCAN_OF(CumprodGradient)
PLANCK_SCAN_OF(WideLogScan)
PLANCK_SCAN_OF(LinearRecurrenceGradient)
#undef PLANCK_SCAN_OF
template <class C>
struct LogCumsumExpOf {
  template <class V>
  using Many = LogCumsumExpScan<V, C>;
  template <class V>
  using One = scalar::LogCumsumExpScan<V, C>;
};
template <class C, bool fed>
struct LogCumsumExpGradientOf {
  template <class V>
  using Many = LogCumsumExpGradient<V, C, fed>;
  template <class V>
  using One = scalar::LogCumsumExpGradient<V, C, fed>;
};

/// Tuple with Index for Position.
template <class Index, class Tuple>
struct Placed;
template <class Index, class... T>
struct Placed<Index, std::tuple<T...>> {
  using Type = std::tuple<std::conditional_t<std::is_same_v<T, Position>, Index, T>...>;
};
template <class Tuple>
constexpr bool kHasPosition = !std::is_same_v<Tuple, typename Placed<std::int64_t, Tuple>::Type>;

#if PLANCK_SCAN_VECTORS
/// A scan along rows, where states go no further than the row: of products of s32 the low words alone count, which is
/// one multiplication instead of three, and extrema up to f32 are chosen in lanes of 32 bits.
template <class Scan, class In, class Out>
struct AlongRows {
  using Type = Scan;
};
struct LowProductScan : CumprodScan<Vec<std::uint64_t>> {
  static PLANCK_MATH State combine(const State& a, const State& b) {
    const Tag<std::uint32_t> words;
    return {{Vec<std::uint64_t>(hn::MulEven(hn::BitCast(words, a.part[0].raw), hn::BitCast(words, b.part[0].raw)))}};
  }
};
template <class In>
struct AlongRows<CumprodScan<Vec<std::uint64_t>>, In, std::tuple<std::int32_t>> {
  using Type = LowProductScan;
};
template <bool largest, bool last, bool positions, class T, class Out>
struct AlongRows<ExtremumScan<Vec<double>, largest, last, positions>, std::tuple<T>, Out> {
  using Type = ExtremumScan<Vec<std::conditional_t<sizeof(T) <= 4, float, double>>, largest, last, positions>;
};
#endif

/// A kernel: `ScanOf` has the scan in this target's lanes (Many) and in scalar ones (One), with states in V.
template <class ScanOf, class V, class In, class Out>
struct ScanKernelOf {
  using Scan = typename ScanOf::template One<V>;
  static constexpr bool kExponential = ScanTraits<Scan, V>::kExponential;
  template <class Lanes, class S>
  static constexpr auto block() {
    if constexpr (ScanTraits<S, typename Lanes::V>::kRecords && ScanTraits<S, typename Lanes::V>::kGradient) {
      return RecordGradient<Lanes, S, In, Out>();
    } else if constexpr (ScanTraits<S, typename Lanes::V>::kRecords) {
      return RecordFeed<Lanes, S, In, Out>();
#if PLANCK_SCAN_VECTORS
    } else if constexpr (kExponential && Lanes::kRegisters > 1) {
      return ColumnExponentials<S, In, Out>();
#endif
    } else {
      return ColumnBlock<Lanes, S, In, Out>();
    }
  }
  using One = decltype(block<OneLane<V>, Scan>());
#if PLANCK_SCAN_VECTORS
  using ManyScan = typename ScanOf::template Many<Vec<V>>;
  using Many = decltype(block<ManyLanesOf<V>, ManyScan>());
  static PLANCK_MATH std::int64_t many() { return ManyLanesOf<V>::lanes(); }
#endif

  static void step(const ColumnSteps& s) {
    // Processors fetch ahead on their own where the next row lies behind this one, but not where it lies before it or
    // further off.
    const bool ahead = s.input_step[0] != s.n * static_cast<std::int64_t>(sizeof(std::tuple_element_t<0, In>));
    if (kExponential || s.n < kWide) return step_columns(s, ahead);
    // Step by step: then memory is read row by row, and the states wait in the first-level cache.
    ColumnSteps one = s;
    one.steps = 1;
    for (std::int64_t k = 0; k < s.steps; ++k) {
      step_columns(one, ahead);
      one.first = false;
      one.position += s.position_step;
      for (int i = 0; i < kMaxScanInputs; ++i) {
        if (s.input[i] != nullptr) one.input[i] += s.input_step[i];
      }
      for (int i = 0; i < kMaxScanOutputs; ++i) {
        if (s.output[i] != nullptr) one.output[i] += s.output_step[i];
      }
    }
  }
  static void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                      std::int64_t part_stride) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    for (; i + many() <= n; i += many()) Many::combine(into, left, right, i, part_stride);
#endif
    for (; i < n; ++i) One::combine(into, left, right, i, part_stride);
  }

  /// Positions have one width along a row.
  static constexpr auto row() -> void (*)(RowRun&) {
#if PLANCK_SCAN_VECTORS
    if constexpr (kExponential) {
      return &RowExponentials<ManyScan, Scan, In, Out>::run;
    } else if constexpr (!kHasPosition<In> && !kHasPosition<Out>) {
      return &RowScan<typename AlongRows<ManyScan, In, Out>::Type, Scan, In, Out>::run;
    }
#endif
    return nullptr;
  }

  static constexpr std::int64_t row_batch() {
#if PLANCK_SCAN_VECTORS
    return std::int64_t{RowRegisters::kLanes} * RowRegisters::kLaneElements;
#else
    return 0;
#endif
  }

  /// A kernel whose last input, if a feed is given, comes from it.
  static constexpr ScanKernel kernel(const ScanKernel* feed = nullptr, bool states_need_feed = false) {
    constexpr auto kInputs = static_cast<int>(std::tuple_size_v<In>);
    double lag_start = 0;
    if constexpr (ScanTraits<Scan, V>::kLags) lag_start = Scan::kLagStart;
    // A fed input comes last, and so does the edge's of a scan that begins with one.
    return {feed != nullptr || ScanTraits<Scan, V>::kBegins ? kInputs - 1 : kInputs,
            static_cast<int>(std::tuple_size_v<Out>),
            Scan::kParts,
            ScanTraits<Scan, V>::kLags,
            lag_start,
            &step,
            &combine,
            feed,
            states_need_feed,
            row(),
            row_batch()};
  }

 private:
  static constexpr std::int64_t kWide = 512;  ///< columns whose rows are worth taking one by one

  static void step_columns(const ColumnSteps& s, [[maybe_unused]] bool ahead) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    for (; i + many() <= s.n; i += many()) {
      Many::run(s, i);
      if (ahead) fetch_next<0>(s, i);
    }
#endif
    for (; i < s.n; ++i) One::run(s, i);
  }

#if PLANCK_SCAN_VECTORS
  /// Asks for all lines of the columns' elements in as many steps after these.
  template <int k>
  static PLANCK_MATH void fetch_next(const ColumnSteps& s, std::int64_t i) {
    if constexpr (k < std::tuple_size_v<In>) {
      constexpr std::int64_t kLine = 64;
      const std::int64_t bytes = bytes_of<std::tuple_element_t<k, In>>(s.variant);
      if (s.input[k] != nullptr) {
        const std::byte* row = s.input[k] + s.steps * s.input_step[k] + i * bytes;
        for (std::int64_t step = 0; step < s.steps; ++step, row += s.input_step[k]) {
          for (std::int64_t at = 0; at < many() * bytes; at += kLine) hwy::Prefetch(row + at);
        }
      }
      fetch_next<k + 1>(s, i);
    }
  }
#endif
};

template <class ScanOf, class V, class In, class Out>
constexpr ScanKernel kKernel = ScanKernelOf<ScanOf, V, In, Out>::kernel();

/// A kernel with its variant: Position is stored as Index, and with `smallest` a Cummax is Cummin. Along rows each
/// width has a kernel of its own: one for both took 5 % more instructions.
template <bool smallest, class Index, class ScanOf, class V, class In, class Out>
constexpr ScanKernel kVariant = [] {
  ScanKernel kernel = kKernel<ScanOf, V, In, Out>;
  constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
  if (smallest) kernel.variant.flip = std::is_integral_v<V> ? ~std::uint64_t{0} : kSign;
  kernel.variant.position_bytes = sizeof(Index);
  kernel.row = ScanKernelOf<ScanOf, V, typename Placed<Index, In>::Type, typename Placed<Index, Out>::Type>::row();
  return kernel;
}();

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
