// The scans' plans: checks, the choice of a kernel, and how reverse and exclusive scans become plain ones.
#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "core/plan_parts.hpp"
#include "core/reference_loop.hpp"
#include "core/small_operands.hpp"
#include "core/workspace.hpp"
#include "cpu/parallel.hpp"
#include "numerics/storage.hpp"
#include "scan/carry.hpp"
#include "scan/cpu/columns.hpp"
#include "scan/cpu/rows.hpp"
#include "scan/feed.hpp"
#include "scan/ops.hpp"
#include "scan/scalar.hpp"

namespace planck {
namespace {

using core::fail;
using core::OperandChecks;
using core::printable;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;

/// What the plain loops of a backward pass keep of a lane without workspace.
constexpr std::int64_t kStackValues = 4096;

/// One scan of the family, in the words that its parts share.
struct Problem {
  scan::ScanKey key;
  const Shape& shape;
  int axis;
  bool reverse;
};

/// An axis counted from the end becomes one counted from the front.
int front_axis(int axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

Shape with_extent(Shape shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

Problem problem_of(const ScanDescriptor& d) {
  return {{d.kind, d.element, d.ties, d.index_element, false, d.exclusive},
          d.input_shape,
          front_axis(d.scan_axis, d.input_shape),
          d.reverse};
}
Problem problem_of(const LinearRecurrenceDescriptor& d) {
  return {{.kind = ScanKind::LinearRecurrence, .element = d.element, .initial = d.initial},
          d.shape,
          front_axis(d.axis, d.shape),
          d.reverse};
}

Status check_axis(std::string_view plan, std::string_view name, int axis, const Shape& shape) noexcept {
  const int counted = front_axis(axis, shape);
  if (counted >= 0 && counted < shape.rank()) return {};
  return fail(Text::AxisOutOfRange, {plan, name, axis, shape});
}

/// What a scan keeps for each lane.
cpu::LaneStates states_of(const scan::ScanKey& key, bool backward) {
  const bool extremum = scan::is_extremum(key.kind);
  if (!backward || key.kind == ScanKind::Cumsum) {
    const bool one = extremum ? !key.indices : key.kind == ScanKind::Cumsum || key.kind == ScanKind::Cumprod;
    return {one ? 1 : 2};
  }
  const int feed_parts = key.kind == ScanKind::Cumprod ? 1 : 2;
  return {2, key.kind != ScanKind::LogCumsumExp, scan::is_fed(key) ? feed_parts : 0};
}

PrecisionGuarantee precision_of(const scan::ScanKey& key) {
  PrecisionGuarantee guarantee = core::precision_of(key.element, true);
  if (!is_float(key.element)) guarantee.accumulator = ElementKind::S64;
  return guarantee;
}

/// A gradient of Cumsum is the sum from the other end.
core::DeviceScan device_job(const Problem& p, bool backward, int inputs = 0, int outputs = 0) {
  const bool sum = backward && p.key.kind == ScanKind::Cumsum;
  return {p.key, backward && !sum, p.reverse != sum, p.axis, inputs, outputs};
}

Result<PlanChoice> select_scan(std::string_view plan, const Problem& p, bool backward, const Stream& stream,
                               const PlanPreference& preference) noexcept {
  core::KernelRequest request;
  request.plan = plan;
  scan::with_element(p.key.element, [&]<class T>(T) { request.rows = cpu::scan_kernels<T>; });
  request.kernel = scan::kernel_row(p.key, nullptr, backward);
  if (const core::DeviceBackend* const device = core::device_backend(stream)) {
    request.workspace_bytes = device->scan_workspace(device_job(p, backward), p.shape);
    request.precision = precision_of(p.key);
    return core::choose_kernel(request, stream, preference);
  }
  const std::int64_t length = p.shape[p.axis];
  const std::int64_t lanes = length == 0 ? 0 : core::numel(p.shape) / length;
  // An exclusive scan has one element less, and that may be cut otherwise.
  for (const std::int64_t scanned : {length, p.key.exclusive ? length - 1 : length}) {
    request.workspace_bytes =
        std::max(request.workspace_bytes,
                 cpu::lane_scan_workspace(lanes, scanned, states_of(p.key, backward), stream.threads()));
  }
  request.precision = precision_of(p.key);
  return core::choose_kernel(request, stream, preference);
}

cpu::LaneScan inclusive_scan(const Problem& p, const PlanChoice& choice, const StridedLoop& loop) {
  cpu::LaneScan scan{*choice.kernel->scan, loop, p.axis, p.reverse};
  if (p.key.initial) scan.edge = cpu::ScanEdge::First;
  return scan;
}

/// The engine goes on from totals and leaves totals; what else a carry holds is put beside them.
void run_with_carries(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                      StridedLoop loop, const StridedLoop& carries) noexcept {
  cpu::LaneScan scan = inclusive_scan(p, choice, loop);
  const std::int64_t length = loop.extent[p.axis];
  for (const int k : {scan::kCarryIn, scan::kCarryOut}) {
    core::LoopOperand& totals = loop.operand[loop.operands++] = carries.operand[k];
    const std::int64_t word = totals.stride[p.axis];
    if (totals.base != nullptr) totals.base += scan::kCarryTotals * word;
    totals.stride[p.axis] = 0;
    (k == scan::kCarryIn ? scan.carry.in_word : scan.carry.out_word) = word;
  }
  scan.carry.before = scan::carry_before(&carries, p.axis, {}, p.key)[scan::kCarryBefore];
  cpu::run_lane_scan(stream, scan, workspace);
  if (!scan::has_carry(&carries, scan::kCarryOut)) return;
  scan::for_each_lane(carries, p.axis, [&](core::LoopIndex lane) {
    const scan::CarryWords words = scan::carry_before(&carries, p.axis, lane, p.key);
    for (const int k : {scan::kCarryId, scan::kCarryBefore, scan::kCarryValue}) {
      lane[p.axis] = k;
      core::cell_at(carries, lane, scan::kCarryOut).set(words[k] + (k == scan::kCarryBefore ? length : 0));
    }
  });
}

/// An inclusive scan. Operands: inputs, output, indices (if any), initial state (or absent); the axis runs in scan
/// order.
void run_inclusive(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                   const StridedLoop& loop, const StridedLoop* carries) noexcept {
  if (choice.kernel == nullptr) return scan::reference::run(loop, p.axis, p.reverse, p.key, carries);
  if (carries != nullptr) return run_with_carries(p, choice, stream, workspace, loop, *carries);
  cpu::run_lane_scan(stream, inclusive_scan(p, choice, loop), workspace);
}

/// A backward pass over operands that run along the axis in scan order: inputs, gradients, initial state (or absent).
void run_backward(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                  int inputs, int outputs, bool cuttable, StridedLoop loop) noexcept {
  if (loop.count() == 0) return;
  loop.flip_dim(p.axis);
  const bool recurrence = p.key.kind == ScanKind::LinearRecurrence;
  if (recurrence && loop.operand[scan::reference::kH].base != nullptr) {
    auto& h = loop.operand[scan::reference::kH];
    h.base += h.stride[p.axis];  // each step reads the h before its own
  }
  if (choice.kernel != nullptr) {
    cpu::LaneScan scan{*choice.kernel->scan, loop, p.axis, !p.reverse};
    if (recurrence) scan.edge = cpu::ScanEdge::Last;
    scan.cuttable = cuttable;
    if (cpu::run_lane_scan(stream, scan, workspace)) return;
  }
  const std::int64_t lanes = loop.count() / loop.extent[p.axis];
  const std::int64_t shares = choice.kernel == nullptr ? 1 : std::min<std::int64_t>(lanes, stream.threads());
  const std::span<double> memory = core::values_in<double>(workspace);
  const std::int64_t room = std::ssize(memory) / shares;
  const auto body = [&](std::int64_t begin, std::int64_t end) noexcept {
    double stack[kStackValues];
    for (std::int64_t share = begin; share < end; ++share) {
      const scan::reference::LaneMemory own = room > kStackValues
                                                  ? scan::reference::LaneMemory{memory.data() + share * room, room}
                                                  : scan::reference::LaneMemory{stack, kStackValues};
      scan::reference::backward(loop, p.axis, {inputs, outputs, !p.reverse}, p.key, lanes * share / shares,
                                lanes * (share + 1) / shares, own);
    }
  };
  cpu::for_each_range(stream, shares, loop.count() / shares * loop.element_bytes(), body);
}

template <class AnyTensor>
void add_or_absent(StridedLoop& loop, const std::optional<AnyTensor>& view, ElementKind element) {
  if (view) {
    loop.add(*view);
  } else {
    loop.add_absent(element);
  }
}

// ---- carries ----

Status check_piece(std::string_view plan, const Problem& p, bool carry_in, bool carry_out) noexcept {
  if ((carry_in || carry_out) && p.reverse && p.key.indices) {
    return fail(Text::CarryUnsupported, {plan, carry_in ? "carry_in" : "carry_out"});
  }
  const std::int64_t length = p.shape[p.axis];
  if (carry_out && length % scan::kCarryBlock != 0) return fail(Text::PieceLength, {plan, scan::kCarryBlock, length});
  return {};
}

Shape carry_shape(const Problem& p) { return with_extent(p.shape, p.axis, kScanCarryWords); }

template <class Args>
Status add_carries(OperandChecks& checks, std::string_view plan, const Problem& p, const Args& a) noexcept {
  if (!a.carry_in && !a.carry_out) return {};
  const Shape shape = carry_shape(p);
  if (a.carry_in) {
    PLANCK_TRY(core::check_shape(plan, "carry_in", shape));
    PLANCK_TRY(checks.add({"carry_in", Role::CarryInput, *a.carry_in, ElementKind::S64, &shape}));
  }
  if (a.carry_out) {
    PLANCK_TRY(core::check_shape(plan, "carry_out", shape));
    PLANCK_TRY(checks.add({"carry_out", Role::CarryOutput, *a.carry_out, ElementKind::S64, &shape}));
  }
  return {};
}

/// The loop over a run's carries, if it has any.
template <class Args>
std::optional<StridedLoop> carries_of(const Problem& p, const Args& a) noexcept {
  if (!a.carry_in && !a.carry_out) return std::nullopt;
  StridedLoop loop(carry_shape(p));
  add_or_absent(loop, a.carry_in, ElementKind::S64);
  add_or_absent(loop, a.carry_out, ElementKind::S64);
  return loop;
}

template <class Args>
Status check_carry_in(std::string_view plan, const Problem& p, const Args& a) noexcept {
  if (!a.carry_in) return {};
  return scan::check_carry(plan, *carries_of(p, a), p.axis, p.key, p.shape[p.axis]);
}

/// What a piece without elements does: it passes on what it got.
void pass_on(const Problem& p, const std::optional<StridedLoop>& carries) noexcept {
  if (!carries || !scan::has_carry(&*carries, scan::kCarryOut)) return;
  scan::for_each_lane(*carries, p.axis, [&](const core::LoopIndex& lane) {
    scan::store_carry(*carries, p.axis, lane, scan::carry_before(&*carries, p.axis, lane, p.key));
  });
}

/// +0 in every element of one operand.
void store_zeros(const StridedLoop& loop, int operand, ElementKind element) {
  scan::with_element(element, [&]<class T>(T zero) {
    core::for_each_index(loop, [&](const auto& cell) { cell(operand).set(zero); });
  });
}

/// A forward scan on a device, also of a piece without elements, which passes on what it got.
Status launch_forward(const core::DeviceBackend& backend, const core::DeviceRun& run, const Problem& p,
                      core::DeviceScan job, StridedLoop& loop, const std::optional<StridedLoop>& carries) noexcept {
  if (p.reverse) loop.flip_dim(p.axis);
  if (carries) job.carries = &*carries;
  return backend.scan(run, job, loop);
}

// ---- Scan ----

/// Indices are given exactly when the descriptor says of which kind.
template <class AnyTensor>
Status check_indices(std::string_view plan, const ScanDescriptor& d, const std::optional<AnyTensor>& indices) noexcept {
  if (d.index_element && !indices) {
    return fail(Text::ArgumentMissing, {plan, "indices", "a descriptor with index_element"});
  }
  if (!d.index_element && indices) {
    return fail(Text::ArgumentUnexpected, {plan, "indices", "the descriptor has no index_element"});
  }
  return {};
}

/// Moves n elements one place on, all but the last.
void move_on(std::byte* lane, std::int64_t n, std::int64_t step, std::int64_t element_bytes) {
  for (std::int64_t t = n - 1; t > 0; --t) {
    std::memcpy(lane + t * step, lane + (t - 1) * step, static_cast<std::size_t>(element_bytes));
  }
}

/// Inclusive over all but the last element, one place further on; the prefix before comes first. In place, where the
/// results' places still hold elements, they are moved on afterwards; so they are if there are carries, as the next
/// piece needs the last element too.
void run_exclusive(const Problem& p, const PlanChoice& choice, const Stream& stream, const Workspace& workspace,
                   StridedLoop loop, const StridedLoop* carries) noexcept {
  const std::int64_t n = loop.extent[p.axis];
  auto& y = loop.operand[1];
  const std::int64_t step = y.stride[p.axis];
  const bool moved = carries != nullptr || loop.operand[0].base == y.base;
  std::byte* const first = y.base;
  if (carries == nullptr) loop.extent[p.axis] = n - 1;
  if (!moved) y.base += step;
  run_inclusive(p, choice, stream, workspace, loop, carries);
  y.base = first;
  loop.extent[p.axis] = 1;
  scan::with_element(p.key.element, [&]<class T>(T) {
    core::for_each_loop_index(loop, [&](core::LoopIndex index) {
      const core::Cell to = core::cell_at(loop, index, 1);
      T before = scan::from_word<T>(scan::identity_word(p.key));
      index[p.axis] = scan::kCarryValue;
      if (scan::has_carry(carries, scan::kCarryIn)) {
        before = scan::from_word<T>(core::cell_at(*carries, index, scan::kCarryIn).get<std::int64_t>());
      }
      if (scan::has_carry(carries, scan::kCarryOut)) {
        const T last = core::Cell(to.address() + (n - 1) * step).get<T>();
        core::cell_at(*carries, index, scan::kCarryOut).set(scan::to_word(last));
      }
      if (moved) move_on(to.address(), n, step, sizeof(T));
      to.set(before);
    });
  });
}

struct ScanParts {
  static constexpr std::string_view kPlan = "ScanPlan";
  static std::string_view name(const ScanDescriptor&) { return kPlan; }

  static Status check_descriptor(std::string_view plan, const ScanDescriptor& d, bool backward) noexcept {
    const bool integers = d.element == ElementKind::S32 || d.element == ElementKind::S64;
    const bool known = static_cast<std::int32_t>(d.kind) >= 0 && d.kind <= ScanKind::LogCumsumExp;
    if (!known) return fail(Text::KindUnsupported, {plan, static_cast<std::int32_t>(d.kind)});
    const bool scanned = is_float(d.element) || (integers && !backward && d.kind != ScanKind::LogCumsumExp);
    if (!scanned) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
    const bool extremum = scan::is_extremum(d.kind);
    if (d.exclusive && extremum) return fail(Text::ExclusiveUnsupported, {plan, to_string(d.kind)});
    PLANCK_TRY(core::check_shape(plan, "input_shape", d.input_shape));
    PLANCK_TRY(check_axis(plan, "scan_axis", d.scan_axis, d.input_shape));
    if (d.ties != ScanTies::First && d.ties != ScanTies::Last) {
      return fail(Text::TiesUnknown, {plan, static_cast<std::int32_t>(d.ties)});
    }
    if (!d.index_element) return {};
    if (!extremum) {
      return fail(Text::ArgumentUnexpected, {plan, "index_element", "only Cummax and Cummin have indices"});
    }
    if (*d.index_element != ElementKind::S32 && *d.index_element != ElementKind::S64) {
      return fail(Text::ElementUnsupported, {plan, "index_element", printable(*d.index_element)});
    }
    const std::int64_t length = d.input_shape[front_axis(d.scan_axis, d.input_shape)];
    if (*d.index_element == ElementKind::S32 && length - 1 > std::numeric_limits<std::int32_t>::max()) {
      return fail(Text::IndicesTooLong, {plan, length});
    }
    return {};
  }

  static Result<PlanChoice> select(const Stream& stream, const ScanDescriptor& d, const PlanPreference& preference,
                                   std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(check_descriptor(kPlan, d, false));
    return select_scan(kPlan, problem_of(d), false, stream, preference);
  }

  /// One short row, from x to y alone.
  static bool run_small(const ScanDescriptor& d, const cpu::KernelRow& kernel, const ScanArgs& a) noexcept {
    core::SmallOperands operands(d.input_shape);
    const std::int64_t n = operands.elements();
    if (!operands.has_work() || d.input_shape[front_axis(d.scan_axis, d.input_shape)] != n || d.exclusive ||
        d.index_element || a.indices || a.carry_in || a.carry_out || kernel.scan->row == nullptr) {
      return false;
    }
    if (!operands.add_input(a.x, d.element) || !operands.add_output(a.y, d.element)) return false;
    const std::int64_t first = d.reverse ? (n - 1) * size_of(d.element) : 0;
    cpu::RowRun run{};
    run.input[0] = static_cast<const std::byte*>(operands.data()[0]) + first;
    run.output[0] = static_cast<std::byte*>(operands.data()[1]) + first;
    run.input_back[0] = run.output_back[0] = d.reverse;
    run.n = n;
    run.position = d.reverse ? n - 1 : 0;
    run.position_step = d.reverse ? -1 : 1;
    run.lag = kernel.scan->lag_start;
    run.writes = true;
    kernel.scan->row(run);
    return true;
  }

  static Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanArgs& a) noexcept {
    const Problem p = problem_of(d);
    PLANCK_TRY(check_indices(kPlan, d, a.indices));
    PLANCK_TRY(check_piece(kPlan, p, a.carry_in.has_value(), a.carry_out.has_value()));
    PLANCK_TRY(checks.add({"x", Role::Input, a.x, d.element, &d.input_shape}));
    PLANCK_TRY(checks.add({"y", Role::Output, a.y, d.element, &d.input_shape}));
    if (a.indices) {
      PLANCK_TRY(checks.add({"indices", Role::SummedOutput, *a.indices, *d.index_element, &d.input_shape}));
    }
    PLANCK_TRY(add_carries(checks, kPlan, p, a));
    return checks.check_overlaps();
  }

  static Status check_contents(const ScanDescriptor& d, const ScanArgs& a) noexcept {
    return check_carry_in(kPlan, problem_of(d), a);
  }

  static void execute(const ScanDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace& workspace, const ScanArgs& a) noexcept {
    const Problem p = problem_of(d);
    const std::optional<StridedLoop> carries = carries_of(p, a);
    if (core::numel(d.input_shape) == 0) return pass_on(p, carries);
    StridedLoop loop(d.input_shape);
    loop.add(a.x);
    loop.add(a.y);
    if (a.indices) loop.add(*a.indices);
    loop.add_absent(d.element);
    if (d.reverse) loop.flip_dim(p.axis);
    const StridedLoop* passed = carries ? &*carries : nullptr;
    d.exclusive ? run_exclusive(p, choice, stream, workspace, loop, passed)
                : run_inclusive(p, choice, stream, workspace, loop, passed);
  }

  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const ScanDescriptor& d,
                       const ScanArgs& a) noexcept {
    const Problem p = problem_of(d);
    StridedLoop loop(d.input_shape);
    loop.add(a.x);
    loop.add(a.y);
    if (a.indices) loop.add(*a.indices);
    loop.add_absent(d.element);
    return launch_forward(backend, run, p, device_job(p, false, 1, a.indices ? 2 : 1), loop, carries_of(p, a));
  }
};

struct ScanBackwardParts {
  static constexpr std::string_view kPlan = "ScanBackwardPlan";
  static std::string_view name(const ScanDescriptor&) { return kPlan; }

  static Result<PlanChoice> select(const Stream& stream, const ScanDescriptor& d, const PlanPreference& preference,
                                   std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(ScanParts::check_descriptor(kPlan, d, true));
    return select_scan(kPlan, problem_of(d), true, stream, preference);
  }

  static bool needs_x(const ScanDescriptor& d) {
    return d.kind == ScanKind::Cumprod || d.kind == ScanKind::LogCumsumExp ||
           (scan::is_extremum(d.kind) && !d.index_element);
  }
  static bool needs_y(const ScanDescriptor& d) {
    return d.kind == ScanKind::LogCumsumExp && !scan::is_fed(problem_of(d).key);
  }

  static Status check(OperandChecks& checks, const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
    if (needs_x(d) && !a.x) return fail(Text::ArgumentMissing, {kPlan, "x", to_string(d.kind)});
    if (needs_y(d) && !a.y) return fail(Text::ArgumentMissing, {kPlan, "y", to_string(d.kind)});
    PLANCK_TRY(check_indices(kPlan, d, a.indices));
    PLANCK_TRY(checks.add({"dy", Role::Input, a.dy, d.element, &d.input_shape}));
    if (a.x) PLANCK_TRY(checks.add({"x", Role::Input, *a.x, d.element, &d.input_shape}));
    if (a.y) PLANCK_TRY(checks.add({"y", Role::Input, *a.y, d.element, &d.input_shape}));
    if (a.indices) PLANCK_TRY(checks.add({"indices", Role::Input, *a.indices, *d.index_element, &d.input_shape}));
    PLANCK_TRY(checks.add({"dx", Role::Output, a.dx, d.element, &d.input_shape}));
    return checks.check_overlaps();
  }

  static void execute(const ScanDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace& workspace, const ScanBackwardArgs& a) noexcept {
    if (core::numel(d.input_shape) == 0) return;
    const Problem p = problem_of(d);
    if (d.kind == ScanKind::Cumsum) {
      ScanDescriptor other = d;
      other.reverse = !d.reverse;
      return ScanParts::execute(other, choice, stream, workspace, {a.dy, a.dx, std::nullopt});
    }
    StridedLoop loop = operands(d, a);
    const int inputs = loop.operands - 2;
    if (d.reverse) loop.flip_dim(p.axis);
    const bool over_x = needs_x(d) && loop.operand[scan::reference::kX].base == loop.operand[inputs].base;
    const bool cuttable = !over_x || (!scan::is_fed(p.key) && !d.exclusive);
    if (d.exclusive) {
      // y[t + 1] is made of x[0] … x[t]: the inclusive pass with dy and y one place further on. Nothing uses the last
      // x.
      StridedLoop ends = loop;
      const std::int64_t n = loop.extent[p.axis]--;
      auto& dx = loop.operand[inputs];
      const auto moves = [&](int k) { loop.operand[k].base += loop.operand[k].stride[p.axis]; };
      // In place dx moves on too, as a place before still holds what a later step reads, and is moved back afterwards.
      bool in_place = false;
      for (int k = 0; k < inputs; ++k) in_place |= loop.operand[k].base == dx.base;
      moves(0);
      if (needs_y(d)) moves(inputs - 1);
      if (in_place) moves(inputs);
      run_backward(p, choice, stream, workspace, inputs, 1, cuttable, loop);
      ends.flip_dim(p.axis);
      ends.extent[p.axis] = 1;
      const std::int64_t step = ends.operand[inputs].stride[p.axis];
      if (in_place) {
        core::for_each_index(ends,
                             [&](const auto& cell) { move_on(cell(inputs).address(), n, step, dx.element_bytes); });
      }
      return store_zeros(ends, inputs, d.element);
    }
    run_backward(p, choice, stream, workspace, inputs, 1, cuttable, loop);
  }

  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const ScanDescriptor& d,
                       const ScanBackwardArgs& a) noexcept {
    if (d.kind == ScanKind::Cumsum) {
      ScanDescriptor other = d;
      other.reverse = !d.reverse;
      return ScanParts::launch(backend, run, other, {a.dy, a.dx, std::nullopt});
    }
    const Problem p = problem_of(d);
    StridedLoop loop = operands(d, a);
    if (d.reverse) loop.flip_dim(p.axis);
    return backend.scan(run, device_job(p, true, loop.operands - 2, 1), loop);
  }

 private:
  /// The inputs that the kind needs, dx, and no initial state.
  static StridedLoop operands(const ScanDescriptor& d, const ScanBackwardArgs& a) noexcept {
    StridedLoop loop(d.input_shape);
    loop.add(a.dy);
    if (needs_x(d)) loop.add(*a.x);
    if (a.indices) loop.add(*a.indices);
    if (needs_y(d)) loop.add(*a.y);
    loop.add(a.dx);
    loop.add_absent(d.element);
    return loop;
  }
};

// ---- LinearRecurrence ----

struct LinearRecurrenceParts {
  static constexpr std::string_view kPlan = "LinearRecurrencePlan";
  static std::string_view name(const LinearRecurrenceDescriptor&) { return kPlan; }

  static Status check_descriptor(std::string_view plan, const LinearRecurrenceDescriptor& d) noexcept {
    if (!is_float(d.element)) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
    PLANCK_TRY(core::check_shape(plan, "shape", d.shape));
    return check_axis(plan, "axis", d.axis, d.shape);
  }

  static Result<PlanChoice> select(const Stream& stream, const LinearRecurrenceDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(check_descriptor(kPlan, d));
    return select_scan(kPlan, problem_of(d), false, stream, preference);
  }

  static Shape initial_shape(const LinearRecurrenceDescriptor& d) {
    return with_extent(d.shape, front_axis(d.axis, d.shape), 1);
  }

  static Status check(OperandChecks& checks, const LinearRecurrenceDescriptor& d,
                      const LinearRecurrenceArgs& a) noexcept {
    if (d.initial && !a.initial)
      return fail(Text::ArgumentMissing, {kPlan, "initial", "a descriptor that says initial"});
    if (!d.initial && a.initial) {
      return fail(Text::ArgumentUnexpected, {kPlan, "initial", "the descriptor does not say initial"});
    }
    if (d.initial && a.carry_in) {
      return fail(Text::ArgumentUnexpected,
                  {kPlan, "carry_in", "the descriptor says initial, which is the first piece's"});
    }
    const Problem p = problem_of(d);
    PLANCK_TRY(check_piece(kPlan, p, a.carry_in.has_value(), a.carry_out.has_value()));
    PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &d.shape}));
    PLANCK_TRY(checks.add({"b", Role::Input, a.b, d.element, &d.shape}));
    const Shape segment = initial_shape(d);
    if (a.initial) PLANCK_TRY(checks.add({"initial", Role::Input, *a.initial, d.element, &segment}));
    PLANCK_TRY(checks.add({"h", Role::Output, a.h, d.element, &d.shape}));
    PLANCK_TRY(add_carries(checks, kPlan, p, a));
    return checks.check_overlaps();
  }

  static Status check_contents(const LinearRecurrenceDescriptor& d, const LinearRecurrenceArgs& a) noexcept {
    return check_carry_in(kPlan, problem_of(d), a);
  }

  static void execute(const LinearRecurrenceDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace& workspace, const LinearRecurrenceArgs& a) noexcept {
    const Problem p = problem_of(d);
    const std::optional<StridedLoop> carries = carries_of(p, a);
    if (core::numel(d.shape) == 0) return pass_on(p, carries);
    StridedLoop loop(d.shape);
    loop.add(a.a);
    loop.add(a.b);
    loop.add(a.h);
    add_or_absent(loop, a.initial, d.element);
    if (d.reverse) loop.flip_dim(p.axis);
    run_inclusive(p, choice, stream, workspace, loop, carries ? &*carries : nullptr);
  }

  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run,
                       const LinearRecurrenceDescriptor& d, const LinearRecurrenceArgs& a) noexcept {
    const Problem p = problem_of(d);
    StridedLoop loop(d.shape);
    loop.add(a.a);
    loop.add(a.b);
    loop.add(a.h);
    add_or_absent(loop, a.initial, d.element);
    return launch_forward(backend, run, p, device_job(p, false, 2, 1), loop, carries_of(p, a));
  }
};

struct LinearRecurrenceBackwardParts {
  static constexpr std::string_view kPlan = "LinearRecurrenceBackwardPlan";
  static std::string_view name(const LinearRecurrenceDescriptor&) { return kPlan; }

  static Result<PlanChoice> select(const Stream& stream, const LinearRecurrenceDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    PLANCK_TRY(core::check_type_parameter(kPlan, "element", expected, 0, d.element));
    PLANCK_TRY(LinearRecurrenceParts::check_descriptor(kPlan, d));
    return select_scan(kPlan, problem_of(d), true, stream, preference);
  }

  static Status check(OperandChecks& checks, const LinearRecurrenceDescriptor& d,
                      const LinearRecurrenceBackwardArgs& a) noexcept {
    if (!a.da && !a.db && !a.d_initial) return fail(Text::NoOutput, {kPlan, "da, db, d_initial"});
    if (a.da && !a.h) return fail(Text::ArgumentMissing, {kPlan, "h", "da"});
    if (a.da && d.initial && !a.initial) return fail(Text::ArgumentMissing, {kPlan, "initial", "da"});
    if (!d.initial && (a.initial || a.d_initial)) {
      return fail(Text::ArgumentUnexpected,
                  {kPlan, a.initial ? "initial" : "d_initial", "the descriptor does not say initial"});
    }
    const Shape start = LinearRecurrenceParts::initial_shape(d);
    PLANCK_TRY(checks.add({"dh", Role::Input, a.dh, d.element, &d.shape}));
    PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &d.shape}));
    if (a.h) PLANCK_TRY(checks.add({"h", Role::Input, *a.h, d.element, &d.shape}));
    if (a.initial) PLANCK_TRY(checks.add({"initial", Role::Input, *a.initial, d.element, &start}));
    if (a.da) PLANCK_TRY(checks.add({"da", Role::Output, *a.da, d.element, &d.shape}));
    if (a.db) PLANCK_TRY(checks.add({"db", Role::Output, *a.db, d.element, &d.shape}));
    if (a.d_initial) PLANCK_TRY(checks.add({"d_initial", Role::SummedOutput, *a.d_initial, d.element, &start}));
    return checks.check_overlaps();
  }

  static void execute(const LinearRecurrenceDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace& workspace, const LinearRecurrenceBackwardArgs& a) noexcept {
    if (core::numel(d.shape) == 0) return zero_initial(d, a);
    const Problem p = problem_of(d);
    StridedLoop loop = operands(d, a);
    if (d.reverse) loop.flip_dim(p.axis);
    const std::byte* h = loop.operand[scan::reference::kH].base;
    const bool cuttable = h == nullptr || (loop.operand[3].base != h && loop.operand[4].base != h);
    run_backward(p, choice, stream, workspace, 3, 3, cuttable, loop);
  }

  /// Also of an axis without elements, where d_initial is +0.
  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run,
                       const LinearRecurrenceDescriptor& d, const LinearRecurrenceBackwardArgs& a) noexcept {
    const Problem p = problem_of(d);
    StridedLoop loop = operands(d, a);
    if (d.reverse) loop.flip_dim(p.axis);
    return backend.scan(run, device_job(p, true, 3, 3), loop);
  }

 private:
  static StridedLoop operands(const LinearRecurrenceDescriptor& d, const LinearRecurrenceBackwardArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.dh);
    loop.add(a.a);
    add_or_absent(loop, a.da ? a.h : std::nullopt, d.element);
    add_or_absent(loop, a.da, d.element);
    add_or_absent(loop, a.db, d.element);
    add_or_absent(loop, a.d_initial, d.element);
    add_or_absent(loop, a.da ? a.initial : std::nullopt, d.element);
    return loop;
  }

  /// No element uses the initial state.
  static void zero_initial(const LinearRecurrenceDescriptor& d, const LinearRecurrenceBackwardArgs& a) {
    if (!a.d_initial) return;
    StridedLoop loop(a.d_initial->shape);
    loop.add(*a.d_initial);
    store_zeros(loop, 0, d.element);
  }
};

}  // namespace

PLANCK_DEFINE_OP(Scan)
PLANCK_DEFINE_OP(ScanBackward)
PLANCK_DEFINE_OP(LinearRecurrence)
PLANCK_DEFINE_OP(LinearRecurrenceBackward)

}  // namespace planck
