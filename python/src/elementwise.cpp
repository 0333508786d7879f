#include "planck/elementwise.hpp"

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "run.hpp"

namespace planck::python {
namespace {

/// NumPy's rule: aligned at the last dimension, an extent of 1 is repeated. What does not fit is left for the plan to
/// refuse.
Shape broadcast(const Shape& first, const Shape& second) {
  const Shape& longer = first.rank() >= second.rank() ? first : second;
  const Shape& shorter = first.rank() >= second.rank() ? second : first;
  Shape shape = longer;
  if (longer.rank() > kMaxRank) return shape;
  const int before = longer.rank() - shorter.rank();
  for (int d = 0; d < shorter.rank(); ++d) {
    if (shape[before + d] == 1) shape[before + d] = shorter[d];
  }
  return shape;
}

/// The weight of a call: a number, or an array.
struct Weight {
  double value = 0;
  std::optional<Array> array;

  Weight(int kind, nb::handle object) {
    const char* name = static_cast<BinaryKind>(kind) == BinaryKind::Lerp ? "weight" : "alpha";
    if (is_number(object)) {
      value = number(object, name);
    } else {
      array = read_array(object, name);
    }
  }
};

BinaryParamDescriptor describe(int kind, const Array& a, const Array& b, const Weight& weight) {
  BinaryParamDescriptor what;
  what.kind = static_cast<BinaryKind>(kind);
  what.shape = broadcast(a.shape(), b.shape());
  if (weight.array) what.shape = broadcast(what.shape, weight.array->shape());
  what.element = a.element();
  what.param = weight.value;
  if (weight.array) what.weight_shape = weight.array->shape();
  if (a.shape() != what.shape) what.a_shape = a.shape();
  if (b.shape() != what.shape) what.b_shape = b.shape();
  return what;
}

nb::object binary(int kind, nb::handle a, nb::handle b, nb::handle weight, nb::handle out) {
  const CallDevice call;
  const Array first = read_array(a, "a");
  const Array second = read_array(b, "b");
  const Weight w(kind, weight);
  const BinaryParamDescriptor what = describe(kind, first, second, w);
  const auto plan = plan_for<BinaryParamOp>(what);
  Array y = first.shape() == what.shape ? output_like(out, "out", first, what.element)
                                        : output_array(out, "out", first.maker, what.shape, what.element);
  BinaryParamArgs args{first.view, second.view, std::nullopt, y.view};
  if (w.array) args.weight = w.array->view;
  run<BinaryParamOp>(plan, args, count(what.shape));
  return written(y);
}

/// (da, db, dw), the last None unless the weight is an array.
nb::object binary_backward(int kind, nb::handle dy, nb::handle a, nb::handle b, nb::handle weight, nb::handle out) {
  const CallDevice call;
  const Array gradient = read_array(dy, "dy");
  const Array first = read_array(a, "a");
  const Array second = read_array(b, "b");
  const Weight w(kind, weight);
  const BinaryParamDescriptor what = describe(kind, first, second, w);
  const auto plan = plan_for<BinaryParamBackwardOp>(what);
  BinaryParamBackwardArgs args{gradient.view, first.view, second.view, {}, {}, {}, {}};
  if (w.array) args.weight = w.array->view;
  std::optional<Array> made[3];
  const auto make = [&](int i, const char* name, const Array& like) {
    made[i] = output_like(item_or_none(out, i, 3), name, like, what.element);
    return made[i]->view;
  };
  args.da = make(0, "out[0]", first);
  args.db = make(1, "out[1]", second);
  if (w.array) {
    args.dw = make(2, "out[2]", *w.array);
  } else {
    refuse_item(out, 2, 3);
  }
  run<BinaryParamBackwardOp>(plan, args, count(what.shape));
  const auto result = [&](int i) { return made[i] ? written(*made[i]) : nb::none(); };
  return nb::make_tuple(result(0), result(1), result(2));
}

}  // namespace

void bind_elementwise(nb::module_& module) {
  module.attr("LERP") = static_cast<int>(BinaryKind::Lerp);
  module.attr("ADD_SCALED") = static_cast<int>(BinaryKind::AddScaled);
  add_call(module, "binary", &binary);
  add_call(module, "binary_backward", &binary_backward);
}

}  // namespace planck::python
