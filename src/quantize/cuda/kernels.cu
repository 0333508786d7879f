// The quantise family on CUDA: the shared formulas as operations of the elementwise engine and of the canonical sums.
//
// Scale and zero point are parameters: along a row in which they are broadcast they are loaded once, and 1 / scale is
// taken once. Zero points are limited to the range that the formulas are exact in, so that whatever a device tensor
// holds, codes stay inside [q_min, q_max].
#include "cuda/elementwise.cuh"
#include "cuda/entries.hpp"
#include "cuda/sums.cuh"
#include "quantize/scalar.hpp"

namespace planck::cuda {
namespace {

using quantize::Formula;

constexpr std::int64_t kMaxZeroPoint = std::int64_t{1} << 20;

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

/// The job of an operation whose operands are those of `loop`.
template <class Op>
Job<Op> job_of(const core::DeviceQuantize& what, const core::StridedLoop& loop) {
  using C = typename Op::Compute;
  const quantize::reference::Problem& p = what.problem;
  Job<Op> job{{{static_cast<C>(p.q_min), static_cast<C>(p.q_max), p.form == ScaleForm::Reciprocal}}, loop, {}, {}};
  job.kind.fill(p.element);
  if (p.formula == Formula::Dequantize) job.kind[0] = p.codes;
  job.kind[Op::kTensors] = p.scale;
  job.kind[Op::kTensors + 1] = ElementKind::S32;
  if (p.formula == Formula::Quantize) job.kind[Job<Op>::kInputs] = p.codes;
  job.absent[Op::kTensors] = static_cast<C>(what.scale);
  job.absent[Op::kTensors + 1] = static_cast<C>(std::clamp(what.zero_point, -kMaxZeroPoint, kMaxZeroPoint));
  return job;
}

template <Formula formula, class C>
core::Status run_formula(const core::DeviceRun& run, const core::DeviceQuantize& what,
                         const core::StridedLoop& loop) noexcept {
  return run_elementwise(run, job_of<QuantizeOp<formula, C>>(what, loop));
}

template <class C>
core::Status run_learnable(const core::DeviceRun& run, const core::DeviceQuantize& what,
                           const core::StridedLoop& loop) noexcept {
  using Op = LearnableOp<C>;
  Job<Op> job = job_of<Op>(what, loop);
  job.loop.operands = Job<Op>::kInputs + 1;  // as far as dx
  job.loop.add_absent(what.problem.element);
  job.loop.add_absent(what.problem.element);
  return run_sums(run, job, what.sums, &loop.operand[Job<Op>::kInputs + 1]);
}

template <class C>
core::Status run_typed(const core::DeviceRun& run, const core::DeviceQuantize& what,
                       const core::StridedLoop& loop) noexcept {
  if (what.sums.count > 0) return run_learnable<C>(run, what, loop);
  switch (what.problem.formula) {
    case Formula::Quantize:
      return run_formula<Formula::Quantize, C>(run, what, loop);
    case Formula::QuantizeBackward:
      return run_formula<Formula::QuantizeBackward, C>(run, what, loop);
    case Formula::Dequantize:
      return run_formula<Formula::Dequantize, C>(run, what, loop);
    case Formula::DequantizeBackward:
      return run_formula<Formula::DequantizeBackward, C>(run, what, loop);
    case Formula::FakeQuantize:
      return run_formula<Formula::FakeQuantize, C>(run, what, loop);
    case Formula::FakeQuantizeBackward:
      return run_formula<Formula::FakeQuantizeBackward, C>(run, what, loop);
    default:
      return {};
  }
}

}  // namespace

core::Status quantize(const core::DeviceRun& run, const core::DeviceQuantize& job,
                      const core::StridedLoop& loop) noexcept {
  return job.problem.element == ElementKind::F64 ? run_typed<double>(run, job, loop) : run_typed<float>(run, job, loop);
}

}  // namespace planck::cuda
