// Dynamic-range quantisation as plain loops, to be read beside docs/ops/dynamic_quantize.md.
#include "backend/reference.hpp"

#include "core/reference_loop.hpp"
#include "dynamic_range/job.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/granularity.hpp"
#include "quantize/scalar.hpp"

namespace planck::reference {
namespace {

using core::Cell;
using core::StridedLoop;
using scalar::widen;

using namespace quantize::dynamic_operand;

/// The segment that begins at `index`, as a loop over its own elements.
StridedLoop segment_at(const StridedLoop& loop, const core::LoopIndex& index) {
  StridedLoop segment = loop;
  for (int d = 0; d < loop.rank; ++d) {
    const bool kept = loop.operand[kScale].stride[d] != 0;
    if (kept) segment.extent[d] = 1;
    for (int k = 0; k < loop.operands; ++k) {
      if (segment.operand[k].base != nullptr) segment.operand[k].base += index[d] * loop.operand[k].stride[d];
    }
  }
  return segment;
}

template <class T, class Q, class S>
void run_segment(const StridedLoop& segment, const scalar::RangeRule& rule) {
  using C = scalar::Compute<T>;
  scalar::Range<C> range;
  core::for_each_index(segment, [&](const auto& cell) { range.add(widen<C>(cell(kInput).template get<T>())); });
  const auto qparams = scalar::dynamic_qparams<S>(range, rule);
  const auto at = [&](int k) { return Cell(segment.operand[k].base); };
  at(kScale).set(scalar::narrow<S>(qparams.scale));
  if (at(kZeroPoint).present()) at(kZeroPoint).set(qparams.zero_point);

  const auto zero_point = static_cast<C>(qparams.zero_point);
  const scalar::DivideScale<C> scale{qparams.scale};
  const scalar::CodeRange<C> codes{static_cast<C>(rule.q_min) - zero_point, static_cast<C>(rule.q_max) - zero_point};
  std::int32_t sum = 0;
  core::for_each_index(segment, [&](const auto& cell) {
    if (!cell(kOutput).present()) return;
    const C x = widen<C>(cell(kInput).template get<T>());
    const auto q = scalar::narrow<Q>(scalar::quantize_to<Q>(x, scale, codes, zero_point));
    cell(kOutput).set(q);
    if constexpr (std::is_integral_v<Q>) sum += q;
  });
  if (at(kRowSum).present()) at(kRowSum).set(sum);
}

}  // namespace

Status run_dynamic_range(const Run&, const quantize::DynamicRangeJob& job) noexcept {
  const quantize::SegmentSpace space(job.shape, job.scope);
  space.for_each_part([&](StridedLoop& loop, int part) {
    const auto add = [&](const AnyTensorMut* view, ElementKind element) {
      if (view != nullptr) {
        space.add_qparams(loop, part, *view);
      } else {
        loop.add_absent(element);
      }
    };
    space.add(loop, part, job.input);
    if (job.output != nullptr) {
      space.add(loop, part, *job.output);
    } else {
      loop.add_absent(job.codes);
    }
    add(job.zero_point, ElementKind::S32);
    add(job.row_sum, ElementKind::S32);
    add(&job.scale, job.scale_element);
    StridedLoop segments = loop;
    for (int d = 0; d < loop.rank; ++d) {
      if (loop.operand[kScale].stride[d] == 0) segments.extent[d] = 1;
    }
    if (loop.operand[kScale].base == nullptr) return;  // no segments at all
    numerics::with_float(job.element, [&]<class T>(T) {
      numerics::with_codes(job.codes, [&]<class Q>(Q) {
        numerics::with_float(job.scale_element, [&]<class S>(S) {
          if constexpr (std::is_same_v<S, T> || std::is_same_v<S, scalar::Compute<T>>) {
            core::for_each_loop_index(segments, [&](const core::LoopIndex& index) {
              run_segment<T, Q, S>(segment_at(loop, index), job.rule);
            });
          }
        });
      });
    });
  });
  return {};
}

}  // namespace planck::reference
