#include "scan/carry.hpp"

#include <limits>

#include "scan/scalar.hpp"

namespace planck::scan {
namespace {

using core::fail;
using core::Status;
using core::Text;

/// What is wrong with a word.
struct Flaw {
  int word;
  const char* reason;
};

/// Whether a winner's position is that of an element before.
template <class V>
bool lies_before(V position, std::int64_t before) {
  return position >= V{0} && position < static_cast<V>(before) &&
         position == static_cast<V>(static_cast<std::int64_t>(position));
}

/// Up to here kernels store positions of floats, which they hold in f64.
constexpr std::int64_t kMostPositions = std::int64_t{1} << 51;

/// What the words of a row cannot hold, wherever other rows are.
template <class Scan>
std::optional<Flaw> flaw_of(const CarryWords& words, const ScanKey& key) {
  using State = typename Scan::State;
  for (int level = kCarryLevel; level < numerics::kMaxLevels; ++level) {
    const int first = kCarryTotals + kStateWords * (level - kCarryLevel);
    const int used = blocks_before(words, level) > 0 ? Scan::kParts : 0;
    for (int k = used; k < kStateWords; ++k) {
      if (words[first + k] != 0) return Flaw{first + k, "a carry after so many elements has 0 there"};
    }
    if constexpr (requires(State s) { Scan::position(s); }) {
      if (used > 0 && !lies_before(Scan::position(state_of<State>(&words[first])), words[kCarryBefore])) {
        return Flaw{first + 1, "it is the position of an element before"};
      }
    }
  }
  if (!key.exclusive && words[kCarryValue] != 0) return Flaw{kCarryValue, "only exclusive scans use it"};
  return std::nullopt;
}

std::optional<Flaw> flaw_of(const CarryWords& words, const ScanKey& key, std::int64_t length) {
  // The last whole block that can be counted; positions below it are still in range when rounded to f64.
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / kCarryBlock * kCarryBlock;
  if (words[kCarryId] != carry_id(key)) return Flaw{kCarryId, "this scan's carries have another number there"};
  const std::int64_t before = words[kCarryBefore];
  if (before < 0 || before % kCarryBlock != 0) return Flaw{kCarryBefore, "it counts elements in blocks of 4096"};
  if (length > kMost || before > kMost - length) return Flaw{kCarryBefore, "an axis has fewer than 2^63 elements"};
  if (key.indices && is_float(key.element) && before > kMostPositions - length) {
    return Flaw{kCarryBefore, "indices of floats count up to 2^51"};
  }
  std::optional<Flaw> flaw;
  with_element(key.element, [&]<class T>(T) {
    with_scan<T>(key, [&]<class V, class Scan>(V, Scan) { flaw = flaw_of<Scan>(words, key); });
  });
  return flaw;
}

}  // namespace

CarryWords carry_before(const core::StridedLoop* carries, int axis, core::LoopIndex row, const ScanKey& key) {
  CarryWords words{};
  if (has_carry(carries, kCarryIn)) {
    for (row[axis] = 0; row[axis] < kScanCarryWords; ++row[axis]) {
      words[row[axis]] = core::cell_at(*carries, row, kCarryIn).get<std::int64_t>();
    }
  } else {
    words[kCarryId] = carry_id(key);
    if (key.exclusive) words[kCarryValue] = identity_word(key);
  }
  return words;
}

void store_carry(const core::StridedLoop& carries, int axis, core::LoopIndex row, const CarryWords& words) {
  for (row[axis] = 0; row[axis] < kScanCarryWords; ++row[axis]) {
    core::cell_at(carries, row, kCarryOut).set(words[row[axis]]);
  }
}

void run_empty(const ScanJob& job) {
  if (!job.backward && has_carry(job.carries, kCarryOut)) {
    for_each_row(*job.carries, job.axis, [&](const core::LoopIndex& row) {
      store_carry(*job.carries, job.axis, row, carry_before(job.carries, job.axis, row, job.key));
    });
  }
  const int d_initial = job.inputs + kDInitial;
  if (!job.backward || job.outputs <= kDInitial || job.loop->operand[d_initial].base == nullptr) return;
  core::StridedLoop rows = *job.loop;
  rows.extent[job.axis] = 1;
  with_element(job.key.element, [&]<class T>(T zero) {
    core::for_each_index(rows, [&](const auto& cell) { cell(d_initial).set(zero); });
  });
}

Status check_carry(std::string_view plan, const core::StridedLoop& carries, int axis, const ScanKey& key,
                   std::int64_t length) noexcept {
  std::optional<Flaw> flaw;
  CarryWords words{};
  std::int64_t row = -1;
  std::int64_t before = 0;
  for_each_row(carries, axis, [&](const core::LoopIndex& index) {
    if (flaw) return;
    words = carry_before(&carries, axis, index, key);
    flaw = flaw_of(words, key, length);
    if (++row == 0) before = words[kCarryBefore];
    if (!flaw && words[kCarryBefore] != before)
      flaw = Flaw{kCarryBefore, "rows advance together, and row 0 has another number"};
  });
  if (flaw) return fail(Text::BadCarryAt, {plan, flaw->word, row, words[flaw->word], flaw->reason});
  const bool narrow = key.indices == ElementKind::S32;
  if (narrow && before + length - 1 > std::numeric_limits<std::int32_t>::max()) {
    return fail(Text::IndicesTooLong, {plan, before + length});
  }
  return {};
}

void push_block(const ScanKey& key, CarryWords& words, int level, const std::array<std::int64_t, kStateWords>& total) {
  with_element(key.element, [&]<class T>(T) {
    with_scan<T>(key, [&]<class V, class Scan>(V, Scan) {
      auto fold = fold_of<Scan>(words);
      fold.push_block(level, state_of<typename Scan::State>(total.data()));
      save_fold<Scan>(fold, numerics::block_size(level), words);
    });
  });
}

}  // namespace planck::scan
