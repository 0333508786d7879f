// The quantise family as plain loops, to be read beside docs/ops/quantize.md.
#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/ops.hpp"
#include "quantize/scalar.hpp"

namespace planck::quantize::reference {
namespace {

using scalar::Compute;
using scalar::narrow;
using scalar::widen;

/// The scale at the current index, whatever it is stored as.
template <class C>
C scale_at(const core::Cell& cell, ElementKind kind) {
  C scale{};
  numerics::with_float(kind, [&]<class S>(S) { scale = widen<C>(cell.get<S>()); });
  return scale;
}

/// Calls body(scale, range, zero_point) for the parameters in the cells k and k + 1.
template <class C, class Cells, class Body>
void with_qparams(const Cells& cell, int k, const Problem& p, const Body& body) {
  const C scale = scale_at<C>(cell(k), p.scale);
  const C zero_point = cell(k + 1).present() ? static_cast<C>(cell(k + 1).template get<std::int32_t>()) : C(0);
  const scalar::CodeRange<C> range{static_cast<C>(p.q_min) - zero_point, static_cast<C>(p.q_max) - zero_point};
  if (p.form == ScaleForm::Divide) {
    body(scalar::DivideScale<C>{scale}, range, zero_point);
  } else {
    body(scalar::ReciprocalScale<C>{scale, C(1) / scale}, range, zero_point);
  }
}

template <class T, class Q>
void run_typed(const core::StridedLoop& loop, const Problem& p) {
  using C = Compute<T>;
  const auto get = [](const core::Cell& cell) { return widen<C>(cell.get<T>()); };
  const auto backward = [&](const auto& formula) {
    core::for_each_index(loop, [&](const auto& cell) {
      with_qparams<C>(cell, 2, p, [&](const auto& scale, const auto& range, C) {
        cell(4).set(narrow<T>(formula(get(cell(0)), get(cell(1)), scale, range)));
      });
    });
  };
  const auto elementwise = [&](const auto& formula) {
    core::for_each_index(loop, [&](const auto& cell) {
      with_qparams<C>(cell, 1, p, [&](const auto& scale, const auto& range, C zero_point) {
        cell(3).set(formula(cell(0), scale, range, zero_point));
      });
    });
  };
  switch (p.formula) {
    case Formula::Quantize:
      return elementwise([&](const core::Cell& x, const auto& scale, const auto& range, C zero_point) {
        return static_cast<Q>(scalar::quantize(get(x), scale, range, zero_point));
      });
    case Formula::QuantizeBackward:
      return backward([](C x, C dy, const auto& scale, const auto& range) {
        return scalar::quantize_backward(x, dy, scale, range);
      });
    case Formula::Dequantize:
      return elementwise([&](const core::Cell& q, const auto& scale, const auto&, C zero_point) {
        return narrow<T>(scalar::dequantize(widen<C>(q.get<Q>()), scale.scale, zero_point));
      });
    case Formula::DequantizeBackward:
      return elementwise([&](const core::Cell& dy, const auto& scale, const auto&, C) {
        return narrow<T>(scalar::dequantize_backward(get(dy), scale.scale));
      });
    case Formula::FakeQuantize:
      return elementwise([&](const core::Cell& x, const auto& scale, const auto& range, C) {
        return narrow<T>(scalar::fake_quantize(get(x), scale, range));
      });
    case Formula::FakeQuantizeBackward:
      return backward([](C x, C dy, const auto& scale, const auto& range) {
        return scalar::fake_quantize_backward(x, dy, scale, range);
      });
    case Formula::Range:
    case Formula::ColumnRanges:
    case Formula::DynamicRows:
      return;
  }
}

}  // namespace

void run(const core::StridedLoop& loop, const Problem& p) {
  numerics::with_float(
      p.element, [&]<class T>(T) { numerics::with_codes(p.codes, [&]<class Q>(Q) { run_typed<T, Q>(loop, p); }); });
}

void sum_gradient(const core::StridedLoop& loop, const Problem& p, ElementKind element, int gradient, double factor) {
  numerics::with_float(p.element, [&]<class T>(T) {
    using C = Compute<T>;
    const auto term = [&](const auto& cell) {
      const C x = widen<C>(cell(0).template get<T>());
      const C dy = widen<C>(cell(1).template get<T>());
      C value{};
      with_qparams<C>(cell, 2, p, [&](const auto& scale, const auto& range, C) {
        value = gradient == kDScale ? scalar::d_scale_term(x, dy, scale, range)
                                    : scalar::d_zero_point_term(x, dy, scale, range);
      });
      return value;
    };
    numerics::with_float(element, [&]<class S>(S) {
      core::for_each_sum(loop, term, [&](const core::Cell& to, double sum) { to.set(narrow<S>(sum * factor)); });
    });
  });
}

}  // namespace planck::quantize::reference
