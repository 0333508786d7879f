// Canonical sums side by side: `width` independent columns, each summed in the order of
// src/numerics/canonical_order.hpp, held level by level so that a push is one pass over a row.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "cpu/sum_kernels.hpp"
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
  CanonicalSums(const SumKernels& kernels, double* storage, std::int64_t width) noexcept
      : kernels_(&kernels), open_(storage), width_(width) {}

  void reset() noexcept {
    count_.fill(0);
    top_ = 0;
  }

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

  /// At most this many terms in one push_span.
  static constexpr std::int64_t kSpan = 1024;
  /// n consecutive terms of the only column (width 1), starting on a multiple of kSpan; `last` if none follow.
  template <class Term>
  void push_span(const Term* terms, std::int64_t n, bool last) noexcept;

  /// At most this many terms in one total_of_span.
  static constexpr std::int64_t kShortSpan = 512;
  /// The sum of n terms in the same order, without an object to hold levels open.
  template <class Term>
  static double total_of_span(const SumKernels& kernels, const Term* terms, std::int64_t n) noexcept {
    const std::int64_t eights = (n - 1) / 8;
    const std::int64_t sixty_fours = eights / 8;
    double of_8[kShortSpan / 8];
    double of_64[kShortSpan / 64];
    kernels.sum_blocks(terms, eights, of_8);
    kernels.sum_blocks(of_8, sixty_fours, of_64);
    double total = 0;
    bool first = true;
    const auto add = [&](const auto* x, std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      auto sum = static_cast<double>(x[begin]);
      for (std::int64_t i = begin + 1; i < end; ++i) sum += static_cast<double>(x[i]);
      total = first ? sum : total + sum;
      first = false;
    };
    add(of_64, 0, sixty_fours);
    add(of_8, 8 * sixty_fours, eights);
    add(terms, 8 * eights, n);
    return total;
  }

  /// Adds up the open levels: the sums of all that was pushed. At least one push came before.
  void total(double* out) const noexcept {
    int level = top_;
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
      if (k > top_) top_ = k;
      count_[k] = static_cast<int>((pushed - 1) >> (numerics::kRadixBits * k) & (numerics::kRadix - 1)) + (k == 0);
      if (count_[k] > 0) std::copy_n(open(k), width_, open_ + k * width_);
    }
  }

 private:
  template <class Term>
  void append(int level, const Term* terms) noexcept {
    double* open = open_ + level * width_;
    if (level > top_) top_ = level;
    if (count_[level]++ == 0) {
      for (std::int64_t i = 0; i < width_; ++i) open[i] = static_cast<double>(terms[i]);
    } else if (width_ == 1) {
      *open += static_cast<double>(*terms);
    } else {
      kernels_->add_terms(terms, width_, open);
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

  const SumKernels* kernels_ = nullptr;
  double* open_ = nullptr;
  std::int64_t width_ = 0;
  int top_ = 0;  ///< no level above holds anything
  std::array<int, numerics::kMaxLevels + 2> count_{};
};

template <class Term>
void CanonicalSums::push_span(const Term* terms, std::int64_t n, bool last) noexcept {
  // Whole blocks of 8, of 64, of 512, each level from the one before. The block that holds the last term stays open.
  const std::int64_t closed = last ? n - 1 : n;
  const std::int64_t eights = closed / 8;
  const std::int64_t sixty_fours = closed / 64;
  const std::int64_t five_twelves = closed / 512;
  double of_8[kSpan / 8];
  double of_64[kSpan / 64];
  double of_512[kSpan / 512];
  kernels_->sum_blocks(terms, eights, of_8);
  kernels_->sum_blocks(of_8, sixty_fours, of_64);
  kernels_->sum_blocks(of_64, five_twelves, of_512);
  for (std::int64_t b = 0; b < five_twelves; ++b) push_block(3, of_512 + b);
  for (std::int64_t b = 8 * five_twelves; b < sixty_fours; ++b) push_block(2, of_64 + b);
  for (std::int64_t b = 8 * sixty_fours; b < eights; ++b) push_block(1, of_8 + b);
  if (8 * eights == n) return;
  if (count_[0] == numerics::kRadix) close_block();
  auto sum = static_cast<double>(terms[8 * eights]);
  for (std::int64_t i = 8 * eights + 1; i < n; ++i) sum += static_cast<double>(terms[i]);
  open_[0] = sum;
  count_[0] = static_cast<int>(n - 8 * eights);
}

}  // namespace planck::cpu
