#include "cpu/lane_scan.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#include "core/workspace.hpp"
#include "cpu/parallel.hpp"
#include "cpu/rectangle.hpp"
#include "numerics/canonical_order.hpp"

namespace planck::cpu {
namespace {

using core::StridedLoop;
using numerics::kMaxLevels;
using numerics::kRadix;
using Pointers = std::array<std::byte*, core::kMaxLoopOperands>;

constexpr std::int64_t kStateBytes = 192 << 10;  ///< of a thread's stack, for the states of its lanes
constexpr std::int64_t kMaxLanes = 1024;
// A tile of lanes whose elements lie apart is turned round in scratch.
constexpr std::int64_t kTileLanes = 64;
constexpr std::int64_t kTileSteps = 64;
constexpr std::int64_t kTileBytes = kTileLanes * kTileSteps * 8;
/// Fewer lanes than this leave registers empty: then blocks of a lane are scanned side by side.
constexpr std::int64_t kFewLanes = 16;
/// States of blocks that need no workspace.
constexpr std::int64_t kStackStates = 1024;

/// Where elements stand along the whole axis.
struct Positions {
  std::int64_t first = 0;  ///< element 0 of lane 0
  std::int64_t step = 1;   ///< from element to element
  std::int64_t lane = 0;   ///< from lane to lane: lanes can be blocks of one row
};

/// Lanes that advance together: what is open at every level of the canonical order.
class Lanes {
 public:
  /// Eight-byte values for each lane and part: one own state, and two for every level above.
  static std::int64_t states_for(std::int64_t length) { return 1 + 2 * (numerics::levels_for(length) + 1); }

  Lanes(const LaneScanKernel& kernel, std::byte* storage, std::int64_t n, std::int64_t length)
      : kernel_(kernel), n_(n), part_stride_(n * kPartBytes), state_bytes_(kernel.parts * part_stride_), own_(storage) {
    std::byte* at = storage + state_bytes_;
    for (int level = 1; level <= numerics::levels_for(length) + 1; ++level) {
      open_[level] = at;
      above_storage_[level] = at + state_bytes_;
      at += 2 * state_bytes_;
    }
  }

  /// `begins`: at the axis' first element. `before`: the states of whole blocks that came before, or null.
  void start(bool begins, const std::byte* before) {
    begins_ = begins;
    count_.fill(0);
    above_.fill(before);
  }

  void step(const Pointers& inputs, std::byte* output, std::byte* indices, const Positions& position, std::int64_t t) {
    if (count_[0] == kRadix) close();
    const bool begin = t == 0 && begins_;
    LaneStep step{
        {},    output, indices,     position.first + t * position.step, position.lane, own_, above_[1], count_[0] == 0,
        begin, n_,     part_stride_};
    for (int k = 0; k < kernel_.inputs; ++k) step.input[k] = inputs[k];
    kernel_.step(step);
    ++count_[0];
  }

  /// The states of exactly one whole block of `level`, when that is what was stepped through.
  const std::byte* block_total(int level) {
    close();
    return open_[level];
  }

  /// A whole block's states instead of its steps; more follows.
  void push_block(int level, const std::byte* total) {
    for (;; ++level) {
      if (count_[level] == 0) {
        std::memcpy(open_[level], total, static_cast<std::size_t>(state_bytes_));
      } else {
        kernel_.combine(open_[level], open_[level], total, n_, part_stride_);
      }
      if (++count_[level] < kRadix) break;
      count_[level] = 0;
      total = open_[level];
    }
    // Below this level nothing is open: what stands before their blocks is what stands before its next one.
    const std::byte* above = above_[level + 1];
    if (above == nullptr) {
      above = open_[level];
    } else {
      kernel_.combine(above_storage_[level], above, open_[level], n_, part_stride_);
      above = above_storage_[level];
    }
    for (int k = level; k >= 1; --k) above_[k] = above;
  }

  /// The states of all whole blocks so far; null if none.
  const std::byte* before() const { return above_[1]; }

 private:
  void close() {
    count_[0] = 0;
    push_block(1, own_);
  }

  const LaneScanKernel& kernel_;
  bool begins_ = false;
  std::int64_t n_;
  std::int64_t part_stride_;
  std::int64_t state_bytes_;
  std::byte* own_;
  std::array<std::byte*, kMaxLevels + 2> open_{};
  std::array<std::byte*, kMaxLevels + 2> above_storage_{};
  std::array<const std::byte*, kMaxLevels + 3> above_{};  ///< levels from here on, combined; null if all are empty
  std::array<int, kMaxLevels + 2> count_{};
};

/// States of every lane, outside the lanes' own memory: part by part, `stride` bytes from lane to lane.
struct StateView {
  std::byte* base = nullptr;
  std::int64_t part = 0;
  std::int64_t stride = 0;
};

/// Whether neighbouring lanes lie side by side for every operand: then a step works where they are.
bool lanes_are_contiguous(const StridedLoop& loop) {
  const int lane_dim = loop.rank - 2;
  if (loop.extent[lane_dim] == 1) return true;
  return std::all_of(loop.operand.begin(), loop.operand.begin() + loop.operands, [&](const core::LoopOperand& op) {
    return op.base == nullptr || op.stride[lane_dim] == op.element_bytes;
  });
}

/// How many lanes advance together.
std::int64_t strip_width(const LaneScan& scan, const StridedLoop& loop, bool direct) {
  const std::int64_t state = Lanes::states_for(loop.extent[loop.rank - 1]) * scan.kernel.parts * kPartBytes;
  const std::int64_t most = direct ? kMaxLanes : kTileLanes;
  return std::min(loop.extent[loop.rank - 2], std::max<std::int64_t>(1, std::min(most, kStateBytes / state)));
}

/// The scan of a rectangle of lanes: dimensions lane and axis last.
class Strip {
 public:
  Strip(const LaneScan& scan, const StridedLoop& loop, bool direct) : scan_(scan), loop_(loop), direct_(direct) {}

  /// Scans n lanes from `at` on. `before`: their states before element 0. `totals`, where given, receive the states of
  /// the one whole block of `level` that this is, and nothing else is written.
  void run(const Pointers& at, std::int64_t n, const Positions& position, bool begins, const StateView* before,
           const StateView* totals, int level) {
    const int axis = loop_.rank - 1;
    const std::int64_t length = loop_.extent[axis];
    Lanes lanes(scan_.kernel, states_, n, length);
    const std::int64_t parts = scan_.kernel.parts;
    if (before != nullptr) {
      copy_rectangle(kPartBytes, before->base, before->part, before->stride, before_, n * kPartBytes, kPartBytes, parts,
                     n);
    }
    lanes.start(begins, before != nullptr ? before_ : nullptr);
    const std::int64_t tile = direct_ ? length : kTileSteps;
    for (std::int64_t t = 0; t < length; t += tile) {
      const std::int64_t steps = std::min(tile, length - t);
      Pointers row;
      std::array<std::int64_t, core::kMaxLoopOperands> row_step{};
      for (int k = 0; k < loop_.operands; ++k) {
        const auto& op = loop_.operand[k];
        row[k] = nullptr;
        if (op.base == nullptr || (totals != nullptr && k >= scan_.kernel.inputs)) continue;
        row[k] = direct_ ? at[k] + t * op.stride[axis] : tile_[k].data();
        row_step[k] = direct_ ? op.stride[axis] : n * op.element_bytes;
        if (!direct_ && k < scan_.kernel.inputs) {
          copy_rectangle(op.element_bytes, at[k] + t * op.stride[axis], op.stride[axis], op.stride[axis - 1], row[k],
                         n * op.element_bytes, op.element_bytes, steps, n);
        }
      }
      const int output = scan_.kernel.inputs;
      for (std::int64_t s = 0; s < steps; ++s) {
        lanes.step(row, row[output], row[output + 1], position, t + s);
        for (int k = 0; k < loop_.operands; ++k) {
          if (row[k] != nullptr) row[k] += row_step[k];
        }
      }
      for (int k = output; !direct_ && k < loop_.operands; ++k) {
        const auto& op = loop_.operand[k];
        if (row[k] == nullptr) continue;
        copy_rectangle(op.element_bytes, tile_[k].data(), n * op.element_bytes, op.element_bytes,
                       at[k] + t * op.stride[axis], op.stride[axis], op.stride[axis - 1], steps, n);
      }
    }
    if (totals != nullptr) {
      copy_rectangle(kPartBytes, lanes.block_total(level), n * kPartBytes, kPartBytes, totals->base, totals->part,
                     totals->stride, parts, n);
    }
  }

 private:
  const LaneScan& scan_;
  const StridedLoop& loop_;
  bool direct_;
  alignas(64) std::byte states_[kStateBytes];
  alignas(64) std::byte before_[kMaxScanParts * kMaxLanes * kPartBytes];
  alignas(64) std::array<std::array<std::byte, kTileBytes>, kMaxScanInputs + 2> tile_;
};

/// Axis last, the dimension nearest to contiguous next to it; at least these two.
void arrange_dims(StridedLoop& loop, int axis) {
  loop.move_dim(axis, loop.rank - 1);
  loop.erase_unit_dims(loop.rank - 1);
  const auto total_stride = [&](int d) { return loop.total_stride(d, loop.operands); };
  for (int d = 1; d < loop.rank - 1; ++d) {
    int to = d;
    while (to > 0 && total_stride(to - 1) < total_stride(d)) --to;
    if (to != d) loop.move_dim(d, to);
  }
  for (int d = loop.rank - 3; d >= 0; --d) loop.merge_dims(d);
  // The lanes: the dimension nearest to contiguous that can fill registers, or else the largest.
  int lane = loop.rank - 2;
  for (int d = loop.rank - 3; d >= 0 && loop.extent[lane] < kFewLanes; --d) {
    if (loop.extent[d] > loop.extent[lane]) lane = d;
  }
  if (lane >= 0) loop.move_dim(lane, loop.rank - 2);
  if (loop.rank == 1) {
    loop.append_unit_dim();
    loop.move_dim(1, 0);
  }
}

Pointers move(const StridedLoop& loop, Pointers at, int dim, std::int64_t by) {
  for (int k = 0; k < loop.operands; ++k) {
    if (at[k] != nullptr) at[k] += by * loop.operand[k].stride[dim];
  }
  return at;
}

/// One walk over lanes: the whole scan, or some of the blocks that its axis was cut into.
struct Walk {
  StridedLoop loop;  ///< lane and axis last
  Positions position;
  bool begins = true;                                             ///< with the axis' first element
  std::array<std::int64_t, core::kMaxLoopRank> outer_position{};  ///< what an index of each outer dimension adds
  enum class States { None, Start, Total } use = States::None;    ///< start from given states, or leave totals
  int level = 0;                                                  ///< of the totals
  StateView states{};
  std::array<std::int64_t, core::kMaxLoopRank> outer_states{};  ///< bytes between neighbours in outer dimensions
};

void run_walk(const Stream& stream, const LaneScan& scan, const Walk& walk) noexcept {
  const StridedLoop& loop = walk.loop;
  const int lane_dim = loop.rank - 2;
  std::int64_t outer = 1;
  for (int d = 0; d < lane_dim; ++d) outer *= loop.extent[d];
  std::int64_t element_bytes = 0;
  for (int k = 0; k < loop.operands; ++k) element_bytes += loop.operand[k].element_bytes;

  const std::int64_t lanes = loop.extent[lane_dim];
  const bool direct = lanes_are_contiguous(loop);
  std::int64_t width = strip_width(scan, loop, direct);
  // Narrower strips where threads would go without.
  while (width > kFewLanes && outer * ceil_div(lanes, width) < stream.threads()) width /= 2;
  const std::int64_t strips = ceil_div(lanes, width);
  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    Strip strip(scan, loop, direct);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t lane = unit % strips * width;
      std::int64_t rest = unit / strips;
      Pointers at;
      for (int k = 0; k < loop.operands; ++k) at[k] = loop.operand[k].base;
      at = move(loop, at, lane_dim, lane);
      StateView states = walk.states;
      states.base += lane * states.stride;
      Positions position = walk.position;
      position.first += lane * position.lane;
      for (int d = lane_dim - 1; d >= 0; --d) {
        const std::int64_t index = rest % loop.extent[d];
        rest /= loop.extent[d];
        at = move(loop, at, d, index);
        states.base += index * walk.outer_states[d];
        position.first += index * walk.outer_position[d];
      }
      strip.run(at, std::min(width, lanes - lane), position, walk.begins,
                walk.use == Walk::States::Start ? &states : nullptr,
                walk.use == Walk::States::Total ? &states : nullptr, walk.level);
    }
  };
  for_each_range(stream, outer * strips, width * loop.extent[lane_dim + 1] * element_bytes, body);
}

/// How an axis is cut: `blocks` whole canonical blocks of a level, and one last piece of 1 to block_size elements.
struct Cut {
  int level = 0;
  std::int64_t blocks = 0;
  std::int64_t size() const { return numerics::block_size(level); }
};

/// The level that makes enough blocks to fill registers and threads, if there is one.
Cut choose_cut(std::int64_t length) {
  Cut cut;
  for (int level = 4; level >= 2; --level) {
    cut.level = level;
    cut.blocks = (length - 1) / cut.size();
    if (cut.blocks >= 4 * kFewLanes) return cut;
  }
  return cut.blocks >= kFewLanes ? cut : Cut{};
}

/// Scans an axis that was cut: the totals of all blocks, then what stands before each of them, then the blocks.
class CutScan {
 public:
  CutScan(const Stream& stream, const LaneScan& scan, const StridedLoop& loop, const Positions& position,
          const Cut& cut, std::byte* states)
      : stream_(stream), scan_(scan), loop_(loop), position_(position), cut_(cut), states_(states) {
    // Slot q of a row holds what stands before block q; before that the total of block q - 1.
    row_states_ = (cut.blocks + 1) * kPartBytes;
    std::int64_t rows = 1;
    for (int d = loop.rank - 2; d >= 0; --d) {
      dim_states_[d] = rows * row_states_;
      rows *= loop.extent[d];
    }
    rows_ = rows;
    part_ = rows * row_states_;
  }

  static std::int64_t states_needed(std::int64_t rows, const Cut& cut, int parts) {
    return rows * (cut.blocks + 1) * parts;
  }

  void run() noexcept {
    run_walk(stream_, scan_, blocks(0, 1, Walk::States::Total));
    run_walk(stream_, scan_, blocks(1, cut_.blocks - 1, Walk::States::Total));
    for (std::int64_t row = 0; row < rows_; ++row) put_befores(row);
    run_walk(stream_, scan_, blocks(0, 1, Walk::States::None));
    run_walk(stream_, scan_, blocks(1, cut_.blocks - 1, Walk::States::Start));
    Walk last{loop_, position_};
    last.begins = false;
    advance(last, cut_.blocks);
    last.loop.extent[loop_.rank - 1] -= cut_.blocks * cut_.size();
    last.use = Walk::States::Start;
    last.states = {states_ + cut_.blocks * kPartBytes, part_, dim_states_[loop_.rank - 2]};
    last.outer_states = dim_states_;
    run_walk(stream_, scan_, last);
  }

 private:
  /// Moves a walk to where block q begins.
  void advance(Walk& walk, std::int64_t q) const {
    for (int k = 0; k < loop_.operands; ++k) {
      auto& op = walk.loop.operand[k];
      if (op.base != nullptr) op.base += q * cut_.size() * op.stride[loop_.rank - 1];
    }
    walk.position.first += q * cut_.size() * position_.step;
  }

  /// Blocks first … first + count - 1 of every row, side by side if the rows are few.
  Walk blocks(std::int64_t first, std::int64_t count, Walk::States use) const {
    Walk walk{loop_, position_};
    advance(walk, first);
    walk.begins = first == 0;
    walk.use = use;
    walk.level = cut_.level;
    StridedLoop& loop = walk.loop;
    const int axis = loop.rank - 1;
    loop.extent[axis] = cut_.size();
    loop.extent[axis + 1] = count;
    for (int k = 0; k < loop.operands; ++k) {
      loop.operand[k].stride[axis + 1] = cut_.size() * loop.operand[k].stride[axis];
    }
    ++loop.rank;
    std::array<std::int64_t, core::kMaxLoopRank> dim_states = dim_states_;
    const bool as_lanes = loop_.extent[axis - 1] < kFewLanes;
    const int dim = as_lanes ? axis : 0;
    loop.move_dim(axis + 1, dim);
    std::copy_backward(dim_states.begin() + dim, dim_states.end() - 1, dim_states.end());
    dim_states[dim] = kPartBytes;
    walk.outer_states = dim_states;
    const std::int64_t slot = first + (use == Walk::States::Total ? 1 : 0);
    walk.states = {states_ + slot * kPartBytes, part_, dim_states[loop.rank - 2]};
    const std::int64_t block_positions = cut_.size() * position_.step;
    if (as_lanes) {
      walk.position.lane = block_positions;
    } else {
      walk.outer_position[0] = block_positions;
    }
    return walk;
  }

  /// Replaces a row's totals by what stands before the next block each.
  void put_befores(std::int64_t row) noexcept {
    alignas(8) std::byte storage[kStateBytes / 64];
    Lanes lane(scan_.kernel, storage, 1, loop_.extent[loop_.rank - 1]);
    lane.start(true, nullptr);
    for (std::int64_t q = 1; q <= cut_.blocks; ++q) {
      std::byte* slot = states_ + row * row_states_ + q * kPartBytes;
      std::byte total[kMaxScanParts * kPartBytes];
      for (int k = 0; k < scan_.kernel.parts; ++k) std::memcpy(total + k * kPartBytes, slot + k * part_, kPartBytes);
      lane.push_block(cut_.level, total);
      for (int k = 0; k < scan_.kernel.parts; ++k) {
        std::memcpy(slot + k * part_, lane.before() + k * kPartBytes, kPartBytes);
      }
    }
  }

  const Stream& stream_;
  const LaneScan& scan_;
  const StridedLoop& loop_;
  Positions position_;
  Cut cut_;
  std::byte* states_;
  std::int64_t rows_ = 1;
  std::int64_t row_states_ = 0;
  std::int64_t part_ = 0;
  std::array<std::int64_t, core::kMaxLoopRank> dim_states_{};
};

}  // namespace

std::size_t lane_scan_workspace(std::int64_t lanes, std::int64_t length, int parts, int threads) noexcept {
  if (lanes == 0 || length == 0 || lanes >= kFewLanes * threads) return 0;
  const Cut cut = choose_cut(length);
  if (cut.blocks == 0) return 0;
  const std::int64_t states = CutScan::states_needed(lanes, cut, parts);
  return states <= kStackStates ? 0 : static_cast<std::size_t>((states + 1) * kPartBytes);
}

void run_lane_scan(const Stream& stream, const LaneScan& scan, const Workspace& workspace) noexcept {
  StridedLoop loop = scan.loop;
  const std::int64_t length = loop.extent[scan.axis];
  if (loop.count() == 0) return;
  arrange_dims(loop, scan.axis);
  const std::int64_t rows = loop.count() / length;
  Positions position;
  if (scan.reverse) position = {length - 1, -1, 0};

  const std::int64_t lanes = loop.extent[loop.rank - 2];
  const std::int64_t strips = rows / lanes * ceil_div(lanes, kFewLanes);  // the narrowest that are worth it
  const Cut cut = choose_cut(length);
  if (cut.blocks > 0 && (lanes < kFewLanes || strips < stream.threads())) {
    const std::int64_t needed = CutScan::states_needed(rows, cut, scan.kernel.parts);
    std::uint64_t stack[kStackStates];
    const std::span<std::uint64_t> states =
        needed <= kStackStates ? std::span(stack) : core::values_in<std::uint64_t>(workspace);
    if (std::ssize(states) >= needed) {
      auto* memory = reinterpret_cast<std::byte*>(states.data());
      return CutScan(stream, scan, loop, position, cut, memory).run();
    }
  }
  run_walk(stream, scan, {loop, position});
}

}  // namespace planck::cpu
