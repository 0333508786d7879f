// The parameterised binary family as plain loops, to be read beside SPEC sections 5 and 6.
#include "core/reference_loop.hpp"
#include "elementwise/binary_param_ops.hpp"
#include "numerics/canonical_order.hpp"
#include "numerics/dispatch.hpp"
#include "numerics/storage.hpp"

namespace planck::scalar {
namespace {
#include "elementwise/binary_param_math.inl"
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

namespace {

/// The sum over the reduced dimensions from `dim` on, innermost first, at the kept index that `base` stands for.
template <class Term>
double summed(const core::StridedLoop& loop, int dim, std::array<std::int64_t, kMaxRank>& index, const Term& term) {
  if (dim == loop.rank) return static_cast<double>(term(index));
  if (loop.operand[loop.operands - 1].stride[dim] != 0 || loop.extent[dim] == 1) {
    return summed(loop, dim + 1, index, term);
  }
  const double sum = numerics::canonical_sum(loop.extent[dim], [&](std::int64_t t) {
    index[dim] = t;
    return summed(loop, dim + 1, index, term);
  });
  index[dim] = 0;
  return sum;
}

}  // namespace

void backward_summed(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param,
                     int gradient) {
  const auto& out = loop.operand[loop.operands - 1];
  // Visit the gradient's own elements: the loop with its reduced dimensions at size 1.
  core::StridedLoop kept = loop;
  for (int d = 0; d < loop.rank; ++d) {
    if (out.stride[d] == 0) kept.extent[d] = 1;
  }
  with_kind(kind, [&]<class Op>(Op op) {
    numerics::with_float(element, [&]<class T>(T) {
      std::array<std::int64_t, kMaxRank> index{};
      for (std::int64_t i = kept.count(); i > 0; --i) {
        const double sum = summed(loop, 0, index, [&](const std::array<std::int64_t, kMaxRank>& at) {
          const auto cell = [&](int k) {
            std::byte* p = loop.operand[k].base;
            for (int d = 0; p != nullptr && d < loop.rank; ++d) p += at[d] * loop.operand[k].stride[d];
            return core::Cell(p);
          };
          return terms<T>(op, cell, weight, param)[gradient];
        });
        std::byte* to = out.base;
        for (int d = 0; d < loop.rank; ++d) to += index[d] * out.stride[d];
        core::Cell(to).set(narrow<T>(sum));
        for (int d = loop.rank - 1; d >= 0 && ++index[d] == kept.extent[d]; --d) index[d] = 0;
      }
    });
  });
}

}  // namespace planck::elementwise::reference
