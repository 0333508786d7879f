// Canonical sums side by side: `width` independent columns, each summed in the order of
// src/numerics/canonical_order.hpp, held level by level so that a push is one pass over a row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cpu/sum_kernels.hpp"
#include "numerics/canonical_order.hpp"

namespace planck::cpu {

/// Totals of open blocks: at each level a row of `width` sums.
class SumTotals {
 public:
  using Total = const double*;

  SumTotals() = default;
  SumTotals(const SumKernels& kernels, double* storage, std::int64_t width) noexcept
      : kernels_(&kernels), storage_(storage), width_(width) {}

  double* at(int level) const noexcept { return storage_ + level * width_; }
  void set(int level, const double* sums) const noexcept { std::copy_n(sums, width_, at(level)); }
  void add(int level, const double* sums) const noexcept { add_to(at(level), sums); }
  void add_to(double* to, const double* sums) const noexcept {
    if (width_ == 1) {
      *to += *sums;
    } else {
      kernels_->add_sums(sums, width_, to);
    }
  }

  const SumKernels& kernels() const noexcept { return *kernels_; }
  std::int64_t width() const noexcept { return width_; }

 private:
  const SumKernels* kernels_ = nullptr;
  double* storage_ = nullptr;
  std::int64_t width_ = 0;
};

class CanonicalSums {
 public:
  /// f64 values of storage needed for sums of n terms.
  static std::int64_t storage_for(std::int64_t n, std::int64_t width) noexcept {
    return numerics::levels_for(n) * width;
  }

  CanonicalSums() = default;
  CanonicalSums(const SumKernels& kernels, double* storage, std::int64_t width) noexcept
      : blocks_(kernels, storage, width) {}

  void reset() noexcept { blocks_.resume_after(0); }

  /// The next term of every column.
  void push(const double* terms) noexcept { blocks_.push(terms); }

  /// The next terms of every column, in rows that lie `pitch` apart, up to the next multiple of kRadix.
  template <class Term>
  void push_rows(const Term* terms, std::int64_t pitch, std::int64_t rows) noexcept {
    const bool on = blocks_.room() < numerics::kRadix;
    const SumTotals& totals = blocks_.totals();
    totals.kernels().sum_rows(terms, pitch, rows, totals.width(), totals.at(0), on);
    blocks_.took(static_cast<int>(rows));
  }

  /// A whole block's totals; an element must follow.
  void push_block(int level, const double* totals) noexcept { blocks_.push_block(level, totals); }

  /// At most this many terms in one push_span.
  static constexpr std::int64_t kSpan = 1024;
  /// n consecutive terms of the only column (width 1), starting on a multiple of kSpan; `last` if none follow.
  template <class Term>
  void push_span(const Term* terms, std::int64_t n, bool last) noexcept;

  /// At most this many terms in each of totals_of_rows, and in all of them.
  static constexpr std::int64_t kShortRow = 512;
  static constexpr std::int64_t kShortRows = 1024;
  /// The sums of `rows` rows of n terms, one behind the other, in the same order.
  template <class Term>
  static void totals_of_rows(const SumKernels& kernels, const Term* terms, std::int64_t rows, std::int64_t n,
                             double* totals) noexcept;

  /// The same for rows of whole blocks of 64.
  template <class Term>
  static void totals_of_even_rows(const SumKernels& kernels, const Term* terms, std::int64_t rows, std::int64_t blocks,
                                  double* totals) noexcept;

  /// Adds up the open levels: the sums of all that was pushed. At least one push came before.
  void total(double* out) const noexcept {
    bool any = false;
    blocks_.for_each_level([&](int level) {
      if (any) {
        blocks_.totals().add_to(out, blocks_.open(level));
      } else {
        std::copy_n(blocks_.open(level), blocks_.totals().width(), out);
      }
      any = true;
    });
  }

  /// The totals of exactly one whole block of `level`, when that is what was pushed.
  const double* block_total(int level) noexcept { return blocks_.block_total(level); }

  /// What `level` holds open for every column; null if nothing.
  const double* open(int level) const noexcept { return blocks_.count(level) == 0 ? nullptr : blocks_.open(level); }

  /// After whole blocks of `level`: continues as if the `pushed` elements that `open` describes had been pushed
  /// here. open(k) gives the values of level k < level that such an object holds open.
  template <class Open>
  void adopt(int level, std::int64_t pushed, const Open& open) noexcept {
    blocks_.resume_after(blocks_.elements() + pushed, false);
    for (int k = 0; k < level; ++k) {
      if (blocks_.count(k) > 0) blocks_.totals().set(k, open(k));
    }
  }

 private:
  numerics::OpenBlocks<SumTotals> blocks_;
};

template <class Term>
void CanonicalSums::push_span(const Term* terms, std::int64_t n, bool last) noexcept {
  // Whole blocks of 64, of 512, and of 8. The block that holds the last term stays open.
  const SumKernels& kernels = blocks_.totals().kernels();
  const std::int64_t closed = last ? n - 1 : n;
  const std::int64_t sixty_fours = closed / 64;
  const std::int64_t five_twelves = closed / 512;
  const std::int64_t eights = closed % 64 / 8;
  double of_64[kSpan / 64];
  double eighths[kSpan / 64];
  double of_512[kSpan / 512];
  double of_8[8];
  kernels.sum_blocks_of_64(terms, sixty_fours, of_64, eighths);
  for (std::int64_t b = 0; b < sixty_fours; ++b) of_64[b] += eighths[b];
  kernels.sum_blocks(of_64, five_twelves, of_512);
  for (std::int64_t b = 0; b < five_twelves; ++b) push_block(3, of_512 + b);
  for (std::int64_t b = 8 * five_twelves; b < sixty_fours; ++b) push_block(2, of_64 + b);
  terms += 64 * sixty_fours;
  kernels.sum_blocks(terms, eights, of_8);
  for (std::int64_t b = 0; b < eights; ++b) push_block(1, of_8 + b);
  if (const std::int64_t rest = n - 64 * sixty_fours - 8 * eights; rest > 0) push_rows(terms + 8 * eights, 1, rest);
}

template <class Term>
void CanonicalSums::totals_of_even_rows(const SumKernels& kernels, const Term* terms, std::int64_t rows,
                                        std::int64_t blocks, double* totals) noexcept {
  double sevens[kShortRows / 64];
  double eighths[kShortRows / 64];
  kernels.sum_blocks_of_64(terms, rows * blocks, sevens, eighths);
  const std::int64_t last = blocks - 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    const double* seven = sevens + r * blocks;
    const double* eighth = eighths + r * blocks;
    // (E2 + E1) + E0
    double total = seven[last];
    if (last > 0) {
      double e2 = seven[0] + eighth[0];
      for (std::int64_t b = 1; b < last; ++b) e2 += seven[b] + eighth[b];
      total = e2 + total;
    }
    totals[r] = total + eighth[last];
  }
}

template <class Term>
void CanonicalSums::totals_of_rows(const SumKernels& kernels, const Term* terms, std::int64_t rows, std::int64_t n,
                                   double* totals) noexcept {
  if (n % 64 == 0) return totals_of_even_rows(kernels, terms, rows, n / 64, totals);
  // Whole rows of blocks of 8 in one go, or else row by row.
  const bool together = n % 8 == 0;
  double of_8[kShortRows / 8];
  if (together) kernels.sum_blocks(terms, rows * n / 8, of_8);
  // The block that holds the last term stays open.
  const std::int64_t eights = (n - 1) / 8;
  const std::int64_t sixty_fours = eights / 8;
  const auto sum = [](const auto* x, std::int64_t count) {
    auto total = static_cast<double>(x[0]);
    for (std::int64_t i = 1; i < count; ++i) total += static_cast<double>(x[i]);
    return total;
  };
  for (std::int64_t r = 0; r < rows; ++r) {
    const Term* row = terms + r * n;
    const double* blocks = of_8;
    if (together) {
      blocks += r * (n / 8);
    } else {
      kernels.sum_blocks(row, eights, of_8);
    }
    double of_64[kShortRow / 64];
    for (std::int64_t b = 0; b < sixty_fours; ++b) of_64[b] = sum(blocks + 8 * b, 8);
    // Of E2, E1 and E0 the last is always there.
    double total = together ? blocks[eights] : sum(row + 8 * eights, n - 8 * eights);
    if (eights % 8 > 0) {
      const double e1 = sum(blocks + 8 * sixty_fours, eights % 8);
      total = (sixty_fours > 0 ? sum(of_64, sixty_fours) + e1 : e1) + total;
    } else if (sixty_fours > 0) {
      total = sum(of_64, sixty_fours) + total;
    }
    totals[r] = total;
  }
}

}  // namespace planck::cpu
