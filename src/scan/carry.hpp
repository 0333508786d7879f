// What a piece of an axis passes on to the next one: the open blocks of the canonical order, as 64-bit words.
//
// A piece ends where a block of 4096 does, so the state is one total for each level from 4 on; how many blocks a total
// holds is a digit, to base 8, of the number of elements before.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "core/error_texts.hpp"
#include "core/reference_loop.hpp"
#include "numerics/storage.hpp"
#include "scan/job.hpp"

namespace planck::scan {

inline constexpr int kStateWords = kMaxScanParts;

/// The words of one row.
enum CarryWord : int {
  kCarryId,      ///< what made it, see carry_id
  kCarryBefore,  ///< elements before, a multiple of kCarryBlock
  kCarryTotals,  ///< two words for each level: the total's parts, f64 bits or integers
  kCarryValue = kCarryTotals + kStateWords * (numerics::kMaxLevels - kCarryLevel),  ///< exclusive: what comes first
};
static_assert(kScanCarryWords == kCarryValue + 1);
using CarryWords = std::array<std::int64_t, kScanCarryWords>;

/// The operands of a loop over carries, whose axis counts words. Either may be absent.
enum CarryOperand : int { kCarryIn, kCarryOut };

/// Word 0 of this scan's carries, never 0.
inline std::int64_t carry_id(const ScanKey& key) {
  const bool last = is_extremum(key.kind) && key.ties == ScanTies::Last;
  const auto bit = [](bool set, int place) { return std::int64_t{set} << place; };
  return static_cast<std::int64_t>(key.kind) + (static_cast<std::int64_t>(key.element) << 16) + bit(last, 24) +
         bit(key.indices.has_value(), 25) + bit(key.exclusive, 26) + bit(true, 32);
}

/// An element as a word, and back: f64 bits or an integer.
template <class T>
std::int64_t to_word(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return std::bit_cast<std::int64_t>(scalar::widen<double>(value));
  }
}
template <class T>
T from_word(std::int64_t word) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(word);
  } else {
    return scalar::narrow<T>(std::bit_cast<double>(word));
  }
}

/// What an exclusive scan starts with.
inline std::int64_t identity_word(const ScanKey& key) {
  const double identity = key.row().identity;
  return is_float(key.element) ? to_word(identity) : static_cast<std::int64_t>(identity);
}

/// The open blocks of a level.
inline int blocks_before(const CarryWords& words, int level) { return numerics::digit(words[kCarryBefore], level); }

inline bool has_carry(const core::StridedLoop* carries, CarryOperand k) {
  return carries != nullptr && carries->operand[k].base != nullptr;
}

/// Calls body(index) for every row: all indices, with 0 along the axis.
template <class Body>
void for_each_row(const core::StridedLoop& loop, int axis, const Body& body) {
  core::StridedLoop rows = loop;
  rows.extent[axis] = 1;
  if (loop.extent[axis] > 0) core::for_each_loop_index(rows, body);
}

/// The prefix before a row: its words of carry_in, or those of nothing so far. `row` is an index whose place along
/// the axis does not matter.
CarryWords carry_before(const core::StridedLoop* carries, int axis, core::LoopIndex row, const ScanKey& key);
void store_carry(const core::StridedLoop& carries, int axis, core::LoopIndex row, const CarryWords& words);

/// What a job over an axis without elements does: forward, a carry is passed on; backward, no element uses the initial
/// state, whose gradient is +0.
void run_empty(const ScanJob& job);

/// Every row of carry_in: made by such a scan, well formed, all equally far, and `length` more elements can be
/// counted.
core::Status check_carry(std::string_view plan, const core::StridedLoop& carries, int axis, const ScanKey& key,
                         std::int64_t length) noexcept;

/// The carry after one more whole block, given its total: what independent pieces of an axis are joined with. The level
/// is at least kCarryLevel, and the elements before are a multiple of its blocks. kCarryValue, which is no total, is
/// left alone.
void push_block(const ScanKey& key, CarryWords& words, int level, const std::array<std::int64_t, kStateWords>& total);

template <class State>
State state_of(const std::int64_t* words) {
  State state;
  int k = 0;
  for (auto& part : state.part) part = std::bit_cast<std::remove_reference_t<decltype(part)>>(words[k++]);
  return state;
}

template <class State>
std::array<std::int64_t, kStateWords> words_of(const State& state) {
  std::array<std::int64_t, kStateWords> words{};
  int k = 0;
  for (const auto part : state.part) words[k++] = std::bit_cast<std::int64_t>(part);
  return words;
}

/// The fold that goes on where a carry ends.
template <class Scan>
numerics::CanonicalFold<typename Scan::State, Scan> fold_of(const CarryWords& words) {
  numerics::CanonicalFold<typename Scan::State, Scan> fold;
  fold.resume_after(words[kCarryBefore]);
  for (int level = kCarryLevel; level < numerics::kMaxLevels; ++level) {
    const std::int64_t* total = &words[kCarryTotals + kStateWords * (level - kCarryLevel)];
    if (fold.count(level) > 0) fold.totals().set(level, state_of<typename Scan::State>(total));
  }
  return fold;
}

/// Puts into a carry what a fold holds after `pushed` more elements, a multiple of kCarryBlock.
template <class Scan>
void save_fold(numerics::CanonicalFold<typename Scan::State, Scan>& fold, std::int64_t pushed, CarryWords& words) {
  fold.close();
  words[kCarryBefore] += pushed;
  for (int level = kCarryLevel; level < numerics::kMaxLevels; ++level) {
    std::array<std::int64_t, kStateWords> total{};
    if (fold.count(level) > 0) total = words_of(fold.open(level));
    for (int k = 0; k < kStateWords; ++k) words[kCarryTotals + kStateWords * (level - kCarryLevel) + k] = total[k];
  }
}

}  // namespace planck::scan
