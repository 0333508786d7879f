// The running sums, products, extrema and log-sum-exps, forward and backward; a scalar is an axis of one element.
#include "planck/scan.hpp"

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "offsets.hpp"
#include "plan_cache.hpp"
#include "run.hpp"
#include "views.hpp"

namespace planck::python {
namespace {

std::optional<AnyTensorRef> axes_of(const std::optional<Array>& array) {
  if (!array) return std::nullopt;
  return axes_of(*array);
}

ScanDescriptor describe(int kind, const Array& x, nb::handle axis, nb::handle reverse, nb::handle exclusive) {
  ScanDescriptor what;
  what.kind = static_cast<ScanKind>(kind);
  what.input_shape = axes_of(x).shape;
  what.scan_axis = axis_of(axis, x.shape());
  what.reverse = flag(reverse, "reverse");
  what.element = x.element();
  what.exclusive = flag(exclusive, "exclusive");
  return what;
}

ScanTies ties_named(nb::handle ties) { return static_cast<ScanTies>(choice_named(ties, "ties", {"first", "last"})); }

/// cumsum, cumprod and logcumsumexp.
nb::object scan(int kind, nb::handle x, nb::handle axis, nb::handle reverse, nb::handle exclusive, nb::handle offsets,
                nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kScan);
  const Array input =
      read_array(x, "x", static_cast<ScanKind>(kind) == ScanKind::LogCumsumExp ? Dtypes(kFloats) : kScanned);
  ScanDescriptor what = describe(kind, input, axis, reverse, exclusive);
  const std::optional<Array> segments = read_offsets(offsets, what);
  const auto plan = plan_for<ScanOp>(what);
  Array y = output_like(out, "out", input, input.element());
  run<ScanOp>(plan, {.x = axes_of(input), .y = axes_of(y), .offsets = view_of(segments)}, count(input.shape()));
  return written(y);
}

/// cummax and cummin: (values, indices), the latter None without an index dtype.
nb::object extremum(int kind, nb::handle x, nb::handle axis, nb::handle reverse, nb::handle ties,
                    nb::handle index_dtype, nb::handle offsets, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kExtremum);
  const Array input = read_array(x, "x", kScanned);
  ScanDescriptor what = describe(kind, input, axis, reverse, nb::handle(Py_False));
  what.ties = ties_named(ties);
  if (!index_dtype.is_none()) what.index_element = element_named(index_dtype, "index_dtype", kIndices);
  const std::optional<Array> segments = read_offsets(offsets, what);
  const auto plan = plan_for<ScanOp>(what);
  const Array y = output_like(item_or_none(out, 0, 2), "out[0]", input, input.element());
  ScanArgs args{.x = axes_of(input), .y = axes_of(y), .offsets = view_of(segments)};
  if (!what.index_element) {
    refuse_item(out, 1, 2);
    run<ScanOp>(plan, args, count(input.shape()));
    return nb::make_tuple(written(y), nb::none());
  }
  const Array indices = output_like(item_or_none(out, 1, 2), "out[1]", input, *what.index_element);
  args.indices = axes_of(indices);
  run<ScanOp>(plan, args, count(input.shape()));
  return nb::make_tuple(written(y), written(indices));
}

/// The gradient of any scan; what its kind does not need may be None.
nb::object scan_backward(int kind, nb::handle dy, nb::handle x, nb::handle y, nb::handle indices, nb::handle axis,
                         nb::handle reverse, nb::handle exclusive, nb::handle ties, nb::handle offsets,
                         nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kScanBackward);
  const Array gradient = read_array(dy, "dy", kFloats);
  const std::optional<Array> input = read_optional(x, "x", kFloats);
  const std::optional<Array> result = read_optional(y, "y", kFloats);
  const std::optional<Array> winners = read_optional(indices, "indices", kIndices);
  const bool extremum =
      static_cast<ScanKind>(kind) == ScanKind::Cummax || static_cast<ScanKind>(kind) == ScanKind::Cummin;
  if (extremum && !input && !winners) {
    raise(PyExc_ValueError, "x and indices are both None: the gradient is found from one of them");
  }
  ScanDescriptor what = describe(kind, gradient, axis, reverse, exclusive);
  what.ties = ties_named(ties);
  if (winners) what.index_element = winners->element();
  const std::optional<Array> segments = read_offsets(offsets, what);
  const auto plan = plan_for<ScanBackwardOp>(what);
  Array dx = output_like(out, "out", gradient, gradient.element());
  const ScanBackwardArgs args{axes_of(gradient), axes_of(dx),      axes_of(input),
                              axes_of(result),   axes_of(winners), view_of(segments)};
  run<ScanBackwardOp>(plan, args, count(gradient.shape()));
  return written(dx);
}

}  // namespace

void bind_scan(nb::module_& module) {
  add_kind(module, "CUMSUM", ScanKind::Cumsum);
  add_kind(module, "CUMPROD", ScanKind::Cumprod);
  add_kind(module, "CUMMAX", ScanKind::Cummax);
  add_kind(module, "CUMMIN", ScanKind::Cummin);
  add_kind(module, "LOGCUMSUMEXP", ScanKind::LogCumsumExp);
  add_call<&scan>(module, "scan");
  add_call<&extremum>(module, "extremum");
  add_call<&scan_backward>(module, "scan_backward");
}

}  // namespace planck::python
