"""Drawn calls of the quantise family: every scope, form and dtype, each with what the pages say about its results."""

import formulas as f
import numpy as np
from arrays import compute_of
from hypothesis import strategies as st
from problems import Drawing, Problem, near

CODES = {"int8": (-128, 127), "uint8": (0, 255)}


class Quantized(Drawing):
    """A drawing with a scope, scales and zero points for it."""

    def __init__(self, draw):
        super().__init__(draw, 0)
        self.c = compute_of(self.dtype)
        rank = len(self.shape)
        scope = draw(st.sampled_from(["tensor", *(["channel", "token", "group"] if rank else [])]))
        self.scope = {"scope": scope}
        if scope in ("channel", "group"):
            self.scope["axis"] = self.axis
        if scope == "group":
            self.scope["group_size"] = draw(st.integers(1, 4))
        self.flat, self.scales = f.segments(self.shape, **self.scope)
        self.count = int(np.prod(self.scales))

    def qparams(self):
        """Arrays, or for the whole tensor also numbers."""
        scale = self.random.uniform(0.02, 0.5, self.scales)
        zero_point = self.random.integers(-20, 20, self.scales)
        if self.scope["scope"] == "tensor" and self.flag():
            return {}, {"scale": float(scale), "zero_point": int(zero_point)}
        kind = self.draw(st.sampled_from([self.c, self.dtype]))
        return {"scale": self.laid(scale, kind), "zero_point": self.laid(zero_point, np.int32)}, {}

    def spread(self, values, dtype):
        return np.asarray(values).astype(dtype).reshape(-1)[self.flat]

    def codes(self, low, high, form, scale, zero_point=0):
        zero_point = np.broadcast_to(np.asarray(zero_point), self.scales)
        return f.Codes(self.spread(scale, self.c), self.spread(zero_point, np.int64), low, high, form)


@st.composite
def codes(draw, function):
    """quantize and quantize_backward."""
    d = Quantized(draw)
    dtype = draw(st.sampled_from(list(CODES)))
    low, high = draw(st.sampled_from([CODES[dtype], (3, 100)]))
    arrays, options = d.qparams()
    form = draw(st.sampled_from(["divide", "reciprocal"]))
    arrays["x"] = d.normal(scale=5.0, special=True)
    given = options.copy()
    options.update(d.scope, dtype=dtype, scale_form=form)
    if (low, high) != CODES[dtype]:
        options.update(q_min=low, q_max=high)

    def expected(x, dy=None, **qparams):
        formula = d.codes(low, high, form, **qparams, **given)
        x = x.astype(d.c)
        if dy is None:
            return [formula.quantize(x).astype(dtype)]
        return [np.where(formula.inside(x), formula.steps(dy.astype(d.c)), d.c.type(0)).astype(d.dtype)]

    if function == "quantize_backward":
        arrays["dy"] = d.normal()
    return Problem(function, arrays, options, expected)


@st.composite
def fakes(draw, function):
    """fake_quantize and its two gradients."""
    d = Quantized(draw)
    low, high = draw(st.sampled_from([(-128, 127), (-8, 7), (0, 15)]))
    form = draw(st.sampled_from(["divide", "reciprocal"]))
    arrays, options = d.qparams()
    given = options.copy()
    learnable = function == "fake_quantize_learnable_backward"
    arrays["x"] = d.normal(scale=5.0, special=True)
    options.update(d.scope, q_min=low, q_max=high, scale_form=form)
    if function != "fake_quantize":
        arrays["dy"] = d.normal()
    factor = draw(st.sampled_from([1.0, 0.3])) if learnable else 1.0
    if learnable:
        options["grad_factor"] = factor

    def expected(x, dy=None, **qparams):
        formula = d.codes(low, high, form, **qparams, **given)
        x = x.astype(d.c)
        if dy is None:
            return [formula.fake_quantize(x).astype(d.dtype)]
        dx = np.where(formula.inside(x), dy, d.dtype.type(0))
        found = [dx]
        if learnable:
            element = np.asarray(qparams["scale"]).dtype if "scale" in qparams else d.c
            for terms in formula.gradient_terms(x, dy.astype(d.c)):
                sums, magnitudes = (s.reshape(d.scales) * factor for s in f.sums_of(terms, d.flat, d.count))
                found.append(near(sums, magnitudes, element))
        return found

    return Problem(function, arrays, options, expected)


@st.composite
def decoded(draw, function):
    """dequantize and dequantize_backward; the former has every dtype of floats as its result."""
    d = Quantized(draw)
    arrays, options = d.qparams()
    given = options.copy()
    options.update(d.scope)
    if function == "dequantize_backward":
        for qparams in (arrays, options, given):
            qparams.pop("zero_point", None)
        arrays["dy"] = d.normal()
    else:
        dtype = draw(st.sampled_from(list(CODES)))
        arrays["q"] = d.laid(d.random.integers(*CODES[dtype], d.shape), dtype)
        options["dtype"] = d.dtype

    def expected(q=None, dy=None, **qparams):
        formula = d.codes(0, 0, "divide", **qparams, **given)
        if q is None:
            return [(dy.astype(d.c) * formula.scale).astype(d.dtype)]
        return [(formula.scale * (q.astype(d.c) - formula.zero_point)).astype(d.dtype)]

    return Problem(function, arrays, options, expected)


@st.composite
def dynamic(draw):
    d = Quantized(draw)
    mode = draw(st.sampled_from(["symmetric", "asymmetric"]))
    dtype = draw(st.sampled_from(list(CODES)))
    low, high = CODES[dtype]
    low = -127 if (mode, dtype) == ("symmetric", "int8") else low
    options = {**d.scope, "mode": mode, "dtype": dtype, "zero_in_range": d.flag(), "row_sum": d.flag()}
    scale_dtype = draw(st.sampled_from([d.c, d.dtype]))
    if scale_dtype != d.c:
        options["scale_dtype"] = scale_dtype
    if not options["row_sum"]:
        options["qparams_only"] = d.flag()

    def expected(x):
        x = x.astype(d.c)
        scale, zero_point = f.ranges(x, d.flat, d.count, mode, low, high, options["zero_in_range"], scale_dtype)
        formula = d.codes(low, high, "divide", scale, zero_point.reshape(d.scales))
        q = formula.quantize(x).astype(dtype)
        sums = f.sums_of(q, d.flat, d.count)[0].astype(np.int32).reshape(d.scales) if options["row_sum"] else None
        return [None if options.get("qparams_only") else q, scale.reshape(d.scales), zero_point.reshape(d.scales), sums]

    return Problem("dynamic_quantize", {"x": d.normal(special=True)}, options, expected)
