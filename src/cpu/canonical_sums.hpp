// Canonical sums side by side: `width` independent columns, each summed in the order of
// src/numerics/canonical_order.hpp, held level by level so that a push is one pass over a row.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "numerics/canonical_order.hpp"

namespace planck::cpu {

class CanonicalSums {
 public:
  /// f64 values of storage needed for sums of n terms. One level more than can be open: closing a whole block
  /// lands there.
  static std::int64_t storage_for(std::int64_t n, std::int64_t width) noexcept {
    return (numerics::levels_for(n) + 1) * width;
  }

  CanonicalSums() = default;
  CanonicalSums(double* storage, std::int64_t width) noexcept : open_(storage), width_(width) {}

  void reset() noexcept { count_.fill(0); }

  /// The next term of every column.
  template <class Term>
  void push(const Term* terms) noexcept {
    if (count_[0] == numerics::kRadix) close_block();
    append(0, terms);
  }

  /// A whole block's totals; an element must follow.
  void push_block(int level, const double* totals) noexcept {
    if (count_[0] == numerics::kRadix) close_block();
    close_into(level, totals);
  }

  /// n consecutive terms of the only column (width 1), starting on a multiple of 64; `last` if none follow.
  template <class Term>
  void push_span(const Term* terms, std::int64_t n, bool last) noexcept;

  /// Adds up the open levels: the sums of all that was pushed. At least one push came before.
  void total(double* out) const noexcept {
    int level = numerics::kMaxLevels;
    while (count_[level] == 0) --level;
    std::copy_n(open_ + level * width_, width_, out);
    while (--level >= 0) {
      if (count_[level] == 0) continue;
      const double* open = open_ + level * width_;
      for (std::int64_t i = 0; i < width_; ++i) out[i] += open[i];
    }
  }

  /// The totals of exactly one whole block of `level`, when that is what was pushed.
  const double* block_total(int level) noexcept {
    close_block();
    return open_ + level * width_;
  }

  /// What `level` holds open for every column; null if nothing.
  const double* open(int level) const noexcept { return count_[level] == 0 ? nullptr : open_ + level * width_; }

  /// After whole blocks of `level`: continues as if the `pushed` elements that `open` describes had been pushed
  /// here. open(k) gives the values of level k < level that such an object holds open.
  template <class Open>
  void adopt(int level, std::int64_t pushed, const Open& open) noexcept {
    for (int k = 0; k < level; ++k) {
      // The digits of the last position; the lowest level still holds its own block, so it counts from one.
      count_[k] = static_cast<int>((pushed - 1) >> (numerics::kRadixBits * k) & (numerics::kRadix - 1)) + (k == 0);
      if (count_[k] > 0) std::copy_n(open(k), width_, open_ + k * width_);
    }
  }

 private:
  template <class Term>
  void append(int level, const Term* terms) noexcept {
    double* open = open_ + level * width_;
    if (count_[level]++ == 0) {
      for (std::int64_t i = 0; i < width_; ++i) open[i] = static_cast<double>(terms[i]);
    } else {
      for (std::int64_t i = 0; i < width_; ++i) open[i] += static_cast<double>(terms[i]);
    }
  }

  void close_block() noexcept {
    count_[0] = 0;
    close_into(1, open_);
  }

  void close_into(int level, const double* totals) noexcept {
    append(level, totals);
    while (count_[level] == numerics::kRadix) {
      count_[level] = 0;
      append(level + 1, open_ + level * width_);
      ++level;
    }
  }

  double* open_ = nullptr;
  std::int64_t width_ = 0;
  std::array<int, numerics::kMaxLevels + 2> count_{};
};

template <class Term>
void CanonicalSums::push_span(const Term* terms, std::int64_t n, bool last) noexcept {
  // Whole blocks of 64 in registers: eight independent chains of eight additions, then one of eight. The
  // block that holds the last term stays open.
  const std::int64_t whole = last ? (n - 1) / 64 * 64 : n / 64 * 64;
  for (std::int64_t i = 0; i < whole; i += 64) {
    double part[8];
    for (int b = 0; b < 8; ++b) {
      const Term* x = terms + i + 8 * b;
      auto sum = static_cast<double>(x[0]);
      for (int j = 1; j < 8; ++j) sum += static_cast<double>(x[j]);
      part[b] = sum;
    }
    double sum = part[0];
    for (int b = 1; b < 8; ++b) sum += part[b];
    push_block(2, &sum);
  }
  for (std::int64_t i = whole; i < n; ++i) push(terms + i);
}

}  // namespace planck::cpu
