// The scans' plans: what the four of them share.
#pragma once

#include <optional>
#include <string_view>

#include "backend/plan_run.hpp"
#include "scan/carry.hpp"
#include "scan/job.hpp"

namespace planck::scan {

using backend::Run;
using core::OperandChecks;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;

/// One scan of the family, in the words that its parts share.
struct ScanProblem {
  ScanKey key;
  const Shape& shape;
  int axis;
  bool reverse;
  std::optional<ElementKind> offset_element;
  std::int64_t segments;
};

/// An axis counted from the end becomes one counted from the front.
inline int front_axis(int axis, const Shape& shape) { return axis < 0 ? axis + shape.rank() : axis; }

inline Shape with_extent(Shape shape, int axis, std::int64_t extent) {
  shape[axis] = extent;
  return shape;
}

inline ScanProblem problem_of(const ScanDescriptor& d) {
  return {{d.kind, d.element, d.ties, d.index_element, false, d.exclusive},
          d.input_shape,
          front_axis(d.scan_axis, d.input_shape),
          d.reverse,
          d.offset_element,
          d.segments};
}
inline ScanProblem problem_of(const LinearRecurrenceDescriptor& d) {
  return {{.kind = ScanKind::LinearRecurrence, .element = d.element, .initial = d.initial},
          d.input_shape,
          front_axis(d.scan_axis, d.input_shape),
          d.reverse,
          d.offset_element,
          d.segments};
}

/// Some gradients are the same scan from the other end.
inline ScanJob job_of(const ScanProblem& p, bool backward, StridedLoop* loop) {
  const bool turned = backward && p.key.row().own_reverse;
  ScanJob job{p.key, backward && !turned, p.reverse != turned, p.axis};
  job.loop = loop;
  if (p.offset_element) job.segments = Segments{.count = p.segments, .element = *p.offset_element};
  return job;
}

Status check_axis(std::string_view plan, std::string_view name, int axis, const Shape& shape) noexcept;

/// The choice of a backend, once the descriptor is checked.
Result<detail::PlanChoice> select_scan(std::string_view plan, const ScanProblem& p, bool backward, const Stream& stream,
                                       const PlanPreference& preference) noexcept;

/// Hands the job to the backend, its operands in scan order. Offsets are there exactly if the job has segments.
Status hand_over(const Run& run, ScanJob& job, const std::optional<AnyTensorRef>& offsets) noexcept;

template <class AnyTensor>
void add_or_absent(StridedLoop& loop, const std::optional<AnyTensor>& view, ElementKind element) {
  if (view) {
    loop.add(*view);
  } else {
    loop.add_absent(element);
  }
}

// ---- ragged batches ----

/// What a descriptor says of segments.
Status check_segments(std::string_view plan, const ScanProblem& p) noexcept;

/// Offsets are given exactly when the descriptor says of which kind.
Status add_offsets(OperandChecks& checks, std::string_view plan, const ScanProblem& p,
                   const std::optional<AnyTensorRef>& offsets) noexcept;

/// What offsets hold, checked last, where the backend reads them.
Status check_offsets_in(const Run& run, const ScanProblem& p, const std::optional<AnyTensorRef>& offsets) noexcept;

// ---- carries ----

Status check_piece(std::string_view plan, const ScanProblem& p, bool carry_in, bool carry_out) noexcept;

inline Shape carry_shape(const ScanProblem& p) { return with_extent(p.shape, p.axis, kScanCarryWords); }

template <class Args>
Status add_carries(OperandChecks& checks, std::string_view plan, const ScanProblem& p, const Args& a) noexcept {
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
std::optional<StridedLoop> carries_of(const ScanProblem& p, const Args& a) noexcept {
  if (!a.carry_in && !a.carry_out) return std::nullopt;
  StridedLoop loop(carry_shape(p));
  add_or_absent(loop, a.carry_in, ElementKind::S64);
  add_or_absent(loop, a.carry_out, ElementKind::S64);
  return loop;
}

template <class Args>
Status check_carry_in(std::string_view plan, const ScanProblem& p, const Args& a) noexcept {
  if (!a.carry_in) return {};
  return check_carry(plan, *carries_of(p, a), p.axis, p.key, p.shape[p.axis]);
}

}  // namespace planck::scan
