"""Gradients for learnable scales and zero points against exact sums of the page's terms.

The terms are computed in C, as the page says, and summed by math.fsum. planck sums in f64 in its canonical order,
multiplies by grad_factor in f64 and rounds once to the scale's dtype, so what is left is the f64 sum's own error.
"""

import math

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, assert_same_bits, rng, ulp
from quantize_formula import Formulas, compute_of, narrow, segments, spread, widen

FORMS = [planck.DIVIDE, planck.RECIPROCAL]
# Each term of these sums passes through at most 7 additions per level of the canonical order and one more to join the
# levels: 40 for 8^5 terms, 56 for 250 rows of 8^4. 2^-47 is 64 roundings of f64, and far less than one dropped term.
SUM_ERROR = 2.0**-47
CASES = [
    ((20_011,), planck.PER_TENSOR), ((7, 300, 5), planck.PER_TENSOR), ((), planck.PER_TENSOR),
    ((9, 1700), planck.per_channel(0)), ((300, 9), planck.per_channel(-1)), ((5, 7, 11, 13), planck.per_channel(2)),
    ((37,), planck.per_channel(0)),
    ((50, 301), planck.PER_TOKEN), ((6, 7, 129), planck.PER_TOKEN), ((1000,), planck.PER_TOKEN),
    ((6, 640), planck.per_group(1, 128)), ((6, 333), planck.per_group(-1, 64)), ((130, 17), planck.per_group(0, 32)),
    ((2, 3, 2, 2, 3, 2, 2, 3), planck.per_group(4, 2)),
    ((4, 9, 11), planck.per_group(1, 4)), ((5, 12), planck.per_group(1, 100)), ((5, 6), planck.per_group(0, 1)),
]


def problem(shape, granularity, dtype, scale_dtype, seed):
    """x on both sides of the range and inside it, with half steps, infinities and NaN; dy; scales; zero points."""
    random = rng(seed)
    _, scales = segments(shape, granularity)
    scale = narrow(10.0 ** random.uniform(-2, 1, scales), scale_dtype)
    zero_point = torch.from_numpy(np.asarray(random.integers(-20, 21, scales, np.int32)))
    wide, _ = spread(widen(scale), zero_point, shape, granularity)
    steps = np.asarray(random.normal(0, 100, shape))
    steps = np.where(random.uniform(size=shape) < 0.1, np.round(steps) + 0.5, steps)
    x = np.asarray(steps * wide)
    x = np.where(random.uniform(size=shape) < 0.01, random.choice([np.inf, -np.inf, np.nan], shape), x)
    return narrow(x, dtype), narrow(random.standard_normal(shape), dtype), scale, zero_point


def exact_sums(terms, shape, granularity, factor):
    """(exact sums times factor, sums of magnitudes times |factor|) per segment, in f64."""
    flat, scales = segments(shape, granularity)
    order = np.argsort(flat.reshape(-1), kind="stable")
    rows = np.split(terms.astype(np.float64).reshape(-1)[order], np.cumsum(np.bincount(flat.reshape(-1)))[:-1])
    exact = np.array([math.fsum(row) for row in rows]).reshape(scales) * factor
    return exact, np.array([math.fsum(np.abs(row)) for row in rows]).reshape(scales) * abs(factor)


def check(shape, granularity, dtype, scale_dtype, form, factor):
    x, dy, scale, zero_point = problem(shape, granularity, dtype, scale_dtype, 70)
    got = planck.learn_quantize(x, dy, scale, zero_point, -128, 127, form, granularity, factor)
    formulas = Formulas(*spread(widen(scale), zero_point, shape, granularity), -128, 127, form)
    assert_same_bits(got[0], narrow(formulas.fake_quantize_backward(widen(x), widen(dy)), dtype))
    for gradient, terms in zip(got[1:], (formulas.d_scale_terms, formulas.d_zero_point_terms), strict=True):
        exact, magnitude = exact_sums(terms(widen(x), widen(dy)), shape, granularity, factor)
        error = np.abs(gradient.to(torch.float64).numpy() - exact)
        assert gradient.shape == scale.shape and gradient.dtype == scale_dtype
        assert np.all(error <= 0.5 * ulp(exact, scale_dtype) + SUM_ERROR * magnitude)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_against_exact_sums(case, dtype, form):
    for scale_dtype in {dtype, compute_of(dtype)}:
        for factor in (1.0, 0.0123, -3.0):
            check(*case, dtype, scale_dtype, form, factor)


@pytest.mark.parametrize("granularity", [planck.PER_TENSOR, planck.per_channel(0), planck.per_channel(1),
                                         planck.per_group(1, 100)], ids=str)
def test_large_tensors(granularity):
    """Enough for every thread to have a part."""
    check((250, 4096), granularity, torch.float32, torch.float32, planck.DIVIDE, 1.0)


@pytest.mark.parametrize("shape, granularity", [((0,), planck.PER_TENSOR), ((3, 0), planck.PER_TOKEN),
                                                ((0, 3), planck.per_channel(1))], ids=str)
def test_gradients_of_empty_segments_are_zero(shape, granularity):
    x = np.ones(shape, np.float32)
    scale = np.full(segments(shape, granularity)[1], np.float32(0.5))
    outs = [x.copy(), np.full_like(scale, 7), np.full_like(scale, 7)]
    planck.learn_quantize(x, x, scale, 0, -8, 7, granularity=granularity, outs=outs)
    assert not outs[1].any() and not outs[2].any()


@pytest.mark.parametrize("over", ["x", "dy"])
def test_in_place(over):
    """d_input may take the place of x or dy: the sums are those of the values before."""
    x, dy, scale, zero_point = problem((300, 7), planck.per_channel(1), torch.float32, torch.float32, 72)
    args = scale, zero_point, -128, 127
    expected = planck.learn_quantize(x, dy, *args, granularity=planck.per_channel(1))
    outs = [x if over == "x" else dy, torch.empty(7), torch.empty(7)]
    planck.learn_quantize(x, dy, *args, granularity=planck.per_channel(1), outs=outs)
    for got, want in zip(outs, expected, strict=True):
        assert_same_bits(got, want)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_kind_of_element(dtype):
    """One element at a time, so that each gradient is one term: below, inside, half steps, above, infinities, NaN."""
    x = torch.tensor([-9.0, -4.5, -4.25, -0.25, 0.0, 0.25, 0.75, 0.875, 3.0, 3.25, 9.0, np.inf, -np.inf, np.nan])
    d_scale = [-9.0, 0.0, 0.5, 0.5, 0.0, -0.5, 0.5, 0.25, 0.0, -0.5, 6.0, 6.0, -9.0, 0.0]
    outside = [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0]
    for i, value in enumerate(x.to(dtype)):
        value = value.reshape(1)
        _, got_scale, got_zp = planck.learn_quantize(value, torch.full_like(value, 2.0), 0.5, 1, -8, 7, dtype=dtype)
        assert got_scale.item() == 2 * d_scale[i], value
        assert got_zp.item() == (-1.0 if outside[i] else 0.0), value


@pytest.mark.parametrize("granularity", [planck.PER_TENSOR, planck.per_channel(1), planck.PER_TOKEN,
                                         planck.per_group(0, 3)], ids=str)
def test_strides_do_not_matter(granularity):
    """Views of every kind in and out of the sums: the same bits as from contiguous copies."""
    shape = (40, 24)
    x, dy, scale, zero_point = (t.numpy() for t in problem(shape, granularity, torch.float32, torch.float32, 71))
    expected = planck.learn_quantize(x, dy, scale, zero_point, -128, 127, granularity=granularity)
    padded = np.full((24, 80), np.float32(7))
    padded[::-1, ::2] = x.T
    views = [padded[::-1, ::2].T, np.asfortranarray(dy)]
    for a in (scale, zero_point):
        backwards = np.repeat(a[..., None], 2, -1)[tuple([slice(None, None, -1)] * a.ndim)].copy()
        views.append(backwards[tuple([slice(None, None, -1)] * a.ndim)][..., 0])
    for got, want in zip(planck.learn_quantize(*views, -128, 127, granularity=granularity), expected, strict=True):
        assert_same_bits(got, want)


def test_finite_differences():
    """Away from half steps the fake-quantised value is linear in the scale only outside the range; inside, the page's
    straight-through term is r - x/scale. So: outside by a central difference, inside by its definition."""
    x = torch.tensor([-50.0, 50.0, 30.0, -31.0], dtype=torch.float64)
    dy = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    scale, step = 0.5, 2.0**-20
    loss = [float((planck.fake_quantize(x, scale + e, 3, -8, 7) * dy).sum()) for e in (step, -step)]
    _, d_scale, _ = planck.learn_quantize(x, dy, scale, 3, -8, 7, dtype=torch.float64)
    assert abs((loss[0] - loss[1]) / (2 * step) - d_scale.item()) < 1e-8
    # d_zp: the loss one zero point further, as all elements sit at an end of the range.
    loss = [float((planck.fake_quantize(x, scale, 3 + e, -8, 7) * dy).sum()) for e in (1, -1)]
    _, _, d_zero_point = planck.learn_quantize(x, dy, scale, 3, -8, 7, dtype=torch.float64)
    assert (loss[0] - loss[1]) / 2 == d_zero_point.item() != 0
