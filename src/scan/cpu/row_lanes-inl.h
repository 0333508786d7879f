// Which blocks of a run the lanes of a register have: the next 64 elements of a row each, and where a row ends those of
// the next row. What does not fill its lane passes through scratch, and so does what is stored non-temporally.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_LANES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_LANES_INL_H_
#undef PLANCK_SCAN_ROW_LANES_INL_H_
#else
#define PLANCK_SCAN_ROW_LANES_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_operands-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// The lanes' blocks, batch by batch. In and Out are tuples of what is stored.
template <class Scan, class In, class Out>
class RowLanes : public RowOperands<Scan, In, Out> {
 public:
  using Operands = RowOperands<Scan, In, Out>;
  using Operands::kAhead;
  using Operands::kEdgeEnds;
  using Operands::kFed;
  using Operands::kFeeds;
  using Operands::kInputs;
  using Operands::kLane;
  using Operands::kLanes;
  using Operands::kOutputs;
  using Operands::kSteps;
  using Operands::kStored;
  using typename Operands::Inputs;
  using typename Operands::Outputs;
  using typename Operands::Value;
  template <int k>
  using InOf = typename Operands::template InOf<k>;
  template <int k>
  using OutOf = typename Operands::template OutOf<k>;
  template <int k>
  static constexpr bool kRead = Operands::template kRead<k>;
  template <class T>
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));

  explicit RowLanes(const RowRun& run) : run_(run), ahead_(run.ahead), fed_lanes_(nullptr) {
    for (int k = 0; k < kInputs; ++k) {
      input_row_[k] = run.input[k];
      input_.there[k] = run.input[k] != nullptr;
      const std::byte* const zeros = kZeroLane + (run.input_back[0] ? sizeof kZeroLane - kPartBytes : 0);
      if (!input_.there[k]) std::fill_n(input_.lane[k], kLanes, zeros);
    }
    for (int k = 0; k < kOutputs; ++k) output_row_[k] = run.writes ? run.output[k] : nullptr;
    for (int k = 0; k < kStored; ++k) output_.there[k] = output_row_[k] != nullptr;
    input_.flip = output_.flip = run.variant.flip;
    if constexpr (kFed) {
      if (run.in_lanes) fed_lanes_ = reinterpret_cast<const Value*>(run.input[kInputs - 1]) + 1;
    }
    if constexpr (kFeeds) {
      if (run.in_lanes) fed_lanes_ = reinterpret_cast<const Value*>(run.output[0]);
    }
  }

  /// Goes on to the next blocks, at most as many as there are lanes: false if none is left.
  PLANCK_MATH bool next() {
    if (row_ == run_.rows) return false;
    const std::int64_t left = run_.n - element_;
    inside_ = left > kLanes * kLane || (left == kLanes * kLane && !kEdgeEnds);
    streamed_ = run_.streamed;
    if (inside_) {
      count_ = kLanes;
      steps_ = kLane;
      lane_[0] = {element_, row_, kLane, false};
      through_scratch_ = edge_ends_ = false;
      set_lanes<kLanes>(0);
      element_ += kLanes * kLane;
      if (element_ == run_.n) next_row();
      return true;
    }
    take_blocks();
    return true;
  }

  struct Lane {
    std::int64_t element;  ///< the first one, counted along the row
    std::int64_t row;
    int n;
    bool ends;  ///< its row
    PLANCK_MATH bool begins() const { return element == 0; }
  };
  PLANCK_MATH int count() const { return count_; }
  /// All lanes have whole blocks of one row; of the lanes, only the first is then told apart.
  PLANCK_MATH bool inside() const { return inside_; }
  PLANCK_MATH Lane operator[](int lane) const {
    if (!inside_) return lane_[lane];
    return {lane_[0].element + lane * kLane, lane_[0].row, kLane, false};
  }
  /// Steps that the longest block takes, in whole groups.
  PLANCK_MATH int steps() const { return steps_; }
  /// Whether a block begins its row, and nothing comes before it.
  PLANCK_MATH bool begins(int lane) const { return (*this)[lane].begins() && run_.prefix == nullptr; }
  PLANCK_MATH std::int64_t position(int lane) const {
    return run_.position + (*this)[lane].element * run_.position_step;
  }
  PLANCK_MATH const std::byte* edge_input(int lane) const {
    return run_.edge_input == nullptr ? nullptr : run_.edge_input + (*this)[lane].row * run_.edge_row;
  }
  PLANCK_MATH std::byte* edge_output(int lane) const {
    return run_.output[kEdgeOutput] + (*this)[lane].row * run_.output_row[kEdgeOutput];
  }
  PLANCK_MATH bool has_edge(int lane, ScanEdge edge) const {
    return run_.edge == edge && (edge == ScanEdge::First ? (*this)[lane].begins() : (*this)[lane].ends);
  }

  /// Rows that end among the lanes' blocks have an output of their own there.
  PLANCK_MATH bool writes_edges() const { return kEdgeEnds && edge_ends_ && output_row_[kEdgeOutput] != nullptr; }
  /// Input k of the last element of a lane's block.
  template <int k>
  PLANCK_MATH double last_input(int lane) const {
    double value = 0;
    if (kFed && k == kInputs - 1 && fed_lanes_ != nullptr) return fed_lanes_[-kLanes * kLane + (kLanes - 1 - lane)];
    OneLane<double>::load<InOf<k>>(last<k>(lane), &value);
    return value;
  }
  PLANCK_MATH bool has_fed_lanes() const { return kFed && fed_lanes_ != nullptr; }

  /// Before a batch of several blocks is loaded: those that do not fill their lane move to scratch, and so does what
  /// has another operand at its end.
  PLANCK_MATH void enter() {
    if (through_scratch_) enter_scratch();
    if constexpr (kEdgeEnds) {
      if (edge_ends_) enter_edges();
    }
  }
  /// And after it was stored.
  PLANCK_MATH void leave() {
    if constexpr (kEdgeEnds) {
      if (edge_ends_ && run_.writes) leave_edges();
    }
    if (through_scratch_ && run_.writes) leave_scratch<0>();
    if (streamed_) stream_lanes<0>();
    if (fed_lanes_ != nullptr) fed_lanes_ += kFeeds ? kLanes * kLane : -kLanes * kLane;
  }

  PLANCK_MATH Inputs inputs() const {
    Inputs from = input_;
    from.fed = fed_lanes_;
    return from;
  }
  PLANCK_MATH Outputs outputs() {
    Outputs to = output_;
    if (streamed_) stage<0>(to);
    to.fed = const_cast<Value*>(fed_lanes_);
    return to;
  }

  /// Asks for what is wanted next and lies where the processor does not expect it: as many bytes as a group has. Into
  /// the second-level cache: in the first, the tile has its place.
  PLANCK_MATH bool fetches_ahead() const { return kAhead && ahead_ != nullptr; }
  PLANCK_MATH void fetch_ahead() {
    constexpr std::int64_t kLine = 64;
    constexpr std::int64_t kGroup = kSteps * kLanes * kBytes<std::tuple_element_t<0, In>>;
    for (std::int64_t i = 0; i < kGroup; i += kLine) __builtin_prefetch(ahead_ + i, 0, 2);
    ahead_ += kGroup;
  }

 private:
  template <class, class>
  friend class RowBlock;

  PLANCK_MATH void next_row() {
    element_ = 0;
    ++row_;
    for (int k = 0; k < kInputs; ++k) {
      if (input_row_[k] != nullptr) input_row_[k] += run_.input_row[k];
    }
    for (int k = 0; k < kOutputs; ++k) {
      if (output_row_[k] != nullptr) output_row_[k] += run_.output_row[k];
    }
  }
  HWY_NOINLINE void take_blocks() {
    count_ = 0;
    bool even = true;
    edge_ends_ = false;
    while (count_ < kLanes && row_ < run_.rows) {
      const std::int64_t left = run_.n - element_;
      lane_[count_] = {element_, row_, static_cast<int>(std::min<std::int64_t>(left, kLane)), left <= kLane};
      even = even && lane_[count_].n == lane_[0].n;
      edge_ends_ = edge_ends_ || (kEdgeEnds && has_edge(count_, ScanEdge::Last));
      set_lanes<1>(count_++);
      element_ += kLane;
      if (left <= kLane) next_row();
    }
    steps_ = lane_[0].n;
    through_scratch_ = !even || count_ < kLanes || steps_ % kSteps != 0;
    if (steps_ < kLane) streamed_ = false;  // lanes are streamed whole
  }
  /// The places of so many blocks from element_ on.
  template <int lanes>
  PLANCK_MATH void set_lanes(int lane) {
    set_inputs<lanes, 0>(lane);
    set_outputs<lanes, 0>(lane);
  }
  template <int lanes, int k>
  PLANCK_MATH void set_inputs(int lane) {
    if constexpr (k < kInputs) {
      if constexpr (kRead<k>) {
        if (has_input<k>()) {
          const std::int64_t step = run_.input_back[k] ? -kBytes<InOf<k>> : kBytes<InOf<k>>;
          const std::byte* at = input_row_[k] + element_ * step;
          for (int i = 0; i < lanes; ++i, at += kLane * step) input_.lane[k][lane + i] = at;
        }
      }
      set_inputs<lanes, k + 1>(lane);
    }
  }
  template <int lanes, int k>
  PLANCK_MATH void set_outputs(int lane) {
    if constexpr (k < kStored) {
      if (output_row_[k] != nullptr) {
        const std::int64_t step = run_.output_back ? -kBytes<OutOf<k>> : kBytes<OutOf<k>>;
        std::byte* at = output_row_[k] + element_ * step;
        for (int i = 0; i < lanes; ++i, at += kLane * step) output_.lane[k][lane + i] = at;
      }
      set_outputs<lanes, k + 1>(lane);
    }
  }
  /// A scan's first input is always there.
  template <int k>
  PLANCK_MATH bool has_input() const {
    return k == 0 || input_row_[k] != nullptr;
  }

  /// Where a lane's last element is, of those of one kind that begin at `first`.
  template <class T, class Byte>
  static PLANCK_MATH Byte* last_of(Byte* first, bool back, int n) {
    return first + (back ? 1 - n : n - 1) * kBytes<T>;
  }
  template <int k>
  PLANCK_MATH const std::byte* last(int lane) const {
    return last_of<InOf<k>>(input_.lane[k][lane], run_.input_back[k], (*this)[lane].n);
  }

  // ---- non-temporal stores: line by line, which the steps of a lane are not ----

  template <int k>
  PLANCK_MATH void stage(Outputs& to) {
    if constexpr (k < kStored) {
      for (int lane = 0; lane < kLanes; ++lane) {
        to.lane[k][lane] = first_in(scratch_[kInputs + k][lane], run_.output_back, kBytes<OutOf<k>>);
      }
      stage<k + 1>(to);
    }
  }
  template <int k>
  PLANCK_MATH void stream_lanes() {
    if constexpr (k < kStored) {
      constexpr std::int64_t kSize = kLane * kBytes<OutOf<k>>;
      for (int lane = 0; lane < kLanes && output_row_[k] != nullptr; ++lane) {
        std::byte* const to = output_.lane[k][lane];
        stream_lines(scratch_[kInputs + k][lane], run_.output_back ? to + kBytes<OutOf<k>> - kSize : to, kSize);
      }
      stream_lanes<k + 1>();
    }
  }
  // ---- scratch ----

  using Scratch = std::byte[kLane * kPartBytes];
  /// As elements lie in memory: going back, the first one comes last.
  static PLANCK_MATH std::byte* first_in(Scratch& scratch, bool back, std::int64_t bytes) {
    return back ? scratch + (kLane - 1) * bytes : scratch;
  }
  /// The lowest address of n elements.
  static PLANCK_MATH std::int64_t lowest(bool back, std::int64_t n, std::int64_t bytes) {
    return back ? -(n - 1) * bytes : 0;
  }
  PLANCK_MATH bool moves(int lane) const { return lane_[lane].n < steps_; }

  HWY_NOINLINE void enter_scratch() {
    for (int lane = 1; lane < count_; ++lane) steps_ = std::max(steps_, lane_[lane].n);
    steps_ = (steps_ + kSteps - 1) / kSteps * kSteps;
    streamed_ = false;
    for (int lane = 0; lane < count_; ++lane) {
      if (moves(lane)) move_inputs<0>(lane);
    }
    // Lanes without a block do what the first one does, to no effect.
    for (int k = 0; k < kInputs; ++k) {
      for (int lane = count_; lane < kLanes && input_row_[k] != nullptr; ++lane)
        input_.lane[k][lane] = input_.lane[k][0];
    }
    if (run_.writes) move_outputs<0>();
  }
  template <int k>
  PLANCK_MATH void move_inputs(int lane) {
    if constexpr (k < kInputs) {
      move_input<k>(lane);
      move_inputs<k + 1>(lane);
    }
  }
  template <int k>
  PLANCK_MATH void move_input(int lane) {
    if constexpr (kRead<k>) {
      if (input_row_[k] == nullptr) return;
      constexpr std::int64_t kSize = kBytes<InOf<k>>;
      const bool back = run_.input_back[k];
      std::byte* const to = first_in(scratch_[k][lane], back, kSize);
      const bool edge = k == kEdgeInput && kEdgeEnds && has_edge(lane, ScanEdge::Last);  // where there is no element
      const std::int64_t n = lane_[lane].n - (edge ? 1 : 0);
      if (n < kLane) std::memset(scratch_[k][lane], 0, kLane * kSize);
      const std::int64_t low = lowest(back, n, kSize);
      if (n > 0) std::memcpy(to + low, input_.lane[k][lane] + low, static_cast<std::size_t>(n * kSize));
      input_.lane[k][lane] = to;
    }
  }
  template <int k>
  PLANCK_MATH void move_outputs() {
    if constexpr (k < kStored) {
      for (int lane = 0; lane < kLanes && output_row_[k] != nullptr; ++lane) {
        if (lane < count_ && !moves(lane)) continue;
        if (lane < count_) kept_[k][lane] = output_.lane[k][lane];
        output_.lane[k][lane] = first_in(scratch_[kInputs + k][lane], run_.output_back, kBytes<OutOf<k>>);
      }
      move_outputs<k + 1>();
    }
  }
  template <int k>
  PLANCK_MATH void leave_scratch() {
    if constexpr (k < kStored) {
      constexpr std::int64_t kSize = kBytes<OutOf<k>>;
      for (int lane = 0; lane < count_ && output_row_[k] != nullptr; ++lane) {
        if (!moves(lane)) continue;
        const std::int64_t n = lane_[lane].n;
        const std::int64_t low = lowest(run_.output_back, n, kSize);
        std::memcpy(kept_[k][lane] + low, output_.lane[k][lane] + low, static_cast<std::size_t>(n * kSize));
      }
      leave_scratch<k + 1>();
    }
  }

  // ---- the end of the axis ----

  HWY_NOINLINE void enter_edges() {
    if (input_row_[kEdgeInput] == nullptr) return;
    for (int lane = 0; lane < count_; ++lane) {
      if (!has_edge(lane, ScanEdge::Last)) continue;
      if (!through_scratch_ || !moves(lane)) move_input<kEdgeInput>(lane);
      if (const std::byte* const initial = edge_input(lane)) {  // the lane is in scratch now
        std::memcpy(const_cast<std::byte*>(last<kEdgeInput>(lane)), initial, sizeof(InOf<kEdgeInput>));
      }
    }
    // Lanes without a block do what the first one does.
    for (int lane = count_; lane < kLanes; ++lane) input_.lane[kEdgeInput][lane] = input_.lane[kEdgeInput][0];
  }
  HWY_NOINLINE void leave_edges() {
    for (int lane = 0; lane < count_; ++lane) {
      if (!has_edge(lane, ScanEdge::Last) || output_row_[0] == nullptr || edge_input(lane) != nullptr) continue;
      const bool back = run_.output_back;  // no prefix
      std::byte* const first =
          streamed_ ? first_in(scratch_[kInputs][lane], back, kBytes<OutOf<0>>) : output_.lane[0][lane];
      std::memset(last_of<OutOf<0>>(first, back, lane_[lane].n), 0, sizeof(OutOf<0>));
    }
  }

  const RowRun& run_;
  const std::byte* input_row_[kInputs];
  std::byte* output_row_[kOutputs];
  std::int64_t row_ = 0;
  std::int64_t element_ = 0;
  const std::byte* ahead_;
  const Value* fed_lanes_;  ///< a feed's values as registers have them: this batch's, or the end of what they are

  int count_;
  int steps_;
  bool streamed_;
  bool through_scratch_;
  bool inside_;
  bool edge_ends_ = false;
  Lane lane_[kLanes];
  Inputs input_;
  Outputs output_;
  std::byte* kept_[kOutputs][kLanes];  ///< where outputs in scratch belong
  alignas(64) Scratch scratch_[kInputs + kOutputs][kLanes];
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
