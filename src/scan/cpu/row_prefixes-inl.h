// The prefix before each block of 64 of a row, from their totals.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_PREFIXES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_PREFIXES_INL_H_
#undef PLANCK_SCAN_ROW_PREFIXES_INL_H_
#else
#define PLANCK_SCAN_ROW_PREFIXES_INL_H_
#endif

#include <hwy/highway.h>

#include <bit>

#include "numerics/canonical_order.hpp"
#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// The prefix before one block of 64 after the other, in scalar lanes. One is the scan in those. Small enough for
/// registers: what happens once in eight blocks is in the fold.
template <class One>
class BlockPrefixes {
 public:
  using State = typename One::State;
  using Value = LanesOf<One>;
  using Fold = numerics::CanonicalFold<State, One>;

  PLANCK_MATH BlockPrefixes(const RowRun& run, Fold& fold) : fold_(&fold) {
    clear();
    if (run.prefix == nullptr) return;
    for (int k = 0; k < One::kParts; ++k) above_.part[k] = std::bit_cast<Value>(run.prefix[k]);
    prefix_ = above_;
    any_ = above_any_ = true;
    fold.resume_after(numerics::block_size(kPrefixLevel));
    fold.totals().set(kPrefixLevel, above_);
  }
  static PLANCK_MATH State nothing() {
    State state{};
    if constexpr (kNeutral) state.part[0] = static_cast<Value>(One::kNeutral);
    return state;
  }
  /// A new row.
  PLANCK_MATH void restart() {
    fold_->resume_after(0);
    clear();
  }
  PLANCK_MATH bool any() const { return any_; }
  /// Of nothing: the neutral state of a scan that has one.
  PLANCK_MATH const State& prefix() const { return prefix_; }

  PLANCK_MATH void push(const State& total) {
    if constexpr (kNeutral) {
      open_ = One::combine(open_, total);
      prefix_ = One::combine(above_, open_);
    } else {
      open_ = blocks_ == 0 ? total : One::combine(open_, total);
      prefix_ = above_any_ ? One::combine(above_, open_) : open_;
    }
    any_ = true;
    if (++blocks_ == numerics::kRadix) push_open();
  }

 private:
  static constexpr int kPrefixLevel = kCarryLevel + 1;  ///< above all that a run with something before it closes
  static constexpr bool kNeutral = requires { One::kNeutral; };

  PLANCK_MATH void clear() {
    prefix_ = above_ = open_ = nothing();
    blocks_ = 0;
    any_ = above_any_ = false;
  }
  PLANCK_MATH void push_open() {
    fold_->push_block(kRowTileLevel, open_);
    above_ = prefix_ = fold_->prefix();
    above_any_ = true;
    open_ = nothing();
    blocks_ = 0;
  }

  Fold* fold_;
  State prefix_;
  State above_;  ///< of that, what comes before the block of 512 that is open
  State open_;   ///< and of that block
  int blocks_;
  bool any_;
  bool above_any_;
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
