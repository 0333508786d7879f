// Where a group of a row's elements is: one block of eight for each lane of a register. The last elements of a row, and
// an edge, pass through scratch that has room for a group. Re-included once per target.
#if defined(PLANCK_SCAN_ROW_GROUPS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_GROUPS_INL_H_
#undef PLANCK_SCAN_ROW_GROUPS_INL_H_
#else
#define PLANCK_SCAN_ROW_GROUPS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <cstring>
#include <tuple>
#include <utility>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/row_registers-inl.h"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// A group's elements of every operand. In and Out are tuples of what is stored.
template <class Scan, class In, class Out>
class GroupPlaces {
 public:
  using V = Vec<double>;
  static constexpr int kBlock = RowRegisters::kBlock;
  static constexpr int kGroup = RowRegisters::kGroup;
  using Scratch = std::byte[kGroup * kPartBytes];
  static constexpr int kInputs = std::tuple_size_v<In>;
  static constexpr int kOutputs = std::tuple_size_v<Out>;
  static constexpr bool kEdgeEnds = kOutputs > kEdgeOutput;
  /// A feed, whose values stay f64, and what is fed with them.
  static constexpr bool kFeeds = kInputs == 1 && kOutputs == 1 && std::is_same_v<std::tuple_element_t<0, Out>, double>;
  static constexpr bool kFed = kInputs == 3 && std::is_same_v<std::tuple_element_t<kInputs - 1, In>, double>;
  static constexpr bool kAhead = kFeeds || kFed;

  explicit GroupPlaces(const RowRun& run)
      : flip_(run.variant.flip),
        streamed_(run.streamed),
        in_lanes_(run.in_lanes),
        ahead_(run.ahead != nullptr ? run.ahead : run.input[0]) {
    set(run, std::make_index_sequence<kInputs>(), std::make_index_sequence<kOutputs>());
  }

  PLANCK_MATH void advance() {
    for (int k = 0; k < kInputs; ++k) input_[k] += input_group_[k];
    for (int k = 0; k < kOutputs; ++k) output_[k] += output_group_[k];
  }

  /// Asks for what is wanted next and lies where the processor does not expect it: as many bytes as a group has.
  PLANCK_MATH void fetch_ahead() {
    constexpr std::int64_t kLine = 64;
    constexpr auto kBytes = static_cast<std::int64_t>(kGroup * sizeof(InOf<0>));
    for (std::int64_t i = 0; i < kBytes; i += kLine) hwy::Prefetch(ahead_ + i);
    ahead_ += kBytes;
  }

  /// x[k][s] = element s of every block of input k.
  PLANCK_MATH void load(V (*x)[kBlock]) const { load_from<0>(x); }
  PLANCK_MATH void store(V (*y)[kBlock]) const { store_from<0>(y); }

  /// The last n elements' inputs in scratch.
  GroupPlaces inputs_in(Scratch* scratch, const RowRun& run, std::int64_t n) const {
    GroupPlaces here = *this;
    copy_inputs<0>(run, n, scratch, here);
    return here;
  }
  /// Scratch for the last n elements' outputs, behind that of the inputs.
  GroupPlaces outputs_in(Scratch* scratch, const RowRun& run, std::int64_t n) const {
    GroupPlaces here = *this;
    here.streamed_ = false;
    scratch_outputs<0>(run, n, scratch + kInputs, here);
    return here;
  }
  void copy_outputs(const RowRun& run, std::int64_t n, const GroupPlaces& scratch) const {
    copy_outputs_from<0>(run, n, scratch);
  }

 private:
  using Traits = ScanTraits<Scan, V>;
  template <int k>
  using InOf = std::tuple_element_t<k, In>;
  template <int k>
  using OutOf = std::tuple_element_t<k, Out>;

  template <std::size_t... i, std::size_t... o>
  PLANCK_MATH void set(const RowRun& run, std::index_sequence<i...>, std::index_sequence<o...>) {
    (set_input<i>(run), ...);
    (set_output<o>(run), ...);
  }
  template <int k>
  PLANCK_MATH void set_input(const RowRun& run) {
    input_[k] = run.input[k];
    input_back_[k] = run.input_back[k];
    input_group_[k] = run.input[k] != nullptr ? group_bytes<InOf<k>>(run.input_back[k]) : 0;
  }
  template <int k>
  PLANCK_MATH void set_output(const RowRun& run) {
    const bool there = run.output[k] != nullptr && run.writes && k != kEdgeOutput;
    output_[k] = there ? run.output[k] : nullptr;
    output_back_[k] = run.output_back[k];
    output_group_[k] = there ? group_bytes<OutOf<k>>(run.output_back[k]) : 0;
  }
  template <class T>
  static constexpr std::int64_t group_bytes(bool back) {
    constexpr std::int64_t kBytes = RowRegisters::kGroup * sizeof(T);
    return back ? -kBytes : kBytes;
  }
  template <int k>
  PLANCK_MATH void load_from(V (*x)[kBlock]) const {
    if constexpr (k < kInputs) {
      using T = InOf<k>;
      constexpr bool kRead = !std::is_same_v<T, Unread> && !(Traits::kBegins && k == kEdgeInput);
      if (!kRead || input_[k] == nullptr) {
        for (int s = 0; s < kBlock; ++s) x[k][s] = V(0);
      } else if constexpr (kRead) {
        if (kFed && k == kInputs - 1 && in_lanes_) {
          RowRegisters::load_lanes_back(input_[k], x[k]);
        } else {
          RowRegisters::load<T>(input_[k], input_back_[k], x[k]);
        }
      }
      if constexpr (Traits::kExtremum && k == 0) {
        if (flip_ != 0) flip(x[0]);
      }
      load_from<k + 1>(x);
    }
  }
  template <int k>
  PLANCK_MATH void store_from(V (*y)[kBlock]) const {
    if constexpr (k < kOutputs) {
      // Without a branch: results then need not wait for it in memory.
      if constexpr (Traits::kWritesExtremum && k == 0) flip(y[0]);
      if (kFeeds && in_lanes_) {
        RowRegisters::store_lanes(y[k], output_[k]);
      } else if (kOutputs == 1 || output_[k] != nullptr) {
        RowRegisters::store<OutOf<k>>(y[k], output_[k], output_back_[k], streamed_);
      }
      store_from<k + 1>(y);
    }
  }

  PLANCK_MATH void flip(V* x) const {
    for (int s = 0; s < kBlock; ++s) x[s] = ManyLanes::flip(x[s], flip_);
  }

  /// Of a whole group only what belongs to an edge goes that way.
  static PLANCK_MATH bool stays(std::int64_t n, bool edge) { return n == kGroup && !edge; }

  /// As they lie in memory: going back, the first one comes last.
  static PLANCK_MATH std::byte* first_in(Scratch& scratch, bool back, std::int64_t bytes) {
    return back ? scratch + (kGroup - 1) * bytes : scratch;
  }
  /// The lowest address of n elements.
  static PLANCK_MATH std::int64_t lowest(bool back, std::int64_t n, std::int64_t bytes) {
    return back ? -(n - 1) * bytes : 0;
  }

  template <int k>
  PLANCK_MATH void copy_inputs(const RowRun& run, std::int64_t n, Scratch* scratch, GroupPlaces& here) const {
    if constexpr (k < kInputs) {
      if constexpr (!std::is_same_v<InOf<k>, Unread>) {
        constexpr auto kBytes = static_cast<std::int64_t>(sizeof(InOf<k>));
        if (input_[k] != nullptr && !stays(n, kEdgeEnds && k == kEdgeInput)) {
          const bool back = input_back_[k];
          std::byte* const to = first_in(scratch[k], back, kBytes);
          std::memset(scratch[k], 0, kGroup * kBytes);
          const bool edge = kEdgeEnds && k == kEdgeInput && run.edge == ScanEdge::Last;
          const std::int64_t there = edge ? n - 1 : n;
          const std::int64_t low = lowest(back, there, kBytes);
          if (there > 0) std::memcpy(to + low, input_[k] + low, static_cast<std::size_t>(there * kBytes));
          std::byte* const last = to + (back ? -(n - 1) : n - 1) * kBytes;
          if (edge && run.edge_input != nullptr) std::memcpy(last, run.edge_input, kBytes);
          // What the last step leaves for the next is the last block's: all that follow are like it.
          for (std::int64_t i = 1; Traits::kLags && i <= kGroup - n; ++i) {
            std::memcpy(last + (back ? -i : i) * kBytes, last, kBytes);
          }
          here.input_[k] = to;
        }
      }
      copy_inputs<k + 1>(run, n, scratch, here);
    }
  }

  template <int k>
  static PLANCK_MATH void scratch_outputs(const RowRun& run, std::int64_t n, Scratch* scratch, GroupPlaces& here) {
    if constexpr (k < kOutputs) {
      if (run.output[k] != nullptr && !stays(n, k == kEdgeOutput)) {
        here.output_[k] = first_in(scratch[k], here.output_back_[k], sizeof(OutOf<k>));
      }
      scratch_outputs<k + 1>(run, n, scratch, here);
    }
  }
  template <int k>
  PLANCK_MATH void copy_outputs_from(const RowRun& run, std::int64_t n, const GroupPlaces& scratch) const {
    if constexpr (k < kOutputs) {
      constexpr auto kBytes = static_cast<std::int64_t>(sizeof(OutOf<k>));
      if (scratch.output_[k] != nullptr) {
        const bool back = scratch.output_back_[k];
        std::byte* const last = scratch.output_[k] + (back ? -(n - 1) : n - 1) * kBytes;
        const bool edge = kEdgeEnds && run.edge == ScanEdge::Last;
        if (edge && k == 0 && run.edge_input == nullptr) std::memset(last, 0, kBytes);  // no prefix
        if (edge && k == kEdgeOutput) std::memcpy(run.output[k], last, kBytes);
        const std::int64_t low = lowest(back, n, kBytes);
        if (k != kEdgeOutput && !stays(n, false)) {
          std::memcpy(output_[k] + low, scratch.output_[k] + low, static_cast<std::size_t>(n * kBytes));
        }
      }
      copy_outputs_from<k + 1>(run, n, scratch);
    }
  }

  const std::byte* input_[kInputs];
  std::byte* output_[kOutputs];
  std::int64_t input_group_[kInputs];
  std::int64_t output_group_[kOutputs];
  bool input_back_[kInputs];
  bool output_back_[kOutputs];
  std::uint64_t flip_;
  bool streamed_;
  bool in_lanes_;
  const std::byte* ahead_;
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
