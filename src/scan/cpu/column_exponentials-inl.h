// Blocks of scans that take exponentials, in passes: all references and exponents of the block first, then all
// exponentials, then the sums, then all results. An exponential or logarithm is a chain of thirty operations that each
// wait for the one before; side by side in a short loop they keep the processor busy, in the midst of everything else a
// step does they do not. Re-included once per target.
#if defined(PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#undef PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#else
#define PLANCK_SCAN_COLUMN_EXPONENTIALS_INL_H_
#endif

#include <hwy/highway.h>

#include <limits>
#include <tuple>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/column_kernel-inl.h"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

/// As ColumnBlock.
template <class Lanes, class Scan, class In, class Out>
class ColumnExponentials : public ColumnBlock<Lanes, Scan, In, Out> {
 public:
  using V = typename Lanes::V;
  using State = typename Scan::State;

  static void run(const ColumnSteps& s, std::int64_t i) {
    if (s.steps <= 0) return;
    const bool joins = s.writes && s.prefix != nullptr;
    State own[kRegisters];
    State prefix[kRegisters];
    // Where there is nothing yet, what is there is read, but not used.
    Base::get(s.own, i, s.part_stride, own);
    Base::get(joins ? s.prefix : s.own, i, s.part_stride, prefix);
    V in[kSteps][kRegisters][kInputs];
    Exponents e;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V x[kInputs][kRegisters];
      Base::template load<0>(s, step, i, x);
      for (int r = 0; r < kRegisters; ++r) {
        for (int k = 0; k < kInputs; ++k) in[step][r][k] = x[k][r];
      }
    }
    State inclusive[kSteps][kRegisters];
    if (kGradient || !add_up_at_rest(s, joins, in, own, prefix, inclusive, e)) {
      find_exponents(s, joins, in, own, prefix, e);
      take_exponentials(e.own, s.steps);
      if constexpr (kGradient) {
        if (joins) take_exponentials(e.joint, s.steps);
        if (s.writes) take_exponentials(e.gradient, s.steps);
      }
      add_up(s, joins, in, e, own, prefix, inclusive);
    }
    Base::put(own, i, s.part_stride, s.own);
    if (!s.writes) return;
    for (std::int64_t step = 0; step < s.steps; ++step) {
      V y[1][kRegisters];
      for (int r = 0; r < kRegisters; ++r) {
        if constexpr (kGradient) {
          y[0][r] = Scan::gradient(in[step][r], e.gradient[step][r], inclusive[step][r]);
        } else {
          y[0][r] = Scan::project(inclusive[step][r]);
        }
      }
      Base::template store<0>(s, step, i, y);
    }
  }

 private:
  using Base = ColumnBlock<Lanes, Scan, In, Out>;
  static constexpr int kRegisters = Lanes::kRegisters;
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr bool kGradient = ScanTraits<Scan, V>::kGradient;
  static constexpr int kSteps = numerics::kRadix;
  static_assert(std::tuple_size_v<Out> == 1 && !Scan::kPositions);

  using OfEach = V[kSteps][kRegisters];
  /// Exponents, and then their exponentials.
  struct Exponents {
    OfEach own;  ///< of taking in an element
    // Gradients take two more: of joining the prefix before the block, and of the result.
    OfEach joint;
    OfEach gradient;
  };

  static PLANCK_MATH void find_exponents(const ColumnSteps& s, bool joins, const V (*in)[kRegisters][kInputs],
                                         const State* own, const State* prefix, Exponents& e) {
    V reference[kRegisters];
    for (int r = 0; r < kRegisters; ++r) reference[r] = own[r].part[0];
    for (std::int64_t step = 0; step < s.steps; ++step) {
      for (int r = 0; r < kRegisters; ++r) {
        const V next = Scan::lift(in[step][r], V(0)).part[0];
        if (s.first && step == 0) {
          e.own[step][r] = V(0);  // not used
          reference[r] = next;
        } else {
          e.own[step][r] = Scan::exponent(reference[r], next);
          reference[r] = Scan::reference(reference[r], next);
        }
        if constexpr (kGradient) {
          if (joins) e.joint[step][r] = Scan::exponent(prefix[r].part[0], reference[r]);
          if (s.writes) e.gradient[step][r] = Scan::gradient_exponent(in[step][r]);
        }
      }
    }
  }

  static PLANCK_MATH void take_exponentials(OfEach& e, std::int64_t steps) {
    for (std::int64_t step = 0; step < steps; ++step) {
      for (int r = 0; r < kRegisters; ++r) e[step][r] = Scan::exponential(e[step][r]);
    }
  }

  /// The usual case: no element of the block moves its column's reference. Then taking one in adds its exponential, and
  /// nothing else. False, and only `e` is touched, if one does.
  static PLANCK_MATH bool add_up_at_rest(const ColumnSteps& s, bool joins, const V (*in)[kRegisters][kInputs],
                                         State* own, const State* prefix, State (*inclusive)[kRegisters],
                                         Exponents& e) {
    if constexpr (!kGradient) {
      V reference[kRegisters];
      for (int r = 0; r < kRegisters; ++r) reference[r] = s.first ? in[0][r][0] : own[r].part[0];
      auto moved = Scan::moves(reference[0], reference[0]);  // nowhere yet
      for (std::int64_t step = s.first ? 1 : 0; step < s.steps; ++step) {
        for (int r = 0; r < kRegisters; ++r) {
          const V x = in[step][r][0];
          e.own[step][r] = Scan::ahead(reference[r], x);
          moved = moved | Scan::moves(reference[r], x);
        }
      }
      if (Lanes::any(moved)) return false;
      // Exponents of the block's first element, and of joining the prefix before: the first has none of its own.
      for (int r = 0; r < kRegisters; ++r) {
        if (s.first) e.own[0][r] = V(0);
        if (joins) e.joint[0][r] = Scan::exponent(prefix[r].part[0], reference[r]);
      }
      take_exponentials(e.own, s.steps);
      if (joins) take_exponentials(e.joint, 1);
      for (int r = 0; r < kRegisters; ++r) {
        V sum = s.first ? V(0) : own[r].part[1];
        typename Scan::Bridge between{reference[r], V(0), V(1)};
        if (joins) between = Scan::bridge(prefix[r], reference[r], e.joint[0][r]);
        for (std::int64_t step = 0; step < s.steps; ++step) {
          sum = sum + e.own[step][r];
          const State here = {{reference[r], sum}};
          inclusive[step][r] = joins ? Scan::join(between, here) : here;
        }
        own[r] = {{reference[r], sum}};
      }
      return true;
    }
    return false;
  }

  /// The states of everything up to each step.
  static PLANCK_MATH void add_up(const ColumnSteps& s, bool joins, const V (*in)[kRegisters][kInputs],
                                 const Exponents& e, State* own, const State* prefix, State (*inclusive)[kRegisters]) {
    [[maybe_unused]] Shared<Scan> shared[kRegisters];
    if constexpr (!kGradient) {
      const V none(std::numeric_limits<double>::quiet_NaN());
      for (int r = 0; r < kRegisters; ++r) shared[r] = {{none, none, none}, none};
    }
    for (std::int64_t step = 0; step < s.steps; ++step) {
      for (int r = 0; r < kRegisters; ++r) {
        const State fresh = Scan::lift(in[step][r], V(0));
        own[r] = s.first && step == 0 ? fresh : Scan::combine(own[r], fresh, e.own[step][r]);
        if (!joins) {
          inclusive[step][r] = own[r];
        } else if constexpr (kGradient) {
          inclusive[step][r] = Scan::combine(prefix[r], own[r], e.joint[step][r]);
        } else {
          // Neighbouring prefixes mostly share their reference, and then this exponential.
          const V reference = own[r].part[0];
          if (!Lanes::all_same(reference, shared[r].reference)) {
            const V joint = Scan::exponential(Scan::exponent(prefix[r].part[0], reference));
            shared[r] = {Scan::bridge(prefix[r], reference, joint), reference};
          }
          inclusive[step][r] = Scan::join(shared[r].bridge, own[r]);
        }
      }
    }
  }

  template <class S>
  struct Shared {};
  template <class S>
  requires(!kGradient) struct Shared<S> {
    typename S::Bridge bridge;
    V reference;
  };
};

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
