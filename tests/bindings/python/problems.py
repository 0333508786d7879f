"""Drawn calls of every function of the package, each with what the pages say about its results."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import formulas as f
import numpy as np
import planck
from arrays import FLOATS, INTEGERS, LAYOUTS, compute_of, is_float, laid_out, rng, shapes
from hypothesis import strategies as st

SUMS = {
    "cumsum": (f.running_sums, 0),
    "cumprod": (f.running_products, 1),
    "logcumsumexp": (f.running_log_sum_exps, -np.inf),
}


@dataclass
class Problem:
    function: str
    arrays: dict[str, np.ndarray]
    options: dict[str, Any]
    expected: Callable[..., list]  # of the arrays: for every result None, its bits, or (values, tolerance)

    def call(self, change=lambda array: array, **more):
        """Every result, None where there is none; `change` sees every array before."""
        arrays = {name: change(array) for name, array in self.arrays.items()}
        return results(getattr(planck, self.function)(**arrays, **self.options, **more))


def results(result):
    return list(result) if isinstance(result, tuple) else [result]


class Drawing:
    """What the builders below share: a shape, an axis, a dtype, and arrays in drawn layouts."""

    def __init__(self, draw, min_rank, dtypes=FLOATS):
        self.draw = draw
        self.random = rng(draw(st.integers(0, 2**32 - 1)))
        self.dtype = draw(st.sampled_from(dtypes))
        self.shape = draw(shapes(min_rank))
        rank = len(self.shape)
        self.axis = draw(st.integers(-rank, rank - 1)) if rank else None

    def flag(self):
        return self.draw(st.booleans())

    def laid(self, values, dtype=None):
        array = np.asarray(values).astype(dtype or self.dtype)
        return laid_out(array, self.draw(st.sampled_from(LAYOUTS)), self.random)

    def normal(self, shape=None, scale=1.0, special=False):
        shape = self.shape if shape is None else shape
        x = self.random.standard_normal(shape) * scale
        if special and self.flag():
            odd = self.random.choice([np.nan, np.inf, -np.inf, 0.0], shape)
            x = np.where(self.random.uniform(size=shape) < 0.1, odd, x)
        return self.laid(x)


def near(values, magnitudes, dtype, unit=2.0**-45):
    return values, f.rounding(values, dtype) + unit * magnitudes


@st.composite
def sums(draw, function):
    """cumsum, cumprod and logcumsumexp."""
    d = Drawing(draw, 1, FLOATS if function == "logcumsumexp" else FLOATS + INTEGERS)
    if not is_float(d.dtype):
        x = d.laid(d.random.integers(-(2**31), 2**31, d.shape))
    else:
        x = d.laid(np.exp(d.random.standard_normal(d.shape) * 0.1)) if function == "cumprod" else d.normal()
    options = {"axis": d.axis, "reverse": d.flag(), "exclusive": d.flag()}
    formula, identity = SUMS[function]

    def expected(x):
        order = f.in_scan_order(x, d.axis, options["reverse"])
        y = formula(order if not is_float(d.dtype) else f.wide(order))
        y = f.shifted(y, identity) if options["exclusive"] else y
        y = f.in_place_order(y, d.axis, options["reverse"])
        if not is_float(d.dtype):
            return [y]
        if function == "logcumsumexp":
            magnitude = np.maximum(1, np.abs(np.where(np.isfinite(y), y, 1)) + np.abs(f.wide(x)).max(initial=0))
            return [near(y, magnitude, d.dtype, 4 * 2.0**-24 if d.dtype != np.float64 else 2.0**-49)]
        return [near(y, np.abs(f.wide(x)).sum() + np.abs(y), d.dtype)]

    return Problem(function, {"x": x}, options, expected)


@st.composite
def sum_gradients(draw, function):
    d = Drawing(draw, 1)
    options = {"axis": d.axis, "reverse": d.flag(), "exclusive": d.flag()}
    arrays = {"dy": d.normal()}
    if function != "cumsum":
        arrays["x"] = d.laid(np.exp(d.random.standard_normal(d.shape) * 0.1)) if function == "cumprod" else d.normal()
    if function == "logcumsumexp":
        arrays["y"] = planck.logcumsumexp(arrays["x"], **options)

    def expected(dy, x=None, y=None):
        reverse, exclusive = options["reverse"], options["exclusive"]
        order = [None if a is None else f.in_scan_order(f.wide(a), d.axis, reverse) for a in (dy, x, y)]
        dy, x, y = order
        if exclusive:  # dy'[t] = dy[t + 1]; the last has nothing to give
            dy = np.concatenate([dy[1:], np.zeros_like(dy[:1])])
        if function == "cumsum":
            dx, magnitude = (f.running_sums(a[::-1])[::-1] for a in (dy, np.abs(dy)))
        elif function == "cumprod":
            dx, magnitude = f.product_gradient(dy, x)
        else:
            inclusive = f.running_log_sum_exps(x)
            dx, magnitude = f.log_sum_exp_gradient(dy, x, inclusive)
        unit = 2.0**-45 if function != "logcumsumexp" else 2.0**-21 if d.dtype != np.float64 else 2.0**-46
        return [tuple(f.in_place_order(a, d.axis, reverse) for a in near(dx, magnitude, d.dtype, unit))]

    return Problem(function + "_backward", arrays, options, expected)


@st.composite
def extrema(draw, function, backward=False):
    """cummax and cummin, or their gradients from x or from indices."""
    d = Drawing(draw, 1, FLOATS if backward else FLOATS + INTEGERS)
    x = d.normal(special=True) if is_float(d.dtype) else d.laid(d.random.integers(-3, 4, d.shape))
    if d.flag() and is_float(d.dtype):
        x = d.laid(np.round(np.asarray(x).astype(np.float64)))  # ties
    options = {"axis": d.axis, "reverse": d.flag(), "ties": draw(st.sampled_from(["first", "last"]))}
    sign, index = (1 if function == "cummax" else -1), draw(st.sampled_from(["int32", "int64"]))

    def winners(x):
        return f.winners(f.in_scan_order(f.wide(x), d.axis, options["reverse"]), sign, options["ties"] == "last")

    def expected(x):
        at = winners(x)
        values = np.take_along_axis(f.in_scan_order(x, d.axis, options["reverse"]), at, axis=0)
        at = len(at) - 1 - at if options["reverse"] else at
        return [f.in_place_order(a, d.axis, options["reverse"]) for a in (values, at.astype(index))]

    if not backward:
        return Problem(function, {"x": x}, {**options, "index_dtype": index}, expected)

    at = winners(np.array(x))

    def expected_gradient(dy, **_):
        dy = f.in_scan_order(f.wide(dy), d.axis, options["reverse"])
        dx, magnitude = f.winner_gradient(dy, at), f.winner_gradient(np.abs(dy), at)
        return [tuple(f.in_place_order(a, d.axis, options["reverse"]) for a in near(dx, magnitude, d.dtype))]

    source = {"x": x} if d.flag() else {"indices": d.laid(expected(np.array(x))[1], index)}
    if "indices" in source and not np.array_equal(source["indices"], expected(np.array(x))[1]):
        source = {"indices": expected(np.array(x))[1]}  # a layout that repeats elements is none of indices
    return Problem(function + "_backward", {"dy": d.normal(), **source}, options, expected_gradient)


@st.composite
def recurrences(draw, backward=False):
    """With inputs of the result's shape, or some that broadcast to it."""
    d = Drawing(draw, 1)
    options = {"axis": d.axis, "reverse": d.flag()}
    rank, at = len(d.shape), d.axis % len(d.shape)
    repeated, from_a = d.flag(), d.flag()
    whose = [draw(st.sampled_from("abc")) if repeated else "c" for _ in d.shape]  # of dimension d: a's, b's or both's
    shape_a, shape_b = (tuple(n if w in (own, "c") else 1 for n, w in zip(d.shape, whose, strict=True)) for own in "ab")
    if repeated:  # what stands before the first dimension of its own is not needed, of one of the two
        shape = shape_a if from_a else shape_b
        while shape and shape[0] == 1 and d.flag():
            shape = shape[1:]
        shape_a, shape_b = (shape, shape_b) if from_a else (shape_a, shape)
    result = np.broadcast_shapes(shape_a, shape_b)
    arrays = {"a": d.laid(d.random.uniform(-1.1, 1.1, shape_a)), "b": d.normal(shape_b)}
    state = draw(st.sampled_from(["none", "with axis", "without axis", "number", *(["some"] if repeated else [])]))
    if state != "none":
        without = (*result[:at], *result[at + 1 :])
        arrays["initial"] = d.normal(
            {
                "with axis": (*result[:at], 1, *result[at + 1 :]),
                "without axis": without,
                "number": (),
                "some": tuple(1 if k == at or d.flag() else n for k, n in enumerate(result)),
            }[state]
        )

    def rows(array):
        return f.in_scan_order(f.wide(np.broadcast_to(array, result)), d.axis, options["reverse"])

    def first(initial):
        if initial is None:
            return np.zeros((*result[:at], *result[at + 1 :]), np.longdouble)
        full = initial if initial.ndim == rank else np.expand_dims(initial, at) if initial.ndim == rank - 1 else initial
        return f.wide(np.broadcast_to(full, (*result[:at], 1, *result[at + 1 :]))).squeeze(at)

    def back(array):
        return f.in_place_order(array, d.axis, options["reverse"])

    def expected(a, b, initial=None):
        magnitude = f.recurrence(np.abs(rows(a)), np.abs(rows(b)), np.abs(first(initial)))
        return [near(back(f.recurrence(rows(a), rows(b), first(initial))), back(magnitude), d.dtype)]

    if not backward:
        return Problem("linear_recurrence", arrays, options, expected)

    def gradient(values, magnitudes, shape):
        """Of an input that was repeated the sum, whose terms were rounded to the element on their way."""
        if values.shape == shape:
            return near(values, magnitudes, d.dtype)
        values, magnitudes = f.unbroadcast(values, shape), f.unbroadcast(magnitudes, shape)
        return values, 4 * f.rounding(magnitudes, d.dtype) + int(np.prod(result)) * f.rounding(np.zeros(()), d.dtype)

    def expected_gradient(dh, a, h, b, initial=None):
        exact = f.recurrence_gradient(rows(dh), rows(a), rows(h), first(initial))
        most = f.recurrence_gradient(*(np.abs(rows(v)) for v in (dh, a, h)), np.abs(first(initial)))
        found = [gradient(back(exact[k]), back(most[k]), v.shape) for k, v in enumerate((a, b))]
        if initial is None:
            return [*found, None]
        full = (*result[:at], 1, *result[at + 1 :])
        if initial.ndim == rank - 1 and state != "number":
            full = initial.shape
        return [*found, gradient(exact[2].reshape(full), most[2].reshape(full), initial.shape)]

    h = planck.linear_recurrence(**arrays, **options)
    return Problem("linear_recurrence_backward", {"dh": d.normal(result), "h": h, **arrays}, options, expected_gradient)


@st.composite
def blends(draw, function, backward=False):
    """lerp and add_scaled with operands that broadcast."""
    d = Drawing(draw, 0)
    name = "weight" if function == "lerp" else "alpha"

    def operand():
        keep = [n if d.flag() else 1 for n in d.shape]
        return d.normal(keep[draw(st.integers(0, len(keep))) if d.flag() else 0 :])

    arrays, options = {"a": operand(), "b": operand()}, {}
    if d.flag():
        arrays[name] = operand()
    else:
        options[name] = draw(st.sampled_from([0.0, 1.0, 0.25, -2.0, 0.75, 3]))
    c = compute_of(d.dtype)
    shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))

    def in_c(arrays):
        w = np.asarray(arrays.get(name, options.get(name))).astype(c)
        return arrays["a"].astype(c), arrays["b"].astype(c), w

    def expected(**arrays):
        a, b, w = in_c(arrays)
        y = f.lerp(a, b, w) if function == "lerp" else a + w * b
        return [np.broadcast_to(y, shape).astype(d.dtype)]

    def expected_gradient(dy, **arrays):
        a, b, w = in_c(arrays)
        dy = dy.astype(c)
        da = (c.type(1) - w) * dy if function == "lerp" else dy
        terms = [da, w * dy, dy * (b - a) if function == "lerp" else dy * b]
        return [
            None if v is None else near(f.unbroadcast(t, v.shape), f.unbroadcast(np.abs(t), v.shape), d.dtype)
            for t, v in zip(terms, (arrays["a"], arrays["b"], arrays.get(name)), strict=True)
        ]

    if not backward:
        return Problem(function, arrays, options, expected)
    return Problem(function + "_backward", {"dy": d.normal(shape), **arrays}, options, expected_gradient)
