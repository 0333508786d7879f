"""Properties of the quantise family, searched by hypothesis: what must hold for every shape, view and parameter.

The search is derandomised, so every run tries the same cases. Expected values of whole tensors come from the page's
formulas in NumPy with one scale per element (quantize_formula.py).
"""

import numpy as np
import planck_c as planck
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DTYPES, assert_same_bits, rng, to_numpy, ulp
from quantize_formula import Formulas, compute_of, narrow, segments, spread, widen

CODES = {np.int8: (-128, 127), np.uint8: (0, 255)}
TORCH_CODES = {np.int8: torch.int8, np.uint8: torch.uint8}
EXPONENTS = {torch.float32: (-126, 127), torch.float64: (-1022, 1023)}

HALVES = np.arange(-600, 601) / 2

seeds = st.integers(0, 2**32 - 1)
forms = st.sampled_from([planck.DIVIDE, planck.RECIPROCAL])


def search(examples):
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


@st.composite
def code_ranges(draw):
    """(code type, q_min, q_max), mostly not the whole type."""
    codes = draw(st.sampled_from(list(CODES)))
    lowest, highest = CODES[codes]
    ends = draw(st.lists(st.integers(lowest, highest), min_size=2, max_size=2))
    return codes, min(ends), max(ends)


@st.composite
def scales(draw, below_largest=0):
    """(dtype, scale in C as a Python number) with scales up to 2^-below_largest of the largest."""
    dtype = draw(st.sampled_from(DTYPES))
    compute = compute_of(dtype)
    smallest, largest = EXPONENTS[compute]
    width = 64 if compute == torch.float64 else 32
    return dtype, draw(st.floats(2.0**smallest, 2.0 ** (largest - below_largest), width=width))


@st.composite
def inputs(draw, below_largest=0):
    """(dtype, scale, x): a few numbers of any kind, all half steps around the codes, and what lies between them."""
    dtype, scale = draw(scales(below_largest))
    far = draw(st.lists(st.floats(width=64 if dtype == torch.float64 else 32), min_size=1, max_size=6))
    steps = rng(draw(seeds)).uniform(-300, 300, 500)
    with np.errstate(over="ignore", under="ignore"):
        return dtype, scale, narrow(np.concatenate([far, HALVES * scale, steps * scale]), dtype)


# ---- scalars: what a code means ----


@search(250)
@given(inputs(), st.integers(-(2**20), 2**20), code_ranges(), forms)
def test_codes_are_inside_the_range(problem, zero_point, code_range, form):
    dtype, scale, x = problem
    codes, q_min, q_max = code_range
    x = torch.cat([x, torch.tensor([np.nan, np.inf, -np.inf, 0.0]).to(dtype)])
    q = planck.quantize(x, scale, zero_point, q_min, q_max, TORCH_CODES[codes], form)
    assert q_min <= int(q.min()) and int(q.max()) <= q_max
    assert q[-3] == q_max and q[-2] == q_min
    assert q[-4] == q[-1] == min(max(zero_point, q_min), q_max)


@search(250)
@given(inputs(below_largest=10), st.integers(-300, 300), forms)
def test_a_round_trip_is_off_by_half_a_step(problem, zero_point, form):
    """Inside the range, and plus roundings: at most three in C on the way, and the one that stores the result."""
    dtype, scale, x = problem
    c = widen(x).dtype.type
    inside = Formulas(c(scale), zero_point, -128, 127, form).inside(widen(x))
    y = planck.dequantize(planck.quantize(x, scale, zero_point, -128, 127, torch.int8, form), scale, zero_point, dtype)
    # A result beyond the dtype's largest number is infinite; that is a rounding too, and not this one.
    exact, got = (t.to(torch.float64).numpy().astype(np.longdouble) for t in (x, y))
    inside &= np.abs(exact) + scale < float(torch.finfo(dtype).max)
    bound = np.longdouble(scale) / 2 + 3 * np.longdouble(np.finfo(c).eps) * np.abs(exact) + ulp(y.double(), dtype) / 2
    assert np.all(np.abs(got[inside] - exact[inside]) <= bound[inside])


@search(250)
@given(inputs(), st.integers(-(2**20), 2**20), code_ranges(), forms)
def test_quantise_is_monotone(problem, zero_point, code_range, form):
    dtype, scale, x = problem
    codes, q_min, q_max = code_range
    x, _ = torch.sort(torch.cat([x[~torch.isnan(x)], torch.tensor([np.inf, -np.inf, 0.0]).to(dtype)]))
    q = planck.quantize(x, scale, zero_point, q_min, q_max, TORCH_CODES[codes], form)
    assert torch.all(torch.diff(q.to(torch.int64)) >= 0)
    y = planck.fake_quantize(x, scale, zero_point, q_min, q_max, form)
    assert torch.all(y[1:] >= y[:-1])


@search(200)
@given(scales(), st.data(), code_ranges(), forms)
def test_zero_is_exact(problem, data, code_range, form):
    """0 and -0 give the zero point, the zero point gives 0, and fake-quantise gives +0."""
    dtype, scale = problem
    codes, q_min, q_max = code_range
    zero_point = data.draw(st.integers(q_min, q_max))
    zeros = torch.tensor([0.0, -0.0]).to(dtype)
    q = planck.quantize(zeros, scale, zero_point, q_min, q_max, TORCH_CODES[codes], form)
    assert torch.all(q == zero_point)
    positive = torch.zeros(2, dtype=dtype)
    assert_same_bits(planck.dequantize(q, scale, zero_point, dtype), positive)
    assert_same_bits(planck.fake_quantize(zeros, scale, zero_point, q_min, q_max, form), positive)


# ---- tensors: which scale an element has, wherever it lies ----


@st.composite
def tensors(draw):
    """(shape, granularity, dtype, scale dtype, seed) of rank 1 to 4, with groups that do not divide their axis."""
    shape = tuple(draw(st.lists(st.integers(1, 9) | st.sampled_from([0, 1, 17, 40]), min_size=1, max_size=4)))
    if np.prod(shape) > 5000:
        shape = shape[:2]
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    group = draw(st.integers(1, shape[axis] + 3) | st.sampled_from([1, 2, 3, 4, 8, 1000]))
    granularity = draw(st.sampled_from(
        [planck.PER_TENSOR, planck.per_channel(axis), planck.PER_TOKEN, planck.per_group(axis, group)]))
    dtype = draw(st.sampled_from(DTYPES))
    return shape, granularity, dtype, draw(st.sampled_from([dtype, compute_of(dtype)])), draw(seeds)


def as_torch(array, dtype):
    array = np.array(array, order="C")
    return torch.from_numpy(array.view(np.int16)).view(dtype) if dtype == torch.bfloat16 else torch.from_numpy(array)


class Views:
    """Places arrays in larger buffers: dimensions in any order, forwards and backwards, with gaps, at an offset."""

    def __init__(self, random):
        self.random = random

    def place(self, shape, dtype):
        """(buffer, view of that shape in it)."""
        order = self.random.permutation(len(shape))
        steps = self.random.choice([1, 1, 2, 3, -1, -1, -2], len(shape))
        pads = self.random.integers(0, 3, len(shape))
        sizes = [shape[d] * abs(steps[d]) + pads[d] for d in order]
        buffer = np.full(sizes, 77, dtype)
        cut = buffer[(*(slice(pads[d], None) for d in order), ...)]
        turned = cut[(*(slice(None, None, steps[d]) for d in order), ...)]
        return buffer, turned.transpose(np.argsort(order))

    def copy(self, array):
        array = to_numpy(array)
        _, view = self.place(array.shape, array.dtype)
        view[...] = array
        return view

    def out(self, shape, dtype):
        return self.place(shape, to_numpy(torch.empty(0, dtype=dtype)).dtype)


def check_gaps(buffer, view):
    """Nothing of the buffer but the view was written."""
    view[...] = 77
    assert np.all(buffer == 77)


def contents(problem):
    """x with half steps, infinities and NaN, dy, scales, zero points; the last two also spread over the elements."""
    shape, granularity, dtype, scale_dtype, seed = problem
    random = rng(seed)
    _, scales = segments(shape, granularity)
    scale = narrow(10.0 ** random.uniform(-2, 1, scales), scale_dtype)
    zero_point = np.asarray(random.integers(-150, 151, scales, np.int32))
    each = spread(widen(scale), zero_point, shape, granularity)
    steps = random.normal(0, 100, shape)
    steps = np.where(random.uniform(size=shape) < 0.2, np.round(steps) + 0.5, steps)
    x = np.where(random.uniform(size=shape) < 0.05, random.choice([np.inf, -np.inf, np.nan, 0.0], shape),
                 steps * each[0])
    return narrow(x, dtype), narrow(random.standard_normal(shape), dtype), scale, zero_point, each, Views(random)


@search(250)
@given(tensors(), code_ranges(), forms)
def test_quantise_of_views(problem, code_range, form):
    shape, granularity, dtype, _, _ = problem
    codes, q_min, q_max = code_range
    x, dy, scale, zero_point, each, views = contents(problem)
    formulas = Formulas(*each, q_min, q_max, form)
    buffer, out = views.place(shape, codes)
    operands = views.copy(scale), views.copy(zero_point), q_min, q_max
    planck.quantize(views.copy(x), *operands, None, form, granularity, out)
    assert np.array_equal(out, formulas.quantize(widen(x)))
    check_gaps(buffer, out)
    dx = planck.quantize_backward(views.copy(x), views.copy(dy), *operands, planck.element_of(out), form, granularity)
    assert_same_bits(as_torch(dx, dtype), narrow(formulas.quantize_backward(widen(x), widen(dy)), dtype))


@search(250)
@given(tensors(), st.sampled_from(list(CODES)))
def test_dequantise_of_views(problem, codes):
    shape, granularity, dtype, _, seed = problem
    _, dy, scale, zero_point, each, views = contents(problem)
    q = rng(seed).integers(*CODES[codes], shape, codes, endpoint=True)
    formulas = Formulas(*each, 0, 0)
    buffer, out = views.out(shape, dtype)
    planck.dequantize(views.copy(q), views.copy(scale), views.copy(zero_point), None, granularity, out)
    assert_same_bits(as_torch(out, dtype), narrow(formulas.dequantize(q), dtype))
    check_gaps(buffer, out)
    dq = planck.dequantize_backward(views.copy(dy), views.copy(scale), granularity=granularity)
    assert_same_bits(as_torch(dq, dtype), narrow(formulas.dequantize_backward(widen(dy)), dtype))


@search(250)
@given(tensors(), st.integers(-1000, 1000), st.integers(0, 1000), forms)
def test_fake_quantise_of_views(problem, q_min, codes, form):
    shape, granularity, dtype, _, _ = problem
    x, dy, scale, zero_point, each, views = contents(problem)
    formulas = Formulas(*each, q_min, q_min + codes, form)
    operands = views.copy(scale), views.copy(zero_point), q_min, q_min + codes, form
    buffer, out = views.out(shape, dtype)
    planck.fake_quantize(views.copy(x), *operands, out, granularity)
    assert_same_bits(as_torch(out, dtype), narrow(formulas.fake_quantize(widen(x)), dtype))
    check_gaps(buffer, out)
    dx = planck.fake_quantize_backward(views.copy(x), views.copy(dy), *operands, granularity)
    assert_same_bits(as_torch(dx, dtype), narrow(formulas.fake_quantize_backward(widen(x), widen(dy)), dtype))


@search(150)
@given(tensors(), forms)
def test_equal_scales_are_one_scale(problem, form):
    """A scale tensor that repeats one number, by strides of 0, gives the bits of the number; so does a repeated x."""
    shape, granularity, dtype, scale_dtype, seed = problem
    x, dy, *_ = contents(problem)
    random = rng(seed)
    axis = random.integers(len(shape))
    x, dy = (to_numpy(t) for t in (x, dy))
    x = np.broadcast_to(x.take([0], axis) if shape[axis] else x, shape)
    _, scales = segments(shape, granularity)
    scale = narrow(np.array(0.3), scale_dtype)
    tensor = np.broadcast_to(to_numpy(scale), scales), np.broadcast_to(np.int32(-7), scales)
    number = float(scale), -7
    for run in (lambda p, g: planck.quantize(x, *p, -128, 127, np.int8, form, g),
                lambda p, g: planck.quantize_backward(x, dy, *p, -128, 127, form=form, granularity=g),
                lambda p, g: planck.fake_quantize(x, *p, -128, 127, form, granularity=g),
                lambda p, g: planck.fake_quantize_backward(x, dy, *p, -128, 127, form, g),
                lambda p, g: planck.dequantize_backward(dy, p[0], granularity=g)):
        got, expected = run(tensor, granularity), run(number, planck.PER_TENSOR)
        assert got.tobytes() == expected.tobytes()
