"""docs/ops/quantize.md in NumPy: formulas in the compute type C, and which element belongs to which segment.

Everything is written for whole arrays of f32 or f64. Scales and zero points are spread to the shape of x first,
through an index for every element, so nothing here knows strides, loops or broadcasting.
"""

import numpy as np
import planck_c as planck
import torch


def segments(shape, granularity):
    """(for every element the flat index of its scale, the shape of the scales): the page's table."""
    index = list(np.indices(shape))
    kind, axis, size = granularity.kind, granularity.axis, granularity.group_size
    if kind == planck.PER_TENSOR.kind:
        return np.zeros(shape, np.int64), ()
    if kind == planck.PER_TOKEN.kind:
        index, scales = index[:-1], tuple(shape[:-1])
    elif kind == planck.per_channel(0).kind:
        index, scales = [index[axis]], (shape[axis],)
    else:
        index[axis] = index[axis] // size
        scales = [*shape]
        scales[axis] = -(-shape[axis] // size)
        scales = tuple(scales)
    flat = np.zeros(shape, np.int64)
    for i, extent in zip(index, scales, strict=True):
        flat = flat * extent + i
    return flat, scales


def compute_of(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def widen(x):
    """A torch tensor in its compute type, as NumPy."""
    return x.to(compute_of(x.dtype)).numpy()


def narrow(array, dtype):
    return torch.from_numpy(np.array(array, order="C")).to(dtype)


class Formulas:
    """The formulas at given scales (an array in C) and zero points (integers) that broadcast to the shape of x."""

    def __init__(self, scale, zero_point, q_min, q_max, form=planck.DIVIDE):
        self.scale = np.asarray(scale)
        self.c = self.scale.dtype.type
        self.zero_point = np.asarray(zero_point).astype(self.c)
        self.lo, self.hi = self.c(q_min) - self.zero_point, self.c(q_max) - self.zero_point
        self.form = form

    def steps(self, x):
        with np.errstate(all="ignore"):
            return x / self.scale if self.form == planck.DIVIDE else x * (self.c(1) / self.scale)

    def clamped(self, x):
        return np.minimum(np.maximum(np.rint(self.steps(x)), self.lo), self.hi)

    def below(self, x):
        return np.rint(self.steps(x)) < self.lo

    def above(self, x):
        return np.rint(self.steps(x)) > self.hi

    def inside(self, x):
        return ~(self.below(x) | self.above(x) | np.isnan(x))

    def quantize(self, x):
        """Codes, as int64. NaN is clamp(zp, q_min, q_max): what 0 gives."""
        return (self.clamped(np.where(np.isnan(x), self.c(0), x)) + self.zero_point).astype(np.int64)

    def quantize_backward(self, x, dy):
        return np.where(self.inside(x), self.steps(dy), self.c(0))

    def dequantize(self, q):
        return self.scale * (q.astype(self.c) - self.zero_point)

    def dequantize_backward(self, dy):
        return dy * self.scale

    def fake_quantize(self, x):
        return np.where(np.isnan(x), x, self.scale * self.clamped(x) + self.c(0))

    def fake_quantize_backward(self, x, dy):
        return np.where(self.inside(x), dy, self.c(0))

    def d_scale_terms(self, x, dy):
        with np.errstate(invalid="ignore"):  # of infinities, which are outside
            error = np.rint(self.steps(x)) - self.steps(x)
        slope = np.where(self.below(x), self.lo, np.where(self.above(x), self.hi, error))
        return np.where(np.isnan(x), self.c(0), dy * slope)

    def d_zero_point_terms(self, x, dy):
        return np.where(self.below(x) | self.above(x), self.c(0) - dy * self.scale, self.c(0))


def spread(scale, zero_point, shape, granularity):
    """Scales and zero points, one for every element of a tensor of that shape."""
    flat, _ = segments(shape, granularity)
    return np.asarray(scale).reshape(-1)[flat], np.asarray(zero_point).reshape(-1)[flat]
