"""Scans against torch and exact arithmetic: every kind, dtype and axis, strided views, both directions, special values.

Sums and products are compared with exact prefixes, not with torch's own rounding; maxima, minima, indices, integers
and the positions of NaN with torch.
"""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, assert_same_bits, rng, to_numpy
from scan_exact import error, exact_log_sum_exps, exact_products, exact_sums, log_sum_exp_bound, sum_bound

EXTREMA = {planck.CUMMAX: torch.cummax, planck.CUMMIN: torch.cummin}
SUMS = [planck.CUMSUM, planck.CUMPROD, planck.LOG_CUMSUM_EXP]
IDENTITY = {planck.CUMSUM: 0.0, planck.CUMPROD: 1.0, planck.LOG_CUMSUM_EXP: -np.inf}
INTEGERS = [torch.int32, torch.int64]
SHAPES = [(1,), (7,), (700,), (5, 130), (130, 5), (3, 67, 4), (2, 3, 2, 33)]
LAYOUTS = ["packed", "gaps", "reversed", "transposed"]


def draw(kind, seed, shape, dtype):
    """Numbers whose results stay far from overflow, in f16 too."""
    x = rng(seed).standard_normal(shape)
    if kind == planck.CUMPROD:
        x = np.exp(x * 0.05) * np.where(rng(seed + 1).uniform(size=shape) < 0.5, -1, 1)
    return torch.from_numpy(np.asarray(x)).to(dtype)


def laid_out(array, layout):
    """The same elements in memory of another order."""
    if layout == "packed":
        return array
    if layout == "gaps":
        wide = np.zeros([2 * n for n in array.shape], array.dtype)
        view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    elif layout == "reversed":
        view = np.empty_like(array)[tuple(slice(None, None, -1) for _ in array.shape)]
    else:
        view = np.empty(array.shape[::-1], array.dtype).T
    view[...] = array
    return view


def from_numpy(array, dtype):
    array = array.copy()  # torch has no negative strides
    return torch.from_numpy(array.view(np.int16)).view(dtype) if dtype == torch.bfloat16 else torch.from_numpy(array)


def scan(kind, x, axis, layout, **options):
    """Planck's scan of a torch tensor, input and output laid out in memory; indices as a second result."""
    array = to_numpy(x)
    out, indices = laid_out(np.zeros_like(array), layout), options.pop("indices", None)
    if indices is not None:
        indices = laid_out(np.zeros(array.shape, indices), layout)
    planck.scan(kind, laid_out(array, layout), axis, indices=indices, out=out, **options)
    y = from_numpy(out, x.dtype)
    return y if indices is None else (y, torch.from_numpy(indices.copy()))


def check_row(kind, x, y, dtype):
    """One row, in scan order, as f64 arrays of numbers of the dtype."""
    if kind == planck.CUMSUM:
        exact = exact_sums(x)
        bound = sum_bound(exact, np.abs(x).cumsum(), dtype)
    elif kind == planck.CUMPROD:
        # Every multiplication before the last element adds 2^-53 at most; then the result is rounded.
        exact = exact_products(x)
        bound = sum_bound(exact, 0.0, dtype) + len(x) * 2.0**-53 * np.abs(exact[0])
    else:
        exact = exact_log_sum_exps(x)
        bound = log_sum_exp_bound(exact, np.maximum.accumulate(x), dtype)
    wrong = error(y, exact) > bound
    assert not wrong.any(), (np.argmax(wrong), y[wrong][0], exact[0][wrong][0])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", SUMS)
def test_every_axis_and_layout(kind, dtype):
    seed = 100
    for shape in SHAPES:
        for axis in range(len(shape)):
            seed += 1
            x = draw(kind, seed, shape, dtype)
            reverse, exclusive, layout = seed % 2 == 0, seed % 3 == 0, LAYOUTS[seed % 4]
            y = scan(kind, x, axis - len(shape) * (seed % 2), layout, reverse=reverse, exclusive=exclusive)
            x, y = (np.moveaxis(t.double().numpy(), axis, -1).reshape(-1, shape[axis]) for t in (x, y))
            if reverse:
                x, y = x[:, ::-1], y[:, ::-1]
            if exclusive:
                assert np.all(y[:, 0] == IDENTITY[kind])
                x, y = x[:, :-1], y[:, 1:]
            # A scan along a short axis has many rows; a few tell as much, and exact arithmetic is slow.
            for row in range(0, len(x), max(1, len(x) // 6)) if x.size else []:
                check_row(kind, x[row], y[row], dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("reverse, exclusive", [(False, False), (True, False), (False, True), (True, True)])
def test_layouts_near_torch(dtype, layout, reverse, exclusive):
    """All options in all layouts, every row: torch in f64, flipped and shifted, with room for both roundings."""
    for seed, shape in enumerate([(70,), (9, 70), (70, 9), (4, 21, 5)]):
        for axis in range(len(shape)):
            for kind, function in ((planck.CUMSUM, torch.cumsum), (planck.CUMPROD, torch.cumprod),
                                   (planck.LOG_CUMSUM_EXP, torch.logcumsumexp)):
                x = draw(kind, 20 + seed, shape, dtype)
                wide = x.double().flip(axis) if reverse else x.double()
                expected = function(wide, axis)
                if exclusive:
                    first = torch.full_like(expected.narrow(axis, 0, 1), IDENTITY[kind])
                    expected = torch.cat([first, expected.narrow(axis, 0, shape[axis] - 1)], axis)
                expected = expected.flip(axis) if reverse else expected
                y = scan(kind, x, axis, layout, reverse=reverse, exclusive=exclusive)
                tolerance = {torch.float64: 1e-13, torch.float32: 2.0**-22, torch.bfloat16: 2.0**-7,
                             torch.float16: 2.0**-10}[dtype]
                torch.testing.assert_close(y.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [*DTYPES, *INTEGERS])
@pytest.mark.parametrize("kind", EXTREMA)
def test_extrema_are_torchs(kind, dtype):
    """Values bit for bit and, with ties = Last, indices; many ties, NaNs, infinities and zeros of both signs."""
    pool = torch.tensor([-3, -1, 0, 0, 2, 2, 5])
    if dtype.is_floating_point:
        pool = torch.cat([pool, torch.tensor([-0.0, np.inf, -np.inf, np.nan])])
    for seed, shape in enumerate(SHAPES + [(40, 300), (300, 40)]):
        for axis in range(len(shape)):
            # Without NaN in one half of the cases, as it ends all comparison.
            choices = len(pool) - (seed + axis) % 2 * dtype.is_floating_point
            x = pool[torch.from_numpy(rng(seed).integers(0, choices, shape))].to(dtype)
            for reverse in (False, True):
                flipped = x.flip(axis) if reverse else x
                values, indices = EXTREMA[kind](flipped, axis)
                if reverse:
                    values, indices = values.flip(axis), shape[axis] - 1 - indices.flip(axis)
                for layout, counts in zip(LAYOUTS, (np.int64, np.int32) * 2):
                    y, at = scan(kind, x, axis, layout, reverse=reverse, ties=planck.TIES_LAST, indices=counts)
                    assert torch.equal(at.long(), indices)
                    if dtype.is_floating_point:
                        assert_same_bits(y, values)
                    else:
                        assert torch.equal(y, values)


@pytest.mark.parametrize("kind", EXTREMA)
def test_first_of_equals(kind):
    """ties = First: no earlier element of the prefix is as good as the winner, and NaN is the best."""
    pool = np.array([-3, -1, 0, -0.0, 2, 2, 5, np.inf, -np.inf, np.nan], np.float32)
    x = pool[rng(7).integers(0, 9, (50, 300))]
    x[:, 200:] = pool[rng(8).integers(0, 10, (50, 100))]
    indices = np.empty(x.shape, np.int64)
    y = planck.scan(kind, x, 1, indices=indices)
    order = np.nan_to_num(x if kind == planck.CUMMAX else -x, nan=4.0, posinf=3e38, neginf=-3e38)
    order[np.isnan(x)] = np.inf
    for t in range(x.shape[1]):
        assert np.array_equal(indices[:, t], np.argmax(order[:, :t + 1], axis=1))
    assert_same_bits(y, np.take_along_axis(x, indices, 1))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_wrap_like_torch(dtype):
    limits = torch.iinfo(dtype)
    for shape in SHAPES:
        x = torch.from_numpy(rng(11).integers(limits.min, limits.max, shape, endpoint=True)).to(dtype)
        for axis in range(len(shape)):
            for layout in LAYOUTS:
                for reverse in (False, True):
                    for kind, function in ((planck.CUMSUM, torch.cumsum), (planck.CUMPROD, torch.cumprod)):
                        odd = x if kind == planck.CUMSUM else x | 1  # even factors would soon leave nothing but zeros
                        expected = function(odd.flip(axis) if reverse else odd, axis, dtype=dtype)
                        expected = expected.flip(axis) if reverse else expected
                        assert torch.equal(scan(kind, odd, axis, layout, reverse=reverse), expected)
    x = torch.arange(1, 6, dtype=dtype)
    assert planck.scan(planck.CUMSUM, x, exclusive=True).tolist() == [0, 1, 3, 6, 10]
    assert planck.scan(planck.CUMPROD, x, exclusive=True, reverse=True).tolist() == [120, 60, 20, 5, 1]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind, function", [(planck.CUMSUM, torch.cumsum), (planck.CUMPROD, torch.cumprod),
                                            (planck.LOG_CUMSUM_EXP, torch.logcumsumexp)])
def test_nan_and_infinity_where_torch_has_them(kind, function, dtype):
    special = torch.tensor([np.nan, np.inf, -np.inf, 0.0]).to(dtype)
    for seed in range(40):
        x = draw(kind, 200 + seed, (12, 150), dtype)
        # Each row has a few specials; of -Inf alone, where the prefix is a prefix of -Inf.
        mask = torch.from_numpy(rng(seed).uniform(size=x.shape) < 0.02)
        x = torch.where(mask, special[torch.from_numpy(rng(300 + seed).integers(seed % 2, 4, x.shape))], x)
        x[::3, :seed] = -np.inf
        y, expected = planck.scan(kind, x, 1), function(x.double(), 1).to(dtype)
        assert torch.equal(torch.isnan(y), torch.isnan(expected))
        infinite = torch.isinf(expected)
        assert torch.equal(torch.isinf(y), infinite) and torch.equal(y[infinite], expected[infinite])


def test_a_product_that_leaves_f64_after_a_zero():
    """docs/ops/cumprod.md: the one place where a tree has NaN and a loop has 0."""
    x = torch.full((64,), 1e60, dtype=torch.float64)
    x[0] = 0
    y = planck.scan(planck.CUMPROD, x)
    assert torch.equal(torch.cumprod(x, 0), torch.zeros_like(x))
    assert torch.all(y[:8] == 0) and torch.isnan(y[-1])
    # f32 has f64 products, so it takes more than a block of eight.
    x = torch.full((200,), 1e30)
    x[0] = 0
    y = planck.scan(planck.CUMPROD, x)
    assert torch.all(torch.cumprod(x, 0) == 0) and torch.all(y[:64] == 0) and torch.isnan(y[-1])
    # The other way round: what underflows on its own makes an infinity before it NaN.
    x = torch.full((64,), 1e-60, dtype=torch.float64)
    x[0] = np.inf
    assert torch.isinf(torch.cumprod(x, 0)[-1]) and torch.isnan(planck.scan(planck.CUMPROD, x)[-1])


def test_repeated_and_empty_inputs():
    """A stride of 0 repeats an element; an axis of 0 or 1 elements has nothing to add."""
    ones = np.broadcast_to(np.float32(1.5), (4, 100))
    assert np.array_equal(planck.scan(planck.CUMSUM, ones, 1)[2], 1.5 * np.arange(1, 101))
    column = np.broadcast_to(np.arange(5, dtype=np.float64)[:, None], (5, 30))
    assert np.array_equal(planck.scan(planck.CUMSUM, column, 0)[-1], np.full(30, 10.0))
    for shape in ((0,), (3, 0), (0, 3)):
        for axis in range(len(shape)):
            assert planck.scan(planck.CUMPROD, np.empty(shape, np.float32), axis).shape == shape
    x = np.array([[3.0, 4.0]], np.float32)
    assert np.array_equal(planck.scan(planck.CUMSUM, x, 0), x)
    assert np.array_equal(planck.scan(planck.CUMSUM, x, 0, exclusive=True), np.zeros_like(x))
    assert np.array_equal(planck.scan(planck.LOG_CUMSUM_EXP, x, 0, exclusive=True), np.full_like(x, -np.inf))
