// lerp and add_scaled with their gradients: operands that are numbers or arrays, broadcast without copies.
#include "planck/elementwise.hpp"

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "plan_cache.hpp"
#include "run.hpp"
#include "views.hpp"

namespace planck::python {
namespace {

bool is_lerp(int kind) { return static_cast<BinaryKind>(kind) == BinaryKind::Lerp; }

/// The inputs of a call, and its weight: a number, or an array.
struct Inputs {
  double value = 0;
  std::vector<std::optional<Array>> arrays;  // a, b, the weight if it is an array, dy if there is one

  Inputs(int kind, nb::handle a, nb::handle b, nb::handle weight, nb::handle dy = nb::handle(Py_None)) {
    const char* name = is_lerp(kind) ? "weight" : "alpha";
    const bool scalar = is_number(weight);
    if (scalar) {
      value = number(weight, name);
    } else if (weight.is_none()) {
      raise(PyExc_TypeError, std::string(name) + " is None, neither a number nor an array");
    }
    const nb::handle none(Py_None);
    arrays = read_operands({{a, "a"}, {b, "b"}, {scalar ? none : weight, name, true}, {dy, "dy", true}}, kFloats);
  }
  const Array& a() const { return *arrays[0]; }
  const Array& b() const { return *arrays[1]; }
  const std::optional<Array>& weight() const { return arrays[2]; }
};

BinaryParamDescriptor describe(int kind, const Inputs& in) {
  BinaryParamDescriptor what;
  what.kind = static_cast<BinaryKind>(kind);
  what.shape = broadcast(in.a().shape(), in.b().shape());
  if (in.weight()) what.shape = broadcast(what.shape, in.weight()->shape());
  what.element = in.a().element();
  what.param = in.value;
  if (in.weight()) what.weight_shape = in.weight()->shape();
  if (in.a().shape() != what.shape) what.a_shape = in.a().shape();
  if (in.b().shape() != what.shape) what.b_shape = in.b().shape();
  return what;
}

nb::object binary(int kind, nb::handle a, nb::handle b, nb::handle weight, nb::handle out) {
  const CallDevice call;
  const CallNames words(is_lerp(kind) ? Renames(names::kLerp) : names::kAddScaled);
  const Inputs in(kind, a, b, weight);
  const BinaryParamDescriptor what = describe(kind, in);
  const auto plan = plan_for<BinaryParamOp>(what);
  Array y = in.a().shape() == what.shape ? output_like(out, "out", in.a(), what.element)
                                         : output_array(out, "out", in.a().maker, what.shape, what.element);
  BinaryParamArgs args{in.a().view, in.b().view, std::nullopt, y.view};
  if (in.weight()) args.weight = in.weight()->view;
  run<BinaryParamOp>(plan, args, count(what.shape));
  return written(y);
}

/// (da, db, d_weight), the last None unless the weight is an array.
nb::object binary_backward(int kind, nb::handle dy, nb::handle a, nb::handle b, nb::handle weight, nb::handle out) {
  const CallDevice call;
  const CallNames words(is_lerp(kind) ? Renames(names::kLerpBackward) : names::kAddScaledBackward);
  if (dy.is_none()) raise(PyExc_TypeError, "dy is None, not an array");
  const Inputs in(kind, a, b, weight, dy);
  const BinaryParamDescriptor what = describe(kind, in);
  const auto plan = plan_for<BinaryParamBackwardOp>(what);
  BinaryParamBackwardArgs args{in.arrays[3]->view, in.a().view, in.b().view, {}, {}, {}, {}};
  if (in.weight()) args.weight = in.weight()->view;
  std::optional<Array> made[3];
  const auto make = [&](int i, const char* name, const Array& like) {
    made[i] = output_like(item_or_none(out, i, 3), name, like, what.element);
    return made[i]->view;
  };
  args.da = make(0, "out[0]", in.a());
  args.db = make(1, "out[1]", in.b());
  if (in.weight()) {
    args.d_weight = make(2, "out[2]", *in.weight());
  } else {
    refuse_item(out, 2, 3);
  }
  run<BinaryParamBackwardOp>(plan, args, count(what.shape));
  const auto result = [&](int i) { return made[i] ? written(*made[i]) : nb::none(); };
  return nb::make_tuple(result(0), result(1), result(2));
}

}  // namespace

void bind_elementwise(nb::module_& module) {
  add_kind(module, "LERP", BinaryKind::Lerp);
  add_kind(module, "ADD_SCALED", BinaryKind::AddScaled);
  add_call<&binary>(module, "binary");
  add_call<&binary_backward>(module, "binary_backward");
}

}  // namespace planck::python
