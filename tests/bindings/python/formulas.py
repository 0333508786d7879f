"""The pages' formulas in NumPy, each as (expected values, how far a result may be from them); 0 is "the very bits".

Scans work on arrays whose first axis is the scan's, in scan order, as long doubles. Quantisation works in the compute
type, with scales and zero points spread to the shape of x.
"""

import numpy as np
from arrays import compute_of

_DIGITS = {"float16": (11, -14), "bfloat16": (8, -126), "float32": (24, -126), "float64": (53, -1022)}


def rounding(value, dtype):
    """Half the distance between the dtype's numbers around a value, and what rounding to C first adds."""
    digits, lowest = _DIGITS[dtype.name]
    _, exponent = np.frexp(np.abs(np.where(np.isfinite(value), value, 1)).astype(np.float64))
    half = np.ldexp(0.5, np.maximum(exponent - 1, lowest) - (digits - 1))
    return half + (2.0**-24 * np.abs(value) if dtype.itemsize == 2 else 0)


def wide(array):
    return np.asarray(array).astype(np.float64).astype(np.longdouble)


def in_scan_order(array, axis, reverse):
    array = np.moveaxis(array, axis, 0)
    return array[::-1] if reverse else array


def in_place_order(array, axis, reverse):
    return np.moveaxis(array[::-1] if reverse else array, 0, axis)


def shifted(y, first):
    """The exclusive scan from the inclusive one."""
    return np.concatenate([np.full_like(y[:1], first), y[:-1]])


def running_sums(x):
    return np.cumsum(x, axis=0, dtype=x.dtype)


def running_products(x):
    return np.cumprod(x, axis=0, dtype=x.dtype)


def running_log_sum_exps(x):
    return np.logaddexp.accumulate(x, axis=0) if x.size else x


def product_gradient(dy, x):
    """(dx, sum of the magnitudes of its terms), from the definition: a product without its factor j for every t >= j."""
    dx, magnitude = np.zeros_like(x), np.zeros_like(x)
    for t in range(len(x)):
        for j in range(t + 1):
            term = dy[t] * np.prod(np.delete(x[: t + 1], j, axis=0), axis=0)
            dx[j] += term
            magnitude[j] += np.abs(term)
    return dx, magnitude


def log_sum_exp_gradient(dy, x, y):
    dx, magnitude = np.zeros_like(x), np.zeros_like(x)
    for t in range(len(x)):
        term = dy[t] * np.exp(x[: t + 1] - y[t])
        dx[: t + 1] += term
        magnitude[: t + 1] += np.abs(term)
    return dx, magnitude


def winners(x, sign, last):
    """Positions of the running maxima (sign 1) or minima (-1); NaN wins and stays."""
    at = np.zeros(x.shape, np.int64)
    for t in range(1, len(x)):
        best = np.take_along_axis(x, at[t - 1 : t], axis=0)[0]
        new, old = np.isnan(x[t]), np.isnan(best)
        better = ~old & (new | (x[t] > best if sign > 0 else x[t] < best))
        tie = (new & old) | (x[t] == best)
        at[t] = np.where(better | (tie & last), t, at[t - 1])
    return at


def winner_gradient(dy, at):
    dx = np.zeros_like(dy)
    for t in range(len(dy)):
        np.put_along_axis(dx, at[t : t + 1], np.take_along_axis(dx, at[t : t + 1], axis=0) + dy[t : t + 1], axis=0)
    return dx


def recurrence(a, b, initial):
    h, state = np.zeros_like(b), initial
    for t in range(len(a)):
        state = h[t] = a[t] * state + b[t]
    return h


def recurrence_gradient(dh, a, h, initial):
    g, state = np.zeros_like(dh), np.zeros_like(initial)
    for t in reversed(range(len(a))):
        state = g[t] = dh[t] + (a[t + 1] * state if t + 1 < len(a) else 0)
    before = shifted(h, 0) if len(h) else h
    if len(h):
        before[0] = initial
    return g * before, g, a[0] * g[0] if len(a) else np.zeros_like(initial)


def segments(shape, scope, axis=None, group_size=None):
    """(for every element the flat index of its scale, the shape of the scales): the page's table."""
    index = list(np.indices(shape))
    if scope == "tensor":
        return np.zeros(shape, np.int64), ()
    if scope == "token":
        index, scales = index[:-1], shape[:-1]
    elif scope == "channel":
        index, scales = [index[axis]], (shape[axis],)
    else:
        axis = axis % len(shape)
        index[axis] = index[axis] // group_size
        scales = (*shape[:axis], -(-shape[axis] // group_size), *shape[axis + 1 :])
    flat = np.zeros(shape, np.int64)
    for i, extent in zip(index, scales, strict=True):
        flat = flat * extent + i
    return flat, scales


class Codes:
    """The quantise family at scales (in C) and zero points, one for every element."""

    def __init__(self, scale, zero_point, q_min, q_max, form="divide"):
        self.scale, self.form, self.c = scale, form, scale.dtype.type
        self.zero_point = np.asarray(zero_point).astype(self.c)
        self.low, self.high = self.c(q_min) - self.zero_point, self.c(q_max) - self.zero_point

    def steps(self, x):
        with np.errstate(all="ignore"):
            return x / self.scale if self.form == "divide" else x * (self.c(1) / self.scale)

    def clamped(self, x):
        return np.minimum(np.maximum(np.rint(self.steps(x)), self.low), self.high)

    def inside(self, x):
        rounded = np.rint(self.steps(x))
        return (self.low <= rounded) & (rounded <= self.high)

    def quantize(self, x):
        return self.clamped(np.where(np.isnan(x), self.c(0), x)) + self.zero_point

    def fake_quantize(self, x):
        return np.where(np.isnan(x), x, self.scale * self.clamped(x) + self.c(0))

    def gradient_terms(self, x, dy):
        """(of the scale, of the zero point)"""
        steps = self.steps(x)
        with np.errstate(invalid="ignore"):
            error = np.rint(steps) - steps
        slope = np.where(self.inside(x), error, np.where(np.rint(steps) > self.high, self.high, self.low))
        outside = ~self.inside(x) & ~np.isnan(x)
        return np.where(np.isnan(x), self.c(0), dy * slope), np.where(outside, self.c(0) - dy * self.scale, self.c(0))


def ranges(x, flat, count, mode, q_min, q_max, zero_in_range, scale_dtype):
    """(scale, zero point) of every segment of x, which is in the compute type."""
    c = x.dtype.type
    scales, zero_points = np.ones(count, scale_dtype), np.zeros(count, np.int32)
    for i in range(count):
        members = x[(flat == i) & np.isfinite(x)]
        lo, hi = (members.min(), members.max()) if members.size else (c(0), c(0))
        if mode == "symmetric":
            spread = max(abs(lo), abs(hi)) / c(q_max)
        else:
            if zero_in_range or lo == hi:
                lo, hi = min(lo, c(0)), max(hi, c(0))
            spread = (hi - lo) / c(q_max - q_min)
        if spread > 0:
            scales[i] = max(spread.astype(scale_dtype), _smallest(scale_dtype))
        if mode == "asymmetric":
            zero_points[i] = q_min - np.rint(lo / scales[i].astype(x.dtype))
            if zero_in_range:
                zero_points[i] = np.clip(zero_points[i], q_min, q_max)
    return scales, zero_points


def _smallest(dtype):
    return dtype.type(2.0 ** _DIGITS[dtype.name][1])


def sums_of(terms, flat, count):
    """(sums, sums of magnitudes) of each segment, as long doubles."""
    sums, magnitudes = np.zeros(count, np.longdouble), np.zeros(count, np.longdouble)
    np.add.at(sums, flat.ravel(), wide(terms).ravel())
    np.add.at(magnitudes, flat.ravel(), np.abs(wide(terms)).ravel())
    return sums, magnitudes


def lerp(a, b, w):
    c = compute_of(a.dtype).type
    return np.where(np.abs(w) < c(0.5), a + w * (b - a), b - (b - a) * (c(1) - w))


def unbroadcast(terms, shape):
    """A gradient summed to the shape of its operand."""
    terms = wide(terms)
    terms = terms.sum(axis=tuple(range(terms.ndim - len(shape))))
    repeated = tuple(d for d, n in enumerate(shape) if n == 1)
    return terms.sum(axis=repeated, keepdims=True).reshape(shape)
