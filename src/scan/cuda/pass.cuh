// What one thread does with eight steps of a scan or of its gradient, whatever the schedule. The math is the shared one
// of scan/math.inl.
#pragma once

#include "scan/cuda/memory.cuh"
#include "scan/scalar.hpp"

namespace planck::cuda {

/// A scan with values of type Value.
template <class Scan, class Value>
struct ForwardPass {
  using Math = Scan;
  using V = Value;
  using State = typename Scan::State;
  static constexpr bool kBegins = requires(const V* x) { Scan::begin(x); };
  static constexpr int kInputs = kBegins ? 2 : 1;
  static constexpr int kOutputs = Scan::kPositions ? 2 : 1;
  static constexpr unsigned kStateInputs = 3;
  static constexpr bool kBackward = false;
  static constexpr bool kLags = false;   ///< an element also looks at the step before
  static constexpr bool kLeads = false;  ///< or at the next one
};

/// A gradient. Those with three outputs have the recurrence's edge: the last step's h is the initial state.
template <class Gradient, int inputs, int outputs, unsigned state_inputs>
struct BackwardPass {
  using Math = Gradient;
  using V = double;
  using State = typename Gradient::State;
  static constexpr bool kBegins = false;
  static constexpr int kInputs = inputs;
  static constexpr int kOutputs = outputs;
  static constexpr unsigned kStateInputs = state_inputs;  ///< bits of the inputs that states are made of
  static constexpr bool kBackward = true;
  static constexpr bool kLags = requires { Gradient::kLagStart; };
  static constexpr bool kLeads = outputs == 3;
};

/// Whether states are made of an input; others are loaded when the states are there, which saves registers.
template <class Pass>
__device__ constexpr bool is_early(int k) {
  return (Pass::kStateInputs >> k & 1) != 0;
}

/// The inputs that look back or ahead.
inline constexpr int kLagInput = 1;
inline constexpr int kLeadInput = 2;

/// States so far, or none.
template <class Math>
struct Open {
  using State = typename Math::State;
  State state;
  bool any;

  __device__ __forceinline__ void add(const State& next) {
    state = any ? Math::combine(state, next) : next;
    any = true;
  }
};

template <class Pass>
struct Eight {
  using V = typename Pass::V;
  V in[Pass::kInputs][kEight];
  typename Pass::State state[kEight];
};

/// One row's operands, at its first step.
template <class Pass>
struct RowPlaces {
  std::byte* in[Pass::kInputs];
  std::byte* out[Pass::kOutputs];
  std::byte* initial;

  RowPlaces() = default;  // in shared memory
  __device__ __forceinline__ RowPlaces(const ScanTask& task, std::int64_t row) {
#pragma unroll
    for (int k = 0; k < Pass::kInputs; ++k) in[k] = task.operand[kScanIn + k].base;
#pragma unroll
    for (int k = 0; k < Pass::kOutputs; ++k) out[k] = task.operand[kScanOut + k].base;
    initial = task.operand[kScanInitial].base;
    for (int d = task.rank - 1; d >= 0; --d) {
      const std::int64_t rest = d == 0 ? 0 : row / task.extent[d];
      const std::int64_t index = row - rest * task.extent[d];
      row = rest;
#pragma unroll
      for (int k = 0; k < Pass::kInputs; ++k) go(in[k], index * task.operand[kScanIn + k].stride[d]);
#pragma unroll
      for (int k = 0; k < Pass::kOutputs; ++k) go(out[k], index * task.operand[kScanOut + k].stride[d]);
      if constexpr (Pass::kBegins || Pass::kLeads) go(initial, index * task.operand[kScanInitial].stride[d]);
    }
  }

  static __device__ __forceinline__ void go(std::byte*& at, std::int64_t bytes) {
    if (at != nullptr) at += bytes;
  }
};

/// One operand of a row, or null.
__device__ __forceinline__ std::byte* row_of(const ScanTask& task, int slot, std::int64_t row) {
  const ScanOperand& operand = task.operand[slot];
  if (operand.base == nullptr) return nullptr;
  std::int64_t offset = 0;
  for (int d = task.rank - 1; d >= 0; --d) {
    const std::int64_t rest = d == 0 ? 0 : row / task.extent[d];
    offset += (row - rest * task.extent[d]) * operand.stride[d];
    row = rest;
  }
  return operand.base + offset;
}

template <class Pass>
__device__ __forceinline__ typename Pass::V load_input(const ScanTask& task, const RowPlaces<Pass>& at, int k,
                                                       std::int64_t s) {
  const ScanOperand& operand = task.operand[kScanIn + k];
  return load_value<typename Pass::V>(at.in[k] + s * operand.step, operand.element);
}

/// Whether an input's elements are those of the step before.
__device__ __forceinline__ bool is_moved(const ScanTask& task, int k) {
  return k == 0 ? task.moved_dy : k == kLeadInput && task.moved_y;
}

/// Whether the element of the step before is wanted.
template <class Pass>
__device__ __forceinline__ bool looks_back(const ScanTask& task, int k) {
  return is_moved(task, k) || (Pass::kLags && k == kLagInput);
}

/// What an input has before its first step.
template <class Pass>
__device__ __forceinline__ typename Pass::V start_of(const ScanTask& task, const RowPlaces<Pass>& at, int k) {
  if (is_moved(task, k)) return load_input(task, at, k, -1);
  if constexpr (Pass::kLags) {
    return Pass::Math::kLagStart;
  } else {
    return {};
  }
}

/// Every element takes the place of the next, and `first` that of the first.
template <class V>
__device__ __forceinline__ void move_on(V (&value)[kEight], V first) {
#pragma unroll
  for (int j = kEight - 1; j > 0; --j) value[j] = value[j - 1];
  value[0] = first;
}
template <class V>
__device__ __forceinline__ void move_back(V (&value)[kEight], V last) {
#pragma unroll
  for (int j = 0; j < kEight - 1; ++j) value[j] = value[j + 1];
  value[kEight - 1] = last;
}

/// The recurrence's last step has the initial state, if any, for the h before it. `s` is the first of the eight.
template <class Pass>
__device__ __forceinline__ void set_edge(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                         Eight<Pass>& e) {
  const std::int64_t last = task.length - 1 - s;
  if (last < 0 || last >= kEight || at.initial == nullptr) return;
  const auto initial = load_value<typename Pass::V>(at.initial, task.operand[kScanInitial].element);
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
    if (j == last) e.in[kLeadInput][j] = initial;
  }
}

/// The states of the eight, each combined with those before it. `lag` is what the step before left.
template <class Pass>
__device__ __forceinline__ void fold_eight(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                           std::int64_t before, typename Pass::V lag, Eight<Pass>& e) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
    V x[kScanInputs] = {};
#pragma unroll
    for (int k = 0; k < Pass::kInputs; ++k) {
      if (is_early<Pass>(k)) x[k] = e.in[k][j];
    }
    typename Pass::State state;
    if constexpr (Pass::kLags) {
      state = Math::lift(x, &lag);
    } else if constexpr (Pass::kBackward) {
      state = Math::lift(x, V(0));
    } else {
      state = Math::lift(x, static_cast<V>(before + task.position + (s + j) * task.position_step));
    }
    if constexpr (Pass::kBegins) {
      if (j == 0 && s == 0 && at.initial != nullptr) {
        x[2] = load_value<V>(at.initial, task.operand[kScanInitial].element);
        state = Math::begin(x);
      }
    }
    e.state[j] = j == 0 ? state : Math::combine(e.state[j - 1], state);
  }
}

/// Puts everything before in front of the eight states.
template <class Pass>
__device__ __forceinline__ void join_eight(const Open<typename Pass::Math>& before, Eight<Pass>& e) {
  using Math = typename Pass::Math;
  if (!before.any) return;
#pragma unroll
  for (int j = 0; j < kEight; ++j) e.state[j] = Math::combine(before.state, e.state[j]);
}

/// Output k of the eight joined states; of a scan the inclusive values.
template <class Pass>
__device__ __forceinline__ void values_of(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                          const Eight<Pass>& e, int k, typename Pass::V (&value)[kEight]) {
  using V = typename Pass::V;
  using Math = typename Pass::Math;
#pragma unroll
  for (int j = 0; j < kEight; ++j) {
    if constexpr (Pass::kBackward) {
      V x[kScanInputs] = {};
      V out[kScanOutputs] = {};
#pragma unroll
      for (int i = 0; i < Pass::kInputs; ++i) x[i] = e.in[i][j];
      bool whole = true;
      if constexpr (Pass::kLeads) whole = (s + j == task.length - 1 ? at.initial : at.in[kLeadInput]) != nullptr;
      Math::gradients(x, whole, static_cast<V>(task.position + (s + j) * task.position_step), e.state[j], out);
      value[j] = out[k];
    } else if constexpr (Math::kPositions) {
      value[j] = k == 0 ? Math::project(e.state[j]) : Math::position(e.state[j]);
    } else {
      value[j] = Math::project(e.state[j]);
    }
  }
}

/// The prefix before everything of the eight, for ScanValue::Before.
template <class Pass>
__device__ __forceinline__ typename Pass::V value_before(const ScanTask& task,
                                                         const Open<typename Pass::Math>& before) {
  if constexpr (Pass::kBackward) {
    return {};
  } else {
    return before.any ? Pass::Math::project(before.state) : from_word<typename Pass::V>(task.identity);
  }
}

/// The recurrence's gradient of the initial state, by the thread whose eight hold the last step. Before any result is
/// stored, as one may replace the a that it reads.
template <class Pass>
__device__ __forceinline__ void store_edge(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                           const Eight<Pass>& e) {
  if constexpr (Pass::kLeads) {
    const std::int64_t last = task.length - 1 - s;
    if (at.out[2] == nullptr || last < 0 || last >= kEight) return;
    typename Pass::State state{};
#pragma unroll
    for (int j = 0; j < kEight; ++j) {
      if (j == last) state = e.state[j];
    }
    const typename Pass::V x[kScanInputs] = {0, load_input(task, at, kLagInput, task.length - 1), 0};
    typename Pass::V out[kScanOutputs];
    Pass::Math::gradients(x, false, 0, state, out);
    store_value(at.out[2], task.operand[kScanOut + 2].element, out[2]);
  }
}

/// Whether values may be those of the step before.
template <class Pass>
inline constexpr bool kCanMove = !Pass::kBackward && Pass::kOutputs == 1;

/// Outputs with an element for every step.
template <class Pass>
inline constexpr int kStepOutputs = Pass::kLeads ? 2 : Pass::kOutputs;

/// Calls put(value, to, operand) with the eight values of every output that is wanted and the row it goes to. `first`
/// gives the exclusive value of the first of them for the inclusive one of the last.
template <class Pass, class First, class Put>
__device__ __forceinline__ void put_values(const ScanTask& task, const RowPlaces<Pass>& at, std::int64_t s,
                                           const Eight<Pass>& e, const Open<typename Pass::Math>& before,
                                           const First& first, const Put& put) {
#pragma unroll
  for (int k = 0; k < kStepOutputs<Pass>; ++k) {
    typename Pass::V value[kEight];
    if (at.out[k] == nullptr) continue;
    values_of(task, at, s, e, k, value);
    if constexpr (requires { Pass::Math::kFirstIsElement; }) {
      if (s == 0 && !before.any) value[0] = e.in[0][0];
    }
    if constexpr (kCanMove<Pass>) {
      if (task.value == ScanValue::Exclusive) move_on(value, first(value[kEight - 1]));
      if (task.value == ScanValue::Before) move_on(value, value_before<Pass>(task, before));
    }
    put(value, at.out[k], task.operand[kScanOut + k]);
  }
}

// ---- states as words ----

template <class State>
__device__ __forceinline__ State load_state(const std::int64_t* words) {
  State state;
  using V = std::remove_reference_t<decltype(state.part[0])>;
#pragma unroll
  for (int k = 0; k < static_cast<int>(sizeof(state) / sizeof(V)); ++k) state.part[k] = from_word<V>(words[k]);
  return state;
}
template <class State>
__device__ __forceinline__ void store_state(std::int64_t* words, const State& state) {
  constexpr int kParts = sizeof(state.part) / sizeof(state.part[0]);
#pragma unroll
  for (int k = 0; k < kParts; ++k) words[k] = to_word(state.part[k]);
}

}  // namespace planck::cuda
