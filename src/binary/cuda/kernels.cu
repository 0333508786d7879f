// The parameterised binary family on CUDA: the shared formulas as operations of the elementwise engine and of the
// canonical sums. A scalar weight is an absent weight tensor that is read as the number.
#include "binary/job.hpp"
#include "cuda/elementwise.cuh"
#include "cuda/entries.hpp"
#include "cuda/sums.cuh"
#include "numerics/storage.hpp"

namespace planck::scalar {
namespace {
#include "binary/math.inl"
}  // namespace
}  // namespace planck::scalar

namespace planck::cuda {
namespace {

using binary::BinaryJob;
using binary::Weight;

template <class C_>
struct WeightParam {
  using Compute = C_;
  static constexpr int kParams = 1;
  struct State {
    C_ weight;
  };
  __device__ __forceinline__ State state(const C_ (&param)[kParams + 1]) const { return {param[0]}; }
};

/// a, b, weight -> y.
template <class Formula, class C>
struct BinaryOp : WeightParam<C> {
  static constexpr int kTensors = 2;
  static constexpr int kOutputs = 1;
  static constexpr int kStored = 1;
  __device__ __forceinline__ void operator()(const typename WeightParam<C>::State& p, const C (&in)[kTensors],
                                             C (&out)[kOutputs]) const {
    out[0] = Formula::value(in[0], in[1], p.weight);
  }
};

/// dy, a, b, weight -> da, db, dw.
template <class Formula, class C>
struct BinaryBackwardOp : WeightParam<C> {
  static constexpr int kTensors = 3;
  static constexpr int kOutputs = 3;
  static constexpr int kStored = 3;
  static constexpr int kFirstSummed = 0;
  __device__ __forceinline__ void operator()(const typename WeightParam<C>::State& p, const C (&in)[kTensors],
                                             C (&out)[kOutputs]) const {
    out[0] = Formula::da(in[0], p.weight);
    out[1] = Formula::db(in[0], p.weight);
    out[2] = Formula::dw(in[0], in[1], in[2]);
  }
};

/// The job without operands, over its index space.
template <class Op>
ElementwiseJob<Op> job_of(const BinaryJob& what) {
  ElementwiseJob<Op> job{{}, *what.loop, {}, {}};
  job.loop.operands = 0;
  job.kind.fill(what.element);
  job.absent[Op::kTensors] = static_cast<typename Op::Compute>(what.param);
  return job;
}

/// Adds the next `count` operands of `from`, of which `used` have been taken.
void take(core::StridedLoop& loop, const core::StridedLoop& from, int& used, int count) {
  for (; count > 0; --count) loop.operand[loop.operands++] = from.operand[used++];
}

template <class Formula, class C>
Status forward(const Run& run, const BinaryJob& what) noexcept {
  auto job = job_of<BinaryOp<Formula, C>>(what);
  const core::StridedLoop& loop = *what.loop;
  int used = 0;
  take(job.loop, loop, used, 2);
  if (what.weight == Weight::Tensor) {
    take(job.loop, loop, used, 1);
  } else {
    job.loop.add_absent(what.element);
  }
  take(job.loop, loop, used, 1);
  return run_elementwise(run, job);
}

template <class Formula, class C>
Status backward(const Run& run, const BinaryJob& what) noexcept {
  auto job = job_of<BinaryBackwardOp<Formula, C>>(what);
  const core::StridedLoop& loop = *what.loop;
  int used = 0;
  if (what.weight == Weight::Tensor) {
    // An absent weight tensor is one that no wanted gradient depends on; it is read as any number.
    take(job.loop, loop, used, 7);
  } else {
    take(job.loop, loop, used, 1);
    for (int k = 0; k < 3; ++k) job.loop.add_absent(what.element);
    take(job.loop, loop, used, 2);
    job.loop.add_absent(what.element);
  }
  if (what.sums.count == 0) return run_elementwise(run, job);
  return run_sums(run, job, what.sums, &loop.operand[used]);
}

template <class Formula, class C>
Status run_typed(const Run& run, const BinaryJob& what) noexcept {
  return what.backward ? backward<Formula, C>(run, what) : forward<Formula, C>(run, what);
}

template <class Formula>
Status run_kind(const Run& run, const BinaryJob& what) noexcept {
  return what.element == ElementKind::F64 ? run_typed<Formula, double>(run, what)
                                          : run_typed<Formula, float>(run, what);
}

}  // namespace

Status prepare_binary(const BinaryJob& job, Selection& selection) noexcept {
  if (job.sums.count > 0) selection.want_workspace(sums_workspace(*job.loop, job.sums.count));
  return {};
}

Status run_binary(const Run& run, const BinaryJob& job) noexcept {
  return job.kind == BinaryKind::Lerp ? run_kind<scalar::Lerp>(run, job) : run_kind<scalar::AddScaled>(run, job);
}

}  // namespace planck::cuda
