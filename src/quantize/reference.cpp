// The quantise family as plain loops, to be read beside docs/ops/quantize.md.
#include "backend/reference.hpp"

#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/job.hpp"
#include "quantize/scalar.hpp"

namespace planck::reference {
namespace {

using quantize::Formula;
using quantize::QuantizeJob;
using scalar::Compute;
using scalar::narrow;
using scalar::widen;

/// Calls body(scale, range, zero_point) for the parameters at the current index; numbers stand for absent operands.
template <class C, class Cells, class Body>
void with_qparams(const Cells& cell, const QuantizeJob& job, const Body& body) {
  auto scale = static_cast<C>(job.scale);
  if (const core::Cell tensor = cell(job.scale_operand()); tensor.present()) {
    numerics::with_float(job.scale_element, [&]<class S>(S) { scale = widen<C>(tensor.get<S>()); });
  }
  auto zero_point = static_cast<C>(static_cast<std::int32_t>(job.zero_point));
  if (const core::Cell tensor = cell(job.zero_point_operand()); tensor.present()) {
    zero_point = static_cast<C>(tensor.template get<std::int32_t>());
  }
  const scalar::CodeRange<C> range{static_cast<C>(job.q_min) - zero_point, static_cast<C>(job.q_max) - zero_point};
  if (job.form == ScaleForm::Divide) {
    body(scalar::DivideScale<C>{scale}, range, zero_point);
  } else {
    body(scalar::ReciprocalScale<C>{scale, C(1) / scale}, range, zero_point);
  }
}

template <class T, class Q>
void run_elementwise(const QuantizeJob& job) {
  using C = Compute<T>;
  const auto get = [](const core::Cell& cell) { return widen<C>(cell.get<T>()); };
  const auto backward = [&](const auto& formula) {
    core::for_each_index(*job.loop, [&](const auto& cell) {
      with_qparams<C>(cell, job, [&](const auto& scale, const auto& range, C) {
        cell(job.output_operand()).set(narrow<T>(formula(get(cell(0)), get(cell(1)), scale, range)));
      });
    });
  };
  const auto elementwise = [&](const auto& formula) {
    core::for_each_index(*job.loop, [&](const auto& cell) {
      with_qparams<C>(cell, job, [&](const auto& scale, const auto& range, C zero_point) {
        cell(job.output_operand()).set(formula(cell(0), scale, range, zero_point));
      });
    });
  };
  switch (job.formula) {
    case Formula::Quantize:
      return elementwise([&](const core::Cell& x, const auto& scale, const auto& range, C zero_point) {
        return narrow<Q>(scalar::quantize_to<Q>(get(x), scale, range, zero_point));
      });
    case Formula::QuantizeBackward:
      return backward([](C x, C dy, const auto& scale, const auto& range) {
        if constexpr (numerics::FloatCode<Q>) return scalar::quantize_backward_from_float(x, dy, scale, range);
        return scalar::quantize_backward(x, dy, scale, range);
      });
    case Formula::Dequantize:
      return elementwise([&](const core::Cell& q, const auto& scale, const auto&, C zero_point) {
        return narrow<T>(scalar::dequantize_from<Q>(widen<C>(q.get<Q>()), scale.scale, zero_point));
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

/// One gradient, summed over the dimensions in which it is broadcast.
template <class T>
void sum_gradient(const QuantizeJob& job, int s) {
  using C = Compute<T>;
  core::StridedLoop loop = *job.loop;
  const int last = job.output_operand();
  loop.operand[last] = job.loop->operand[last + 1 + s];
  loop.operands = last + 1;
  const auto term = [&](const auto& cell) {
    const C x = widen<C>(cell(0).template get<T>());
    const C dy = widen<C>(cell(1).template get<T>());
    C value{};
    with_qparams<C>(cell, job, [&](const auto& scale, const auto& range, C) {
      value = job.sums.term[s] == quantize::kDScale ? scalar::d_scale_term(x, dy, scale, range)
                                                    : scalar::d_zero_point_term(x, dy, scale, range);
    });
    return value;
  };
  numerics::with_float(job.sums.element, [&]<class S>(S) {
    core::for_each_sum(loop, term, [&](const core::Cell& to, double sum) { to.set(narrow<S>(sum * job.sums.factor)); });
  });
}

}  // namespace

Status run_quantize(const Run&, const QuantizeJob& job) noexcept {
  numerics::with_float(job.element, [&]<class T>(T) {
    // Sums first: they touch no input, while an elementwise gradient may overwrite one in place.
    for (int s = 0; s < job.sums.count; ++s) sum_gradient<T>(job, s);
    if (job.loop->operand[job.output_operand()].base == nullptr) return;
    numerics::with_codes(job.codes, [&]<class Q>(Q) { run_elementwise<T, Q>(job); });
  });
  return {};
}

}  // namespace planck::reference
