// The scans' vector kernels, compiled once per target: one step of many lanes.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "scan/scan_cpu.cpp"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

#include <cstring>
#include <limits>

#include "cpu/kernel_types.hpp"
#include "cpu/lane_scan.hpp"
#include "cpu/simd_lanes-inl.h"
#include "numerics/storage.hpp"
#include "scan/scan_scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {
namespace {

// Highway's scalar stand-ins round f64 to f32 in their own way near overflow.
#define PLANCK_SCAN_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#include "scan/scan_math.inl"

using scalar::Compute;

/// One lane after the other: for integers, for what is left over of a register, and the plain target.
template <class Scan, class V, class T, class Index>
class ScalarLanes {
 public:
  using State = typename Scan::State;

  static void step(const LaneStep& s, std::int64_t i) {
    V x[Scan::kInputs];
    for (int k = 0; k < Scan::kInputs; ++k) x[k] = scalar::widen<V>(static_cast<const T*>(s.input[k])[i]);
    State state = Scan::lift(x, static_cast<V>(s.position + i * s.lane_position));
    if constexpr (requires { Scan::begin(x); }) {
      if (s.begin) state = Scan::begin(x);
    }
    if (!s.first) state = Scan::combine(get(s.own, i, s.part_stride), state);
    put(state, s.own, i, s.part_stride);
    if (s.output == nullptr) return;
    if (s.before != nullptr) state = Scan::combine(get(s.before, i, s.part_stride), state);
    static_cast<T*>(s.output)[i] = stored(Scan::project(state));
    if constexpr (!std::is_void_v<Index>) static_cast<Index*>(s.indices)[i] = static_cast<Index>(Scan::position(state));
  }

  static void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t i,
                      std::int64_t part_stride) {
    put(Scan::combine(get(left, i, part_stride), get(right, i, part_stride)), into, i, part_stride);
  }

 private:
  static T stored(V value) {
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(value);
    } else {
      return scalar::narrow<T>(static_cast<Compute<T>>(value));
    }
  }
  static State get(const std::byte* from, std::int64_t i, std::int64_t part_stride) {
    State state;
    for (int k = 0; k < Scan::kParts; ++k)
      std::memcpy(&state.part[k], from + k * part_stride + i * kPartBytes, kPartBytes);
    return state;
  }
  static void put(const State& state, std::byte* to, std::int64_t i, std::int64_t part_stride) {
    for (int k = 0; k < Scan::kParts; ++k)
      std::memcpy(to + k * part_stride + i * kPartBytes, &state.part[k], kPartBytes);
  }
};

#if PLANCK_SCAN_VECTORS
/// Four registers of f64 lanes at a time, as many as two of f32, each step of the scan for all four before the next:
/// a chain of exponentials is long, and processors look only so far ahead for something else to do.
template <class Scan, class T, class Index>
class VectorLanes {
 public:
  using V = Vec<double>;
  using State = typename Scan::State;

  static PLANCK_MATH std::int64_t lanes() { return kRegisters * half(); }

  static PLANCK_MATH void step(const LaneStep& s, std::int64_t i) {
    V x[kRegisters][Scan::kInputs];
    for (int k = 0; k < Scan::kInputs; ++k) {
      for (int r = 0; r < kRegisters; r += 2) {
        V pair[2];
        load(static_cast<const T*>(s.input[k]) + i + r * half(), pair);
        x[r][k] = pair[0];
        x[r + 1][k] = pair[1];
      }
    }
    State state[kRegisters];
    for (int r = 0; r < kRegisters; ++r) {
      state[r] = Scan::lift(x[r], position(s, i + r * half()));
      if constexpr (requires { Scan::begin(x[r]); }) {
        if (s.begin) state[r] = Scan::begin(x[r]);
      }
    }
    if (!s.first) {
      for (int r = 0; r < kRegisters; ++r) {
        state[r] = Scan::combine(get(s.own, i + r * half(), s.part_stride), state[r]);
      }
    }
    for (int r = 0; r < kRegisters; ++r) put(state[r], s.own, i + r * half(), s.part_stride);
    if (s.output == nullptr) return;
    if (s.before != nullptr) {
      for (int r = 0; r < kRegisters; ++r) {
        state[r] = Scan::combine(get(s.before, i + r * half(), s.part_stride), state[r]);
      }
    }
    V y[kRegisters];
    for (int r = 0; r < kRegisters; ++r) y[r] = Scan::project(state[r]);
    for (int r = 0; r < kRegisters; r += 2) store(y + r, static_cast<T*>(s.output) + i + r * half());
    if constexpr (!std::is_void_v<Index>) {
      for (int r = 0; r < kRegisters; ++r) {
        store_index(Scan::position(state[r]), static_cast<Index*>(s.indices) + i + r * half());
      }
    }
  }

  static PLANCK_MATH void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t i,
                                  std::int64_t part_stride) {
    for (int r = 0; r < kRegisters; ++r) {
      const std::int64_t lane = i + r * half();
      put(Scan::combine(get(left, lane, part_stride), get(right, lane, part_stride)), into, lane, part_stride);
    }
  }

 private:
  static constexpr int kRegisters = 4;
  static PLANCK_MATH std::int64_t half() { return static_cast<std::int64_t>(hn::Lanes(Tag<double>())); }

  static PLANCK_MATH V position(const LaneStep& s, std::int64_t lane) {
    if constexpr (std::is_void_v<Index>) {
      return V(0.0);
    } else {
      const V lanes(hn::Iota(Tag<double>(), static_cast<double>(lane)));
      return V(static_cast<double>(s.position)) + lanes * V(static_cast<double>(s.lane_position));
    }
  }

  static PLANCK_MATH void load(const T* from, V* to) {
    if constexpr (std::is_same_v<T, double>) {
      to[0] = V(hn::LoadU(Tag<double>(), from));
      to[1] = V(hn::LoadU(Tag<double>(), from + half()));
    } else {
      const hn::Half<Tag<float>> narrow;
      const auto x = HWY_NAMESPACE::load<float>(from).raw;
      to[0] = V(hn::PromoteTo(Tag<double>(), hn::LowerHalf(narrow, x)));
      to[1] = V(hn::PromoteTo(Tag<double>(), hn::UpperHalf(narrow, x)));
    }
  }
  static PLANCK_MATH void store(const V* x, T* to) {
    if constexpr (std::is_same_v<T, double>) {
      hn::StoreU(x[0].raw, Tag<double>(), to);
      hn::StoreU(x[1].raw, Tag<double>(), to + half());
    } else {
      const hn::Half<Tag<float>> narrow;
      const auto low = hn::DemoteTo(narrow, x[0].raw);
      const auto high = hn::DemoteTo(narrow, x[1].raw);
      HWY_NAMESPACE::store(Vec<float>(hn::Combine(Tag<float>(), high, low)), to);
    }
  }
  /// Whole numbers below 2^51.
  template <class I>
  static PLANCK_MATH void store_index(V index, I* to) {
    if constexpr (sizeof(I) == 8) {
      const Tag<std::int64_t> d;
      const V big(6755399441055744.0);  // 1.5 * 2^52: leaves the number in the low bits of the fraction
      hn::StoreU(hn::Sub(hn::BitCast(d, (index + big).raw), hn::BitCast(d, big.raw)), d, to);
    } else {
      const Narrow<std::int32_t, double> d;
      hn::StoreU(hn::DemoteTo(d, index.raw), d, to);
    }
  }

  static PLANCK_MATH State get(const std::byte* from, std::int64_t i, std::int64_t part_stride) {
    State state;
    for (int k = 0; k < Scan::kParts; ++k) {
      state.part[k] = V(hn::LoadU(Tag<double>(), reinterpret_cast<const double*>(from + k * part_stride) + i));
    }
    return state;
  }
  static PLANCK_MATH void put(const State& state, std::byte* to, std::int64_t i, std::int64_t part_stride) {
    for (int k = 0; k < Scan::kParts; ++k) {
      hn::StoreU(state.part[k].raw, Tag<double>(), reinterpret_cast<double*>(to + k * part_stride) + i);
    }
  }
};
#endif

// A scan in this target's lanes and in scalar ones.
#define PLANCK_SCAN_OF(Name)           \
  struct Name##Of {                    \
    template <class V>                 \
    using Many = Name##Scan<V>;        \
    template <class V>                 \
    using One = scalar::Name##Scan<V>; \
  };
PLANCK_SCAN_OF(Cumsum)
PLANCK_SCAN_OF(Cumprod)
PLANCK_SCAN_OF(LogCumsumExp)
#undef PLANCK_SCAN_OF
template <bool initial>
struct LinearRecurrenceOf {
  template <class V>
  using Many = LinearRecurrenceScan<V, initial>;
  template <class V>
  using One = scalar::LinearRecurrenceScan<V, initial>;
};
template <bool largest, bool last, bool positions>
struct ExtremumOf {
  template <class V>
  using Many = ExtremumScan<V, largest, last, positions>;
  template <class V>
  using One = scalar::ExtremumScan<V, largest, last, positions>;
};

/// A kernel: states in V, elements T, positions stored as Index or not at all.
template <class ScanOf, class V, class T, class Index = void>
struct Lanes {
  using Scan = typename ScanOf::template One<V>;
  using One = ScalarLanes<Scan, V, T, Index>;

  static void step(const LaneStep& s) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    if constexpr (std::is_same_v<V, double>) {
      using Many = VectorLanes<typename ScanOf::template Many<Vec<double>>, T, Index>;
      for (; i + Many::lanes() <= s.n; i += Many::lanes()) Many::step(s, i);
    }
#endif
    for (; i < s.n; ++i) One::step(s, i);
  }
  static void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t n,
                      std::int64_t part_stride) {
    std::int64_t i = 0;
#if PLANCK_SCAN_VECTORS
    if constexpr (std::is_same_v<V, double>) {
      using Many = VectorLanes<typename ScanOf::template Many<Vec<double>>, T, Index>;
      for (; i + Many::lanes() <= n; i += Many::lanes()) Many::combine(into, left, right, i, part_stride);
    }
#endif
    for (; i < n; ++i) One::combine(into, left, right, i, part_stride);
  }

  static constexpr LaneScanKernel kKernel = {Scan::kInputs, Scan::kParts, &step, &combine};
};

using scan::Accumulator;
using scan::Comparable;
using scan::ScanKey;

template <class ScanOf, class T>
constexpr KernelRow row(ScanKind kind, bool initial = false) {
  return scan::kernel_row({.kind = kind, .element = element_of<T>, .initial = initial},
                          &Lanes<ScanOf, Accumulator<T>, T>::kKernel);
}

/// With one tie rule: without positions, and with either kind of them.
template <bool largest, ScanTies ties, class T>
constexpr std::array<KernelRow, 3> extremum_rows() {
  constexpr ScanKey kKey{largest ? ScanKind::Cummax : ScanKind::Cummin, element_of<T>, ties};
  constexpr ScanKey kS32{kKey.kind, kKey.element, ties, ElementKind::S32};
  constexpr ScanKey kS64{kKey.kind, kKey.element, ties, ElementKind::S64};
  constexpr bool kLast = ties == ScanTies::Last;
  using V = Comparable<T>;
  using Placed = ExtremumOf<largest, kLast, true>;
  return {scan::kernel_row(kKey, &Lanes<ExtremumOf<largest, kLast, false>, V, T>::kKernel),
          scan::kernel_row(kS32, &Lanes<Placed, V, T, std::int32_t>::kKernel),
          scan::kernel_row(kS64, &Lanes<Placed, V, T, std::int64_t>::kKernel)};
}

/// What every element has.
template <class T>
constexpr auto common_rows() {
  return join(std::array{row<CumsumOf, T>(ScanKind::Cumsum), row<CumprodOf, T>(ScanKind::Cumprod)},
              extremum_rows<true, ScanTies::First, T>(), extremum_rows<true, ScanTies::Last, T>(),
              extremum_rows<false, ScanTies::First, T>(), extremum_rows<false, ScanTies::Last, T>());
}
template <class T>
constexpr auto float_rows() {
  return join(common_rows<T>(), std::array{row<LogCumsumExpOf, T>(ScanKind::LogCumsumExp),
                                           row<LinearRecurrenceOf<false>, T>(ScanKind::LinearRecurrence),
                                           row<LinearRecurrenceOf<true>, T>(ScanKind::LinearRecurrence, true)});
}

/// Cumsum's backward pass is a sum from the other end; the others run the plain loops, shared out among threads.
template <class T>
constexpr auto backward_rows() {
  constexpr ElementKind kElement = element_of<T>;
  using K = ScanKind;
  constexpr auto kPlain = [](K kind, ScanTies ties = ScanTies::First, std::optional<ElementKind> indices = {},
                             bool initial = false) {
    return scan::kernel_row({kind, kElement, ties, indices, initial}, nullptr, true);
  };
  return std::array{
      scan::kernel_row({.kind = K::Cumsum, .element = kElement}, &Lanes<CumsumOf, double, T>::kKernel, true),
      kPlain(K::Cumprod),
      kPlain(K::Cummax),
      kPlain(K::Cummax, ScanTies::Last),
      kPlain(K::Cummax, ScanTies::First, ElementKind::S32),
      kPlain(K::Cummax, ScanTies::Last, ElementKind::S32),
      kPlain(K::Cummax, ScanTies::First, ElementKind::S64),
      kPlain(K::Cummax, ScanTies::Last, ElementKind::S64),
      kPlain(K::Cummin),
      kPlain(K::Cummin, ScanTies::Last),
      kPlain(K::Cummin, ScanTies::First, ElementKind::S32),
      kPlain(K::Cummin, ScanTies::Last, ElementKind::S32),
      kPlain(K::Cummin, ScanTies::First, ElementKind::S64),
      kPlain(K::Cummin, ScanTies::Last, ElementKind::S64),
      kPlain(K::LogCumsumExp),
      kPlain(K::LinearRecurrence),
      kPlain(K::LinearRecurrence, ScanTies::First, {}, true),
  };
}

constexpr auto kRows = join(float_rows<float>(), float_rows<double>(), float_rows<f16>(), float_rows<bf16>(),
                            common_rows<std::int32_t>(), common_rows<std::int64_t>(), backward_rows<float>(),
                            backward_rows<double>(), backward_rows<f16>(), backward_rows<bf16>());

}  // namespace
}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace planck::cpu {
struct ScanFamily;
template <>
struct TargetRows<ScanFamily, HWY_TARGET> {
  static std::span<const KernelRow> get() { return HWY_NAMESPACE::kRows; }
};
}  // namespace planck::cpu

#undef PLANCK_SCAN_VECTORS

#if HWY_ONCE
namespace planck::cpu {
std::span<const KernelRow> scan_kernels(ArchSku arch) noexcept { return rows_of<ScanFamily>(arch); }
}  // namespace planck::cpu
#endif
