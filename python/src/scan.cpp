#include "planck/scan.hpp"

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "run.hpp"

namespace planck::python {
namespace {

/// What is scanned: a single number is an axis of one element.
AnyTensorMut axes_of(const Array& array) {
  AnyTensorMut view = array.view;
  if (view.shape.rank() == 0) view.shape = {1};
  return view;
}

std::optional<AnyTensorRef> axes_of(const std::optional<Array>& array) {
  if (!array) return std::nullopt;
  return axes_of(*array);
}

ScanDescriptor describe(int kind, const Array& x, nb::handle axis, nb::handle reverse, nb::handle exclusive) {
  ScanDescriptor what;
  what.kind = static_cast<ScanKind>(kind);
  what.input_shape = axes_of(x).shape;
  what.scan_axis = axis_of(axis);
  what.reverse = flag(reverse, "reverse");
  what.element = x.element();
  what.exclusive = flag(exclusive, "exclusive");
  return what;
}

ScanTies ties_named(nb::handle ties) { return static_cast<ScanTies>(choice_named(ties, "ties", {"first", "last"})); }

/// cumsum, cumprod and logcumsumexp.
nb::object scan(int kind, nb::handle x, nb::handle axis, nb::handle reverse, nb::handle exclusive, nb::handle out) {
  const CallDevice call;
  const Array input = read_array(x, "x");
  const auto plan = plan_for<ScanOp>(describe(kind, input, axis, reverse, exclusive));
  Array y = output_like(out, "out", input, input.element());
  run<ScanOp>(plan, {axes_of(input), axes_of(y), std::nullopt}, count(input.shape()));
  return written(y);
}

/// cummax and cummin: (values, indices), the latter None without an index dtype.
nb::object extremum(int kind, nb::handle x, nb::handle axis, nb::handle reverse, nb::handle ties,
                    nb::handle index_dtype, nb::handle out) {
  const CallDevice call;
  const Array input = read_array(x, "x");
  ScanDescriptor what = describe(kind, input, axis, reverse, nb::handle(Py_False));
  what.ties = ties_named(ties);
  if (!index_dtype.is_none()) what.index_element = element_named(index_dtype, "index_dtype");
  const auto plan = plan_for<ScanOp>(what);
  const Array y = output_like(item_or_none(out, 0, 2), "out[0]", input, input.element());
  if (!what.index_element) {
    refuse_item(out, 1, 2);
    run<ScanOp>(plan, {axes_of(input), axes_of(y), std::nullopt}, count(input.shape()));
    return nb::make_tuple(written(y), nb::none());
  }
  const Array indices = output_like(item_or_none(out, 1, 2), "out[1]", input, *what.index_element);
  run<ScanOp>(plan, {axes_of(input), axes_of(y), axes_of(indices)}, count(input.shape()));
  return nb::make_tuple(written(y), written(indices));
}

/// The gradient of any scan; what its kind does not need may be None.
nb::object scan_backward(int kind, nb::handle dy, nb::handle x, nb::handle y, nb::handle indices, nb::handle axis,
                         nb::handle reverse, nb::handle exclusive, nb::handle ties, nb::handle out) {
  const CallDevice call;
  const Array gradient = read_array(dy, "dy");
  const std::optional<Array> input = read_optional(x, "x");
  const std::optional<Array> result = read_optional(y, "y");
  const std::optional<Array> winners = read_optional(indices, "indices");
  ScanDescriptor what = describe(kind, gradient, axis, reverse, exclusive);
  what.ties = ties_named(ties);
  if (winners) what.index_element = winners->element();
  const auto plan = plan_for<ScanBackwardOp>(what);
  Array dx = output_like(out, "out", gradient, gradient.element());
  run<ScanBackwardOp>(plan, {axes_of(gradient), axes_of(dx), axes_of(input), axes_of(result), axes_of(winners)},
                      count(gradient.shape()));
  return written(dx);
}

/// A state of the shape without the axis, seen with the axis as one of extent 1.
AnyTensorMut with_axis(AnyTensorMut view, int axis, int rank) {
  const int front = axis < 0 ? axis + rank : axis;
  if (view.shape.rank() != rank - 1 || rank > kMaxRank || front < 0 || front >= rank) return view;
  std::array<std::int64_t, kMaxRank> extents{};
  for (int d = rank - 1; d >= 0; --d) {
    extents[d] = d == front ? 1 : view.shape[d - (d > front ? 1 : 0)];
    view.stride[d] = d == front ? 0 : view.stride[d - (d > front ? 1 : 0)];
  }
  view.shape = Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rank)));
  return view;
}

LinearRecurrenceDescriptor describe_recurrence(const Array& a, nb::handle axis, nb::handle reverse, bool initial) {
  LinearRecurrenceDescriptor what;
  what.shape = axes_of(a).shape;
  what.axis = axis_of(axis);
  what.reverse = flag(reverse, "reverse");
  what.element = a.element();
  what.initial = initial;
  return what;
}

nb::object linear_recurrence(nb::handle a, nb::handle b, nb::handle axis, nb::handle initial, nb::handle reverse,
                             nb::handle out) {
  const CallDevice call;
  const Array factors = read_array(a, "a");
  const Array terms = read_array(b, "b");
  const std::optional<Array> state = read_optional(initial, "initial");
  const LinearRecurrenceDescriptor what = describe_recurrence(factors, axis, reverse, state.has_value());
  const auto plan = plan_for<LinearRecurrenceOp>(what);
  Array h = output_like(out, "out", factors, factors.element());
  LinearRecurrenceArgs args{axes_of(factors), axes_of(terms), std::nullopt, axes_of(h)};
  if (state) args.initial = with_axis(state->view, what.axis, what.shape.rank());
  run<LinearRecurrenceOp>(plan, args, count(factors.shape()));
  return written(h);
}

/// (da, db, d_initial), the last None without an initial state.
nb::object linear_recurrence_backward(nb::handle dh, nb::handle a, nb::handle h, nb::handle axis, nb::handle initial,
                                      nb::handle reverse, nb::handle out) {
  const CallDevice call;
  const Array gradient = read_array(dh, "dh");
  const Array factors = read_array(a, "a");
  const Array states = read_array(h, "h");
  const std::optional<Array> state = read_optional(initial, "initial");
  const LinearRecurrenceDescriptor what = describe_recurrence(factors, axis, reverse, state.has_value());
  const auto plan = plan_for<LinearRecurrenceBackwardOp>(what);
  const Array da = output_like(item_or_none(out, 0, 3), "out[0]", factors, factors.element());
  const Array db = output_like(item_or_none(out, 1, 3), "out[1]", factors, factors.element());
  LinearRecurrenceBackwardArgs args{
      axes_of(gradient), axes_of(factors), axes_of(states), std::nullopt, axes_of(da), axes_of(db), {}};
  std::optional<Array> d_state;
  if (state) {
    const int rank = what.shape.rank();
    args.initial = with_axis(state->view, what.axis, rank);
    d_state = output_like(item_or_none(out, 2, 3), "out[2]", *state, factors.element());
    args.d_initial = with_axis(d_state->view, what.axis, rank);
  } else {
    refuse_item(out, 2, 3);
  }
  run<LinearRecurrenceBackwardOp>(plan, args, count(factors.shape()));
  return nb::make_tuple(written(da), written(db), d_state ? written(*d_state) : nb::none());
}

}  // namespace

void bind_scan(nb::module_& module) {
  module.attr("CUMSUM") = static_cast<int>(ScanKind::Cumsum);
  module.attr("CUMPROD") = static_cast<int>(ScanKind::Cumprod);
  module.attr("CUMMAX") = static_cast<int>(ScanKind::Cummax);
  module.attr("CUMMIN") = static_cast<int>(ScanKind::Cummin);
  module.attr("LOGCUMSUMEXP") = static_cast<int>(ScanKind::LogCumsumExp);
  add_call(module, "scan", &scan);
  add_call(module, "extremum", &extremum);
  add_call(module, "scan_backward", &scan_backward);
  add_call(module, "linear_recurrence", &linear_recurrence);
  add_call(module, "linear_recurrence_backward", &linear_recurrence_backward);
}

}  // namespace planck::python
