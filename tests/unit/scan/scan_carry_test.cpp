// Scans piece by piece: whatever the cuts, the results are those of the whole axis, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "planck/planck.hpp"
#include "scan/carry.hpp"
#include "scan/scalar.hpp"
#include "testing/op_cases.hpp"
#include "testing/scan_pieces.hpp"

namespace planck::test {
namespace {

/// The reference, and every instruction set, with one and two threads in turns.
std::vector<Where> everywhere(std::uint64_t turn) {
  std::vector<Where> all(1);
  all[0].preference.prefer_backend = BackendKind::Reference;
  for (const ArchSku arch : archs_here()) {
    Where where{Stream::cpu(1 + static_cast<int>(++turn % 2))};
    where.preference.prefer_arch = arch;
    all.push_back(where);
  }
  return all;
}

void compare(const ScanCase& c, const Place& place, Layout layout, const std::vector<std::int64_t>& pieces) {
  Whole whole(c, place, sum_of(pieces), layout);
  for (const bool in_place : {false, true}) {
    Whole cut = whole;
    cut.run_pieces(pieces, in_place, {});
    if (!in_place) whole.run_whole();
    expect_same(whole, cut);
  }
}

TEST(ScanCarry, PiecesGiveTheBitsOfTheWholeEverywhere) {
  std::uint64_t turn = 0;
  for (const ScanCase& c : all_scan_cases()) {
    SCOPED_TRACE(testing::Message() << c);
    const std::uint64_t choice = mix(++turn);
    const auto& pieces = kCuts[choice % std::size(kCuts)];
    const Place& place = kPlaces[(choice >> 8) % std::size(kPlaces)];
    Whole whole(c, place, sum_of(pieces), kLayouts[(choice >> 16) % std::size(kLayouts)]);
    const Whole fresh = whole;
    whole.run_whole();
    bool in_place = false;
    for (const Where& where : everywhere(turn)) {
      Whole cut = fresh;
      cut.run_pieces(pieces, in_place, where);
      expect_same(whole, cut);
      in_place = !in_place;
    }
  }
}

TEST(ScanCarry, EveryPlaceLayoutAndCut) {
  for (const ScanKind kind : {ScanKind::Cumsum, ScanKind::Cummax, ScanKind::LinearRecurrence}) {
    ScanCase c{kind, ElementKind::F32};
    c.exclusive = kind == ScanKind::Cumsum;
    if (kind == ScanKind::Cummax) c.indices = ElementKind::S64;
    SCOPED_TRACE(testing::Message() << c);
    for (const Place& place : kPlaces) {
      for (const Layout layout : kLayouts) {
        for (const auto& pieces : kCuts) {
          SCOPED_TRACE(testing::Message()
                       << "axis " << place.axis << ", " << to_string(layout) << ", last piece " << pieces.back());
          compare(c, place, layout, pieces);
        }
      }
    }
  }
}

TEST(ScanCarry, BlocksOfLevelFiveClose) {
  for (const ScanCase& c : all_scan_cases()) {
    if (c.element != ElementKind::F64 && c.element != ElementKind::S64) continue;
    SCOPED_TRACE(testing::Message() << c);
    compare(c, kPlaces[0], Layout::Contiguous, {9 * kBlock, 1});
    compare(c, kPlaces[0], Layout::Contiguous, {7 * kBlock, kBlock, kBlock, 5000});
  }
}

/// carry_out after n elements, all at once.
scan::CarryWords words_after(const Whole& whole, std::int64_t n) {
  const TestTensor carry = whole.new_carry(Layout::Contiguous);
  ScanViews v{slice(whole.x, 0, 0, n), slice(whole.b, 0, 0, n), slice(whole.y, 0, 0, n)};
  if (whole.c.indices) v.indices = slice(whole.indices, 0, 0, n);
  v.carry_out = carry;
  const auto result = run(whole.c, 0, v);
  EXPECT_TRUE(result) << result.error().message();
  scan::CarryWords words;
  std::memcpy(words.data(), carry.packed().data(), sizeof words);
  return words;
}

/// The total of one whole block, from its elements alone.
std::array<std::int64_t, scan::kStateWords> block_total(const Whole& whole, std::int64_t begin, int level) {
  std::array<std::int64_t, scan::kStateWords> total{};
  const auto x = whole.x.packed();
  const auto b = whole.b.packed();
  scan::with_element(whole.c.element, [&]<class T>(T) {
    scan::with_scan<T>(whole.c.key(), [&]<class V, class Scan>(V, Scan) {
      numerics::CanonicalFold<typename Scan::State, Scan> fold;
      for (std::int64_t t = begin; t < begin + numerics::block_size(level); ++t) {
        T stored[2];
        std::memcpy(&stored[0], &x[static_cast<std::size_t>(t) * sizeof(T)], sizeof(T));
        std::memcpy(&stored[1], &b[static_cast<std::size_t>(t) * sizeof(T)], sizeof(T));
        const V inputs[] = {scalar::widen<V>(stored[0]), scalar::widen<V>(stored[1]), V{}};
        fold.push(Scan::lift(inputs, static_cast<V>(t)));
      }
      total = scan::words_of(fold.block_total(level));
    });
  });
  return total;
}

TEST(ScanCarry, TotalsOfIndependentBlocksGiveTheSameWords) {
  for (const ScanCase& c : all_scan_cases()) {
    if (c.reverse || c.initial || c.exclusive || c.indices == ElementKind::S32) continue;
    SCOPED_TRACE(testing::Message() << c);
    const Whole whole(c, kPlaces[0], 17 * kBlock, Layout::Contiguous);
    scan::CarryWords small = words_after(whole, 0);
    scan::CarryWords large = small;
    for (std::int64_t block = 0; block < 17; ++block) {
      scan::push_block(c.key(), small, scan::kCarryLevel, block_total(whole, block * kBlock, scan::kCarryLevel));
      if (block == 7 || block == 15) scan::push_block(c.key(), large, 5, block_total(whole, (block - 7) * kBlock, 5));
      if (block == 0 || block == 2 || block == 7 || block == 15) {
        const scan::CarryWords sequential = words_after(whole, (block + 1) * kBlock);
        EXPECT_EQ(small, sequential) << block;
        EXPECT_TRUE(block < 7 || large == sequential) << block;
      }
    }
    scan::push_block(c.key(), large, scan::kCarryLevel, block_total(whole, 16 * kBlock, scan::kCarryLevel));
    EXPECT_EQ(small, large);
    EXPECT_EQ(small, words_after(whole, 17 * kBlock));
  }
}

TEST(ScanCarry, ThePageTellsTheWords) {
  ScanCase c;
  const Whole ones(c, kPlaces[0], 10 * kBlock, Layout::Contiguous);
  std::fill_n(static_cast<float*>(ones.x.view().data), ones.length, 1.0F);
  const scan::CarryWords words = words_after(ones, ones.length);
  scan::CarryWords expected{};
  expected[0] = (std::int64_t{1} << 32) + (std::int64_t{2} << 16);
  expected[1] = ones.length;
  expected[2] = std::bit_cast<std::int64_t>(8192.0);   // two blocks of 4096
  expected[4] = std::bit_cast<std::int64_t>(32768.0);  // and one of 32768
  EXPECT_EQ(words, expected);
}

TEST(ScanCarry, EmptyPiecesPassOnWhatTheyGot) {
  for (ScanCase c :
       {ScanCase{}, ScanCase{ScanKind::Cumprod, ElementKind::S32, true, true}, ScanCase{ScanKind::LinearRecurrence}}) {
    SCOPED_TRACE(testing::Message() << c);
    Whole whole(c, kPlaces[3], kBlock + 10, Layout::Contiguous);
    Whole cut = whole;
    whole.run_whole();
    cut.run_pieces({0, kBlock, 0, 0, 10}, false, {});
    expect_same(whole, cut);
    cut.x = Whole(c, kPlaces[3], kBlock + 10, Layout::Contiguous).x;
    cut.run_pieces({0, kBlock, 0, 10}, true, {});
    expect_same(whole, cut);
  }
  // No rows: no words.
  const AnyTensorMut none{nullptr, 0, 0, ElementKind::F32, {0, kBlock}, {kBlock, 1}};
  const AnyTensorMut carry{nullptr, 0, 0, ElementKind::S64, {0, kScanCarryWords}, {kScanCarryWords, 1}};
  ScanViews v{none, none, none};
  v.carry_in = v.carry_out = carry;
  EXPECT_TRUE(run(ScanCase{}, 1, v));
}

/// Two rows of 4096 with a sound carry after 4096 more, and what a run makes of them when something is changed.
class CarryErrors : public testing::Test {
 protected:
  static constexpr std::int64_t kRows = 2;

  void prepare(const ScanCase& what, std::int64_t n = kBlock) {
    c_ = what;
    length_ = n;
    x_.assign(kRows * n, 1.0);
    y_.assign(kRows * n, 77.0);
    at_.assign(kRows * n, -1);
    out_.assign(kRows * kScanCarryWords, 55);
    in_.assign(kRows * kScanCarryWords, 0);
    std::vector<double> x(kRows * kBlock, 1.0);
    std::vector<double> y(x.size());
    std::vector<std::int64_t> at(x.size());
    ScanViews v{view(x, {kRows, kBlock}), view(x, {kRows, kBlock}), view(y, {kRows, kBlock})};
    if (c_.indices) v.indices = positions(at, kBlock);
    v.carry_out = carry(in_);
    const auto result = run(c_, 1, v);
    ASSERT_TRUE(result) << result.error().message();
    tensors_ = ScanViews{view(x_, {kRows, n}), view(x_, {kRows, n}), view(y_, {kRows, n})};
    if (c_.indices) tensors_.indices = positions(at_, n);
    tensors_.carry_in = carry(in_);
    tensors_.carry_out = carry(out_);
  }

  AnyTensorMut positions(std::vector<std::int64_t>& at, std::int64_t n) const {
    AnyTensorMut any = view(at, {kRows, n});
    any.element = *c_.indices;  // s32 uses half of the memory
    return any;
  }
  static AnyTensorMut carry(std::vector<std::int64_t>& words) { return view(words, {kRows, kScanCarryWords}); }

  /// Runs and expects a failure that names these words and wrote nothing.
  void expect_failure(ErrorKind kind, std::initializer_list<const char*> words) {
    const auto before = std::tuple(y_, at_, in_, out_);
    const auto result = run(c_, 1, tensors_);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind(), kind) << result.error().message();
    for (const char* word : words) {
      EXPECT_NE(result.error().message().find(word), std::string_view::npos)
          << word << ": " << result.error().message();
    }
    EXPECT_EQ(before, std::tuple(y_, at_, in_, out_)) << "a failing run wrote to its output";
  }
  void expect_bad_word(int row, int word, std::int64_t value, const char* reason) {
    std::int64_t& at = in_[static_cast<std::size_t>(row * kScanCarryWords + word)];
    const std::int64_t old = at;
    at = value;
    const std::string place = "word " + std::to_string(word) + " of row " + std::to_string(row);
    expect_failure(ErrorKind::InvalidProblem, {place.c_str(), "carry_in", std::to_string(value).c_str(), reason});
    at = old;
  }

  ScanCase c_;
  std::int64_t length_ = 0;
  std::vector<double> x_, y_;
  std::vector<std::int64_t> at_, in_, out_;
  ScanViews tensors_;
};

constexpr ScanCase kSum{ScanKind::Cumsum, ElementKind::F64};

TEST_F(CarryErrors, SoundOnesRun) {
  for (ScanCase c : {kSum, ScanCase{ScanKind::Cummax, ElementKind::F64, false, false, ScanTies::Last, ElementKind::S64},
                     ScanCase{ScanKind::LinearRecurrence, ElementKind::F64}}) {
    prepare(c);
    const auto result = run(c_, 1, tensors_);
    EXPECT_TRUE(result) << result.error().message();
    EXPECT_EQ(out_[1], 2 * kBlock);
  }
}

TEST_F(CarryErrors, LengthsThatEndInsideABlock) {
  prepare(kSum, kBlock + 1);
  expect_failure(ErrorKind::InvalidProblem, {"ScanPlan", "carry_out", "4096", "4097"});
  tensors_.carry_out.reset();
  EXPECT_TRUE(run(c_, 1, tensors_));
  prepare({ScanKind::LinearRecurrence, ElementKind::F64}, 64);
  expect_failure(ErrorKind::InvalidProblem, {"LinearRecurrencePlan", "carry_out", "4096", "64"});
}

TEST_F(CarryErrors, CarriesOfOtherScans) {
  prepare(kSum);
  const std::vector<std::int64_t> sums = in_;
  ScanCase exclusive = kSum;
  exclusive.exclusive = true;
  for (const ScanCase& c :
       {ScanCase{ScanKind::Cumprod, ElementKind::F64}, ScanCase{ScanKind::LogCumsumExp, ElementKind::F64},
        ScanCase{ScanKind::LinearRecurrence, ElementKind::F64}, exclusive}) {
    prepare(c);
    EXPECT_NE(in_[0], sums[0]);
    in_ = sums;
    expect_failure(ErrorKind::InvalidProblem, {"word 0 of row 0", "another"});
  }
  const ScanCase first{ScanKind::Cummax, ElementKind::F64};
  std::vector<std::int64_t> ids;
  for (ScanCase c : all_scan_cases()) {
    c.reverse = c.initial = false;
    ids.push_back(scan::carry_id(c.key()));
  }
  // Direction, the initial state and the kind of the indices make no other carry; all else does.
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  EXPECT_EQ(ids.size(), 2 * 6 * 2 + 2 * 6 * 4 + 4 * 2 + 4U);
  EXPECT_NE(scan::carry_id(first.key()), 0);
}

TEST_F(CarryErrors, WordsThatMakeNoSense) {
  prepare(kSum);
  expect_bad_word(0, 0, 0, "another");
  expect_bad_word(1, 0, 1, "another");
  expect_bad_word(0, 1, -kBlock, "blocks of 4096");
  expect_bad_word(1, 1, kBlock + 8, "blocks of 4096");
  expect_bad_word(0, 1, std::numeric_limits<std::int64_t>::max() - kBlock + 1, "2^63");
  expect_bad_word(0, 3, 1, "0 there");   // a sum has one part
  expect_bad_word(1, 10, 1, "0 there");  // an empty level
  expect_bad_word(1, 36, 1, "exclusive");
  std::vector<std::int64_t> other = in_;
  for (int level = 0; level < 2; ++level) other[kScanCarryWords + 2 * level + 2] = 0;
  other[kScanCarryWords + 1] = 0;
  in_ = other;  // sound on its own, but row 0 is further on
  expect_failure(ErrorKind::InvalidProblem, {"word 1 of row 1", "advance together"});
}

TEST_F(CarryErrors, Positions) {
  prepare({ScanKind::Cummax, ElementKind::F64, false, false, ScanTies::First, ElementKind::S64});
  expect_bad_word(0, 3, std::bit_cast<std::int64_t>(-1.0), "position");
  expect_bad_word(1, 3, std::bit_cast<std::int64_t>(4096.0), "position");
  expect_bad_word(1, 3, std::bit_cast<std::int64_t>(std::nan("")), "position");
  expect_bad_word(1, 3, std::bit_cast<std::int64_t>(0.5), "position");
  // Far along an axis: s32 no longer counts it.
  prepare({ScanKind::Cummax, ElementKind::F64, false, false, ScanTies::First, ElementKind::S32});
  const auto move_to = [&](std::int64_t before) {
    for (std::int64_t row = 0; row < kRows; ++row) {
      std::int64_t* words = &in_[static_cast<std::size_t>(row * kScanCarryWords)];
      std::fill(words + 2, words + kScanCarryWords, 0);
      words[1] = before;
      scan::CarryWords all;
      std::copy_n(words, kScanCarryWords, all.begin());
      for (int level = scan::kCarryLevel; level < numerics::kMaxLevels; ++level) {
        if (scan::blocks_before(all, level) > 0) words[2 + 2 * (level - scan::kCarryLevel)] = 1;
      }
    }
  };
  move_to(std::int64_t{1} << 31);
  expect_failure(ErrorKind::InvalidProblem, {"ScanPlan", "s32", "2147487744"});
  move_to((std::int64_t{1} << 31) - kBlock);
  const auto result = run(c_, 1, tensors_);
  ASSERT_TRUE(result) << result.error().message();
  std::int32_t first = 0;
  std::memcpy(&first, at_.data(), sizeof first);
  EXPECT_EQ(first, std::numeric_limits<std::int32_t>::max() - kBlock + 1);
  // And farther yet: positions of floats are held in f64.
  prepare({ScanKind::Cummax, ElementKind::F64, false, false, ScanTies::First, ElementKind::S64});
  move_to(std::int64_t{1} << 51);
  expect_failure(ErrorKind::InvalidProblem, {"ScanPlan", "2^51"});
}

TEST_F(CarryErrors, IndicesOfReverseScans) {
  ScanCase c{ScanKind::Cummin, ElementKind::F64, false, false, ScanTies::First, ElementKind::S64};
  prepare(c);
  c_.reverse = true;
  expect_failure(ErrorKind::Unsupported, {"ScanPlan", "carry_in", "reverse"});
  tensors_.carry_in.reset();
  expect_failure(ErrorKind::Unsupported, {"ScanPlan", "carry_out", "reverse"});
  tensors_.carry_out.reset();
  EXPECT_TRUE(run(c_, 1, tensors_));
}

TEST_F(CarryErrors, AnInitialStateIsTheFirstPieces) {
  prepare({ScanKind::LinearRecurrence, ElementKind::F64});
  std::vector<double> initial(kRows, 1.0);
  tensors_.initial = view(initial, {kRows, 1});
  expect_failure(ErrorKind::InvalidProblem, {"LinearRecurrencePlan", "carry_in", "initial"});
  tensors_.carry_in.reset();
  EXPECT_TRUE(run(c_, 1, tensors_));
}

TEST_F(CarryErrors, TensorsThatAreNotCarries) {
  prepare(kSum);
  tensors_.carry_in->shape[1] = kScanCarryWords - 1;
  expect_failure(ErrorKind::InvalidProblem, {"carry_in", "[2, 36]", "[2, 37]"});
  prepare(kSum);
  tensors_.carry_out->element = ElementKind::F64;
  expect_failure(ErrorKind::InvalidProblem, {"carry_out", "f64", "s64"});
  prepare(kSum);
  tensors_.carry_out->stride[0] = 0;
  expect_failure(ErrorKind::InvalidProblem, {"carry_out", "share memory"});
  prepare(kSum);
  tensors_.carry_in->data = nullptr;
  expect_failure(ErrorKind::InvalidProblem, {"carry_in", "null"});
  prepare(kSum);
  tensors_.carry_in->stride[0] = 0;  // one carry for every row is an input like others
  EXPECT_TRUE(run(c_, 1, tensors_));
  const std::int64_t many = std::int64_t{1} << 56;
  const AnyTensorMut empty{nullptr, 0, 0, ElementKind::F64, {0, many}, {1, 1}};
  ScanViews huge{empty, empty, empty};
  huge.carry_in = AnyTensorMut{nullptr, 0, 0, ElementKind::S64, {kScanCarryWords, many}, {1, 1}};
  const auto result = run(kSum, 0, huge);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("carry_in = [37, "), std::string_view::npos) << result.error().message();
}

TEST_F(CarryErrors, SharedMemory) {
  prepare(kSum);
  tensors_.carry_out = tensors_.carry_in;
  EXPECT_TRUE(run(c_, 1, tensors_));
  prepare(kSum);
  in_.resize(kRows * kScanCarryWords + 1);
  tensors_.carry_in = carry(in_);
  tensors_.carry_out = carry(in_);
  tensors_.carry_out->offset = 1;
  expect_failure(ErrorKind::InvalidProblem, {"carry_out overlaps carry_in"});
  prepare(kSum);
  tensors_.carry_out->data = y_.data();
  expect_failure(ErrorKind::InvalidProblem, {"carry_out", "share memory", "y"});
  prepare(kSum);
  tensors_.carry_out->data = x_.data();
  expect_failure(ErrorKind::InvalidProblem, {"carry_out", "share memory", "x"});
  prepare(kSum);
  in_.resize(y_.size());  // so that y lies in it wholly, and on nothing else
  tensors_.carry_in = carry(in_);
  tensors_.y.data = in_.data();
  tensors_.y.capacity = kUnknownCapacity;
  expect_failure(ErrorKind::InvalidProblem, {"y", "share memory", "carry_in"});
  // Even the same view: an s64 scan whose axis happens to be as long as a carry.
  std::vector<std::int64_t> x(kRows * kScanCarryWords, 1);
  std::vector<std::int64_t> words = x;
  ScanViews same{carry(x), carry(x), carry(words)};
  same.carry_in = carry(words);
  const auto result = run({ScanKind::Cumsum, ElementKind::S64}, 1, same);
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message().find("y is made of many"), std::string_view::npos) << result.error().message();
  EXPECT_EQ(words, x);
}

TEST_F(CarryErrors, CanImplementDoesNotReadThem) {
  prepare(kSum);
  in_[0] = 0;
  const auto plan = ScanPlan<double>::select(
      Stream::cpu(), {ScanKind::Cumsum, {kRows, kBlock}, 1, false, ElementKind::F64, false, ScanTies::First, {}});
  EXPECT_TRUE(plan->can_implement({tensors_.x, tensors_.y, {}, tensors_.carry_in, tensors_.carry_out}));
  tensors_.carry_out->offset = 1;
  EXPECT_FALSE(plan->can_implement({tensors_.x, tensors_.y, {}, tensors_.carry_in, tensors_.carry_out}));
}

}  // namespace
}  // namespace planck::test
