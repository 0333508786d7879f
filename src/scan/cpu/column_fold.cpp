// The steps of columns between the ends of blocks, and the totals of those blocks.
#include "scan/cpu/column_fold.hpp"

#include "cpu/strided/rectangle.hpp"

namespace planck::cpu {

using numerics::kCarryLevel;
using numerics::kMaxLevels;

namespace {

/// Carries hold elements as they are, states may have them flipped.
void flip_words(std::uint64_t flip, std::byte* at, std::int64_t stride, std::int64_t n) {
  for (std::int64_t i = 0; flip != 0 && i < n; ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, at + i * stride, sizeof word);
    word ^= flip;
    std::memcpy(at + i * stride, &word, sizeof word);
  }
}

}  // namespace

void ColumnFold::resume(std::int64_t elements, const StateView& totals) {
  start(nullptr);
  blocks_.resume_after(elements);
  const ColumnTotals& own = blocks_.totals();
  StateView from = totals;
  for (int level = kCarryLevel; level < kMaxLevels; ++level) {
    if (blocks_.count(level) > 0) {
      copy_rectangle(kPartBytes, from.base, from.part, from.stride, own.at(level), own.part_stride(), kPartBytes,
                     own.kernel().parts, own.columns());
      flip_words(own.kernel().variant.flip, own.at(level), kPartBytes, own.columns());
    }
    from.base += kMaxScanParts * from.part;
  }
  stale_ = kMaxLevels - 1;
}

void ColumnFold::save(const StateView& totals) {
  close();
  const ColumnTotals& own = blocks_.totals();
  StateView to = totals;
  for (int level = kCarryLevel; level < kMaxLevels; ++level) {
    static constexpr std::byte kZero[kPartBytes] = {};
    for (int k = 0; k < kMaxScanParts; ++k) {
      const bool copies = blocks_.count(level) > 0 && k < own.kernel().parts;
      copy_rectangle(kPartBytes, copies ? own.at(level) + k * own.part_stride() : kZero, 0, copies ? kPartBytes : 0,
                     to.base + k * to.part, 0, to.stride, 1, own.columns());
    }
    if (blocks_.count(level) > 0) flip_words(own.kernel().variant.flip, to.base, to.stride, own.columns());
    to.base += kMaxScanParts * to.part;
  }
}

const std::byte* ColumnFold::prefix() {
  close();
  for (; stale_ > 0; --stale_) {
    const std::byte* const above = from_[stale_ + 1];
    if (blocks_.count(stale_) == 0) {
      from_[stale_] = above;
    } else {
      from_[stale_] = above == nullptr ? blocks_.open(stale_) : blocks_.totals().join(above, stale_);
    }
  }
  return from_[1];
}

void ColumnFold::advance(ColumnSteps& steps, std::int64_t count) {
  const ColumnTotals& own = blocks_.totals();
  steps.own = own.at(0);
  steps.n = own.columns();
  steps.part_stride = own.part_stride();
  while (count > 0) {
    close();
    steps.prefix = steps.writes ? prefix() : nullptr;
    const int room = blocks_.room();
    steps.first = room == numerics::kRadix;
    steps.steps = std::min<std::int64_t>(count, room);
    own.kernel().step(steps);
    blocks_.took(static_cast<int>(steps.steps));
    count -= steps.steps;
    steps.position += steps.steps * steps.position_step;
    for (int k = 0; k < kMaxScanInputs; ++k) {
      if (steps.input[k] != nullptr) steps.input[k] += steps.steps * steps.input_step[k];
    }
    for (int k = 0; k < kMaxScanOutputs; ++k) {
      if (steps.output[k] != nullptr) steps.output[k] += steps.steps * steps.output_step[k];
    }
  }
}

}  // namespace planck::cpu
