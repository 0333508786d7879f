// Quantise, dequantise, fake-quantise and dynamic range, forward and backward, for every scope.
#include "planck/quantize.hpp"

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "plan_cache.hpp"
#include "planck/dynamic_range.hpp"
#include "run.hpp"

namespace planck::python {
namespace {

struct CodeRange {
  std::int64_t low;
  std::int64_t high;
};

CodeRange codes_of(ElementKind element) {
  const ElementInfo& info = info_of(element);
  return {static_cast<std::int64_t>(info.lowest), static_cast<std::int64_t>(info.largest)};
}

ScaleForm scale_form_named(nb::handle form) {
  return static_cast<ScaleForm>(choice_named(form, "scale_form", {"divide", "reciprocal"}));
}

QuantizeDescriptor quantize_descriptor(const Array& x, const QParamArrays& qparams, const Granularity& granularity,
                                       nb::handle dtype, nb::handle q_min, nb::handle q_max, nb::handle scale_form,
                                       nb::handle trust_qparams, nb::handle saturate) {
  QuantizeDescriptor what;
  what.shape = x.shape();
  what.input_element = x.element();
  what.output_element = element_named(dtype, "dtype", kCodes);
  const CodeRange codes = codes_of(what.output_element);
  what.q_min = integer_or(q_min, "q_min", codes.low);
  what.q_max = integer_or(q_max, "q_max", codes.high);
  what.scope = granularity;
  what.scale_form = scale_form_named(scale_form);
  what.scale_element = qparams.scale_element;
  what.trust_qparams = flag(trust_qparams, "trust_qparams");
  what.saturate = flag(saturate, "saturate");
  return what;
}

nb::object quantize(nb::handle x, nb::handle scale, nb::handle zero_point, nb::handle dtype, nb::handle scope,
                    nb::handle axis, nb::handle group_size, nb::handle q_min, nb::handle q_max, nb::handle scale_form,
                    nb::handle trust_qparams, nb::handle saturate, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kQuantize);
  const Array input = read_array(x, "x", kFloats);
  const Granularity granularity = granularity_of(scope, axis, group_size, input.shape());
  const QParamArrays qparams = read_qparams(scale, zero_point, input.element(), input.shape(), granularity);
  const auto plan = plan_for<QuantizeOp>(
      quantize_descriptor(input, qparams, granularity, dtype, q_min, q_max, scale_form, trust_qparams, saturate));
  Array q = output_like(out, "out", input, plan.descriptor().output_element);
  run<QuantizeOp>(plan, {input.view, qparams.scale, qparams.zero_point, q.view}, count(input.shape()));
  return written(q);
}

nb::object quantize_backward(nb::handle dy, nb::handle x, nb::handle scale, nb::handle zero_point, nb::handle dtype,
                             nb::handle scope, nb::handle axis, nb::handle group_size, nb::handle q_min,
                             nb::handle q_max, nb::handle scale_form, nb::handle trust_qparams, nb::handle saturate,
                             nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kQuantizeBackward);
  const Array gradient = read_array(dy, "dy", kFloats);
  const Array input = read_array(x, "x", kFloats);
  const Granularity granularity = granularity_of(scope, axis, group_size, input.shape());
  const QParamArrays qparams = read_qparams(scale, zero_point, input.element(), input.shape(), granularity);
  const auto plan = plan_for<QuantizeBackwardOp>(
      quantize_descriptor(input, qparams, granularity, dtype, q_min, q_max, scale_form, trust_qparams, saturate));
  Array dx = output_like(out, "out", input, input.element());
  run<QuantizeBackwardOp>(plan, {input.view, qparams.scale, qparams.zero_point, gradient.view, dx.view},
                          count(input.shape()));
  return written(dx);
}

nb::object dequantize(nb::handle q, nb::handle scale, nb::handle zero_point, nb::handle dtype, nb::handle scope,
                      nb::handle axis, nb::handle group_size, nb::handle trust_qparams, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kDequantize);
  const Array input = read_array(q, "q", kCodes);
  DequantizeDescriptor what;
  what.shape = input.shape();
  what.input_element = input.element();
  what.output_element = element_named(dtype, "dtype", kFloats);
  what.scope = granularity_of(scope, axis, group_size, what.shape);
  what.trust_qparams = flag(trust_qparams, "trust_qparams");
  const QParamArrays qparams = read_qparams(scale, zero_point, what.output_element, what.shape, what.scope);
  what.scale_element = qparams.scale_element;
  const auto plan = plan_for<DequantizeOp>(what);
  Array x = output_like(out, "out", input, what.output_element);
  run<DequantizeOp>(plan, {input.view, qparams.scale, qparams.zero_point, x.view}, count(input.shape()));
  return written(x);
}

nb::object dequantize_backward(nb::handle dy, nb::handle scale, nb::handle scope, nb::handle axis,
                               nb::handle group_size, nb::handle trust_qparams, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kDequantizeBackward);
  const Array gradient = read_array(dy, "dy", kFloats);
  DequantizeDescriptor what;
  what.shape = gradient.shape();
  what.output_element = gradient.element();
  what.scope = granularity_of(scope, axis, group_size, what.shape);
  what.trust_qparams = flag(trust_qparams, "trust_qparams");
  const QParamArrays qparams = read_qparams(scale, nb::none(), gradient.element(), what.shape, what.scope);
  what.scale_element = qparams.scale_element;
  const auto plan = plan_for<DequantizeBackwardOp>(what);
  Array dq = output_like(out, "out", gradient, gradient.element());
  run<DequantizeBackwardOp>(plan, {qparams.scale, gradient.view, dq.view}, count(gradient.shape()));
  return written(dq);
}

FakeQuantizeDescriptor fake_quantize_descriptor(const Array& x, const QParamArrays& qparams,
                                                const Granularity& granularity, nb::handle q_min, nb::handle q_max,
                                                nb::handle scale_form, nb::handle trust_qparams) {
  FakeQuantizeDescriptor what;
  what.shape = x.shape();
  what.q_min = integer(q_min, "q_min");
  what.q_max = integer(q_max, "q_max");
  what.input_element = x.element();
  what.scope = granularity;
  what.scale_form = scale_form_named(scale_form);
  what.scale_element = qparams.scale_element;
  what.trust_qparams = flag(trust_qparams, "trust_qparams");
  return what;
}

nb::object fake_quantize(nb::handle x, nb::handle scale, nb::handle zero_point, nb::handle q_min, nb::handle q_max,
                         nb::handle scope, nb::handle axis, nb::handle group_size, nb::handle scale_form,
                         nb::handle trust_qparams, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kQuantize);
  const Array input = read_array(x, "x", kFloats);
  const Granularity granularity = granularity_of(scope, axis, group_size, input.shape());
  const QParamArrays qparams = read_qparams(scale, zero_point, input.element(), input.shape(), granularity);
  const auto plan = plan_for<FakeQuantizeOp>(
      fake_quantize_descriptor(input, qparams, granularity, q_min, q_max, scale_form, trust_qparams));
  Array y = output_like(out, "out", input, input.element());
  run<FakeQuantizeOp>(plan, {input.view, qparams.scale, qparams.zero_point, y.view}, count(input.shape()));
  return written(y);
}

/// (dx, d_scale, d_zero_point), of which only the first unless `learnable`.
nb::object fake_quantize_backward(nb::handle dy, nb::handle x, nb::handle scale, nb::handle zero_point,
                                  nb::handle q_min, nb::handle q_max, nb::handle scope, nb::handle axis,
                                  nb::handle group_size, nb::handle scale_form, nb::handle trust_qparams,
                                  bool learnable, nb::handle grad_factor, nb::handle out) {
  const CallDevice call;
  const CallNames words(learnable ? Renames(names::kLearnableBackward) : names::kQuantizeBackward);
  const Array gradient = read_array(dy, "dy", kFloats);
  const Array input = read_array(x, "x", kFloats);
  const Granularity granularity = granularity_of(scope, axis, group_size, input.shape());
  const QParamArrays qparams = read_qparams(scale, zero_point, input.element(), input.shape(), granularity);
  FakeQuantizeDescriptor what =
      fake_quantize_descriptor(input, qparams, granularity, q_min, q_max, scale_form, trust_qparams);
  what.learnable = learnable;
  const auto plan = plan_for<FakeQuantizeBackwardOp>(what);
  FakeQuantizeBackwardArgs args{input.view, qparams.scale, qparams.zero_point, gradient.view};
  args.grad_factor = number(grad_factor, "grad_factor");
  if (!learnable) {
    Array dx = output_like(out, "out", input, input.element());
    args.d_input = dx.view;
    run<FakeQuantizeBackwardOp>(plan, args, count(input.shape()));
    return written(dx);
  }
  const ElementKind element = what.scale_element.value_or(compute_of(input.element()));
  const auto make = [&](int i, const char* name, const std::optional<Array>& of) {
    return output_array(item_or_none(out, i, 3), name, input.maker, gradient_shape(of, input.shape(), granularity),
                        element);
  };
  Array dx = output_like(item_or_none(out, 0, 3), "out[0]", input, input.element());
  Array d_scale = make(1, "out[1]", qparams.scale_array);
  Array d_zero_point = make(2, "out[2]", qparams.zero_point_array);
  args.d_input = dx.view;
  args.d_scale = qparam_view(d_scale, granularity);
  args.d_zero_point = qparam_view(d_zero_point, granularity);
  run<FakeQuantizeBackwardOp>(plan, args, count(input.shape()));
  return nb::make_tuple(written(dx), written(d_scale), written(d_zero_point));
}

/// (q, scale, zero_point, row_sum), None where there is none.
nb::object dynamic_quantize(nb::handle x, nb::handle scope, nb::handle mode, nb::handle dtype, nb::handle axis,
                            nb::handle group_size, nb::handle q_min, nb::handle q_max, nb::handle zero_in_range,
                            nb::handle nonfinite, nb::handle scale_dtype, nb::handle qparams_only, nb::handle row_sum,
                            nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kDynamicQuantize);
  const Array input = read_array(x, "x", kFloats);
  DynamicRangeQuantizeDescriptor what;
  what.shape = input.shape();
  what.input_element = input.element();
  what.output_element = element_named(dtype, "dtype", kCodes);
  what.mode = static_cast<DynamicRangeMode>(choice_named(mode, "mode", {"symmetric", "asymmetric"}));
  CodeRange codes = codes_of(what.output_element);
  // As many codes below zero as above.
  if (what.mode == DynamicRangeMode::Symmetric && codes.low < 0) codes.low = -codes.high;
  what.q_min = integer_or(q_min, "q_min", codes.low);
  what.q_max = integer_or(q_max, "q_max", codes.high);
  what.scope = granularity_of(scope, axis, group_size, what.shape);
  const ElementKind scales[] = {input.element(), compute_of(input.element())};
  what.scale_element = scale_dtype.is_none()
                           ? scales[1]
                           : element_named(scale_dtype, "scale_dtype", Dtypes(scales, scales[0] == scales[1] ? 1 : 2));
  what.zero_in_range = flag(zero_in_range, "zero_in_range");
  what.nonfinite = static_cast<NonFinite>(choice_named(nonfinite, "nonfinite", {"saturate", "error"}));
  what.qparams_only = flag(qparams_only, "qparams_only");
  const bool sum = flag(row_sum, "row_sum");
  if (sum && what.qparams_only) raise(PyExc_ValueError, "row_sum is of the codes, which qparams_only leaves out");
  if (sum && is_float_code(what.output_element)) raise(PyExc_ValueError, "row_sum is of integer codes, not float8");
  const auto plan = plan_for<DynamicRangeQuantizeOp>(what);

  constexpr int kOutputs = 4;
  const Shape shape = qparams_shape(input.shape(), what.scope);
  Array scale = output_array(item_or_none(out, 1, kOutputs), "out[1]", input.maker, shape, *what.scale_element);
  DynamicRangeQuantizeArgs args{input.view, scale.view};
  std::optional<Array> q;
  std::optional<Array> zero_point;
  std::optional<Array> sums;
  // Float codes have none; what is None here dequantise takes for none.
  if (is_float_code(what.output_element)) {
    refuse_item(out, 2, kOutputs);
  } else {
    zero_point = output_array(item_or_none(out, 2, kOutputs), "out[2]", input.maker, shape, ElementKind::S32);
    args.zero_point_out = zero_point->view;
  }
  if (what.qparams_only) {
    refuse_item(out, 0, kOutputs);
  } else {
    q = output_like(item_or_none(out, 0, kOutputs), "out[0]", input, what.output_element);
    args.output = q->view;
  }
  if (sum) {
    sums = output_array(item_or_none(out, 3, kOutputs), "out[3]", input.maker, shape, ElementKind::S32);
    args.row_sum = sums->view;
  } else {
    refuse_item(out, 3, kOutputs);
  }
  run<DynamicRangeQuantizeOp>(plan, args, count(input.shape()));
  const auto or_none = [](const std::optional<Array>& array) { return array ? written(*array) : nb::none(); };
  return nb::make_tuple(or_none(q), written(scale), or_none(zero_point), or_none(sums));
}

}  // namespace

void bind_quantize(nb::module_& module) {
  add_call<&quantize>(module, "quantize");
  add_call<&quantize_backward>(module, "quantize_backward");
  add_call<&dequantize>(module, "dequantize");
  add_call<&dequantize_backward>(module, "dequantize_backward");
  add_call<&fake_quantize>(module, "fake_quantize");
  add_call<&fake_quantize_backward>(module, "fake_quantize_backward");
  add_call<&dynamic_quantize>(module, "dynamic_quantize");
}

}  // namespace planck::python
