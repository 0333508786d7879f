// The quantise family on CUDA: the shared formulas as operations of the elementwise engine and of the canonical sums.
//
// Scale and zero point are parameters: along a row in which they are broadcast they are loaded once, and 1 / scale is
// taken once. Zero points are limited to the range that the formulas are exact in, so that whatever a device tensor
// holds, codes stay inside [q_min, q_max].
#include "core/limits.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/entries.hpp"
#include "cuda/sums.cuh"
#include "quantize/descriptor_checks.hpp"
#include "quantize/job.hpp"
#include "quantize/scalar.hpp"

namespace planck::cuda {
namespace {

using quantize::Formula;
using quantize::QuantizeJob;

using core::kMaxZeroPoint;

/// The scale in the form that the run asks for: the same for all threads.
template <class C>
struct EitherScale {
  C scale;
  C inverse;
  bool reciprocal;
  PLANCK_MATH C steps(C x) const {
    return reciprocal ? scalar::ReciprocalScale<C>{scale, inverse}.steps(x) : scalar::DivideScale<C>{scale}.steps(x);
  }
};

/// Parameters of a segment, for every formula.
template <class C_>
struct QuantizeParams {
  using Compute = C_;
  using C = C_;
  static constexpr int kParams = 2;
  struct State {
    EitherScale<C> scale;
    scalar::CodeRange<C> range;
    C zero_point;
  };

  C q_min;
  C q_max;
  bool reciprocal;

  __device__ __forceinline__ State state(const C (&param)[kParams + 1]) const {
    constexpr C kMost = static_cast<C>(kMaxZeroPoint);
    const C zero_point = scalar::clamp(param[1], -kMost, kMost);
    const C inverse = reciprocal ? C(1) / param[0] : C(0);
    return {{param[0], inverse, reciprocal}, {q_min - zero_point, q_max - zero_point}, zero_point};
  }
};

template <Formula formula, class C>
struct QuantizeOp : QuantizeParams<C> {
  using State = typename QuantizeParams<C>::State;
  static constexpr bool kReadsGradient =
      formula == Formula::QuantizeBackward || formula == Formula::FakeQuantizeBackward;
  static constexpr int kTensors = kReadsGradient ? 2 : 1;
  static constexpr int kOutputs = 1;
  static constexpr int kStored = 1;

  __device__ __forceinline__ void operator()(const State& p, const C (&in)[kTensors], C (&out)[kOutputs]) const {
    if constexpr (formula == Formula::Quantize) {
      out[0] = scalar::quantize(in[0], p.scale, p.range, p.zero_point);
    } else if constexpr (formula == Formula::QuantizeBackward) {
      out[0] = scalar::quantize_backward(in[0], in[1], p.scale, p.range);
    } else if constexpr (formula == Formula::Dequantize) {
      out[0] = scalar::dequantize(in[0], p.scale.scale, p.zero_point);
    } else if constexpr (formula == Formula::DequantizeBackward) {
      out[0] = scalar::dequantize_backward(in[0], p.scale.scale);
    } else if constexpr (formula == Formula::FakeQuantize) {
      out[0] = scalar::fake_quantize(in[0], p.scale, p.range);
    } else {
      out[0] = scalar::fake_quantize_backward(in[0], in[1], p.scale, p.range);
    }
  }
};

/// dx and the terms of d_scale and d_zero_point.
template <class C>
struct LearnableOp : QuantizeParams<C> {
  using State = typename QuantizeParams<C>::State;
  static constexpr int kTensors = 2;
  static constexpr int kOutputs = 3;
  static constexpr int kStored = 1;
  static constexpr int kFirstSummed = 1;

  __device__ __forceinline__ void operator()(const State& p, const C (&in)[kTensors], C (&out)[kOutputs]) const {
    out[0] = scalar::fake_quantize_backward(in[0], in[1], p.scale, p.range);
    out[quantize::kDScale] = scalar::d_scale_term(in[0], in[1], p.scale, p.range);
    out[quantize::kDZeroPoint] = scalar::d_zero_point_term(in[0], in[1], p.scale, p.range);
  }
};

/// The job of an operation, with the same operands.
template <class Op>
ElementwiseJob<Op> job_of(const QuantizeJob& what) {
  using C = typename Op::Compute;
  ElementwiseJob<Op> job{{{static_cast<C>(what.q_min), static_cast<C>(what.q_max), what.form == ScaleForm::Reciprocal}},
                         *what.loop,
                         {},
                         {}};
  job.kind.fill(what.element);
  if (what.formula == Formula::Dequantize) job.kind[0] = what.codes;
  job.kind[Op::kTensors] = what.scale_element;
  job.kind[Op::kTensors + 1] = ElementKind::S32;
  if (what.formula == Formula::Quantize) job.kind[ElementwiseJob<Op>::kInputs] = what.codes;
  job.absent[Op::kTensors] = static_cast<C>(what.scale);
  job.absent[Op::kTensors + 1] = static_cast<C>(std::clamp(what.zero_point, -kMaxZeroPoint, kMaxZeroPoint));
  return job;
}

template <Formula formula, class C>
Status run_formula(const Run& run, const QuantizeJob& what) noexcept {
  return run_elementwise(run, job_of<QuantizeOp<formula, C>>(what));
}

template <class C>
Status run_learnable(const Run& run, const QuantizeJob& what) noexcept {
  using Op = LearnableOp<C>;
  ElementwiseJob<Op> job = job_of<Op>(what);
  job.loop.operands = ElementwiseJob<Op>::kInputs + 1;  // as far as dx
  job.loop.add_absent(what.element);
  job.loop.add_absent(what.element);
  return run_sums(run, job, what.sums, &what.loop->operand[ElementwiseJob<Op>::kInputs + 1]);
}

template <class C>
Status run_typed(const Run& run, const QuantizeJob& what) noexcept {
  if (what.sums.count > 0) return run_learnable<C>(run, what);
  switch (what.formula) {
    case Formula::Quantize:
      return run_formula<Formula::Quantize, C>(run, what);
    case Formula::QuantizeBackward:
      return run_formula<Formula::QuantizeBackward, C>(run, what);
    case Formula::Dequantize:
      return run_formula<Formula::Dequantize, C>(run, what);
    case Formula::DequantizeBackward:
      return run_formula<Formula::DequantizeBackward, C>(run, what);
    case Formula::FakeQuantize:
      return run_formula<Formula::FakeQuantize, C>(run, what);
    case Formula::FakeQuantizeBackward:
      return run_formula<Formula::FakeQuantizeBackward, C>(run, what);
    default:
      return {};
  }
}

}  // namespace

Status prepare_quantize(const QuantizeJob& job, Selection& selection) noexcept {
  PLANCK_TRY(quantize::check_device_codes(selection.request.plan, job.codes));
  if (job.sums.count > 0) selection.want_workspace(sums_workspace(*job.loop, job.sums.count));
  return {};
}

Status run_quantize(const Run& run, const QuantizeJob& job) noexcept {
  return job.element == ElementKind::F64 ? run_typed<double>(run, job) : run_typed<float>(run, job);
}

}  // namespace planck::cuda
