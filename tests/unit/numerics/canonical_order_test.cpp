// The canonical order: the definition written out digit by digit, against the fold and the side-by-side sums.
#include "numerics/canonical_order.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "cpu/canonical_sums.hpp"
#include "cpu/isa.hpp"

namespace planck::numerics {
namespace {

/// Combining builds a text, so that the order itself can be compared.
struct TextOp {
  std::string combine(const std::string& a, const std::string& b) const { return "(" + a + "+" + b + ")"; }
};

/// The total of block `index` of `level`, from the definition.
std::string block(int level, std::int64_t index) {
  if (level == 0) return std::to_string(index);
  std::string sum = block(level - 1, 8 * index);
  for (int i = 1; i < 8; ++i) sum = TextOp{}.combine(sum, block(level - 1, 8 * index + i));
  return sum;
}

/// The prefix ending at t, from the definition: at each level the whole siblings before t's own block.
std::string prefix(std::int64_t t) {
  std::string sum;
  const auto add = [&](const std::string& part) { sum = sum.empty() ? part : TextOp{}.combine(sum, part); };
  for (int level = 6; level >= 0; --level) {
    const std::int64_t own = t / block_size(level);       // t's own block of this level
    const std::int64_t first = own / 8 * 8;               // its first sibling
    const std::int64_t end = level == 0 ? own + 1 : own;  // the elements include t itself
    std::string siblings;
    for (std::int64_t i = first; i < end; ++i) {
      siblings = siblings.empty() ? block(level, i) : TextOp{}.combine(siblings, block(level, i));
    }
    if (!siblings.empty()) add(siblings);
  }
  return sum;
}

TEST(CanonicalOrder, FoldIsTheDefinition) {
  CanonicalFold<std::string, TextOp> fold;
  for (std::int64_t t = 0; t < 1100; ++t) {
    fold.push(std::to_string(t));
    ASSERT_EQ(fold.prefix(), prefix(t)) << t;
  }
}

TEST(CanonicalOrder, WholeBlocksMayArriveAsTotals) {
  CanonicalFold<std::string, TextOp> fold;
  fold.push_block(3, block(3, 0));
  fold.push_block(2, block(2, 8));
  fold.push_block(1, block(1, 72));
  for (int t = 584; t < 590; ++t) fold.push(std::to_string(t));
  EXPECT_EQ(fold.prefix(), prefix(589));
}

TEST(CanonicalOrder, BlockTotalIsTheDefinition) {
  CanonicalFold<std::string, TextOp> fold;
  for (int t = 0; t < 64; ++t) fold.push(std::to_string(t));
  EXPECT_EQ(fold.block_total(2), block(2, 0));
}

TEST(CanonicalOrder, AFoldGoesOnFromAnothersOpenBlocks) {
  for (const std::int64_t n : {1, 7, 8, 9, 63, 64, 65, 512, 600, 4096}) {
    for (const bool closed : {false, true}) {
      if (closed && n % 8 != 0) continue;
      CanonicalFold<std::string, TextOp> first;
      for (std::int64_t t = 0; t < n; ++t) first.push(std::to_string(t));
      if (closed) first.close();
      EXPECT_EQ(first.elements(), n);
      CanonicalFold<std::string, TextOp> second;
      second.resume_after(n, closed);
      for (int level = 0; level < kMaxLevels; ++level) {
        ASSERT_EQ(second.count(level), first.count(level)) << n << ", level " << level;
        if (second.count(level) > 0) second.totals().set(level, first.open(level));
      }
      if (!closed) {
        EXPECT_EQ(second.prefix(), prefix(n - 1)) << n;
      }
      for (std::int64_t t = n; t < n + 10; ++t) {
        second.push(std::to_string(t));
        ASSERT_EQ(second.prefix(), prefix(t)) << n;
      }
    }
  }
}

TEST(CanonicalOrder, ABlockSaysWhereItComesToLie) {
  CanonicalFold<std::string, TextOp> fold;
  for (std::int64_t b = 0; b < 64; ++b) {
    EXPECT_EQ(fold.push_block(1, block(1, b)), b % 64 == 63 ? 3 : b % 8 == 7 ? 2 : 1);
  }
  EXPECT_EQ(fold.close(), 0);
  for (int t = 512; t < 520; ++t) fold.push(std::to_string(t));
  EXPECT_EQ(fold.close(), 1);
}

TEST(CanonicalOrder, PrefixDoesNotDependOnTheLength) {
  EXPECT_EQ(prefix(3), "(((0+1)+2)+3)");
  EXPECT_EQ(prefix(8), "((((((((0+1)+2)+3)+4)+5)+6)+7)+8)");
  EXPECT_EQ(levels_for(1), 1);
  EXPECT_EQ(levels_for(8), 1);
  EXPECT_EQ(levels_for(9), 2);
  EXPECT_EQ(levels_for(std::int64_t{1} << 62), kMaxLevels);
}

TEST(CanonicalOrder, SumOfNothingIsPositiveZeroAndAbsentTermsAreNegativeZero) {
  EXPECT_FALSE(std::signbit(canonical_sum(0, [](std::int64_t) { return 1.0; })));
  EXPECT_TRUE(std::signbit(canonical_sum(100, [](std::int64_t) { return -0.0; })));
}

std::vector<double> wild_values(std::int64_t n) {
  std::mt19937_64 random(static_cast<std::uint64_t>(n));
  std::vector<double> x(static_cast<std::size_t>(n));
  for (double& v : x) {
    v = std::ldexp(static_cast<double>(random() >> 11) * 0x1p-52 - 1.0, static_cast<int>(random() % 60));
  }
  return x;
}

void expect_the_folds_bits(const cpu::SumKernels& kernels) {
  for (const std::int64_t n : {1, 7, 8, 9, 63, 64, 65, 511, 512, 513, 1000, 4095, 4096, 4097, 5000, 40000}) {
    const std::vector<double> x = wild_values(n);
    const double expected = canonical_sum(n, [&](std::int64_t t) { return x[static_cast<std::size_t>(t)]; });
    std::vector<double> storage(static_cast<std::size_t>(cpu::CanonicalSums::storage_for(n, 3)));

    cpu::CanonicalSums row(kernels, storage.data(), 1);
    for (std::int64_t i = 0; i < n; i += 1024) {
      const std::int64_t count = std::min<std::int64_t>(1024, n - i);
      row.push_span(x.data() + i, count, i + count == n);
    }
    double total = 0;
    row.total(&total);
    ASSERT_EQ(total, expected) << n;

    if (n <= cpu::CanonicalSums::kShortRow) {
      std::vector<double> two = x;
      two.insert(two.end(), x.begin(), x.end());
      double totals[2];
      cpu::CanonicalSums::totals_of_rows(kernels, two.data(), 2, n, totals);
      ASSERT_EQ(totals[0], expected) << n;
      ASSERT_EQ(totals[1], expected) << n;
    }

    cpu::CanonicalSums columns(kernels, storage.data(), 3);
    for (const double v : x) {
      const double three[] = {v, -v, v};
      columns.push(three);
    }
    double totals[3];
    columns.total(totals);
    ASSERT_EQ(totals[0], expected);
    ASSERT_EQ(totals[1], -expected);

    cpu::CanonicalSums by_fours(kernels, storage.data(), 1);
    for (std::int64_t i = 0; i < n; i += 4) by_fours.push_rows(x.data() + i, 1, std::min<std::int64_t>(4, n - i));
    by_fours.total(&total);
    ASSERT_EQ(total, expected) << n;

    // Parts of one block of level 2 each, the last one open, combined elsewhere.
    cpu::CanonicalSums whole(kernels, storage.data(), 1);
    std::vector<double> part_storage(8);
    const std::int64_t last = (n - 1) / 64 * 64;
    for (std::int64_t begin = 0; begin <= last; begin += 64) {
      cpu::CanonicalSums part(kernels, part_storage.data(), 1);
      for (std::int64_t i = begin; i < std::min(n, begin + 64); ++i) part.push(&x[static_cast<std::size_t>(i)]);
      if (begin < last) {
        whole.push_block(2, part.block_total(2));
      } else {
        whole.adopt(2, n - last, [&](int level) { return part.open(level); });
      }
    }
    whole.total(&total);
    ASSERT_EQ(total, expected) << n;
  }
}

TEST(CanonicalSums, SpansColumnsAndSplitBlocksGiveTheFoldsBits) {
  for (const ArchSku arch : cpu::known_archs()) {
    if (!cpu::supported(arch)) continue;
    SCOPED_TRACE(to_string(arch));
    expect_the_folds_bits(cpu::sum_kernels(arch));
  }
}

TEST(CanonicalSums, StayWithinTheStatedError) {
  // 2^20 values that nearly cancel: the error is below 2^-45 of the sum of magnitudes.
  const std::vector<double> x = wild_values(1 << 20);
  long double exact = 0;
  long double magnitude = 0;
  for (const double v : x) {
    exact += v;
    magnitude += std::fabs(v);
  }
  const double sum = canonical_sum(1 << 20, [&](std::int64_t t) { return x[static_cast<std::size_t>(t)]; });
  EXPECT_LE(std::fabs(static_cast<double>(sum - exact)), static_cast<double>(magnitude) * 0x1p-45);
}

}  // namespace
}  // namespace planck::numerics
