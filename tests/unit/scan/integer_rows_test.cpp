// Scans of s32 and s64 along rows and columns beside loops of a line each: sums and products that wrap, ties, and the
// ends of the range, on every instruction set. The parity tests' random integers say little of these: their products
// are soon 0, and their extrema seldom change.
#include <gtest/gtest.h>

#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "testing/op_cases.hpp"
#include "testing/thread_executor.hpp"

namespace planck::test {
namespace {

template <class T>
using Limits = std::numeric_limits<T>;

/// A linear congruence: the same numbers everywhere.
class Numbers {
 public:
  explicit Numbers(std::int64_t seed) : state_(static_cast<std::uint64_t>(seed)) {}
  std::uint64_t next() { return (state_ = state_ * 6364136223846793005U + 1442695040888963407U) >> 7; }
  template <class T>
  T any() {
    return static_cast<T>(next() ^ (next() << 32));
  }

 private:
  std::uint64_t state_;
};

/// What says something about a kind: products of odd numbers never become 0; extrema have many ties and winners, from
/// the smallest integer to the largest.
template <class T>
std::vector<T> elements(ScanKind kind, std::int64_t rows, std::int64_t n) {
  Numbers numbers(rows * n);
  std::vector<T> x;
  for (std::int64_t i = 0; i < rows * n; ++i) {
    const std::int64_t t = i % n;
    const bool from_below = i / n % 2 == 0;  // or from above, so that either kind has new winners
    if (kind == ScanKind::Cumsum) {
      constexpr T kEnds[] = {Limits<T>::max(), Limits<T>::min(), -1, 1};
      x.push_back(numbers.next() % 2 == 0 ? numbers.any<T>() : kEnds[numbers.next() % 4]);
    } else if (kind == ScanKind::Cumprod) {
      x.push_back(static_cast<T>(numbers.any<T>() | 1));
    } else {
      const auto stair = static_cast<T>(t / 3 - static_cast<T>(numbers.next() % 3));
      T value = from_below ? stair : static_cast<T>(-stair);
      if (t < 3) value = from_below ? Limits<T>::min() : Limits<T>::max();
      if (t + 20 > n && t % 4 == 0) value = from_below ? Limits<T>::max() : Limits<T>::min();
      x.push_back(value);
    }
  }
  return x;
}

struct Case {
  ScanKind kind;
  ScanTies ties;
  std::optional<ElementKind> indices;
  bool reverse;
};
std::vector<Case> cases() {
  std::vector<Case> cases;
  for (const bool reverse : {false, true}) {
    cases.push_back({ScanKind::Cumsum, ScanTies::First, {}, reverse});
    cases.push_back({ScanKind::Cumprod, ScanTies::First, {}, reverse});
    for (const ScanKind kind : {ScanKind::Cummax, ScanKind::Cummin}) {
      for (const ScanTies ties : {ScanTies::First, ScanTies::Last}) {
        cases.push_back({kind, ties, {}, reverse});
        cases.push_back({kind, ties, ElementKind::S32, reverse});
        cases.push_back({kind, ties, ElementKind::S64, reverse});
      }
    }
  }
  return cases;
}

template <class T>
struct Results {
  std::vector<T> y;
  std::vector<std::int64_t> winners;
};

template <class T>
bool takes_over(const Case& c, T now, T next) {
  if (now == next) return c.ties == ScanTies::Last;
  return c.kind == ScanKind::Cummax ? now < next : next < now;
}

template <class T>
Results<T> expected(const Case& c, const std::vector<T>& x, std::int64_t n) {
  using U = std::make_unsigned_t<T>;
  Results<T> results{std::vector<T>(x.size()), std::vector<std::int64_t>(x.size())};
  for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(n)) {
    T now = 0;
    std::int64_t winner = 0;
    for (std::int64_t t = 0; t < n; ++t) {
      const std::int64_t place = c.reverse ? n - 1 - t : t;
      const std::size_t i = row + static_cast<std::size_t>(place);
      if (c.kind == ScanKind::Cumsum) {
        now = static_cast<T>(static_cast<U>(now) + static_cast<U>(x[i]));
      } else if (c.kind == ScanKind::Cumprod) {
        now = t == 0 ? x[i] : static_cast<T>(static_cast<U>(now) * static_cast<U>(x[i]));
      } else if (t == 0 || takes_over(c, now, x[i])) {
        now = x[i];
        winner = place;
      }
      results.y[i] = now;
      results.winners[i] = winner;
    }
  }
  return results;
}

/// `columns`: the elements of a column lie apart, those of a row of columns side by side.
template <class T, class Index>
Results<T> run(const Case& c, const std::vector<T>& x, std::int64_t rows, std::int64_t n, ArchSku arch, int threads,
               bool columns) {
  const Shape shape{rows, n};
  ScanDescriptor d{
      .kind = c.kind, .input_shape = shape, .scan_axis = 1, .reverse = c.reverse, .element = element_of<T>};
  d.ties = c.ties;
  d.index_element = c.indices;
  ThreadExecutor executor(threads);
  const Stream stream = Stream::cpu(executor);
  PlanPreference preference;
  preference.prefer_arch = arch;
  const auto plan = ScanPlan<>::select(stream, d, preference);
  EXPECT_TRUE(plan) << plan.error().message();
  const auto at = [&](std::int64_t i) {
    return static_cast<std::size_t>(columns ? i % n * rows + i / n : i);  // from where it lies along rows
  };
  const Shape strides = columns ? Shape{1, rows} : Shape{n, 1};
  const auto count = static_cast<std::int64_t>(x.size());
  std::vector<T> from(x.size());
  for (std::int64_t i = 0; i < count; ++i) from[at(i)] = x[static_cast<std::size_t>(i)];
  std::vector<T> y(x.size());
  std::vector<Index> winners(x.size());
  ScanArgs args{.x = AnyTensorRef::strided(from.data(), d.element, shape, strides),
                .y = AnyTensorMut::strided(y.data(), d.element, shape, strides),
                .indices = {}};
  if (c.indices) args.indices = AnyTensorMut::strided(winners.data(), *c.indices, shape, strides);
  std::vector<std::byte> workspace(plan->workspace_size());
  const auto result = plan->run(stream, Workspace::of(workspace), args);
  EXPECT_TRUE(result) << result.error().message();
  Results<T> results;
  for (std::int64_t i = 0; i < count; ++i) {
    results.y.push_back(y[at(i)]);
    results.winners.push_back(winners[at(i)]);
  }
  return results;
}

template <class T>
void check(const Case& c, std::int64_t rows, std::int64_t n, int threads) {
  const std::vector<T> x = elements<T>(c.kind, rows, n);
  const Results<T> wanted = expected(c, x, n);
  for (const ArchSku arch : archs_here()) {
    for (const bool columns : {false, true}) {
      SCOPED_TRACE(testing::Message() << to_string(c.kind) << (c.reverse ? " reversed" : "") << ", ties "
                                      << static_cast<int>(c.ties) << ", " << to_string(arch) << ", " << rows << " x "
                                      << n << ", " << threads << " threads" << (columns ? ", columns" : ""));
      const bool narrow = c.indices == ElementKind::S32;
      const Results<T> results = narrow ? run<T, std::int32_t>(c, x, rows, n, arch, threads, columns)
                                        : run<T, std::int64_t>(c, x, rows, n, arch, threads, columns);
      ASSERT_EQ(results.y, wanted.y);
      if (c.indices) {
        ASSERT_EQ(results.winners, wanted.winners);
      }
    }
  }
}

template <class T>
class IntegerRows : public testing::Test {};
using Integers = testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(IntegerRows, Integers, );

/// One row, where the blocks of 8, 64, 512 and 4096 end, and in the way of short calls.
TYPED_TEST(IntegerRows, OfAnyLength) {
  for (const Case& c : cases()) {
    for (const std::int64_t n : {1, 2, 7, 8, 9, 63, 64, 65, 127, 128, 200, 511, 512, 513, 1000, 4096, 4097, 9001}) {
      check<TypeParam>(c, 1, n, 1);
    }
  }
}

TYPED_TEST(IntegerRows, ManyShortOnes) {
  for (const Case& c : cases()) {
    for (const std::int64_t n : {1, 3, 31, 32, 33, 64, 96, 100, 192, 700}) check<TypeParam>(c, 19, n, 1);
  }
}

/// Threads share a row in segments, whose states go from one to the other.
TYPED_TEST(IntegerRows, SharedByThreads) {
  for (const Case& c : cases()) check<TypeParam>(c, 1, 70001, 3);
}

}  // namespace
}  // namespace planck::test
