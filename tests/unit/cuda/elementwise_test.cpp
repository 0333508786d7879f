// The elementwise engine and canonical sums, called as plans call them, against the reference loops, bit for bit:
// random shapes, strides, alignments, kinds, formulas and granularities, and sums with ends at every kind of border.
#include "backend/reference.hpp"
#include "binary/job.hpp"
#include "cuda/entries.hpp"
#include "cuda/sums.cuh"
#include "numerics/canonical_order.hpp"
#include "quantize/job.hpp"
#include "testing/cuda_on_cpu/few_blocks.hpp"
#include "tests/unit/cuda/random_loops.hpp"

namespace planck::cuda_test {
namespace {

using core::LoopOperand;
using core::StridedLoop;
using quantize::Formula;

// ---- the quantise family ----

struct QuantizeCase {
  Extents extent;
  unsigned segments;  ///< dimensions along which parameters change
  quantize::QuantizeJob problem;
  bool plain = false;
  bool sums = false;
  bool no_workspace = false;  ///< for sums over one dimension, which then are not cut into parts
};

QuantizeCase random_case(Random& random, std::int64_t most) {
  QuantizeCase c;
  c.extent = random_extents(random, most);
  c.segments = random.one_in(3) ? 0 : static_cast<unsigned>(random.below(16));
  const auto element = random.of(kFloats);
  const bool own = random.one_in(2) && size_of(element) == 2;
  c.problem = {static_cast<Formula>(random.below(6)),
               element,
               random.of({ElementKind::S8, ElementKind::U8}),
               own ? element : compute_of(element),
               random.of({ScaleForm::Divide, ScaleForm::Reciprocal}),
               0,
               0};
  const bool u8 = c.problem.codes == ElementKind::U8;
  c.problem.q_min = u8 ? random.below(3) : -128 + random.below(30);
  c.problem.q_max = c.problem.q_min + 100;
  c.plain = random.one_in(3);
  return c;
}

void check_quantize(Random& random, const QuantizeCase& c) {
  const auto& p = c.problem;
  const bool two = p.formula == Formula::QuantizeBackward || p.formula == Formula::FakeQuantizeBackward;
  const ElementKind from = p.formula == Formula::Dequantize ? p.codes : p.element;
  const ElementKind to = p.formula == Formula::Quantize ? p.codes : p.element;
  Tensor x = make_tensor(random, c.extent, kAll, from, c.plain);
  Tensor dy = make_tensor(random, c.extent, kAll, p.element, c.plain);
  Tensor scale = make_tensor(random, c.extent, c.segments, p.scale_element, c.plain);
  for (std::int64_t i = 0; i < scale.elements(); ++i) scale.set(i, 0.1 + 0.01 * static_cast<double>(random.below(100)));
  Tensor zero_point = make_tensor(random, c.extent, c.segments, ElementKind::S32, c.plain);
  for (std::int64_t i = 0; i < zero_point.elements(); ++i)
    zero_point.set(i, static_cast<double>(random.below(40) - 20));
  Tensor y = make_tensor(random, c.extent, kAll, to, c.plain);
  const bool in_place = from == to && random.one_in(3);
  const bool scale_number = c.segments == 0 && random.one_in(2);
  const bool zero_point_number = random.one_in(2);
  const double number = 0.3;
  const bool dx = !c.sums || random.one_in(2);

  quantize::QuantizeJob job = p;
  job.scale = number;
  job.zero_point = 3;
  if (scale_number) job.scale_element = compute_of(p.element);
  Tensor sums[2];
  for (auto& sum : sums) sum = make_tensor(random, c.extent, c.segments, p.scale_element, c.plain);

  const auto inputs = [&](int which) {
    StridedLoop loop = loop_over(c.extent);
    add(loop, x, which);
    if (two) add(loop, dy, which);
    scale_number ? loop.add_absent(p.scale_element) : add(loop, scale, which);
    zero_point_number ? loop.add_absent(ElementKind::S32) : add(loop, zero_point, which);
    return loop;
  };
  Tensor& out = in_place ? x : y;
  if (c.sums) job.sums = {2, {quantize::kDScale, quantize::kDZeroPoint}, p.scale_element, 0.75};
  StridedLoop loops[] = {inputs(0), inputs(1)};
  for (const int which : {0, 1}) {
    StridedLoop& loop = loops[which];
    dx ? add(loop, out, which) : loop.add_absent(p.element);
    for (Tensor& sum : sums) {
      if (c.sums) add(loop, sum, which);
    }
  }
  std::vector<std::byte> workspace;
  const std::size_t bytes = c.sums && !c.no_workspace ? cuda::sums_workspace(loops[0], 2) : 0;
  const backend::Run run = run_with(workspace, bytes);
  job.loop = &loops[1];
  ASSERT_TRUE(reference::run_quantize(run, job));
  job.loop = &loops[0];
  ASSERT_TRUE(cuda::run_quantize(run, job));
  expect_same(x, "x");
  expect_same(dy, "dy");
  expect_same(y, "y");
  expect_same(scale, "scale");
  if (c.sums) {
    expect_same(sums[0], "d_scale");
    expect_same(sums[1], "d_zero_point");
  }
}

TEST(QuantizeCuda, RandomCases) {
  for (unsigned seed = 0; seed < 400 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    const QuantizeCase c = random_case(random, seed % 20 == 0 ? 20000 : 3000);
    SCOPED_TRACE("seed " + std::to_string(seed) + ", extents " + text_of(c.extent) + "formula " +
                 std::to_string(static_cast<int>(c.problem.formula)) + " element " +
                 std::to_string(static_cast<int>(c.problem.element)));
    const FewBlocks few(seed % 4 == 0 ? 3 : 0);
    check_quantize(random, c);
  }
}

/// Nobody looks at scales and zero points on a device: whatever they are, codes are in their range.
TEST(QuantizeCuda, BadParametersStayInside) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    Random random(seed);
    QuantizeCase c = random_case(random, 10);
    c.problem.formula = Formula::Quantize;
    c.extent = {5, 40};
    const bool wide = c.problem.element == ElementKind::F64;
    Tensor x = make_tensor(random, c.extent, kAll, c.problem.element);
    Tensor scale = make_tensor(random, c.extent, kAll, c.problem.scale_element, true);
    for (std::int64_t i = 0; i < scale.elements(); ++i)
      scale.set(i, random.of<double>({0.0, -0.0, NAN, INFINITY, -1.0, 1e-40}));
    Tensor zero_point = make_tensor(random, c.extent, kAll, ElementKind::S32, true);
    for (std::int64_t i = 0; i < zero_point.elements(); ++i) {
      zero_point.set(i, random.of({-2147483648.0, 2147483647.0, 1048577.0, 16777217.0, -3.0}));
    }
    Tensor y = make_tensor(random, c.extent, kAll, c.problem.codes, true);
    for (std::int64_t i = 0; i < y.elements(); ++i) y.set(i, static_cast<double>(c.problem.q_min));
    StridedLoop loop = loop_over(c.extent);
    for (Tensor* t : {&x, &scale, &zero_point, &y}) add(loop, *t, 0);
    std::vector<std::byte> workspace;
    c.problem.loop = &loop;
    ASSERT_TRUE(cuda::run_quantize(run_with(workspace, 0), c.problem));
    for (const std::byte code : y.memory[0]) {
      const int value = c.problem.codes == ElementKind::U8 ? static_cast<int>(code) : static_cast<std::int8_t>(code);
      ASSERT_TRUE(c.problem.q_min <= value && value <= c.problem.q_max) << value << " seed " << seed << " f64 " << wide;
    }
  }
}

TEST(QuantizeCuda, SumsOfEverySplit) {
  unsigned seed = 1000;
  for (const Extents& extent : kLengths) {
    for (unsigned segments = 0; segments < (1U << extent.size()); ++segments) {
      for (const bool plain : {true, false}) {
        Random random(++seed);
        QuantizeCase c = random_case(random, 10);
        c.extent = extent;
        c.segments = segments;
        c.problem.formula = Formula::FakeQuantizeBackward;
        c.sums = true;
        c.plain = plain;
        bool none = false;  // plans launch nothing where there is no sum
        for (std::size_t d = 0; d < extent.size(); ++d) none |= extent[d] == 0 && (segments >> d & 1U) != 0;
        if (none) continue;
        SCOPED_TRACE("seed " + std::to_string(seed) + ", extents " + text_of(extent) + "segments " +
                     std::to_string(segments) + " element " + std::to_string(static_cast<int>(c.problem.element)));
        const FewBlocks few(seed % 4 < 2 ? 3 : 0);
        check_quantize(random, c);
        if (reduced_count(extent, segments) <= 1) {
          c.no_workspace = true;
          check_quantize(random, c);
        }
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

// ---- the binary family ----

struct BinaryCase {
  Extents extent;
  binary::BinaryJob what;
  unsigned moves[3];  ///< dimensions along which a, b and weight change
  bool plain;
};

void check_binary(Random& random, const BinaryCase& c) {
  const ElementKind element = c.what.element;
  const bool weights = c.what.weight == binary::Weight::Tensor;
  Tensor dy = make_tensor(random, c.extent, kAll, element, c.plain);
  Tensor input[3];  // a, b, weight
  for (int k = 0; k < 3; ++k) input[k] = make_tensor(random, c.extent, c.moves[k], element, c.plain);
  const auto count = [&](unsigned moves) {
    std::int64_t n = 1;
    for (std::size_t d = 0; d < c.extent.size(); ++d) n *= (moves >> d & 1U) != 0 ? c.extent[d] : 1;
    return n;
  };
  std::vector<std::byte> workspace;
  if (!c.what.backward) {
    Tensor y = make_tensor(random, c.extent, kAll, element, c.plain);
    const auto loop_of = [&](int which) {
      StridedLoop loop = loop_over(c.extent);
      for (int k = 0; k < (weights ? 3 : 2); ++k) add(loop, input[k], which);
      add(loop, y, which);
      return loop;
    };
    binary::BinaryJob job = c.what;
    StridedLoop loops[] = {loop_of(0), loop_of(1)};
    job.loop = &loops[1];
    ASSERT_TRUE(reference::run_binary(run_with(workspace, 0), job));
    job.loop = &loops[0];
    ASSERT_TRUE(cuda::run_binary(run_with(workspace, 0), job));
    expect_same(y, "y");
    return;
  }
  Tensor gradient[3];
  bool summed[3];
  const int gradients = binary::gradients_of(c.what.weight);
  for (int g = 0; g < gradients; ++g) {
    gradient[g] = make_tensor(random, c.extent, c.moves[g], element, c.plain);
    summed[g] = count(c.moves[g]) != count(kAll);
  }
  const bool in_place = !summed[0] && random.one_in(2);
  const auto to = [&](int g) -> Tensor& { return g == 0 && in_place ? dy : gradient[g]; };
  const auto inputs = [&](int which) {
    StridedLoop loop = loop_over(c.extent);
    add(loop, dy, which);
    for (int k = 0; weights && k < 3; ++k) add(loop, input[k], which);
    return loop;
  };
  binary::BinaryJob job = c.what;
  job.sums.element = element;
  StridedLoop loops[] = {inputs(0), inputs(1)};
  for (int g = 0; g < gradients; ++g) {
    for (const int which : {0, 1}) summed[g] ? loops[which].add_absent(element) : add(loops[which], to(g), which);
  }
  std::size_t bytes = 0;
  for (int g = 0; g < gradients; ++g) {
    if (!summed[g]) continue;
    for (const int which : {0, 1}) add(loops[which], gradient[g], which);
    job.sums.add(g);
    bytes = std::max(bytes, cuda::sums_workspace(loops[0], 3));
  }
  const backend::Run run = run_with(workspace, bytes);
  job.loop = &loops[1];
  ASSERT_TRUE(reference::run_binary(run, job));
  job.loop = &loops[0];
  ASSERT_TRUE(cuda::run_binary(run, job));
  expect_same(dy, "dy");
  for (int g = 0; g < gradients; ++g) expect_same(gradient[g], g == 0 ? "da" : g == 1 ? "db" : "dw");
}

BinaryCase random_binary(Random& random, const Extents& extent) {
  BinaryCase c;
  c.extent = extent;
  c.plain = random.one_in(3);
  c.what = {random.of({BinaryKind::Lerp, BinaryKind::AddScaled}), random.one_in(2),
            random.of({binary::Weight::Scalar, binary::Weight::Tensor}), random.of(kFloats), 0.7};
  for (unsigned& moves : c.moves) moves = random.one_in(2) ? kAll : static_cast<unsigned>(random.below(16));
  return c;
}

TEST(BinaryCuda, RandomCases) {
  for (unsigned seed = 0; seed < 400 && !::testing::Test::HasFailure(); ++seed) {
    Random random(seed);
    const BinaryCase c = random_binary(random, random_extents(random, seed % 20 == 0 ? 20000 : 3000));
    SCOPED_TRACE("seed " + std::to_string(seed) + ", extents " + text_of(c.extent));
    const FewBlocks few(seed % 4 == 0 ? 3 : 0);
    check_binary(random, c);
  }
}

TEST(BinaryCuda, SumsOfEverySplit) {
  unsigned seed = 5000;
  for (const Extents& extent : kLengths) {
    for (int repeat = 0; repeat < 4; ++repeat) {
      Random random(++seed);
      BinaryCase c = random_binary(random, extent);
      c.what.backward = true;
      SCOPED_TRACE("seed " + std::to_string(seed) + ", extents " + text_of(extent));
      bool none = false;
      for (const unsigned moves : c.moves) {
        for (std::size_t d = 0; d < extent.size(); ++d) none |= extent[d] == 0 && (moves >> d & 1U) != 0;
      }
      if (none) continue;
      check_binary(random, c);
      if (::testing::Test::HasFailure()) return;
    }
  }
}

// ---- sums over parts ----

/// What a sum that was cut into parts does last: totals of whole blocks, and the parts of its open end after them.
void check_closed(Random& random, std::int64_t parts, std::int64_t sites, int level, bool site_fastest) {
  SCOPED_TRACE(std::to_string(parts) + " parts, " + std::to_string(sites) + " sites, level " + std::to_string(level));
  const std::int64_t rows = parts + level;
  std::vector<double> values(static_cast<std::size_t>(rows * sites));
  for (double& value : values) value = random.value() + random.value() * 0x1p-40;
  for (double& value : values) value = std::isfinite(value) ? value : 1.0;
  const std::int64_t part_stride = site_fastest ? sites : 1;
  const std::int64_t site_stride = site_fastest ? 1 : rows;
  const std::int64_t last = parts * numerics::block_size(level) + random.below(numerics::block_size(level));

  std::vector<double> got(static_cast<std::size_t>(sites), -1.0);
  LoopOperand to{reinterpret_cast<std::byte*>(got.data()), sizeof(double), {}};
  to.stride[0] = sizeof(double);
  cuda::SumSpec spec{};
  spec.element = ElementKind::F64;
  spec.factor = 1.0;
  spec.closed = true;
  spec.tail = level;
  spec.last = last;
  cuda::PartialValues from{values.data(), rows * sites, {site_stride, part_stride}};
  std::vector<std::byte> no_workspace;
  ASSERT_TRUE(cuda::run_partial_stage(run_with(no_workspace, 0),
                                      cuda::partial_job(loop_over({sites, parts}), from, 1, &to, spec), 1, nullptr));
  for (std::int64_t site = 0; site < sites; ++site) {
    const auto value = [&](std::int64_t part) { return values[part * part_stride + site * site_stride]; };
    numerics::CanonicalFold<double, numerics::SumOp> fold;
    std::int64_t part = 0;
    do {
      fold.push_block(level, value(part));
    } while (++part < parts);
    double expected = fold.prefix();
    for (int k = level - 1; k >= 0; --k) {
      if (k == 0 || last / numerics::block_size(k) % 8 != 0) expected += value(parts + level - 1 - k);
    }
    ASSERT_EQ(std::memcmp(&expected, &got[site], sizeof expected), 0) << "site " << site;
  }
}

TEST(SumsCuda, ClosedOverManyParts) {
  Random random(77);
  for (const std::int64_t parts :
       {1, 2, 7, 8, 9, 63, 64, 65, 71, 72, 511, 512, 513, 520, 4095, 4096, 4097, 12289, 33000}) {
    for (const std::int64_t sites : {1, 3, 17}) {
      for (const int level : {cuda::kColumnLevel, cuda::kRowLevel}) {
        for (const bool site_fastest : {false, true}) {
          check_closed(random, parts, parts > 5000 && sites > 1 ? 16 : sites, level, site_fastest);
        }
      }
    }
  }
}

}  // namespace
}  // namespace planck::cuda_test
