// The canonical order: in which order the terms along an axis are combined, and nothing else decides it.
//
// Positions t = 0, 1, … are cut into blocks of 8, 64, 512, … A whole block's total is its eight parts'
// totals, combined left to right. The prefix ending at t takes, at every level, the whole sibling blocks
// before t's own (left to right), and last the elements of t's own block of 8 up to t (left to right); the
// levels are then combined, the largest blocks first: ((E3 + E2) + E1) + E0. The total of n terms is the
// prefix ending at n - 1. docs/numerics.md has the reasons and the measurements.
//
// Host and device, no allocation. Op is a struct with `State combine(State, State) const`, left before right.
#pragma once

#include <cstdint>

#include "numerics/portability.hpp"

namespace planck::numerics {

inline constexpr int kRadixBits = 3;
inline constexpr int kRadix = 1 << kRadixBits;
inline constexpr int kMaxLevels = 21;  // 8^21 = 2^63 positions

/// Elements in a whole block of a level: 1, 8, 64, …
PLANCK_MATH constexpr std::int64_t block_size(int level) { return std::int64_t{1} << (kRadixBits * level); }

/// The levels that n positions can have open, at least 1.
PLANCK_MATH constexpr int levels_for(std::int64_t n) {
  int levels = 1;
  while (levels < kMaxLevels && block_size(levels) < n) ++levels;
  return levels;
}

/// Combines terms one after the other in the canonical order. Plain and slow: this is the definition.
template <class State, class Op>
class CanonicalFold {
 public:
  PLANCK_HOST_DEVICE explicit CanonicalFold(Op op = {}) : op_(op) {}

  /// The next element. A full block of 8 is closed only now, because the prefix ending at its last element
  /// still adds it on its own.
  PLANCK_HOST_DEVICE void push(State x) {
    close();
    append(0, x);
  }

  /// A whole block's total instead of its elements: only on a block boundary, and only if an element follows.
  PLANCK_HOST_DEVICE void push_block(int level, State total) {
    close();
    close_into(level, total);
  }

  /// Starts elsewhere than at position 0: `count` whole blocks of a level lie open there, with this total. Before the
  /// first push, once for each level.
  PLANCK_HOST_DEVICE void open_at(int level, int count, State total) {
    open_[level] = total;
    count_[level] = count;
    if (level > top_) top_ = level;
  }

  /// Closes a last full block of 8, so that open_blocks and open_total say what a later fold starts from.
  PLANCK_HOST_DEVICE void close() {
    if (count_[0] == kRadix) close_block();
  }
  PLANCK_HOST_DEVICE int open_blocks(int level) const { return count_[level]; }
  PLANCK_HOST_DEVICE State open_total(int level) const { return open_[level]; }

  /// The value at the last pushed position; at least one element was pushed.
  PLANCK_HOST_DEVICE State prefix() const {
    int level = top_;
    while (count_[level] == 0) --level;
    State sum = open_[level];
    while (--level >= 0) {
      if (count_[level] > 0) sum = op_.combine(sum, open_[level]);
    }
    return sum;
  }

  /// Everything so far, as the prefix of the next element: a block of 8 that is full counts as closed.
  PLANCK_HOST_DEVICE State total() {
    if (count_[0] == kRadix) close_block();
    return prefix();
  }

  /// The total of exactly one whole block of `level` (>= 1), when that is what was pushed.
  PLANCK_HOST_DEVICE State block_total(int level) {
    close_block();
    return open_[level];
  }

 private:
  PLANCK_HOST_DEVICE void append(int level, State x) {
    open_[level] = count_[level] == 0 ? x : op_.combine(open_[level], x);
    ++count_[level];
    if (level > top_) top_ = level;
  }

  PLANCK_HOST_DEVICE void close_block() {
    count_[0] = 0;
    close_into(1, open_[0]);
  }

  PLANCK_HOST_DEVICE void close_into(int level, State total) {
    append(level, total);
    while (count_[level] == kRadix) {
      count_[level] = 0;
      append(level + 1, open_[level]);
      ++level;
    }
  }

  Op op_;
  State open_[kMaxLevels + 1];
  int count_[kMaxLevels + 1] = {};
  int top_ = 0;  ///< above it nothing is open
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
