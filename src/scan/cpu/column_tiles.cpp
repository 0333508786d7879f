// One strip: its operands tile by tile, its edges, its carries and its feed.
#include "scan/cpu/column_tiles.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/strided/rectangle.hpp"

namespace planck::cpu {

ColumnTiles::ColumnTiles(const ScanPass& scan, const core::StridedLoop& loop, bool direct, bool streamed,
                         std::span<std::byte> feed_memory)
    : scan_(scan),
      kernel_(scan.kernel),
      loop_(loop),
      length_(loop.extent[loop.rank - 1]),
      direct_(direct),
      streamed_(streamed),
      feed_memory_(feed_memory) {}

StateView ColumnTiles::carry_view(int operand, std::int64_t word) const {
  return {at_[operand], word, loop_.operand[operand].stride[loop_.rank - 2]};
}

std::int64_t ColumnTiles::max_width(const ScanPass& scan, std::int64_t length, bool direct) {
  const int feed_parts = scan.kernel.feed == nullptr ? 0 : scan.kernel.feed->parts;
  const std::int64_t state =
      ColumnTotals::states_for(length + scan.carry.before) * (scan.kernel.parts + feed_parts) * kPartBytes;
  std::int64_t most = feed_parts > 0 ? kFedColumns : kMaxColumns;
  if (!direct) most = kTileColumns;
  return whole_lines(std::min(most, kStateBytes / state));
}

void ColumnTiles::run(const core::LoopPointers& at, std::int64_t n, const AxisSegment& segment) {
  at_ = at;
  n_ = n;
  segment_ = segment;
  const bool whole = segment.begins && segment.ends;
  ColumnFold fold(kernel_, states_, n);
  if (segment.task == AxisSegment::Task::Scan && segment.prefix.base != nullptr) {
    fold.start(copy_states(segment.prefix, kernel_.parts, prefix_[0]));
  } else if (whole && scan_.carry_in() >= 0) {
    fold.resume(scan_.carry.before, carry_view(scan_.carry_in(), scan_.carry.in_word));
  } else {
    fold.start(nullptr);
  }
  if (feeds() && !segment.fed) keep_feed_states((length_ - 1) / kTileSteps);
  if (kernel_.lags) {
    if (segment.begins) {
      for (std::int64_t i = 0; i < n; ++i) std::memcpy(lag_ + i * kPartBytes, &kernel_.lag_start, kPartBytes);
    } else if (segment.task == AxisSegment::Task::Scan) {
      copy_states(segment.lags, 1, lag_);
    } else {
      step_for_lag();
      leave_states(lag_, 1, segment.lags);
    }
  }
  if (segment.task == AxisSegment::Task::Lag) return;

  const std::int64_t most = feeds() ? kTileSteps : kTileElements / n;
  std::int64_t m = direct_ ? length_ : most;
  if (feeds()) {
    // Up to where the feed keeps its last states.
    m = (segment.behind + length_) % kTileSteps;
    if (m == 0) m = kTileSteps;
  }
  for (std::int64_t s = 0; s < length_;) {
    m = std::min(m, length_ - s);
    tile(fold, s, m);
    s += m;
    m = most;
  }
  if (whole && scan_.carry_out() >= 0) fold.save(carry_view(scan_.carry_out(), scan_.carry.out_word));
  if (segment.task == AxisSegment::Task::Total)
    leave_states(fold.block_total(segment.level), kernel_.parts, segment.totals);
}

ColumnSteps ColumnTiles::tile_steps(std::int64_t s, std::int64_t m) {
  // The feed starts where it last kept its states.
  const std::int64_t fed = feeds() ? m + (segment_.behind + length_ - s - m) % kTileSteps : m;
  if (feeds() && !segment_.fed) {
    // Before anything of this tile is loaded: scanning the feed again needs the same scratch.
    const std::int64_t tiles = feed_tiles(s + fed);
    if (tiles > 0 && tiles - 1 < first_kept_) keep_feed_states(tiles);
  }
  ColumnSteps steps{};
  steps.variant = kernel_.variant;
  for (int k = 0; k < kernel_.inputs; ++k) {
    std::int64_t count = m;
    if (k == kFeedInput && feeds()) count = fed;
    if (k == kEdgeInput && has_last_edge(s + m)) --count;
    steps.input[k] = rows(k, s, count, steps.input_step[k]);
  }
  if (feeds()) {
    steps.input[kernel_.inputs] = feed(s, fed, steps.input[kFeedInput], steps.input_step[kFeedInput]);
    steps.input_step[kernel_.inputs] = n_ * kPartBytes;
  }
  steps.writes = segment_.task == AxisSegment::Task::Scan;
  steps.streamed = streamed_ && direct_;
  for (int k = 0; steps.writes && k < kernel_.outputs; ++k) {
    if (k == kEdgeOutput) continue;
    steps.output[k] = rows(kernel_.inputs + k, s, 0, steps.output_step[k]);
    constexpr std::uintptr_t kLineBytes = 64;
    const auto place = reinterpret_cast<std::uintptr_t>(steps.output[k]);
    if ((place | static_cast<std::uintptr_t>(steps.output_step[k])) % kLineBytes != 0) steps.streamed = false;
  }
  steps.position = segment_.position + s * segment_.position_step;
  steps.position_step = segment_.position_step;
  steps.column_position = segment_.column_position;
  steps.lag = lag_;
  return steps;
}

void ColumnTiles::step_for_lag() {
  ColumnSteps steps = tile_steps(-1, 1);
  steps.lag_only = true;
  steps.own = states_;
  steps.part_stride = n_ * kPartBytes;
  steps.steps = 1;
  steps.n = n_;
  kernel_.step(steps);
}

void ColumnTiles::step_over_edge(ColumnFold& fold, ColumnSteps& steps) {
  const bool streamed = steps.streamed;
  steps.edge = true;
  steps.streamed = false;
  steps.input[kEdgeInput] = edge_row();
  if (steps.writes && kernel_.outputs > kEdgeOutput) steps.output[kEdgeOutput] = edge_[1];
  fold.advance(steps, 1);
  steps.edge = false;
  steps.streamed = streamed;
  steps.input[kEdgeInput] = nullptr;
}

void ColumnTiles::tile(ColumnFold& fold, std::int64_t s, std::int64_t m) {
  const bool first_edge = scan_.edge == ScanEdge::First && segment_.begins && s == 0;
  const bool last_edge = has_last_edge(s + m);
  ColumnSteps steps = tile_steps(s, m);
  std::byte* const outputs[] = {steps.output[0], steps.output[1]};
  if (first_edge) step_over_edge(fold, steps);
  fold.advance(steps, m - (first_edge || last_edge ? 1 : 0));
  if (last_edge) step_over_edge(fold, steps);
  if (steps.writes) store_tile(outputs, s, m);
}

void ColumnTiles::store_tile(std::byte* const* outputs, std::int64_t s, std::int64_t m) const {
  for (int k = 0; k < kernel_.outputs; ++k) {
    const auto& op = loop_.operand[kernel_.inputs + k];
    std::byte* to = at_[kernel_.inputs + k];
    const std::int64_t axis_step = op.stride[loop_.rank - 1];
    const std::int64_t column_step = op.stride[loop_.rank - 2];
    if (op.base == nullptr) continue;
    if (k == kEdgeOutput) {
      if (has_last_edge(s + m))
        copy_rectangle(op.element_bytes, edge_[1], 0, op.element_bytes, to, 0, column_step, 1, n_);
    } else if (!direct_) {
      copy_rectangle(op.element_bytes, outputs[k], n_ * op.element_bytes, op.element_bytes, to + s * axis_step,
                     axis_step, column_step, m, n_);
    }
  }
}

std::byte* ColumnTiles::rows(int operand, std::int64_t s, std::int64_t m, std::int64_t& step) {
  const auto& op = loop_.operand[operand];
  const std::int64_t axis_step = op.stride[loop_.rank - 1];
  if (op.base == nullptr) return nullptr;
  if (direct_) {
    step = axis_step;
    return at_[operand] + s * axis_step;
  }
  std::byte* tile = scratch_ + operand * kTileBytes;
  step = n_ * op.element_bytes;
  copy_rectangle(op.element_bytes, at_[operand] + s * axis_step, axis_step, op.stride[loop_.rank - 2], tile, step,
                 op.element_bytes, m, n_);
  return tile;
}

const std::byte* ColumnTiles::edge_row() {
  const int operand = kernel_.inputs + kernel_.outputs;
  const auto& op = loop_.operand[operand];
  if (op.base == nullptr) return nullptr;
  copy_rectangle(op.element_bytes, at_[operand], 0, op.stride[loop_.rank - 2], edge_[0], 0, op.element_bytes, 1, n_);
  return edge_[0];
}

/// The feed goes the other way: from the element of step s + count - 1 to that of step s.
ColumnSteps ColumnTiles::feed_steps(std::int64_t s, const std::byte* input, std::int64_t input_step) const {
  ColumnSteps steps{};
  steps.variant = kernel_.feed->variant;
  steps.input[0] = input;
  steps.input_step[0] = -input_step;
  steps.position = segment_.position + s * segment_.position_step;
  steps.position_step = -segment_.position_step;
  steps.column_position = segment_.column_position;
  return steps;
}

std::byte* ColumnTiles::feed(std::int64_t s, std::int64_t m, const std::byte* input, std::int64_t input_step) {
  const ScanKernel& kernel = *kernel_.feed;
  const std::int64_t row_bytes = n_ * kPartBytes;
  std::byte* tile = direct_ ? scratch_ : scratch_ + (kTiles - 1) * kTileBytes;
  ColumnFold fold(kernel, states_ + ColumnTotals::states_for(length_) * kernel_.parts * row_bytes, n_);
  const std::int64_t kept = feed_tiles(s + m);
  const std::byte* prefix = nullptr;
  if (kept > 0 && segment_.fed) {
    StateView states = segment_.feed;
    states.base += kept * kPartBytes;
    prefix = copy_states(states, kernel.parts, prefix_[1]);
  } else if (kept > 0) {
    prefix = feed_memory_.data() + (kept - 1 - first_kept_) * kernel.parts * row_bytes;
  }
  fold.start(prefix);
  ColumnSteps steps = feed_steps(s + m - 1, input + (m - 1) * input_step, input_step);
  steps.writes = true;
  steps.output[0] = tile + (m - 1) * row_bytes;
  steps.output_step[0] = -row_bytes;
  fold.advance(steps, m);
  return tile;
}

void ColumnTiles::keep_feed_states(std::int64_t end) {
  const ScanKernel& kernel = *kernel_.feed;
  ColumnFold fold(kernel, states_ + ColumnTotals::states_for(length_) * kernel_.parts * n_ * kPartBytes, n_);
  fold.start(nullptr);
  std::byte* to = feed_memory_.data();
  first_kept_ = std::max<std::int64_t>(0, end - std::ssize(feed_memory_) / fold.state_bytes());
  for (std::int64_t tile = 0; tile < end; ++tile) {
    const std::int64_t s = length_ - (tile + 1) * kTileSteps;
    std::int64_t step = 0;
    const std::byte* input = rows(kFeedInput, s, kTileSteps, step);
    ColumnSteps steps = feed_steps(s + kTileSteps - 1, input + (kTileSteps - 1) * step, step);
    fold.advance(steps, kTileSteps);
    if (tile < first_kept_) continue;
    std::memcpy(to, fold.prefix(), static_cast<std::size_t>(fold.state_bytes()));
    to += fold.state_bytes();
  }
}

std::byte* ColumnTiles::copy_states(const StateView& from, int parts, std::byte* to) const {
  copy_rectangle(kPartBytes, from.base, from.part, from.stride, to, n_ * kPartBytes, kPartBytes, parts, n_);
  return to;
}

void ColumnTiles::leave_states(const std::byte* states, int parts, const StateView& to) const {
  copy_rectangle(kPartBytes, states, n_ * kPartBytes, kPartBytes, to.base, to.part, to.stride, parts, n_);
}

}  // namespace planck::cpu
