// Prototypes that settled the canonical order: scans of five states in f64, forwards and backwards, along rows,
// along columns, and along one row split among threads. Each is checked against CanonicalFold bit for bit before
// it is timed beside a copy of the same bytes. docs/numerics.md quotes the output.
//
// The loops are plain C++ that a compiler vectorises; the states' exp is a stand-in of the right cost.
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "interleaved.hpp"
#include "numerics/canonical_order.hpp"

#if defined(__x86_64__)
#define PLANCK_BENCH_TARGET __attribute__((target("avx2")))
#else
#define PLANCK_BENCH_TARGET
#endif
#define PLANCK_BENCH_INLINE __attribute__((always_inline)) inline

namespace planck::bench {
namespace {

using numerics::kRadix;

/// e^x for x <= 0, good to some 1e-8: what an exponential costs, not what it is.
PLANCK_BENCH_INLINE double exp_stand_in(double x) {
  const double clipped = x < -700.0 ? -700.0 : x;
  const double shifted = clipped * 1.4426950408889634 + 0x1.8p52;
  const double k = shifted - 0x1.8p52;
  const double r = clipped - k * 0.6931471805599453;
  double p = 1.0 / 40320;
  p = p * r + 1.0 / 5040;
  p = p * r + 1.0 / 720;
  p = p * r + 1.0 / 120;
  p = p * r + 1.0 / 24;
  p = p * r + 1.0 / 6;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  return p * std::bit_cast<double>((std::bit_cast<std::uint64_t>(shifted) + 1023) << 52);
}

// Each state has one or two f64 parts. `lift` makes an element's state, `combine` joins left and right, `project`
// gives the result.
struct State {
  double u;
  double v;
};

struct Sum {
  static constexpr const char* kName = "sum";
  static PLANCK_BENCH_INLINE State lift(double x) { return {x, 0}; }
  PLANCK_BENCH_INLINE State combine(State a, State b) const { return {a.u + b.u, 0}; }
  static PLANCK_BENCH_INLINE double project(State s) { return s.u; }
};
struct Product {
  static constexpr const char* kName = "product";
  static PLANCK_BENCH_INLINE State lift(double x) { return {1 + x * 0x1p-10, 0}; }
  PLANCK_BENCH_INLINE State combine(State a, State b) const { return {a.u * b.u, 0}; }
  static PLANCK_BENCH_INLINE double project(State s) { return s.u; }
};
struct Pair {
  static constexpr const char* kName = "(a, b) pair";
  static PLANCK_BENCH_INLINE State lift(double x) { return {0.9, x}; }
  PLANCK_BENCH_INLINE State combine(State a, State b) const { return {b.u * a.u, b.u * a.v + b.v}; }
  static PLANCK_BENCH_INLINE double project(State s) { return s.v; }
};
struct MaxSum {
  static constexpr const char* kName = "(max, sum)";
  static PLANCK_BENCH_INLINE State lift(double x) { return {x, 1}; }
  PLANCK_BENCH_INLINE State combine(State a, State b) const {
    const double weight = exp_stand_in(-std::fabs(a.u - b.u));  // of the one with the smaller maximum
    return a.u < b.u ? State{b.u, a.v * weight + b.v} : State{a.u, a.v + b.v * weight};
  }
  static PLANCK_BENCH_INLINE double project(State s) { return s.u + s.v; }
};
struct RefSum {
  static constexpr const char* kName = "(r, S)";
  static PLANCK_BENCH_INLINE State lift(double x) { return {-x * x, x}; }
  PLANCK_BENCH_INLINE State combine(State a, State b) const {
    return {a.u, a.v + exp_stand_in(-std::fabs(a.u - b.u)) * b.v};
  }
  static PLANCK_BENCH_INLINE double project(State s) { return s.v; }
};

/// Scans one whole block of 64, whose element t is x[t * step], behind `high`: the open blocks of 64 and more before
/// it, combined (null if there are none). Its blocks of 8 lie side by side in eight lanes. `total` is its own total.
template <class Op>
PLANCK_BENCH_TARGET void scan_block_of_64(const float* x, float* y, std::int64_t step, const State* high, State& total,
                                          bool write) {
  double u[8][8];
  double v[8][8];
  for (int j = 0; j < 8; ++j) {
    for (int b = 0; b < 8; ++b) {
      const State s = Op::lift(static_cast<double>(x[(8 * b + j) * step]));
      u[j][b] = s.u;
      v[j][b] = s.v;
    }
  }
  for (int j = 1; j < 8; ++j) {
    for (int b = 0; b < 8; ++b) {
      const State s = Op{}.combine({u[j - 1][b], v[j - 1][b]}, {u[j][b], v[j][b]});
      u[j][b] = s.u;
      v[j][b] = s.v;
    }
  }
  State base[8];
  State siblings{u[7][0], v[7][0]};
  for (int b = 1; b < 8; ++b) {
    base[b] = high != nullptr ? Op{}.combine(*high, siblings) : siblings;
    siblings = Op{}.combine(siblings, {u[7][b], v[7][b]});
  }
  total = siblings;
  if (!write) return;
  for (int j = 0; j < 8; ++j) {
    const State own{u[j][0], v[j][0]};
    y[j * step] = static_cast<float>(Op::project(high != nullptr ? Op{}.combine(*high, own) : own));
  }
  for (int j = 0; j < 8; ++j) {
    for (int b = 1; b < 8; ++b) {
      y[(8 * b + j) * step] = static_cast<float>(Op::project(Op{}.combine(base[b], {u[j][b], v[j][b]})));
    }
  }
}

/// The open blocks of 64 and more before some position, as CanonicalFold keeps them, and their combination.
template <class Op>
class High {
 public:
  void push(int level, State total) {
    open_[level] = count_[level] == 0 ? total : Op{}.combine(open_[level], total);
    if (++count_[level] == kRadix) {
      count_[level] = 0;
      push(level + 1, open_[level]);
      return;
    }
    int top = numerics::kMaxLevels;
    while (count_[top] == 0) --top;
    all_ = open_[top];
    while (--top >= 2) {
      if (count_[top] > 0) all_ = Op{}.combine(all_, open_[top]);
    }
    any_ = true;
  }
  const State* combined() const { return any_ ? &all_ : nullptr; }

 private:
  State open_[numerics::kMaxLevels + 1];
  int count_[numerics::kMaxLevels + 1] = {};
  State all_;
  bool any_ = false;
};

template <class Op>
void scan_row(const float* x, float* y, std::int64_t n, bool reverse, High<Op> high = {}) {
  const std::int64_t step = reverse ? -1 : 1;
  if (reverse) {
    x += n - 1;
    y += n - 1;
  }
  for (std::int64_t t = 0; t < n; t += 64) {
    State total;
    scan_block_of_64<Op>(x + t * step, y + t * step, step, high.combined(), total, true);
    high.push(2, total);
  }
}

/// Columns [begin, end) of a matrix, row by row, a lane per column.
template <class Op>
PLANCK_BENCH_TARGET void scan_columns(const float* x, float* y, std::int64_t rows, std::int64_t columns,
                                      std::int64_t begin, std::int64_t end, bool reverse) {
  const std::int64_t width = end - begin;
  const int levels = numerics::levels_for(rows) + 1;
  std::vector<double> store(static_cast<std::size_t>(2 * (levels + 1) * width));
  std::vector<int> count(static_cast<std::size_t>(levels + 1));
  const auto u = [&](int level) { return store.data() + (2 * level) * width; };
  const auto v = [&](int level) { return store.data() + (2 * level + 1) * width; };
  const int base = levels;
  bool has_base = false;
  for (std::int64_t t = 0; t < rows; ++t) {
    const std::int64_t row = (reverse ? rows - 1 - t : t) * columns + begin;
    const float* from = x + row;
    float* to = y + row;
    double* pu = u(0);
    double* pv = v(0);
    double* bu = u(base);
    double* bv = v(base);
    const bool first = t % kRadix == 0;
    if (first && t > 0) {
      int level = 1;
      const auto append = [&](int into, int what) {
        const bool fresh = count[static_cast<std::size_t>(into)]++ == 0;
        for (std::int64_t c = 0; c < width; ++c) {
          const State part{u(what)[c], v(what)[c]};
          const State s = fresh ? part : Op{}.combine({u(into)[c], v(into)[c]}, part);
          u(into)[c] = s.u;
          v(into)[c] = s.v;
        }
      };
      append(1, 0);
      while (count[static_cast<std::size_t>(level)] == kRadix) {
        count[static_cast<std::size_t>(level)] = 0;
        append(level + 1, level);
        ++level;
      }
      has_base = false;
      for (int k = levels - 1; k >= 1; --k) {
        if (count[static_cast<std::size_t>(k)] == 0) continue;
        for (std::int64_t c = 0; c < width; ++c) {
          const State part{u(k)[c], v(k)[c]};
          const State s = has_base ? Op{}.combine({bu[c], bv[c]}, part) : part;
          bu[c] = s.u;
          bv[c] = s.v;
        }
        has_base = true;
      }
    }
    for (std::int64_t c = 0; c < width; ++c) {
      const State x_state = Op::lift(static_cast<double>(from[c]));
      const State s = first ? x_state : Op{}.combine({pu[c], pv[c]}, x_state);
      pu[c] = s.u;
      pv[c] = s.v;
      to[c] = static_cast<float>(Op::project(has_base ? Op{}.combine({bu[c], bv[c]}, s) : s));
    }
  }
}

/// body(i) for each i in [0, count), on the stream's threads.
template <class Body>
void for_each_piece(const Stream& stream, std::int64_t count, const Body& body) {
  stream.executor().for_each(
      count, stream.threads(), [](void* c, std::int64_t i) noexcept { (*static_cast<const Body*>(c))(i); },
      const_cast<Body*>(&body));
}

/// One row in parts of 4096: totals of the parts first, then every part from the state before it.
template <class Op>
void scan_split(const Stream& stream, const float* x, float* y, std::int64_t n, bool reverse) {
  constexpr std::int64_t kPart = 4096;
  const std::int64_t parts = n / kPart;
  std::vector<State> totals(static_cast<std::size_t>(parts));
  std::vector<High<Op>> before(static_cast<std::size_t>(parts));
  const auto start = [&](std::int64_t part) { return reverse ? n - (part + 1) * kPart : part * kPart; };
  for_each_piece(stream, parts, [&](std::int64_t part) {
    const float* from = x + start(part) + (reverse ? kPart - 1 : 0);
    const std::int64_t step = reverse ? -1 : 1;
    State level3{};
    State level4{};
    for (int i = 0; i < 8; ++i) {
      for (int j = 0; j < 8; ++j) {
        State total;
        scan_block_of_64<Op>(from + (i * 8 + j) * 64 * step, nullptr, step, nullptr, total, false);
        level3 = j == 0 ? total : Op{}.combine(level3, total);
      }
      level4 = i == 0 ? level3 : Op{}.combine(level4, level3);
    }
    totals[static_cast<std::size_t>(part)] = level4;
  });
  High<Op> high;
  for (std::int64_t part = 0; part < parts; ++part) {
    before[static_cast<std::size_t>(part)] = high;
    high.push(4, totals[static_cast<std::size_t>(part)]);
  }
  for_each_piece(stream, parts, [&](std::int64_t part) {
    scan_row<Op>(x + start(part), y + start(part), kPart, reverse, before[static_cast<std::size_t>(part)]);
  });
}

template <class Op>
float reference(const float* x, std::int64_t n, std::int64_t step) {
  numerics::CanonicalFold<State, Op> fold;
  for (std::int64_t t = 0; t < n; ++t) fold.push(Op::lift(static_cast<double>(x[t * step])));
  return static_cast<float>(Op::project(fold.prefix()));
}

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kColumns = 4096;

enum class Walk { Rows, Columns, Split };

template <class Op>
void run(const Stream& stream, Walk walk, bool reverse, const std::vector<float>& x, std::vector<float>& y) {
  switch (walk) {
    case Walk::Rows:
      return for_each_piece(
          stream, kRows, [&](std::int64_t r) { scan_row<Op>(&x[r * kColumns], &y[r * kColumns], kColumns, reverse); });
    case Walk::Columns:
      return for_each_piece(stream, kColumns / 2048, [&](std::int64_t b) {
        scan_columns<Op>(x.data(), y.data(), kRows, kColumns, b * 2048, (b + 1) * 2048, reverse);
      });
    case Walk::Split:
      return scan_split<Op>(stream, x.data(), y.data(), kRows * kColumns, reverse);
  }
}

template <class Op>
bool right(Walk walk, bool reverse, const std::vector<float>& x, const std::vector<float>& y) {
  const std::int64_t n = walk == Walk::Split ? kRows * kColumns : 4096;
  const std::int64_t step = walk == Walk::Columns ? kColumns : 1;
  const std::int64_t line = walk == Walk::Columns ? 77 : walk == Walk::Rows ? 77 * kColumns : 0;
  for (const std::int64_t t : {std::int64_t{0}, std::int64_t{7}, std::int64_t{8}, std::int64_t{700}, n - 1}) {
    const std::int64_t at = line + (reverse ? n - 1 - t : t) * step;
    const float expected = reference<Op>(&x[line + (reverse ? (n - 1) * step : 0)], t + 1, reverse ? -step : step);
    if (std::bit_cast<std::uint32_t>(expected) != std::bit_cast<std::uint32_t>(y[at])) return false;
  }
  return true;
}

template <class Op>
void measure(const Stream& stream, const std::vector<float>& x, std::vector<float>& y, bool& all_right) {
  std::printf("| %s |", Op::kName);
  Copy copy(2 * kRows * kColumns * static_cast<std::int64_t>(sizeof(float)));
  for (const Walk walk : {Walk::Rows, Walk::Columns, Walk::Split}) {
    for (const bool reverse : {false, true}) {
      std::vector<double> own;
      std::vector<double> copies;
      for (int i = 0; i < 7; ++i) {
        own.push_back(seconds([&] { run<Op>(stream, walk, reverse, x, y); }));
        copies.push_back(seconds([&] { copy.run(stream); }));
      }
      const bool ok = right<Op>(walk, reverse, x, y);
      all_right &= ok;
      std::printf(" %.1f ms, %.1f ×%s |", median(own) * 1e3, median(own) / median(copies), ok ? "" : " WRONG");
      std::fflush(stdout);
    }
  }
  std::printf("\n");
}

}  // namespace
}  // namespace planck::bench

int main() {
  using namespace planck::bench;
  std::vector<float> x(kRows * kColumns);
  std::vector<float> y(x.size());
  std::uint32_t random = 1;
  for (float& v : x) {
    random = random * 1664525U + 1013904223U;
    v = static_cast<float>(random >> 8) * 0x1p-23F - 1.0F;
  }
  const planck::Stream stream = planck::Stream::cpu();
  bool all_right = true;
  std::printf("| state | rows | rows, reverse | columns | columns, reverse | one row of 16 M | the same, reverse |\n");
  std::printf("|---|---|---|---|---|---|---|\n");
  measure<Sum>(stream, x, y, all_right);
  measure<Product>(stream, x, y, all_right);
  measure<Pair>(stream, x, y, all_right);
  measure<MaxSum>(stream, x, y, all_right);
  measure<RefSum>(stream, x, y, all_right);
  return all_right ? 0 : 1;
}
