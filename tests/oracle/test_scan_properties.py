"""What scans promise bit for bit, on drawn shapes, axes and numbers, and on a few long ones that are cut to pieces."""

import numpy as np
import planck_c as planck
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import DTYPES, rng

FLOAT_KINDS = [planck.CUMSUM, planck.CUMPROD, planck.CUMMAX, planck.CUMMIN, planck.LOG_CUMSUM_EXP]
EXTREMA = [planck.CUMMAX, planck.CUMMIN]
IDENTITY = {planck.CUMSUM: 0.0, planck.CUMPROD: 1.0, planck.LOG_CUMSUM_EXP: -np.inf}
INTEGERS = [torch.int32, torch.int64]
# Around the ends of the canonical order's blocks of 8, 64, 512 and 4096, and where few long rows are cut.
LENGTHS = [1, 2, 7, 8, 9, 63, 64, 65, 511, 513, 1100, 4095, 4097]
LONG = [((70_001,), 0), ((3, 33_000), 1), ((33_000, 3), 0), ((20, 9_000), 1), ((2, 9_000, 17), 1)]


def search(examples):
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


def same(got, expected):
    """Equal bit for bit, except that a NaN is a NaN; integers too."""
    assert got.dtype == expected.dtype and got.shape == expected.shape
    if not got.dtype.is_floating_point:
        assert torch.equal(got, expected)
        return
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[got.element_size()]
    nan = torch.isnan(got)
    assert torch.equal(nan, torch.isnan(expected))
    keep = ~nan
    assert torch.equal(got.contiguous().view(integer)[keep], expected.contiguous().view(integer)[keep])


def numbers(kind, seed, shape, dtype):
    """Mostly ordinary, with rounding at every step; some infinities and NaNs in one of four cases."""
    random = rng(seed)
    if not dtype.is_floating_point:
        return torch.from_numpy(random.integers(-(2**31), 2**31, shape)).to(dtype)
    x = random.standard_normal(shape) * 2.0 ** random.integers(-3, 4)
    if kind == planck.CUMPROD:
        x = np.exp(x * 0.02)
    if seed % 4 == 0:
        x = np.where(random.uniform(size=shape) < 0.01, random.choice([np.inf, -np.inf, np.nan, 0.0], shape), x)
    return torch.from_numpy(np.asarray(x)).to(dtype)


def scan(kind, x, axis, **options):
    """(values, indices or None): extrema have both."""
    if kind not in EXTREMA:
        return planck.scan(kind, x, axis, **options), None
    indices = torch.empty(tuple(x.shape), dtype=torch.int64)
    return planck.scan(kind, x, axis, indices=indices, **options), indices


@st.composite
def problems(draw):
    """(kind, x, axis, options)."""
    dtype = draw(st.sampled_from([*DTYPES, *INTEGERS]))
    kind = draw(st.sampled_from(FLOAT_KINDS if dtype.is_floating_point else FLOAT_KINDS[:-1]))
    shape = draw(st.lists(st.integers(1, 20), min_size=0, max_size=2))
    axis = draw(st.integers(0, len(shape)))
    shape.insert(axis, draw(st.sampled_from(LENGTHS)))
    options = {"reverse": draw(st.booleans())}
    if kind in EXTREMA:
        options["ties"] = draw(st.sampled_from([planck.TIES_FIRST, planck.TIES_LAST]))
    return kind, numbers(kind, draw(st.integers(0, 2**32 - 1)), tuple(shape), dtype), axis, options


def long_problems():
    for seed, (shape, axis) in enumerate(LONG):
        for kind in FLOAT_KINDS:
            dtype = DTYPES[(seed + kind) % len(DTYPES)]
            name = f"{kind}-{'x'.join(map(str, shape))}-{str(dtype)[6:]}"
            yield pytest.param((kind, shape, axis, dtype, seed), id=name)


def check_reverse(problem):
    """reverse(x) = flip(scan(flip(x)))."""
    kind, x, axis, options = problem
    there, at = scan(kind, x, axis, **options)
    back, back_at = scan(kind, x.flip(axis), axis, **{**options, "reverse": not options["reverse"]})
    same(there, back.flip(axis))
    if at is not None:
        same(at, x.shape[axis] - 1 - back_at.flip(axis))


def check_exclusive(problem):
    """exclusive[t] = inclusive[t - 1], also in place; before the first element there is the identity."""
    kind, x, axis, options = problem
    if kind in EXTREMA:
        return
    y, _ = scan(kind, x, axis, **options)
    before, _ = scan(kind, x, axis, exclusive=True, **options)
    n = x.shape[axis]
    first, source, target = (n - 1, 1, 0) if options["reverse"] else (0, 0, 1)
    same(before.narrow(axis, target, n - 1), y.narrow(axis, source, n - 1))
    identity = int(IDENTITY[kind]) if not x.dtype.is_floating_point else IDENTITY[kind]
    same(before.select(axis, first), torch.full_like(before.select(axis, first), identity))
    in_place = x.clone()
    planck.scan(kind, in_place, axis, exclusive=True, out=in_place, **options)
    same(in_place, before)


def check_prefix(problem, cuts):
    """What follows changes nothing: a part's scan is the part of the scan."""
    kind, x, axis, options = problem
    y, at = scan(kind, x, axis, **options)
    n = x.shape[axis]
    for length in cuts:
        start = n - length if options["reverse"] else 0
        part, part_at = scan(kind, x.narrow(axis, start, length), axis, **options)
        same(part, y.narrow(axis, start, length))
        if at is not None:
            same(part_at, at.narrow(axis, start, length) - start)


def check_axes(problem):
    """Any axis and any strides give the bits of a contiguous row on its own."""
    kind, x, axis, options = problem
    y, at = scan(kind, x, axis, **options)
    rows = x.movedim(axis, -1).contiguous()
    row_y, row_at = scan(kind, rows, -1, **options)
    same(y.movedim(axis, -1), row_y)
    one, _ = scan(kind, rows.reshape(-1, rows.shape[-1])[-1].clone(), 0, **options)
    same(one, row_y.reshape(-1, rows.shape[-1])[-1])
    strided, _ = scan(kind, rows.movedim(-1, 0), 0, **options)
    same(strided.movedim(0, -1), row_y)
    in_place = x.clone()
    planck.scan(kind, in_place, axis, out=in_place, **options)
    same(in_place, y)
    if at is not None:
        same(at.movedim(axis, -1), row_at)


@search(150)
@given(problems())
def test_reverse_is_a_flip(problem):
    check_reverse(problem)


@search(150)
@given(problems())
def test_exclusive_is_a_shift(problem):
    check_exclusive(problem)


@search(150)
@given(problems(), st.data())
def test_what_follows_changes_nothing(problem, data):
    n = problem[1].shape[problem[2]]
    check_prefix(problem, [(n + 1) // 2, data.draw(st.integers(1, n))])


@search(150)
@given(problems())
def test_any_axis_gives_the_bits_of_a_row(problem):
    check_axes(problem)


@pytest.mark.parametrize("case", list(long_problems()))
def test_long_axes(case):
    kind, shape, axis, dtype, seed = case
    n = shape[axis]
    problem = kind, numbers(kind, 4 * seed + 1, shape, dtype), axis, {"reverse": seed % 2 == 1}
    check_reverse(problem)
    check_exclusive(problem)
    check_prefix(problem, [n // 2, 8193, 500])
    check_axes(problem)


@search(100)
@given(st.sampled_from(DTYPES), st.sampled_from(LENGTHS), st.integers(1, 20), st.booleans(), st.booleans(),
       st.integers(0, 2**32 - 1))
def test_linear_recurrence(dtype, n, rows, with_initial, reverse, seed):
    """Flip, axis, prefix and place, as above."""
    random = rng(seed)
    a = torch.from_numpy(random.uniform(-1.1, 1.1, (rows, n))).to(dtype)
    b = torch.from_numpy(random.standard_normal((rows, n))).to(dtype)
    initial = torch.from_numpy(random.standard_normal((rows, 1))).to(dtype) if with_initial else None
    h = planck.linear_recurrence(a, b, initial, 1, reverse)
    same(planck.linear_recurrence(a.flip(1), b.flip(1), initial, 1, not reverse).flip(1), h)
    columns = planck.linear_recurrence(a.T.contiguous(), b.T.contiguous(), None if initial is None else initial.T, 0,
                                       reverse)
    same(columns.T, h)
    half = (n + 1) // 2
    start = n - half if reverse else 0
    same(planck.linear_recurrence(a.narrow(1, start, half), b.narrow(1, start, half), initial, 1, reverse),
         h.narrow(1, start, half))
    for which in (a, b):
        place = which.clone()
        planck.linear_recurrence(place if which is a else a, place if which is b else b, initial, 1, reverse, out=place)
        same(place, h)
