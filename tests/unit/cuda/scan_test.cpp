// The CUDA kernels of scans and their gradients, run on fibers, against the plain loops, bit for bit: every kind,
// element and direction in every schedule (parts of warps, warps, blocks that walk, cut rows, columns, cut columns), in
// layouts that start anywhere in a vector, in place over each input, and piece by piece with carries.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "backend/reference.hpp"
#include "cuda/entries.hpp"
#include "scan/carry.hpp"
#include "scan/scalar.hpp"
#include "testing/cuda_on_cpu/few_blocks.hpp"
#include "testing/cuda_on_cpu/scheduler.hpp"

namespace planck {
namespace {

using core::StridedLoop;
using scan::ScanJob;
using scan::ScanKey;

enum class Lay { Packed, Shifted, Apart, Transposed };

struct alignas(16) Line {
  std::byte byte[16];
};

/// A tensor in memory of its own, with nonsense around and between its elements.
class Tensor {
 public:
  Tensor(ElementKind element, const Shape& shape, Lay lay) {
    constexpr std::int64_t kBorder = 16;
    std::int64_t next = lay == Lay::Apart ? 3 : 1;
    const int rank = shape.rank();
    for (int k = 0; k < rank; ++k) {
      const int d = lay == Lay::Transposed ? k : rank - 1 - k;
      view_.stride[d] = next;
      next *= std::max<std::int64_t>(shape[d], 1);
      if (lay == Lay::Apart) next += 5;
    }
    lines_.resize(static_cast<std::size_t>((next + 2 * kBorder) * size_of(element)) / sizeof(Line) + 1);
    std::memset(lines_.data(), 0x5A, lines_.size() * sizeof(Line));
    view_.capacity = static_cast<std::int64_t>(lines_.size() * sizeof(Line)) / size_of(element);
    view_.offset = kBorder + (lay == Lay::Shifted ? 1 : 0);
    view_.element = element;
    view_.shape = shape;
  }

  AnyTensorMut view() {
    view_.data = lines_.data();
    return view_;
  }
  const std::vector<Line>& lines() const { return lines_; }

  template <class Body>
  void for_each(const Body& body) {
    StridedLoop loop(view_.shape);
    loop.add(view());
    core::for_each_index(loop, [&](const auto& cell) { body(cell(0)); });
  }

 private:
  std::vector<Line> lines_;
  AnyTensorMut view_{};
};

/// Numbers that tie, cancel, overflow and are NaN now and then.
double number(ScanKind kind, std::mt19937_64& random) {
  const double unit = static_cast<double>(random() >> 11) * 0x1p-53;
  const auto chance = [&](unsigned one_in) { return random() % one_in == 0; };
  switch (kind) {
    case ScanKind::Cummax:
    case ScanKind::Cummin:
      if (chance(3000)) return std::nan("");
      if (chance(20)) return chance(2) ? 0.0 : -0.0;
      return std::floor(unit * 9 - 4) * (chance(50) ? 100 : 1);
    case ScanKind::Cumprod:
      return chance(2000) ? 0.0 : (unit * 0.3 + 0.85) * (chance(3) ? -1 : 1);
    case ScanKind::LogCumsumExp:
      if (chance(300)) return -std::numeric_limits<double>::infinity();
      return unit * 20 - 10 + (chance(100) ? 60 : 0);
    default:
      return (unit * 2 - 1) * (chance(50) ? 1000 : 1);
  }
}

void fill(Tensor& tensor, ScanKind kind, std::mt19937_64& random) {
  scan::with_element(tensor.view().element, [&]<class T>(T) {
    tensor.for_each([&](const core::Cell& cell) {
      const double x = number(kind, random);
      if constexpr (std::is_integral_v<T>) {
        cell.set(static_cast<T>(std::isnan(x) ? 7 : x * 3));
      } else {
        cell.set(scalar::narrow<T>(x));
      }
    });
  });
}

/// Equal bits, or both NaN.
bool same(const core::Cell& a, const core::Cell& b, ElementKind element) {
  bool equal = false;
  scan::with_element(element, [&]<class T>(T) {
    const T x = a.get<T>();
    const T y = b.get<T>();
    equal = std::memcmp(&x, &y, sizeof x) == 0;
    if constexpr (!std::is_integral_v<T>) {
      equal |= std::isnan(scalar::widen<double>(x)) && std::isnan(scalar::widen<double>(y));
    }
  });
  return equal;
}

void expect_same(Tensor& expected, Tensor& actual, const char* what) {
  StridedLoop loop(expected.view().shape);
  loop.add(expected.view());
  loop.add(actual.view());
  std::int64_t at = 0;
  std::int64_t wrong = 0;
  core::for_each_index(loop, [&](const auto& cell) {
    if (!same(cell(0), cell(1), expected.view().element) && wrong++ == 0) {
      ADD_FAILURE() << what << " differs at element " << at;
    }
    ++at;
  });
  if (wrong > 1) ADD_FAILURE() << what << ": " << wrong << " elements of " << at << " differ";
  // Around and between the elements nothing changed: with the right elements put in, all bytes are equal.
  core::for_each_index(loop, [&](const auto& cell) {
    std::memcpy(cell(1).address(), cell(0).address(), static_cast<std::size_t>(size_of(expected.view().element)));
  });
  EXPECT_EQ(std::memcmp(expected.lines().data(), actual.lines().data(), actual.lines().size() * sizeof(Line)), 0)
      << what << ": written around it";
}

const Stream kStream = Stream::cuda(nullptr);
const backend::Choice kChoice;

/// A job in exactly the workspace that it asks for, at an odd address.
void run_job(ScanJob job, StridedLoop loop) {
  job.loop = &loop;
  const std::size_t bytes = cuda::scan_workspace(job);
  std::vector<std::byte> memory(bytes + 3);
  const core::Status status =
      cuda::run_scan({"test", kStream, {memory.data() + (bytes == 0 ? 0 : 3), bytes}, kChoice}, job);
  ASSERT_TRUE(status) << cuda_on_cpu::last_report();
}

void run_by_reference(ScanJob job, StridedLoop loop) {
  job.loop = &loop;
  ASSERT_TRUE(reference::run_scan({"test", kStream, {}, kChoice}, job));
}

/// The tensors of one problem.
struct Problem {
  ScanKey key;
  bool reverse;
  Shape shape;
  int axis;
  Lay lay;

  bool recurrence() const { return key.kind == ScanKind::LinearRecurrence; }
  Shape edge_shape() const {
    Shape edge = shape;
    edge[axis] = 1;
    return edge;
  }
  Tensor tensor() const { return Tensor(key.element, shape, lay); }
  StridedLoop loop(std::initializer_list<Tensor*> tensors) const {
    StridedLoop all(shape);
    for (Tensor* tensor : tensors) tensor != nullptr ? all.add(tensor->view()) : all.add_absent(key.element);
    if (reverse) all.flip_dim(axis);
    return all;
  }
};

struct Forward {
  Forward(const Problem& p, unsigned seed) : x(p.tensor()), b(p.tensor()), y(p.tensor()) {
    std::mt19937_64 random(seed);
    fill(x, p.key.kind, random);
    fill(b, p.key.kind, random);
    if (p.key.indices) indices.emplace(*p.key.indices, p.shape, p.lay);
    if (p.key.initial) fill(initial.emplace(p.key.element, p.edge_shape(), p.lay), p.key.kind, random);
  }
  StridedLoop loop(const Problem& p, Tensor* into) {
    Tensor* const start = initial ? &*initial : nullptr;
    if (p.recurrence()) return p.loop({&x, &b, into, start});
    return indices ? p.loop({&x, into, &*indices, start}) : p.loop({&x, into, start});
  }
  ScanJob job(const Problem& p) const {
    return {p.key, false, p.reverse, p.axis, p.recurrence() ? 2 : 1, indices ? 2 : 1};
  }

  Tensor x, b, y;
  std::optional<Tensor> indices, initial;
};

void check_forward(const Problem& p, unsigned seed, bool in_place) {
  Forward expected(p, seed);
  run_by_reference(expected.job(p), expected.loop(p, &expected.y));
  Forward actual(p, seed);
  Tensor& y = in_place ? (p.recurrence() && seed % 2 == 0 ? actual.b : actual.x) : actual.y;
  run_job(actual.job(p), actual.loop(p, &y));
  expect_same(expected.y, y, "y");
  if (p.key.indices) expect_same(*expected.indices, *actual.indices, "indices");
}

/// A gradient's tensors: in[0] is dy or dh, then what the kind needs; out[0] is dx, or da, db.
struct Backward {
  Backward(const Problem& p, unsigned seed) : forward(p, seed), dy(p.tensor()) {
    std::mt19937_64 random(seed + 1);
    fill(dy, ScanKind::Cumsum, random);
    run_by_reference(forward.job(p), forward.loop(p, &forward.y));
    in = {&dy};
    in.push_back(p.key.indices ? &*forward.indices : &forward.x);
    if (p.recurrence() || p.key.reads_y()) in.push_back(&forward.y);
    for (int k = 0; k < (p.recurrence() ? 2 : 1); ++k) outs.push_back(p.tensor());
    for (Tensor& tensor : outs) out.push_back(&tensor);
    if (p.key.initial) d_initial.emplace(p.key.element, p.edge_shape(), p.lay);
  }
  StridedLoop loop(const Problem& p) {
    StridedLoop all = p.loop({});
    for (Tensor* tensor : in) all.add(tensor->view());
    for (Tensor* tensor : out) all.add(tensor->view());
    if (p.recurrence()) d_initial ? all.add(d_initial->view()) : all.add_absent(p.key.element);
    forward.initial ? all.add(forward.initial->view()) : all.add_absent(p.key.element);
    if (p.reverse) all.flip_dim(p.axis);
    return all;
  }
  ScanJob job(const Problem& p) const {
    return {p.key, true, p.reverse, p.axis, static_cast<int>(in.size()), p.recurrence() ? 3 : 1};
  }

  Forward forward;
  Tensor dy;
  std::vector<Tensor> outs;
  std::vector<Tensor*> in, out;
  std::optional<Tensor> d_initial;
};

/// `over` is the input that the gradient overwrites, or -1.
void check_backward(const Problem& p, unsigned seed, int over) {
  Backward expected(p, seed);
  if (over >= static_cast<int>(expected.in.size()) || (over == 1 && p.key.indices)) return;
  run_by_reference(expected.job(p), expected.loop(p));
  Backward actual(p, seed);
  if (over >= 0) actual.out[seed % actual.out.size()] = actual.in[over];
  run_job(actual.job(p), actual.loop(p));
  for (std::size_t k = 0; k < actual.out.size(); ++k) expect_same(*expected.out[k], *actual.out[k], "a gradient");
  if (p.key.initial) expect_same(*expected.d_initial, *actual.d_initial, "d_initial");
}

// ---- what is tried ----

constexpr ElementKind kFloats[] = {ElementKind::F32, ElementKind::F64, ElementKind::F16, ElementKind::Bf16};

std::vector<ScanKey> keys(bool backward) {
  std::vector<ScanKey> all;
  const auto add = [&](ScanKind kind, ElementKind element) {
    const bool extremum = scan::is_extremum(kind);
    for (const bool second : {false, true}) {
      if (!extremum && kind != ScanKind::LinearRecurrence) {
        all.push_back({.kind = kind, .element = element, .exclusive = second});
      } else if (!extremum) {
        all.push_back({.kind = kind, .element = element, .initial = second});
      } else {
        const ScanTies ties = second ? ScanTies::Last : ScanTies::First;
        all.push_back({.kind = kind, .element = element, .ties = ties});
        const ElementKind indices = second ? ElementKind::S32 : ElementKind::S64;
        all.push_back({.kind = kind, .element = element, .ties = ties, .indices = indices});
      }
    }
  };
  for (const ScanKind kind : {ScanKind::Cumsum, ScanKind::Cumprod, ScanKind::Cummax, ScanKind::Cummin,
                              ScanKind::LogCumsumExp, ScanKind::LinearRecurrence}) {
    if (backward && kind == ScanKind::Cumsum) continue;
    for (const ElementKind element : kFloats) add(kind, element);
    if (backward || kind == ScanKind::LogCumsumExp || kind == ScanKind::LinearRecurrence) continue;
    for (const ElementKind element : {ElementKind::S32, ElementKind::S64}) add(kind, element);
  }
  return all;
}

struct Place {
  Shape shape;
  int axis;
};

/// Every schedule, at the borders of its blocks. Rows that are walked, and columns by one thread, take many lanes.
const Place kPlaces[] = {
    {{5, 1}, 1},       {{70, 7}, 1},      {{3, 8}, 1},    {{9, 20}, 1},     {{3, 64}, 1},     {{5, 65}, 1},
    {{2, 256}, 1},     {{2, 257}, 1},     {{3, 512}, 1},  {{1, 1023}, 1},   {{2, 1024}, 1},   {{1, 1025}, 1},
    {{2, 2048}, 1},    {{1, 2049}, 1},    {{1, 4096}, 1}, {{3, 4097}, 1},   {{1, 8192}, 1},   {{1, 40003}, 1},
    {{2, 300, 3}, 1},  {{1, 1, 9}, 1},    {{2, 8, 9}, 1}, {{3, 77, 10}, 1}, {{1, 512, 8}, 1}, {{1, 513, 9}, 1},
    {{2, 1030, 8}, 1}, {{1, 4096, 8}, 1}, {{4100, 9}, 0},
};

template <class Check>
void for_each_problem(bool backward, std::span<const Place> places, const Check& check) {
  unsigned seed = 1;
  for (const ScanKey& key : keys(backward)) {
    for (const Place& place : places) {
      // Direction, layout and what is overwritten come in turn, so that each place meets each of them.
      const bool reverse = seed % 2 == 0;
      const Lay lay = static_cast<Lay>(seed / 2 % 4);
      SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(key.kind) << " element " << to_string(key.element)
                                      << " ties " << static_cast<int>(key.ties) << " indices "
                                      << (key.indices ? to_string(*key.indices) : "none") << " initial " << key.initial
                                      << " exclusive " << key.exclusive << " reverse " << reverse << " lay "
                                      << static_cast<int>(lay) << " axis " << place.axis << " shape "
                                      << testing::PrintToString(std::vector(place.shape.begin(), place.shape.end())));
      cuda_on_cpu::set_seed(seed);
      const FewBlocks few(seed % 7 < 2 ? 1 + seed % 2 : 0);
      check(Problem{key, reverse, place.shape, place.axis, lay}, seed++);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(CudaScan, EverySchedule) {
  for_each_problem(false, kPlaces, [](const Problem& p, unsigned seed) { check_forward(p, seed, seed % 3 == 0); });
}

TEST(CudaScan, EveryScheduleBackward) {
  for_each_problem(true, kPlaces,
                   [](const Problem& p, unsigned seed) { check_backward(p, seed, static_cast<int>(seed % 4) - 1); });
}

/// Cut lanes in place, over each input: shifted elements belong to other blocks of threads.
TEST(CudaScan, CutLanesInPlace) {
  const Place places[] = {{{2, 9000}, 1}, {{1, 4097, 2}, 1}, {{1, 1030, 9}, 1}};
  for_each_problem(false, places, [](const Problem& p, unsigned seed) { check_forward(p, seed, true); });
  for_each_problem(true, places, [](const Problem& p, unsigned seed) {
    for (const int over : {0, 1, 2}) check_backward(p, seed, over);
  });
}

/// Many rows, which a block of threads walks each.
TEST(CudaScan, WalkedRows) {
  const Place places[] = {{{257, 4500}, 1}, {{256, 8193}, 1}};
  unsigned seed = 0;
  for (const bool backward : {false, true}) {
    for (const ScanKey& key : keys(backward)) {
      if (key.element != kFloats[seed++ % 4] || (backward ? seed % 3 : seed % 5) == 0) continue;
      const Place& place = places[seed % 2];
      SCOPED_TRACE(testing::Message() << "backward " << backward << " kind " << static_cast<int>(key.kind)
                                      << " element " << to_string(key.element) << " exclusive " << key.exclusive);
      const Problem p{key, seed % 3 == 0, place.shape, place.axis, Lay::Packed};
      const FewBlocks few(seed % 4 < 2 ? 3 : 0);
      backward ? check_backward(p, seed, static_cast<int>(seed % 3)) : check_forward(p, seed, true);
      if (HasFailure()) return;
    }
  }
}

/// Many columns, which a thread walks each beyond a block of 512.
TEST(CudaScan, WalkedColumns) {
  const Shape shape{2, 523, 16384};
  check_forward({{.kind = ScanKind::Cumsum, .element = ElementKind::F32, .exclusive = true}, false, shape, 1, {}}, 1,
                true);
  check_backward({{.kind = ScanKind::LinearRecurrence, .element = ElementKind::F16}, true, shape, 1, {}}, 2, 2);
}

// ---- carries ----

struct Carries {
  Carries(const Problem& p, Lay lay)
      : in(ElementKind::S64, shape_of(p), lay), out(ElementKind::S64, shape_of(p), lay) {}
  static Shape shape_of(const Problem& p) {
    Shape shape = p.shape;
    shape[p.axis] = kScanCarryWords;
    return shape;
  }
  StridedLoop loop(const Problem& p, bool first, bool last, bool in_place) {
    StridedLoop all(shape_of(p));
    first ? all.add_absent(ElementKind::S64) : all.add(in.view());
    last ? all.add_absent(ElementKind::S64) : all.add((in_place ? in : out).view());
    return all;
  }
  Tensor in, out;
};

/// Pieces one after the other give what the whole gives, and the carries of the plain loops.
void check_pieces(const ScanKey& key, bool reverse, Shape shape, int axis, std::span<const std::int64_t> lengths,
                  unsigned seed, bool in_place) {
  std::optional<Carries> expected_carry, carry;
  std::mt19937_64 random(seed);
  for (std::size_t piece = 0; piece < lengths.size(); ++piece) {
    SCOPED_TRACE(testing::Message() << "piece " << piece);
    shape[axis] = lengths[piece];
    const Problem p{key, reverse, shape, axis, piece % 2 == 0 ? Lay::Packed : Lay::Apart};
    if (!carry) {
      carry.emplace(p, Lay::Packed);
      expected_carry.emplace(p, Lay::Packed);
    }
    const bool first = piece == 0;
    const bool last = piece + 1 == lengths.size();
    const auto piece_seed = static_cast<unsigned>(random());
    Forward expected(p, piece_seed);
    Forward actual(p, piece_seed);

    const StridedLoop words = expected_carry->loop(p, first, last, false);
    const bool has_words = !first || !last;
    ScanJob plain = expected.job(p);
    if (has_words) plain.carries = &words;
    run_by_reference(plain, expected.loop(p, &expected.y));

    const StridedLoop device_words = carry->loop(p, first, last, in_place);
    ScanJob job = actual.job(p);
    if (has_words) job.carries = &device_words;
    Tensor& y = in_place ? actual.x : actual.y;
    run_job(job, actual.loop(p, &y));
    expect_same(expected.y, y, "y");
    if (key.indices) expect_same(*expected.indices, *actual.indices, "indices");
    if (!last) expect_same(expected_carry->out, in_place ? carry->in : carry->out, "carry");
    std::swap(expected_carry->in, expected_carry->out);
    if (!in_place) std::swap(carry->in, carry->out);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CudaScan, PieceByPiece) {
  const std::int64_t lengths[] = {0, 4096, 0, 8192, 4096 * 6, 100};
  const std::int64_t others[] = {4096 * 7, 8192, 2000};
  const std::int64_t whole[] = {4096 * 3};
  const Place places[] = {{{1, 0}, 1}, {{0, 9}, 0}, {{2, 0, 3}, 1}};
  unsigned seed = 1;
  for (const ScanKey& key : keys(false)) {
    const Place& place = places[seed % 3];
    const bool reverse = !key.indices && seed % 2 == 0;
    SCOPED_TRACE(testing::Message() << "kind " << static_cast<int>(key.kind) << " element " << to_string(key.element)
                                    << " indices " << key.indices.has_value() << " exclusive " << key.exclusive
                                    << " axis " << place.axis << " seed " << seed);
    std::span<const std::int64_t> pieces = seed % 2 == 0 ? std::span<const std::int64_t>(lengths) : others;
    if (key.initial) pieces = whole;  // an initial state is the first piece's
    const FewBlocks few(seed % 4 < 2 ? 1 : 0);
    check_pieces(key, reverse, place.shape, place.axis, pieces, seed, seed % 5 < 2);
    ++seed;
    if (HasFailure()) return;
  }
}

/// Rows that are walked carry in and out too.
TEST(CudaScan, WalkedPieces) {
  const std::int64_t lengths[] = {8192, 4096, 40};
  const FewBlocks few(7);
  check_pieces({.kind = ScanKind::Cumsum, .element = ElementKind::F16, .exclusive = true}, true, {260, 0}, 1, lengths,
               1, true);
  check_pieces({.kind = ScanKind::Cummax, .element = ElementKind::F32, .indices = ElementKind::S64}, false, {256, 0}, 1,
               lengths, 2, false);
}

// ---- workspace ----

std::size_t workspace_for(ScanJob job, const Shape& shape) {
  StridedLoop loop(shape);
  job.loop = &loop;
  return cuda::scan_workspace(job);
}

TEST(CudaScan, WorkspaceOfHugeTensorsIsNoSmallNumber) {
  const std::int64_t huge = std::int64_t{1} << 61;
  for (const bool exclusive : {false, true}) {
    ScanJob job{{.kind = ScanKind::Cumprod, .element = ElementKind::F16, .exclusive = exclusive}, true, false, 0, 2, 1};
    EXPECT_EQ(workspace_for(job, Shape{huge}), std::numeric_limits<std::size_t>::max());
    EXPECT_GE(workspace_for(job, Shape{std::int64_t{1} << 40}), std::size_t{8} << 40);
  }
  ScanJob job{{.kind = ScanKind::Cumsum, .element = ElementKind::F32, .exclusive = true}, false, false, 1, 1, 1};
  EXPECT_GE(workspace_for(job, (Shape{4, huge, 1})), std::size_t{16} << 40);
  EXPECT_EQ(workspace_for(job, (Shape{1000, 4096, 1})), 0U);
}

}  // namespace
}  // namespace planck
