// A block of up to eight steps of a scan, for one column or as many as registers have lanes. Re-included once per
// target.
#if defined(PLANCK_SCAN_COLUMN_KERNEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_COLUMN_KERNEL_INL_H_
#undef PLANCK_SCAN_COLUMN_KERNEL_INL_H_
#else
#define PLANCK_SCAN_COLUMN_KERNEL_INL_H_
#endif

#include <hwy/highway.h>

#include <tuple>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// A block's steps. In and Out are tuples of what inputs and outputs are stored as.
template <class Lanes, class Scan, class In, class Out>
class ColumnBlock {
 public:
  using V = typename Lanes::V;
  using State = typename Scan::State;

  static PLANCK_MATH void run(const ColumnSteps& s, std::int64_t i) {
    State own[kRegisters];
    State prefix[kRegisters];
    V lag[kRegisters];
    const bool joins = s.writes && s.prefix != nullptr;
    // Where there is nothing yet, what is there is read, but not used.
    get(s.own, i, s.part_stride, own);
    get(joins ? s.prefix : s.own, i, s.part_stride, prefix);
    if constexpr (Traits::kLags) Lanes::template load<double>(s.lag + i * kPartBytes, lag);
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V x[kInputs][kRegisters];
      load<0>(s, step, i, x);
      V position[kRegisters];
      for (int r = 0; r < kRegisters; ++r) position[r] = V(0);
      if constexpr (Scan::kPositions) {
        const std::int64_t here = s.position + step * s.position_step;
        Lanes::positions(here + i * s.column_position, s.column_position, position);
      }
      V y[kOutputs][kRegisters];
      if constexpr (Traits::kExclusive) {
        if (s.writes) {
          for (int r = 0; r < kRegisters; ++r) {
            if (s.first && step == 0) {
              y[0][r] = joins ? Scan::project(prefix[r]) : Scan::identity();
            } else {
              y[0][r] = Scan::project(joins ? Scan::combine(prefix[r], own[r]) : own[r]);
            }
          }
          store<0>(s, step, i, y);
        }
      }
      V in[kRegisters][kInputs];
      State fresh[kRegisters];
      for (int r = 0; r < kRegisters; ++r) {
        for (int k = 0; k < kInputs; ++k) in[r][k] = x[k][r];
        fresh[r] = lift(s, in[r], lag + r, position[r]);
      }
      if constexpr (Traits::kLags) {
        if (s.lag_only) break;
      }
      for (int r = 0; r < kRegisters; ++r) {
        if (s.first && step == 0) {
          own[r] = fresh[r];
        } else {
          own[r] = Scan::combine(own[r], fresh[r]);
        }
      }
      if (Traits::kExclusive || !s.writes) continue;
      for (int r = 0; r < kRegisters; ++r) {
        State inclusive = own[r];
        if (joins) inclusive = Scan::combine(prefix[r], own[r]);
        V out[kOutputs];
        project(s, in[r], position[r], inclusive, s.first && step == 0 && !joins, out);
        for (int k = 0; k < kOutputs; ++k) y[k][r] = out[k];
      }
      store<0>(s, step, i, y);
    }
    if constexpr (Traits::kLags) Lanes::template store<double>(lag, s.lag + i * kPartBytes);
    if (!s.lag_only) put(own, i, s.part_stride, s.own);
  }

  static PLANCK_MATH void combine(std::byte* into, const std::byte* left, const std::byte* right, std::int64_t i,
                                  std::int64_t part_stride) {
    State l[kRegisters];
    State r[kRegisters];
    get(left, i, part_stride, l);
    get(right, i, part_stride, r);
    for (int k = 0; k < kRegisters; ++k) l[k] = Scan::combine(l[k], r[k]);
    put(l, i, part_stride, into);
  }

 protected:
  static constexpr int kRegisters = Lanes::kRegisters;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  using Traits = ScanTraits<Scan, V>;

  static PLANCK_MATH void flip(const ColumnSteps& s, V* x) {
    if (s.variant.flip == 0) return;
    for (int r = 0; r < kRegisters; ++r) x[r] = Lanes::flip(x[r], s.variant.flip);
  }
  static PLANCK_MATH State lift(const ColumnSteps& s, const V* in, V* lag, V position) {
    if constexpr (Traits::kLags) {
      return Scan::lift(in, lag);
    } else {
      if constexpr (Traits::kBegins) {
        if (s.edge) return Scan::begin(in);
      }
      return Scan::lift(in, position);
    }
  }
  static PLANCK_MATH void project(const ColumnSteps& s, const V* in, V position, const State& inclusive,
                                  [[maybe_unused]] bool begins, V* out) {
    if constexpr (Traits::kGradient) {
      Scan::gradients(in, !s.edge || s.input[kEdgeInput] != nullptr, position, inclusive, out);
    } else {
      out[0] = Scan::project(inclusive);
      if constexpr (kOutputs == 2) out[1] = Scan::position(inclusive);
      if constexpr (Traits::kFirstIsElement) {
        if (begins) out[0] = in[0];
      }
    }
  }

  template <int k>
  static PLANCK_MATH void load(const ColumnSteps& s, std::int64_t step, std::int64_t i, V (*x)[kRegisters]) {
    if constexpr (k < kInputs) {
      using T = std::tuple_element_t<k, In>;
      // Fed inputs and those of the edge may be absent.
      const bool absent = std::is_same_v<T, Unread> || (k >= kEdgeInput && s.input[k] == nullptr);
      if (absent) {
        for (int r = 0; r < kRegisters; ++r) x[k][r] = V(0);
      } else if constexpr (!std::is_same_v<T, Unread>) {
        const std::byte* const from = s.input[k] + step * s.input_step[k] + i * bytes_of<T>(s.variant);
        if constexpr (!std::is_same_v<T, Position>) {
          Lanes::template load<T>(from, x[k]);
        } else if (narrow_positions(s.variant)) {
          Lanes::template load<std::int32_t>(from, x[k]);
        } else {
          Lanes::template load<std::int64_t>(from, x[k]);
        }
      }
      if constexpr (Traits::kExtremum && k == 0) flip(s, x[0]);
      load<k + 1>(s, step, i, x);
    }
  }
  template <int k>
  static PLANCK_MATH void store(const ColumnSteps& s, std::int64_t step, std::int64_t i, V (*y)[kRegisters]) {
    if constexpr (k < kOutputs) {
      using T = std::tuple_element_t<k, Out>;
      if constexpr (Traits::kWritesExtremum && k == 0) flip(s, y[0]);
      if (kOutputs == 1 || s.output[k] != nullptr) {
        std::byte* const to = s.output[k] + step * s.output_step[k] + i * bytes_of<T>(s.variant);
        if constexpr (!std::is_same_v<T, Position>) {
          Lanes::template store<T>(y[k], to, s.streamed);
        } else if (narrow_positions(s.variant)) {
          Lanes::template store<std::int32_t>(y[k], to, s.streamed);
        } else {
          Lanes::template store<std::int64_t>(y[k], to, s.streamed);
        }
      }
      store<k + 1>(s, step, i, y);
    }
  }

  static PLANCK_MATH void get(const std::byte* from, std::int64_t i, std::int64_t part_stride, State* states) {
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kRegisters];
      Lanes::template load<Stored>(from + k * part_stride + i * kPartBytes, part);
      for (int r = 0; r < kRegisters; ++r) states[r].part[k] = part[r];
    }
  }
  static PLANCK_MATH void put(const State* states, std::int64_t i, std::int64_t part_stride, std::byte* to) {
    for (int k = 0; k < Scan::kParts; ++k) {
      V part[kRegisters];
      for (int r = 0; r < kRegisters; ++r) part[r] = states[r].part[k];
      Lanes::template store<Stored>(part, to + k * part_stride + i * kPartBytes);
    }
  }
  /// What a lane of a state is stored as.
  using Stored = typename Lanes::Value;
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
