// The parameterised binary family as plain loops, to be read beside docs/ops/binary_param.md.
#include "binary/ops.hpp"
#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"

namespace planck::scalar {
namespace {
#include "binary/math.inl"
}  // namespace
}  // namespace planck::scalar

namespace planck::elementwise::reference {
namespace {

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
std::array<Compute<T>, 3> terms(Op, const Cells& cell, Weight weight, double param) {
  using C = Compute<T>;
  const auto input = [&](int k) { return cell(k).present() ? widen<C>(cell(k).template get<T>()) : C(0); };
  const C dy = input(0);
  if (weight == Weight::Scalar) {
    const C w = static_cast<C>(param);
    return {Op::da(dy, w), Op::db(dy, w), C(0)};
  }
  const C a = input(1);
  const C b = input(2);
  const C w = input(3);
  return {Op::da(dy, w), Op::db(dy, w), Op::dw(dy, a, b)};
}

}  // namespace

void forward(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param) {
  with_kind(kind, [&]<class Op>(Op) {
    numerics::with_float(element, [&]<class T>(T) {
      using C = Compute<T>;
      core::for_each_index(loop, [&](const auto& cell) {
        const C a = widen<C>(cell(0).template get<T>());
        const C b = widen<C>(cell(1).template get<T>());
        const C w = weight == Weight::Tensor ? widen<C>(cell(2).template get<T>()) : static_cast<C>(param);
        cell(loop.operands - 1).set(narrow<T>(Op::value(a, b, w)));
      });
    });
  });
}

void backward(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param) {
  const int inputs = inputs_of(true, weight);
  with_kind(kind, [&]<class Op>(Op op) {
    numerics::with_float(element, [&]<class T>(T) {
      core::for_each_index(loop, [&](const auto& cell) {
        const auto gradient = terms<T>(op, cell, weight, param);
        for (int g = 0; g < gradients_of(weight); ++g) {
          if (cell(inputs + g).present()) cell(inputs + g).set(narrow<T>(gradient[g]));
        }
      });
    });
  });
}

void backward_summed(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param,
                     int gradient) {
  with_kind(kind, [&]<class Op>(Op op) {
    numerics::with_float(element, [&]<class T>(T) {
      core::for_each_sum(
          loop, [&](const auto& cell) { return terms<T>(op, cell, weight, param)[gradient]; },
          [](const core::Cell& to, double sum) { to.set(narrow<T>(sum)); });
    });
  });
}

}  // namespace planck::elementwise::reference
