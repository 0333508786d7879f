#include "testing/scan_pieces.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "scan/scalar.hpp"

namespace planck::test {
namespace {

/// A value that still matters after tens of thousands of others: products stay in range, and extrema change all along.
template <class T>
T value_at(const ScanCase& c, std::uint64_t random, std::int64_t t, bool factor) {
  const double uniform = static_cast<double>(random >> 11) * 0x1p-53;
  const bool rises = (c.kind == ScanKind::Cummax) != c.reverse;
  const auto level = static_cast<std::int64_t>((rises ? t : -t) / 512 + static_cast<std::int64_t>(random % 4));
  if constexpr (std::is_integral_v<T>) {
    if (scan::is_extremum(c.kind)) return static_cast<T>(level);
    return static_cast<T>(random | 1);
  } else {
    double x = uniform * 2 - 1;
    if (scan::is_extremum(c.kind)) x = static_cast<double>(level);
    if (scan::is_extremum(c.kind) && t == 8300) x = std::nan("");
    if (c.kind == ScanKind::LogCumsumExp) x = uniform * 20 - 10;
    if (factor) x = (random % 2 == 0 ? -1 : 1) * std::exp2(x * 0.05);
    return scalar::narrow<T>(x);
  }
}

void fill(TestTensor& tensor, const ScanCase& c, int axis, std::uint64_t seed, bool factor) {
  const Shape shape = tensor.view().shape;
  std::int64_t inner = 1;
  for (int d = axis + 1; d < shape.rank(); ++d) inner *= shape[d];
  std::vector<std::byte> packed(static_cast<std::size_t>(tensor.numel() * size_of(c.element)));
  scan::with_element(c.element, [&]<class T>(T) {
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      const T value = value_at<T>(c, mix(seed + static_cast<std::uint64_t>(i)), i / inner % shape[axis], factor);
      std::memcpy(&packed[static_cast<std::size_t>(i) * sizeof(T)], &value, sizeof(T));
    }
  });
  tensor.assign(packed);
}

template <class Plan, class Descriptor, class Args>
Result<void> select_and_run(const Where& where, const Descriptor& d, const Args& args) {
  const auto plan = Plan::select(where.stream, d, where.preference);
  if (!plan) return tl::unexpected(plan.error());
  TestWorkspace workspace(plan->workspace_size());
  Result<void> result = plan->run(where.stream, workspace.get(), args);
  memory_source.wait(where.stream);
  return result;
}

Shape with_extent(Shape shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const ScanCase& c) {
  out << to_string(c.kind) << ' ' << to_string(c.element);
  if (c.reverse) out << " reverse";
  if (c.exclusive) out << " exclusive";
  if (c.ties == ScanTies::Last) out << " last";
  if (c.indices) out << " indices " << to_string(*c.indices);
  if (c.initial) out << " initial";
  return out;
}

std::vector<ScanCase> all_scan_cases() {
  std::vector<ScanCase> all;
  for (const ScanKind kind : {ScanKind::Cumsum, ScanKind::Cumprod, ScanKind::Cummax, ScanKind::Cummin,
                              ScanKind::LogCumsumExp, ScanKind::LinearRecurrence}) {
    for (const ElementInfo& info : kElements) {
      const ElementKind element = info.kind;
      if (!is_float(element) && !(is_integer(element) && scan::find_kind(kind)->integers)) continue;
      for (const bool reverse : {false, true}) {
        ScanCase c{kind, element, reverse};
        all.push_back(c);
        if (kind == ScanKind::LinearRecurrence) {
          c.initial = true;
          all.push_back(c);
        } else if (!scan::is_extremum(kind)) {
          c.exclusive = true;
          all.push_back(c);
        } else {
          for (const ScanTies ties : {ScanTies::First, ScanTies::Last}) {
            c.ties = ties;
            for (const ElementKind indices : {ElementKind::S32, ElementKind::S64}) {
              c.indices = indices;
              if (!reverse) all.push_back(c);
            }
          }
          c.indices.reset();
          all.push_back(c);
        }
      }
    }
  }
  return all;
}

std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 31)) * 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9ULL;
  return x ^ (x >> 32);
}

Result<void> run(const ScanCase& c, int axis, const ScanViews& v, const Where& where) {
  if (c.recurrence()) {
    const LinearRecurrenceDescriptor d{v.y.shape, axis, c.reverse, c.element, v.initial.has_value()};
    return select_and_run<LinearRecurrencePlan<>>(
        where, d, LinearRecurrenceArgs{v.x, v.b, v.initial, v.y, v.carry_in, v.carry_out});
  }
  const ScanDescriptor d{c.kind, v.y.shape, axis, c.reverse, c.element, c.exclusive, c.ties, c.indices};
  return select_and_run<ScanPlan<>>(where, d, ScanArgs{v.x, v.y, v.indices, v.carry_in, v.carry_out});
}

AnyTensorMut slice(AnyTensorMut view, int axis, std::int64_t begin, std::int64_t length) {
  view.offset += begin * view.stride[axis];
  view.shape[axis] = length;
  return view;
}

std::int64_t sum_of(const std::vector<std::int64_t>& pieces) {
  std::int64_t sum = 0;
  for (const std::int64_t piece : pieces) sum += piece;
  return sum;
}

Whole::Whole(const ScanCase& what, const Place& place, std::int64_t n, Layout in)
    : c(what),
      axis(place.axis),
      length(n),
      layout(in),
      x(c.element, with_extent(place.shape, axis, n), in),
      b(x),
      initial(c.element, with_extent(place.shape, axis, 1), in),
      y(x),
      indices(c.indices.value_or(ElementKind::S64), with_extent(place.shape, axis, n), in) {
  fill(x, c, axis, 1, c.recurrence() || c.kind == ScanKind::Cumprod);
  fill(b, c, axis, 2, false);
  fill(initial, c, axis, 3, false);
}

void Whole::run_whole(const Where& where) {
  ScanViews v{x, b, y};
  if (c.indices) v.indices = indices;
  if (c.initial) v.initial = initial;
  const auto result = run(c, axis, v, where);
  ASSERT_TRUE(result) << result.error().message();
}

TestTensor Whole::new_carry(Layout in) const {
  return TestTensor(ElementKind::S64, with_extent(x.view().shape, axis, kScanCarryWords), in);
}

void Whole::run_pieces(const std::vector<std::int64_t>& pieces, bool in_place, const Where& where) {
  std::vector<std::byte> bytes;
  TestTensor kept = new_carry(layout);
  std::int64_t done = 0;
  for (std::size_t k = 0; k < pieces.size(); ++k) {
    const std::int64_t begin = c.reverse ? length - done - pieces[k] : done;
    const auto part = [&](const TestTensor& tensor) { return slice(tensor.view(), axis, begin, pieces[k]); };
    TestTensor in = new_carry(kLayouts[k % std::size(kLayouts)]);
    TestTensor out = new_carry(layout);
    ScanViews v{part(x), part(b), part(in_place ? x : y)};
    if (c.indices) v.indices = part(indices);
    if (c.initial && k == 0) v.initial = initial;
    if (k > 0) {
      if (!in_place) in.assign(bytes);
      v.carry_in = in_place ? kept.view() : in.view();
    }
    if (k + 1 < pieces.size()) v.carry_out = in_place ? kept.view() : out.view();
    const auto result = run(c, axis, v, where);
    ASSERT_TRUE(result) << result.error().message();
    if (v.carry_out) bytes = out.packed();
    EXPECT_TRUE(in.guards_intact() && out.guards_intact() && kept.guards_intact());
    done += pieces[k];
  }
  EXPECT_TRUE(x.guards_intact() && y.guards_intact() && indices.guards_intact());
  if (in_place) std::swap(x, y);
}

void expect_same(const Whole& whole, const Whole& pieces) {
  const auto expected = whole.y.packed();
  const auto got = pieces.y.packed();
  const std::int64_t at = first_difference(whole.c.element, expected, got);
  EXPECT_EQ(at, -1) << "expected " << element_as_double(whole.c.element, expected, at) << ", got "
                    << element_as_double(whole.c.element, got, at);
  EXPECT_TRUE(!whole.c.indices || whole.indices.packed() == pieces.indices.packed());
}

}  // namespace planck::test
