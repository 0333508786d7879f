// A block of 64 elements of a row alone, where registers would have one lane in use.
// Re-included once per target.
#if defined(PLANCK_SCAN_ROW_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLANCK_SCAN_ROW_BLOCK_INL_H_
#undef PLANCK_SCAN_ROW_BLOCK_INL_H_
#else
#define PLANCK_SCAN_ROW_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "scan/cpu/kernel.hpp"
#include "scan/cpu/scans-inl.h"

HWY_BEFORE_NAMESPACE();
namespace planck::cpu::HWY_NAMESPACE {

#if PLANCK_SCAN_VECTORS

/// The first lane's block, element by element in scalar lanes: what is stored is converted in registers before and
/// after.
template <class Lanes, class Value>
class RowBlock {
 public:
  PLANCK_MATH explicit RowBlock(Lanes& lanes) : lanes_(lanes) { widen<0>(); }
  PLANCK_MATH void load(int s, Value* x) const { load_from<0>(s, x); }
  PLANCK_MATH void store(int s, const Value* y) { store_from<0>(s, y); }
  PLANCK_MATH void finish() { narrow<0>(); }
  /// All of an input and of an output, in scan order.
  PLANCK_MATH const Value* input(int k) const { return x_[k]; }
  PLANCK_MATH Value* output(int k) { return y_[k]; }

 private:
  using V = Vec<Value>;
  using Lane = OneLane<Value>;
  using Many = ManyLanesOf<Value>;
  using Traits = typename Lanes::Traits;
  static constexpr int kLane = Lanes::kLane;
  static constexpr int kInputs = Lanes::kInputs;
  static constexpr int kOutputs = Lanes::kOutputs;
  static constexpr bool kEdgeEnds = Lanes::kEdgeEnds;
  template <int k>
  using InOf = typename Lanes::template InOf<k>;
  template <int k>
  using OutOf = typename Lanes::template OutOf<k>;
  template <int k>
  static constexpr bool kRead = Lanes::template kRead<k>;
  template <class T>
  static constexpr auto kBytes = static_cast<std::int64_t>(sizeof(T));
  PLANCK_MATH bool ends(int s) const {
    return kEdgeEnds && s + 1 == lanes_.lane_[0].n && lanes_.has_edge(0, ScanEdge::Last);
  }

  static PLANCK_MATH void reverse(V* x) {
    for (int r = 0; r < Many::kRegisters; ++r) x[r] = V(hn::Reverse(Tag<Value>(), x[r].raw));
    for (int r = 0; r < Many::kRegisters / 2; ++r) std::swap(x[r], x[Many::kRegisters - 1 - r]);
  }
  /// In scan order.
  template <int k>
  PLANCK_MATH void widen() {
    if constexpr (k < kInputs) {
      if constexpr (kRead<k>) {
        if (lanes_.template has_input<k>()) {
          const bool at_edge = k == kEdgeInput && kEdgeEnds && lanes_.has_edge(0, ScanEdge::Last);
          if (lanes_.lane_[0].n < kLane || at_edge) lanes_.template move_input<k>(0);
          constexpr std::int64_t kSize = kBytes<InOf<k>>;
          const std::byte* const first = lanes_.input_.lane[k][0];
          const bool back = lanes_.run_.input_back[k];
          for (std::int64_t i = 0; i < kLane; i += Many::lanes()) {
            V x[Many::kRegisters];
            Many::template load<InOf<k>>(first + (back ? 1 - i - Many::lanes() : i) * kSize, x);
            if (back) reverse(x);
            Many::template store<Value>(x, reinterpret_cast<std::byte*>(x_[k] + i));
          }
        }
      }
      widen<k + 1>();
    }
  }
  template <int k>
  PLANCK_MATH void load_from(int s, Value* x) const {
    if constexpr (k < kInputs) {
      x[k] = 0;
      if constexpr (kRead<k>) {
        if (lanes_.template has_input<k>()) x[k] = x_[k][s];
        if (kEdgeEnds && k == kEdgeInput && ends(s) && lanes_.edge_input(0) != nullptr) {
          Lane::template load<InOf<k>>(lanes_.edge_input(0), x + k);
        }
      }
      if constexpr (Traits::kExtremum && k == 0) x[0] = Lane::flip(x[0], lanes_.input_.flip);
      load_from<k + 1>(s, x);
    }
  }
  template <int k>
  PLANCK_MATH void store_from(int s, const Value* y) {
    if constexpr (k < kOutputs) {
      Value value = y[k];
      if constexpr (Traits::kWritesExtremum && k == 0) value = Lane::flip(value, lanes_.output_.flip);
      if (kEdgeEnds && k == 0 && ends(s) && lanes_.edge_input(0) == nullptr) value = 0;  // no prefix
      if constexpr (k == kEdgeOutput) {
        if (ends(s) && lanes_.output_row_[k] != nullptr) Lane::template store<OutOf<k>>(&value, lanes_.edge_output(0));
      } else {
        y_[k][s] = value;
      }
      store_from<k + 1>(s, y);
    }
  }
  template <int k>
  PLANCK_MATH void narrow() {
    if constexpr (k < Lanes::kStored) {
      if (lanes_.output_row_[k] != nullptr) {
        constexpr std::int64_t kSize = kBytes<OutOf<k>>;
        const std::int64_t n = lanes_.lane_[0].n;
        const bool back = lanes_.run_.output_back;
        std::byte* const to = lanes_.output_.lane[k][0];
        std::byte* const first = n == kLane ? to : Lanes::first_in(lanes_.scratch_[kInputs + k][0], back, kSize);
        for (std::int64_t i = 0; i < kLane; i += Many::lanes()) {
          V y[Many::kRegisters];
          Many::template load<Value>(reinterpret_cast<const std::byte*>(y_[k] + i), y);
          if (back) reverse(y);
          Many::template store<OutOf<k>>(y, first + (back ? 1 - i - Many::lanes() : i) * kSize);
        }
        const std::int64_t low = Lanes::lowest(back, n, kSize);
        if (n < kLane) std::memcpy(to + low, first + low, static_cast<std::size_t>(n * kSize));
      }
      narrow<k + 1>();
    }
  }

  Lanes& lanes_;
  alignas(64) Value x_[kInputs][kLane];
  alignas(64) Value y_[kOutputs][kLane];
};

#endif  // PLANCK_SCAN_VECTORS

}  // namespace planck::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif
