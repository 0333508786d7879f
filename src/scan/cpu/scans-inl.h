// The lanes that scans work in, one or many, and the scans themselves in them. Re-included once per target.
#if defined(PLANCK_SCAN_SCANS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_SCANS_INL_H_
#undef PLANCK_SCAN_SCANS_INL_H_
#else
#define PLANCK_SCAN_SCANS_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>

#include "cpu/simd/lanes-inl.h"
#include "numerics/storage.hpp"
#include "scan/cpu/kernel.hpp"
#include "scan/scalar.hpp"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

// Highway's scalar stand-ins round f64 to f32 in their own way near overflow.
#define PLANCK_SCAN_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)

#if PLANCK_SCAN_VECTORS
/// f32 lanes for f64 ones: half a register.
struct HalfSingles {
  using Lane = float;
  using D = Narrow<float, double>;
  hn::Vec<D> raw;

  PLANCK_MATH explicit HalfSingles(float x) : raw(hn::Set(D(), x)) {}
  PLANCK_MATH explicit HalfSingles(hn::Vec<D> v) : raw(v) {}
  friend PLANCK_MATH HalfSingles operator+(HalfSingles a, HalfSingles b) { return HalfSingles(hn::Add(a.raw, b.raw)); }
  friend PLANCK_MATH HalfSingles operator-(HalfSingles a, HalfSingles b) { return HalfSingles(hn::Sub(a.raw, b.raw)); }
  friend PLANCK_MATH HalfSingles operator*(HalfSingles a, HalfSingles b) { return HalfSingles(hn::Mul(a.raw, b.raw)); }
  friend PLANCK_MATH HalfSingles operator/(HalfSingles a, HalfSingles b) { return HalfSingles(hn::Div(a.raw, b.raw)); }
};
PLANCK_MATH HalfSingles rne(HalfSingles x) { return HalfSingles(hn::Round(x.raw)); }
PLANCK_MATH HalfSingles to_f32(Vec<double> x) { return HalfSingles(hn::DemoteTo(HalfSingles::D(), x.raw)); }
PLANCK_MATH Vec<double> to_f64(HalfSingles x) { return Vec<double>(hn::PromoteTo(Tag<double>(), x.raw)); }
#endif

#include "scan/math.inl"

using scalar::Compute;

/// What a scan has beside lift, combine and project; V are its lanes.
template <class Scan, class V>
struct ScanTraits {
  using State = typename Scan::State;
  static constexpr bool kLags = requires { Scan::kLagStart; };  ///< a step leaves a value for the next
  static constexpr bool kBegins = !kLags && requires(const V* v) { Scan::begin(v); };  ///< an initial state
  static constexpr bool kExclusive = requires { Scan::identity(); };  ///< the value of the prefix before an element
  static constexpr bool kGradient = requires(V * v, State s) { Scan::gradients(v, true, *v, s, v); };
  static constexpr bool kExtremum = requires { Scan::kProjectsExtremum; };
  static constexpr bool kWritesExtremum = requires { requires Scan::kProjectsExtremum; };
  /// A feed, whose values stay f64, and what is fed with them.
  static constexpr bool kFeeds = requires { requires Scan::kFeeds; };
  static constexpr bool kFed = requires { requires Scan::kFed; };
  /// A feed's value is needed for states, not only for results.
  static constexpr bool kLiftsFed = !kLags || requires { requires Scan::kLagInput == 2; };
  /// A gradient's, or its feed's: along columns a bit stands for the winner.
  static constexpr bool kRecords = requires { requires Scan::kRecords; };
  /// Exponentials and logarithms are taken.
  static constexpr bool kExponential = requires { typename Scan::Compute; };
  /// The value at the axis' first element is the element.
  static constexpr bool kFirstIsElement = requires { Scan::kFirstIsElement; };
};

/// The lanes of a scan's states.
template <class Scan>
using LanesOf = std::remove_extent_t<decltype(Scan::State::part)>;

/// Stands for an input that a feed reads, but not the kernel itself.
struct Unread {};

/// The bytes of an element that is stored as T.
template <class T>
PLANCK_MATH std::int64_t bytes_of(const ScanVariant& variant) {
  if constexpr (std::is_same_v<T, Position>) {
    return variant.position_bytes;
  } else {
    return sizeof(T);
  }
}
PLANCK_MATH bool narrow_positions(const ScanVariant& variant) { return variant.position_bytes == sizeof(std::int32_t); }

/// One lane: for what is left over of a register, and the plain target.
template <class Number>
struct OneLane {
  using Value = Number;
  using V = Number;
  static constexpr int kRegisters = 1;
  static PLANCK_MATH std::int64_t lanes() { return 1; }

  template <class T>
  static PLANCK_MATH void load(const std::byte* from, V* x) {
    T stored;
    std::memcpy(&stored, from, sizeof stored);
    x[0] = scalar::widen<V>(stored);
  }
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool = false) {
    T stored;
    if constexpr (std::is_integral_v<T>) {
      stored = static_cast<T>(x[0]);
    } else {
      stored = scalar::narrow<T>(static_cast<Compute<T>>(x[0]));
    }
    std::memcpy(to, &stored, sizeof stored);
  }
  static PLANCK_MATH void positions(std::int64_t first, std::int64_t, V* x) { x[0] = static_cast<V>(first); }
  static PLANCK_MATH V flip(V x, std::uint64_t mask) {
    return std::bit_cast<V>(std::bit_cast<std::uint64_t>(x) ^ mask);
  }
};

#if PLANCK_SCAN_VECTORS
/// Four registers of f64 lanes, as many as two of f32: with AVX2 a cache line of those. Each step of a scan is done for
/// all of them before the next: a chain of exponentials is long, and processors look only so far ahead for something
/// else to do.
struct ManyLanes {
  using Value = double;
  using V = Vec<double>;
  static constexpr int kRegisters = 4;
  static PLANCK_MATH std::int64_t lanes() { return kRegisters * half(); }

  template <class T>
  static PLANCK_MATH void load(const std::byte* from, V* x) {
    const T* elements = reinterpret_cast<const T*>(from);
    if constexpr (sizeof(T) == 8 || std::is_same_v<T, std::int32_t>) {
      for (int r = 0; r < kRegisters; ++r) x[r] = load_register(elements + r * half());
    } else {
      for (int r = 0; r < kRegisters; r += 2) {
        const hn::Half<Tag<float>> narrow;
        const auto both = HWY_NAMESPACE::load<float>(elements + r * half()).raw;
        x[r] = widen(hn::LowerHalf(narrow, both));
        x[r + 1] = widen(hn::UpperHalf(narrow, both));
      }
    }
  }
  /// `streamed`: non-temporal, to an address aligned to the register.
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool streamed = false) {
    T* elements = reinterpret_cast<T*>(to);
    if constexpr (sizeof(T) == 8 || std::is_same_v<T, std::int32_t>) {
      for (int r = 0; r < kRegisters; ++r) store_register(x[r], elements + r * half(), streamed);
    } else if constexpr (sizeof(T) == 4) {
      for (int r = 0; r < kRegisters; r += 2)
        store_whole(narrow<float>(x[r], x[r + 1]), elements + r * half(), streamed);
    } else if constexpr (sizeof(T) == 1) {
      for (int r = 0; r < kRegisters; r += 2)
        HWY_NAMESPACE::store(narrow<float>(x[r], x[r + 1]), elements + r * half());
    } else {
      const auto low = to_patterns<T>(narrow<float>(x[0], x[1]));
      const auto high = to_patterns<T>(narrow<float>(x[2], x[3]));
      const Tag<std::uint16_t> d16;
      store_whole(Vec<std::uint16_t>(hn::Combine(d16, high, low)), reinterpret_cast<std::uint16_t*>(to), streamed);
    }
  }
  static PLANCK_MATH void positions(std::int64_t first, std::int64_t step, V* x) {
    for (int r = 0; r < kRegisters; ++r) {
      const V lanes(hn::Iota(Tag<double>(), static_cast<double>(r * half())));
      x[r] = V(static_cast<double>(first)) + lanes * V(static_cast<double>(step));
    }
  }
  static PLANCK_MATH V flip(V x, std::uint64_t mask) {
    return V(hn::Xor(x.raw, hn::BitCast(Tag<double>(), hn::Set(Tag<std::uint64_t>(), mask))));
  }

  /// Half a register of f32 or s32, as f64; and two registers as one of those.
  template <class Raw>
  static PLANCK_MATH V widen(Raw words) {
    return V(hn::PromoteTo(Tag<double>(), words));
  }
  template <class T>
  static PLANCK_MATH Vec<T> narrow(V low, V high) {
    const hn::Half<Tag<T>> d;
    return Vec<T>(hn::Combine(Tag<T>(), hn::DemoteTo(d, high.raw), hn::DemoteTo(d, low.raw)));
  }

  // One register.
  static PLANCK_MATH V load_register(const double* from) { return V(hn::LoadU(Tag<double>(), from)); }
  static PLANCK_MATH V load_register(const std::int64_t* from) {
    return V(hn::ConvertTo(Tag<double>(), hn::LoadU(Tag<std::int64_t>(), from)));
  }
  static PLANCK_MATH V load_register(const std::int32_t* from) {
    return V(hn::PromoteTo(Tag<double>(), hn::LoadU(Narrow<std::int32_t, double>(), from)));
  }
  static PLANCK_MATH void store_register(V x, double* to, bool streamed) { store_whole(x, to, streamed); }
  /// Whole numbers below 2^51.
  static PLANCK_MATH void store_register(V x, std::int64_t* to, bool streamed) {
    const Tag<std::int64_t> d;
    const V big(6755399441055744.0);  // 1.5 * 2^52: leaves the number in the low bits of the fraction
    const Vec<std::int64_t> whole(hn::Sub(hn::BitCast(d, (x + big).raw), hn::BitCast(d, big.raw)));
    store_whole(whole, to, streamed);
  }
  static PLANCK_MATH void store_register(V x, std::int32_t* to, bool) {
    const Narrow<std::int32_t, double> d;
    hn::StoreU(hn::DemoteTo(d, x.raw), d, to);
  }

 private:
  static PLANCK_MATH std::int64_t half() { return static_cast<std::int64_t>(hn::Lanes(Tag<double>())); }

  template <class T>
  static PLANCK_MATH void store_whole(Vec<T> x, T* to, bool streamed) {
    if (streamed) return store_full<true>(x, to);
    store_full<false>(x, to);
  }
};

/// The same in 64-bit integers: without a sign for sums and products, which wrap, with one for extrema.
template <class Integer>
struct ManyIntegers {
  using Value = Integer;
  using V = Vec<Integer>;
  static constexpr int kRegisters = 4;
  static PLANCK_MATH std::int64_t lanes() { return kRegisters * half(); }

  template <class T>
  static PLANCK_MATH void load(const std::byte* from, V* x) {
    const T* elements = reinterpret_cast<const T*>(from);
    if constexpr (sizeof(T) == 8) {
      for (int r = 0; r < kRegisters; ++r) x[r] = load_register(elements + r * half());
    } else {
      const Narrow<T, Integer> d;
      for (int r = 0; r < kRegisters; ++r) x[r] = widen(hn::LoadU(d, elements + r * half()));
    }
  }
  /// `streamed`: non-temporal, to an address aligned to the register.
  template <class T>
  static PLANCK_MATH void store(const V* x, std::byte* to, bool streamed = false) {
    T* elements = reinterpret_cast<T*>(to);
    if constexpr (sizeof(T) == 8) {
      for (int r = 0; r < kRegisters; ++r) store_register(x[r], elements + r * half(), streamed);
    } else {
      for (int r = 0; r < kRegisters; r += 2) store_whole(narrow<T>(x[r], x[r + 1]), elements + r * half(), streamed);
    }
  }
  static PLANCK_MATH void positions(std::int64_t first, std::int64_t step, V* x) {
    const V lanes = V(hn::Iota(Tag<Integer>(), 0)) * V(static_cast<Integer>(step));
    for (int r = 0; r < kRegisters; ++r) x[r] = V(static_cast<Integer>(first + r * half() * step)) + lanes;
  }
  static PLANCK_MATH V flip(V x, std::uint64_t mask) {
    return V(hn::Xor(x.raw, hn::Set(Tag<Integer>(), static_cast<Integer>(mask))));
  }

  /// Half a register of s32, and two registers' low words.
  template <class Raw>
  static PLANCK_MATH V widen(Raw words) {
    return V(hn::BitCast(Tag<Integer>(), hn::PromoteTo(Tag<std::int64_t>(), words)));
  }
  template <class T>
  static PLANCK_MATH Vec<T> narrow(V low, V high) {
    const Tag<T> d;
    return Vec<T>(hn::ConcatEven(d, hn::BitCast(d, high.raw), hn::BitCast(d, low.raw)));
  }

  // One register.
  template <class T>
  static PLANCK_MATH V load_register(const T* from) {
    return V(hn::BitCast(Tag<Integer>(), hn::LoadU(Tag<T>(), from)));
  }
  template <class T>
  static PLANCK_MATH void store_register(V x, T* to, bool streamed) {
    store_whole(Vec<T>(hn::BitCast(Tag<T>(), x.raw)), to, streamed);
  }

 private:
  static PLANCK_MATH std::int64_t half() { return static_cast<std::int64_t>(hn::Lanes(Tag<Integer>())); }

  template <class T>
  static PLANCK_MATH void store_whole(Vec<T> x, T* to, bool streamed) {
    if (streamed) return store_full<true>(x, to);
    store_full<false>(x, to);
  }
};
template <class Value>
using ManyLanesOf = std::conditional_t<std::is_same_v<Value, double>, ManyLanes, ManyIntegers<Value>>;
#endif

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
