// The canonical order: in which order the terms along an axis are combined, and nothing else decides it.
//
// Positions t = 0, 1, … are cut into blocks of 8, 64, 512, … A whole block's total is its eight parts'
// totals, combined left to right. The prefix ending at t takes, at every level, the whole sibling blocks
// before t's own (left to right), and last the elements of t's own block of 8 up to t (left to right); the
// levels are then combined, the largest blocks first: ((E3 + E2) + E1) + E0. The total of n terms is the
// prefix ending at n - 1. docs/numerics.md has the reasons and the measurements.
//
// Host and device, no allocation. push_block and for_each_open are the order's two rules; OpenBlocks counts for one
// column or many; CanonicalFold is the definition for single values, to be read beside docs/numerics.md.
#pragma once

#include <cstdint>

#include "numerics/portability.hpp"

namespace planck::numerics {

inline constexpr int kRadixBits = 3;
inline constexpr int kRadix = 1 << kRadixBits;
inline constexpr int kMaxLevels = 21;  // 8^21 = 2^63 positions

/// Elements in a whole block of a level: 1, 8, 64, …
PLANCK_MATH constexpr std::int64_t block_size(int level) { return std::int64_t{1} << (kRadixBits * level); }

/// Scans pass on what is open, and are cut, where a block of this level ends: below it nothing is open there.
inline constexpr int kCarryLevel = 4;
inline constexpr std::int64_t kCarryBlock = block_size(kCarryLevel);

/// The levels that n positions can have open, at least 1.
PLANCK_MATH constexpr int levels_for(std::int64_t n) {
  int levels = 1;
  while (levels < kMaxLevels && block_size(levels) < n) ++levels;
  return levels;
}

/// A digit of n to base 8. After n whole blocks, so many of the blocks `place` levels above them lie open.
PLANCK_MATH constexpr int digit(std::int64_t n, int place = 0) {
  return static_cast<int>(n >> (kRadixBits * place)) & (kRadix - 1);
}

/// A whole block joins the open ones of its level, after `blocks` blocks of that level. Eight are a whole block of the
/// next level. Gives the level in which the block comes to lie: below, nothing is open now.
///
/// `open` holds the total of the blocks that each level has open:
///   at(level)            that total
///   set(level, total)    the level's first block
///   add(level, total)    the level's next one: at(level) combined with total, left before right
template <class Totals, class Total>
PLANCK_MATH int push_block(Totals& open, int level, std::int64_t blocks, Total total) {
  for (;; ++level, blocks >>= kRadixBits) {
    const int siblings = digit(blocks);
    if (siblings == 0) {
      open.set(level, total);
    } else {
      open.add(level, total);
    }
    if (siblings + 1 < kRadix) return level;
    total = open.at(level);
  }
}

/// Calls visit with every level that has blocks open after `blocks` blocks of `level`, the largest blocks first: the
/// order in which their totals are combined.
template <class Visit>
PLANCK_MATH void for_each_open(int level, std::int64_t blocks, const Visit& visit) {
  int top = 0;
  while (blocks >> (kRadixBits * (top + 1)) > 0) ++top;
  for (; top >= 0; --top) {
    if (digit(blocks, top) > 0) visit(level + top);
  }
}

/// The open blocks of columns that advance together. A position says how many there are: `before` elements lie in
/// closed blocks, and up to eight more in the block of 8 that is open. `Totals` holds what the blocks add up to, as
/// push_block has it, with a type Total: a value, or where those of all columns lie.
template <class Totals>
class OpenBlocks {
 public:
  using Total = typename Totals::Total;

  /// Of the totals' own arguments.
  template <class... Arguments>
  PLANCK_HOST_DEVICE explicit OpenBlocks(const Arguments&... arguments) : totals_(arguments...) {}

  /// The next element. A full block of 8 is closed only now, because the prefix ending at its last element
  /// still adds it on its own.
  PLANCK_HOST_DEVICE void push(Total x) {
    if (room() == kRadix) {
      totals_.set(0, x);
    } else {
      totals_.add(0, x);
    }
    took(1);
  }

  /// The same for callers that combine elements into totals().at(0) themselves: how many fit, and how many they were.
  PLANCK_HOST_DEVICE int room() {
    close();
    return kRadix - own_;
  }
  PLANCK_HOST_DEVICE void took(int elements) { own_ += elements; }

  /// A whole block's total instead of its elements: only on a block boundary. Gives push_block's level.
  PLANCK_HOST_DEVICE int push_block(int level, Total total) {
    close();
    return close_into(level, total);
  }

  /// Closes a last full block of 8, as the next element would. Gives push_block's level, or 0.
  PLANCK_HOST_DEVICE int close() {
    if (own_ < kRadix) return 0;
    own_ = 0;
    return close_into(1, totals_.at(0));
  }

  /// The blocks that a level has open, and their total.
  PLANCK_HOST_DEVICE int count(int level) const { return level == 0 ? own_ : digit(before_, level); }
  PLANCK_HOST_DEVICE Total open(int level) const { return totals_.at(level); }

  /// The total of exactly one whole block of `level` (>= 1), when that is what was pushed.
  PLANCK_HOST_DEVICE Total block_total(int level) {
    close();
    return totals_.at(level);
  }

  /// Calls visit with every level that has blocks open, the largest blocks first.
  template <class Visit>
  PLANCK_HOST_DEVICE void for_each_level(const Visit& visit) const {
    for_each_open(1, before_ >> kRadixBits, visit);
    if (own_ > 0) visit(0);
  }

  /// Starts elsewhere than at position 0: after `elements`, of which the last block of 8 stays open, unless `closed`.
  /// The caller puts in what each level then has open: totals() where count(level) > 0.
  PLANCK_HOST_DEVICE void resume_after(std::int64_t elements, bool closed = true) {
    before_ = closed || elements == 0 ? elements : (elements - 1) / kRadix * kRadix;
    own_ = static_cast<int>(elements - before_);
  }
  PLANCK_HOST_DEVICE std::int64_t elements() const { return before_ + own_; }
  PLANCK_HOST_DEVICE Totals& totals() { return totals_; }
  PLANCK_HOST_DEVICE const Totals& totals() const { return totals_; }

 private:
  PLANCK_HOST_DEVICE int close_into(int level, Total total) {
    const std::int64_t blocks = before_ >> (kRadixBits * level);
    before_ += block_size(level);
    return numerics::push_block(totals_, level, blocks, total);
  }

  Totals totals_;
  std::int64_t before_ = 0;
  int own_ = 0;
};

/// Totals of one column, as values. Op is a struct with `State combine(State, State) const`, left before right.
template <class State, class Op>
class ValueTotals {
 public:
  using Total = State;
  PLANCK_HOST_DEVICE explicit ValueTotals(Op op = {}) : op_(op) {}
  PLANCK_HOST_DEVICE const State& at(int level) const { return open_[level]; }
  PLANCK_HOST_DEVICE void set(int level, const State& x) { open_[level] = x; }
  PLANCK_HOST_DEVICE void add(int level, const State& x) { open_[level] = combine(open_[level], x); }
  PLANCK_HOST_DEVICE State combine(const State& left, const State& right) const { return op_.combine(left, right); }

 private:
  Op op_;
  State open_[kMaxLevels] = {};
};

/// Combines terms one after the other in the canonical order. Plain and slow: this is the definition.
template <class State, class Op>
class CanonicalFold : public OpenBlocks<ValueTotals<State, Op>> {
 public:
  PLANCK_HOST_DEVICE explicit CanonicalFold(Op op = {}) : OpenBlocks<ValueTotals<State, Op>>(op) {}

  /// The value at the last pushed position; at least one element was pushed.
  PLANCK_HOST_DEVICE State prefix() const {
    State sum{};
    bool any = false;
    this->for_each_level([&](int level) {
      sum = any ? this->totals().combine(sum, this->open(level)) : this->open(level);
      any = true;
    });
    return sum;
  }

  /// Everything so far, as the prefix of the next element: a block of 8 that is full counts as closed.
  PLANCK_HOST_DEVICE State total() {
    this->close();
    return prefix();
  }
};

struct SumOp {
  PLANCK_MATH double combine(double a, double b) const { return a + b; }
};

/// The canonical sum of n terms, term(t) in f64; +0 for none.
template <class Term>
PLANCK_HOST_DEVICE double canonical_sum(std::int64_t n, Term term) {
  if (n == 0) return 0.0;
  CanonicalFold<double, SumOp> fold;
  for (std::int64_t t = 0; t < n; ++t) fold.push(term(t));
  return fold.prefix();
}

}  // namespace planck::numerics
