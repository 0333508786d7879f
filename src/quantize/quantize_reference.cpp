// The quantise family as plain loops, to be read beside SPEC section 3.
#include "core/reference_loop.hpp"
#include "numerics/dispatch.hpp"
#include "quantize/quantize_ops.hpp"
#include "quantize/quantize_scalar.hpp"

namespace planck::quantize::reference {
namespace {

using scalar::Compute;
using scalar::narrow;
using scalar::widen;

/// Calls body(scale) with the form's own struct.
template <class C, class Body>
void with_form(ScaleForm form, const Params<C>& p, const Body& body) {
  if (form == ScaleForm::Divide) {
    body(scalar::DivideScale<C>{p.scale});
  } else {
    body(scalar::ReciprocalScale<C>{p.scale, p.inverse});
  }
}

}  // namespace

void fake_quantize(const core::StridedLoop& loop, ElementKind element, ScaleForm form, const void* params) {
  numerics::with_float(element, [&]<class T>(T) {
    using C = Compute<T>;
    const auto& p = *static_cast<const Params<C>*>(params);
    with_form(form, p, [&](const auto& scale) {
      core::for_each_index(loop, [&](const auto& cell) {
        const C x = widen<C>(cell(0).template get<T>());
        cell(1).set(narrow<T>(scalar::fake_quantize(x, scale, {p.lo, p.hi})));
      });
    });
  });
}

void fake_quantize_backward(const core::StridedLoop& loop, ElementKind element, ScaleForm form, const void* params) {
  numerics::with_float(element, [&]<class T>(T) {
    using C = Compute<T>;
    const auto& p = *static_cast<const Params<C>*>(params);
    with_form(form, p, [&](const auto& scale) {
      core::for_each_index(loop, [&](const auto& cell) {
        const C x = widen<C>(cell(0).template get<T>());
        const C dy = widen<C>(cell(1).template get<T>());
        cell(2).set(narrow<T>(scalar::fake_quantize_backward(x, dy, scale, {p.lo, p.hi})));
      });
    });
  });
}

void dequantize(const core::StridedLoop& loop, ElementKind codes, ElementKind element, const void* params) {
  numerics::with_float(element, [&]<class T>(T) {
    using C = Compute<T>;
    const auto& p = *static_cast<const Params<C>*>(params);
    numerics::with_codes(codes, [&]<class Q>(Q) {
      core::for_each_index(loop, [&](const auto& cell) {
        const C q = widen<C>(cell(0).template get<Q>());
        cell(1).set(narrow<T>(scalar::dequantize(q, p.scale, p.zero_point)));
      });
    });
  });
}

void dequantize_backward(const core::StridedLoop& loop, ElementKind element, const void* params) {
  numerics::with_float(element, [&]<class T>(T) {
    using C = Compute<T>;
    const auto& p = *static_cast<const Params<C>*>(params);
    core::for_each_index(loop, [&](const auto& cell) {
      const C dy = widen<C>(cell(0).template get<T>());
      cell(1).set(narrow<T>(scalar::dequantize_backward(dy, p.scale)));
    });
  });
}

}  // namespace planck::quantize::reference
