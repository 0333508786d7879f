// The linear recurrence: inputs that broadcast are read through views with strides of 0, and their gradients are summed
// by the plans of AddScaled, in the library's own order.
#include <array>

#include "arguments.hpp"
#include "array.hpp"
#include "bindings.hpp"
#include "offsets.hpp"
#include "plan_cache.hpp"
#include "planck/elementwise.hpp"
#include "planck/scan.hpp"
#include "run.hpp"
#include "views.hpp"

namespace planck::python {
namespace {

constexpr const char* kOut[] = {"out[0]", "out[1]", "out[2]"};

[[noreturn]] void raise_broadcast(const char* name, const Shape& small, const Shape& shape) {
  raise(PyExc_ValueError,
        std::string(name) + " has shape " + text_of(small) + ", which does not broadcast to " + text_of(shape));
}

LinearRecurrenceDescriptor describe(const Shape& result, nb::handle axis, nb::handle reverse, ElementKind element,
                                    bool initial) {
  LinearRecurrenceDescriptor what;
  what.input_shape = result.rank() == 0 ? Shape{1} : result;
  what.scan_axis = axis_of(axis, result);
  if (what.scan_axis < 0) what.scan_axis += what.input_shape.rank();
  what.reverse = flag(reverse, "reverse");
  what.element = element;
  what.initial = initial;
  return what;
}

/// Where an input's elements stand in the result: as many dimensions, those along which it is repeated of extent 1.
AnyTensorMut placed(const Array& array, const char* name, const Shape& shape) {
  if (!aligned(array.shape(), shape)) raise_broadcast(name, array.shape(), shape);
  return with_rank(array.view, shape.rank());
}

/// The shape of initial states: one element along the axis, or one for each segment.
Shape start_shape(const LinearRecurrenceDescriptor& what) {
  return with_extent(what.input_shape, what.scan_axis, what.offset_element ? what.segments : 1);
}

/// The same of an initial state, which broadcasts to that shape, or has not the axis at all.
AnyTensorMut placed_state(const Array& state, const LinearRecurrenceDescriptor& what) {
  const int rank = what.input_shape.rank();
  const Shape with = start_shape(what);
  const Shape without = without_axis(what.input_shape, what.scan_axis);
  const std::optional<Shape> fits_with = aligned(state.shape(), with);
  if (!fits_with && !aligned(state.shape(), without)) {
    raise(PyExc_ValueError, "initial has shape " + text_of(state.shape()) + ", which does not broadcast to " +
                                text_of(without) + " or " + text_of(with));
  }
  const AnyTensorMut as_with = with_rank(state.view, rank);
  if (!aligned(state.shape(), without)) return as_with;
  const AnyTensorMut as_without = with_axis(with_rank(state.view, rank - 1), what.scan_axis);
  if (fits_with && as_with.shape != as_without.shape) {
    raise(PyExc_ValueError, "initial has shape " + text_of(state.shape()) + ", which could stand for " +
                                text_of(as_with.shape) + " or, as if without " + std::string(option_name("axis")) +
                                ", for " + text_of(as_without.shape) + ": give it all " + std::to_string(rank) +
                                " dimensions");
  }
  return as_without;
}

nb::object linear_recurrence(nb::handle a, nb::handle b, nb::handle axis, nb::handle initial, nb::handle reverse,
                             nb::handle offsets, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kRecurrence);
  const auto operands = read_operands({{a, "a"}, {b, "b"}, {initial, "initial", true}}, kFloats);
  const Array& factors = *operands[0];
  const Array& terms = *operands[1];
  const Shape result = broadcast(factors.shape(), terms.shape());
  LinearRecurrenceDescriptor what = describe(result, axis, reverse, factors.element(), operands[2].has_value());
  const std::optional<Array> segments = read_offsets(offsets, what);
  const auto plan = plan_for<LinearRecurrenceOp>(what);
  LinearRecurrenceArgs args;
  args.a = repeated(placed(factors, "a", what.input_shape), what.input_shape);
  args.b = repeated(placed(terms, "b", what.input_shape), what.input_shape);
  if (operands[2]) args.initial = repeated(placed_state(*operands[2], what), start_shape(what));
  args.offsets = view_of(segments);
  const Array* like = factors.shape() == result ? &factors : terms.shape() == result ? &terms : nullptr;
  const Array h = like != nullptr ? output_like(out, "out", *like, what.element)
                                  : output_array(out, "out", factors.maker, result, what.element);
  args.h = axes_of(h);
  run<LinearRecurrenceOp>(plan, args, count(result));
  return written(h);
}

// ---- gradients ----

/// AddScaled with factor 1, over the elements of a view.
BinaryParamDescriptor plain_sum(const AnyTensorMut& view) {
  BinaryParamDescriptor what;
  what.kind = BinaryKind::AddScaled;
  what.shape = view.shape;
  what.element = view.element;
  what.param = 1;
  return what;
}

/// A sum of products, or of elements, over what an input was repeated along: the gradient of AddScaled's weight, or of
/// its first operand.
struct Sum {
  Plan<BinaryParamBackwardOp> plan;
  BinaryParamBackwardArgs args;
  Renames words;

  /// to = sum of dy * b
  static Sum of_products(Renames words, const AnyTensorMut& dy, const AnyTensorMut& b, const AnyTensorMut& weight,
                         const AnyTensorMut& to) {
    BinaryParamDescriptor what = plain_sum(dy);
    what.weight_shape = to.shape;
    return {plan_for<BinaryParamBackwardOp>(what), {dy, {}, b, weight, {}, {}, to}, words};
  }

  /// to = sum of dy
  static Sum of_elements(Renames words, const AnyTensorMut& dy, const AnyTensorMut& to) {
    BinaryParamDescriptor what = plain_sum(dy);
    if (to.shape != dy.shape) what.a_shape = to.shape;
    return {plan_for<BinaryParamBackwardOp>(what), {dy, {}, {}, {}, to, {}, {}}, words};
  }

  void check() const {
    const CallNames names(words);
    if (const Result<void> possible = plan.can_implement(args); !possible) raise(possible.error());
  }
  void run() const { python::run<BinaryParamBackwardOp>(plan, args, count(args.dy.shape)); }
};

/// to += term
void add(const AnyTensorMut& to, const AnyTensorMut& term) {
  run<BinaryParamOp>(plan_for<BinaryParamOp>(plain_sum(to)), {to, term, {}, to}, count(to.shape));
}

/// One call's gradients: what is given, what is wanted, and which of it is a sum.
struct Gradients {
  LinearRecurrenceDescriptor what;
  Array dh;
  Array a;
  std::optional<Array> h;
  std::optional<Array> initial;
  std::optional<Array> offsets;
  std::array<std::optional<Array>, 3> made;  // da, db, d_initial as they are returned
  std::array<AnyTensorMut, 3> to;            // the same in the result's dimensions

  bool summed(int i) const {
    const Shape full = i == 2 ? start_shape(what) : what.input_shape;
    return made[i] && to[i].shape != full;
  }

  void make(int i, nb::handle out, const Array& like, const Shape& shape) {
    const nb::object given = item_or_none(out, i, 3);
    made[i] = like.shape() == shape ? output_like(given, kOut[i], like, what.element)
                                    : output_array(given, kOut[i], dh.maker, shape, what.element);
    if (made[i]->shape() != shape) {
      raise(PyExc_ValueError,
            std::string(kOut[i]) + " has shape " + text_of(made[i]->shape()) + ", but must have " + text_of(shape));
    }
  }

  /// Sums are made after the recurrence, whose results must not have overwritten what they read; so with a sum no
  /// output shares memory with an input of it or with another output.
  void refuse_shared() const {
    const auto refuse = [](const AnyTensorMut& output, const char* name, const AnyTensorMut& other, const char* of) {
      const ByteRange first = bytes_of(output);
      const ByteRange second = bytes_of(other);
      if (first.begin >= second.end || second.begin >= first.end) return;
      raise(PyExc_ValueError, std::string(name) + " must not share memory with " + of + ", since a gradient is a sum");
    };
    for (int i = 0; i < 3; ++i) {
      if (!made[i]) continue;
      refuse(made[i]->view, kOut[i], a.view, "a");
      if (h) refuse(made[i]->view, kOut[i], h->view, "h");
      if (initial) refuse(made[i]->view, kOut[i], initial->view, "initial");
      if (offsets) refuse(made[i]->view, kOut[i], offsets->view, "offsets");
      for (int j = 0; j < i; ++j) {
        if (made[j]) refuse(made[i]->view, kOut[i], made[j]->view, kOut[j]);
      }
    }
  }

  void run() {
    if (summed(0) || summed(1) || summed(2)) refuse_shared();
    const Shape start = start_shape(what);
    LinearRecurrenceBackwardArgs args;
    args.offsets = view_of(offsets);
    args.dh = axes_of(dh);
    args.a = repeated(with_rank(a.view, what.input_shape.rank()), what.input_shape);
    // Segments have their own first steps: the terms of a sum over them are made by the plan.
    std::optional<Array> own_a;
    if (summed(0) && offsets) own_a = output_like(nb::none(), "g", dh, what.element);
    if (made[0] && (!summed(0) || own_a)) {
      if (h) args.h = axes_of(*h);
      if (initial) args.initial = repeated(placed_state(*initial, what), start);
      args.da = own_a ? axes_of(*own_a) : to[0];
    }
    // g, of which the sums are made, is db if that has its shape.
    std::optional<Array> own_g;
    std::optional<Array> own_initial;
    AnyTensorMut g = to[1];
    if (summed(1) || (summed(0) && !own_a && !made[1])) {
      own_g = output_like(nb::none(), "g", dh, what.element);
      g = axes_of(*own_g);
    }
    if (made[1] || own_g) args.db = g;
    if (summed(2)) own_initial = output_array(nb::none(), "g", dh.maker, start, what.element);
    if (made[2]) args.d_initial = own_initial ? own_initial->view : to[2];

    const auto plan = plan_for<LinearRecurrenceBackwardOp>(what);
    std::vector<Sum> after;
    std::optional<Array> first_step;
    if (own_a) {
      after.push_back(Sum::of_elements(names::kRaggedFactorSum, args.da.value(), to[0]));
    } else if (summed(0)) {
      first_step = sum_factors(g, after);
    }
    if (summed(1)) after.push_back(Sum::of_elements(names::kTermSum, g, to[1]));
    if (summed(2)) after.push_back(Sum::of_elements(names::kStateSum, own_initial->view, to[2]));
    for (const Sum& sum : after) sum.check();
    python::run<LinearRecurrenceBackwardOp>(plan, args, count(what.input_shape));
    if (Explanation::current() != nullptr) return;
    for (const Sum& sum : after) sum.run();
    if (first_step) add(to[0], first_step->view);
  }

  /// da[t] = g[t] * h[t-1], summed: all steps but the first, whose h[t-1] is the initial state. Where `a` is repeated
  /// along the axis, the first step's sum is an array of its own, to be added.
  std::optional<Array> sum_factors(const AnyTensorMut& g, std::vector<Sum>& sums) const {
    const int axis = what.scan_axis;
    const std::int64_t n = what.input_shape[axis];
    const std::int64_t later = std::max<std::int64_t>(n - 1, 0);
    const bool along = to[0].shape[axis] != n;  // repeated along the axis
    const AnyTensorMut states = axes_of(*h);
    const AnyTensorMut weight = with_rank(a.view, what.input_shape.rank());
    const auto steps = [&](const AnyTensorMut& view, std::int64_t first, std::int64_t many) {
      return narrowed(view, axis, first, many);
    };
    const std::int64_t later_at = what.reverse ? 0 : 1;
    const std::int64_t first_at = what.reverse ? later : 0;
    sums.push_back(Sum::of_products(names::kFactorSum, steps(g, later_at, later), steps(states, 1 - later_at, later),
                                    along ? weight : steps(weight, later_at, later),
                                    along ? to[0] : steps(to[0], later_at, later)));
    if (n == 0 || (along && !initial)) return std::nullopt;
    // Without an initial state nothing depends on the first factor: a sum of nothing.
    const AnyTensorMut before =
        initial ? repeated(placed_state(*initial, what), with_extent(what.input_shape, axis, 1)) : steps(states, 0, 0);
    const AnyTensorMut first_weight = along ? weight : steps(weight, first_at, 1);
    std::optional<Array> own;
    if (along) own = output_array(nb::none(), "g", dh.maker, to[0].shape, what.element);
    sums.push_back(Sum::of_products(names::kFirstFactorSum, steps(g, first_at, initial ? 1 : 0), before, first_weight,
                                    along ? own->view : steps(to[0], first_at, 1)));
    return own;
  }
};

/// The shape that a gradient of b has: None if b was not broadcast.
Shape shape_of_b(nb::handle b_shape, const Shape& result) {
  if (b_shape.is_none()) return result;
  std::vector<std::int64_t> extents;
  for (const nb::handle extent : b_shape) extents.push_back(integer(extent, "b"));
  const Shape shape{std::span<const std::int64_t>(extents)};
  check_rank("b", shape);
  if (!aligned(shape, result)) raise_broadcast("b", shape, result);
  return shape;
}

/// (da, db, d_initial), None for those that are not `wanted` and for the last without an initial state.
nb::object linear_recurrence_backward(nb::handle dh, nb::handle a, nb::handle h, nb::handle axis, nb::handle initial,
                                      nb::handle b_shape, nb::handle reverse, nb::handle offsets, bool want_a,
                                      bool want_b, bool want_initial, nb::handle out) {
  const CallDevice call;
  const CallNames words(names::kRecurrenceBackward);
  const auto operands = read_operands({{dh, "dh"}, {a, "a"}, {h, "h", !want_a}, {initial, "initial", true}}, kFloats);
  const Array& gradient = *operands[0];
  const Shape& result = gradient.shape();
  Gradients all{describe(result, axis, reverse, gradient.element(), operands[3].has_value()),
                gradient,
                *operands[1],
                operands[2],
                operands[3],
                {},
                {},
                {}};
  all.offsets = read_offsets(offsets, all.what);
  const Shape& shape = all.what.input_shape;
  placed(all.a, "a", shape);
  if (all.h && all.h->shape() != result) {
    raise(PyExc_ValueError, "h has shape " + text_of(all.h->shape()) + ", but must have " + text_of(result));
  }
  const Array& like = all.a.shape() == result ? all.a : gradient;
  if (want_a) {
    all.make(0, out, all.a, all.a.shape());
    all.to[0] = with_rank(axes_of(*all.made[0]), shape.rank());
  }
  if (want_b) {
    all.make(1, out, like, shape_of_b(b_shape, result));
    all.to[1] = with_rank(axes_of(*all.made[1]), shape.rank());
  }
  if (all.initial && want_initial) {
    placed_state(*all.initial, all.what);
    all.make(2, out, *all.initial, all.initial->shape());
    all.to[2] = placed_state(*all.made[2], all.what);
  } else {
    refuse_item(out, 2, 3);
  }
  if (all.made[0] || all.made[1] || all.made[2]) all.run();
  const auto result_at = [&](int i) { return all.made[i] ? written(*all.made[i]) : nb::none(); };
  return nb::make_tuple(result_at(0), result_at(1), result_at(2));
}

}  // namespace

void bind_recurrence(nb::module_& module) {
  add_call<&linear_recurrence>(module, "linear_recurrence");
  add_call<&linear_recurrence_backward>(module, "linear_recurrence_backward");
}

}  // namespace planck::python
