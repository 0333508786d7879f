// The parameterised binary family as plain loops, to be read beside docs/ops/binary_param.md.
#include "backend/reference.hpp"

#include "binary/job.hpp"
#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"

namespace planck::scalar {
namespace {
#include "binary/math.inl"
}  // namespace
}  // namespace planck::scalar

namespace planck::reference {
namespace {

using binary::BinaryJob;
using binary::Weight;
using scalar::Compute;
using scalar::narrow;
using scalar::widen;

template <class Body>
void with_kind(BinaryKind kind, const Body& body) {
  if (kind == BinaryKind::Lerp) {
    body(scalar::Lerp{});
  } else {
    body(scalar::AddScaled{});
  }
}

/// The three gradients' terms at one index, in C.
template <class T, class Op, class Cells>
std::array<Compute<T>, 3> terms(Op, const Cells& cell, const BinaryJob& job) {
  using C = Compute<T>;
  const auto input = [&](int k) { return cell(k).present() ? widen<C>(cell(k).template get<T>()) : C(0); };
  const C dy = input(0);
  if (job.weight == Weight::Scalar) {
    const C w = static_cast<C>(job.param);
    return {Op::da(dy, w), Op::db(dy, w), C(0)};
  }
  const C a = input(1);
  const C b = input(2);
  const C w = input(3);
  return {Op::da(dy, w), Op::db(dy, w), Op::dw(dy, a, b)};
}

template <class Op, class T>
void forward(const BinaryJob& job) {
  using C = Compute<T>;
  const int y = job.inputs();
  core::for_each_index(*job.loop, [&](const auto& cell) {
    const C a = widen<C>(cell(0).template get<T>());
    const C b = widen<C>(cell(1).template get<T>());
    const C w = job.weight == Weight::Tensor ? widen<C>(cell(2).template get<T>()) : static_cast<C>(job.param);
    cell(y).set(narrow<T>(Op::value(a, b, w)));
  });
}

/// One gradient, summed over the dimensions in which it is broadcast.
template <class Op, class T>
void sum_gradient(const BinaryJob& job, int s) {
  core::StridedLoop loop = *job.loop;
  const int first_sum = job.inputs() + job.outputs();
  loop.operand[first_sum] = job.loop->operand[first_sum + s];
  loop.operands = first_sum + 1;
  core::for_each_sum(
      loop, [&](const auto& cell) { return terms<T>(Op{}, cell, job)[job.sums.term[s]]; },
      [](const core::Cell& to, double sum) { to.set(narrow<T>(sum)); });
}

template <class Op, class T>
void backward(const BinaryJob& job) {
  // Sums first: they touch no input, while an elementwise gradient may overwrite one in place.
  for (int s = 0; s < job.sums.count; ++s) sum_gradient<Op, T>(job, s);
  core::for_each_index(*job.loop, [&](const auto& cell) {
    const auto gradient = terms<T>(Op{}, cell, job);
    for (int g = 0; g < job.outputs(); ++g) {
      const core::Cell to = cell(job.inputs() + g);
      if (to.present()) to.set(narrow<T>(gradient[g]));
    }
  });
}

}  // namespace

Status run_binary(const Run&, const BinaryJob& job) noexcept {
  with_kind(job.kind, [&]<class Op>(Op) {
    numerics::with_float(job.element, [&]<class T>(T) { job.backward ? backward<Op, T>(job) : forward<Op, T>(job); });
  });
  return {};
}

}  // namespace planck::reference
