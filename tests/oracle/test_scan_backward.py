"""Gradients of scans against torch's autograd in f64, and against exact arithmetic where torch itself is weak.

Where Planck deliberately differs from torch, a test named ..._where_torch_... shows both results. Errors are measured
against the sum of the magnitudes of the terms that a gradient is made of: autograd with |dy| and, for products, |x|.
"""

from fractions import Fraction

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, PRECISION, rng, to_numpy, ulp
from scan_exact import exact_log_sum_exp_gradient, sum_bound
from test_scan import LAYOUTS, draw, from_numpy, laid_out

FUNCTIONS = {planck.CUMSUM: torch.cumsum, planck.CUMPROD: torch.cumprod, planck.LOG_CUMSUM_EXP: torch.logcumsumexp,
             planck.CUMMAX: lambda x, axis: torch.cummax(x, axis)[0],
             planck.CUMMIN: lambda x, axis: torch.cummin(x, axis)[0]}
IDENTITY = {planck.CUMSUM: 0.0, planck.CUMPROD: 1.0, planck.LOG_CUMSUM_EXP: -np.inf}
EXTREMA = [planck.CUMMAX, planck.CUMMIN]
SHAPES = [(1,), (2,), (9,), (600,), (5, 70), (70, 5), (3, 40, 4), (2, 3, 2, 17)]
INF, NAN = np.inf, np.nan


def torch_gradient(kind, x, dy, axis=0, reverse=False, exclusive=False):
    """Autograd of torch's scan, flipped for reverse and shifted for exclusive, in the dtype of x."""
    x = x.clone().requires_grad_()
    y = FUNCTIONS[kind](x.flip(axis) if reverse else x, axis)
    if exclusive:
        first = torch.full_like(y.narrow(axis, 0, 1), IDENTITY[kind])
        y = torch.cat([first, y.narrow(axis, 0, x.shape[axis] - 1)], axis)
    return torch.autograd.grad(y.flip(axis) if reverse else y, x, dy)[0]


def gradient(kind, x, dy, axis=0, layout="packed", **options):
    """Planck's gradient of torch tensors that are laid out in memory, with the y of Planck's own forward run."""
    views = [laid_out(to_numpy(t), layout) for t in (dy, x, torch.zeros_like(x), torch.zeros_like(x))]
    dy_view, x_view, y_view, out = views
    planck.scan(kind, x_view, axis, out=y_view, **options)
    planck.scan_backward(kind, dy_view, x_view, y_view, axis, out=out, **options)
    return from_numpy(out, x.dtype)


def assert_near(got, expected, bound, note=None):
    got, expected = np.asarray(got, np.float64), np.asarray(expected, np.float64)
    wrong = ~(np.abs(got - expected) <= bound)
    assert not wrong.any(), (note, np.argwhere(wrong)[0], got[wrong][0], expected[wrong][0])


def saved_y_bound(y, magnitude, dtype):
    """Weights are e^(x - y) and e^(y - y'): a y rounded to f32 or f64 moves both. y of 16 bits is not read."""
    unit = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}.get(dtype, 0.0)
    y = np.asarray(y, np.float64)
    largest = np.abs(y[np.isfinite(y)]).max(initial=0.0)
    own = 2.0**-49 if dtype == torch.float64 else 2.5 * 2.0**-24  # of the exponentials
    return (2 * unit * largest + own) * magnitude + 16 * 2.0**-1074  # a subnormal result is rounded too


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", FUNCTIONS)
def test_every_axis_layout_and_direction(kind, dtype):
    seed = 0
    for shape in SHAPES:
        for axis in range(len(shape)):
            for options in [{}, {"reverse": True}, {"exclusive": True}, {"reverse": True, "exclusive": True}]:
                if kind in EXTREMA and "exclusive" in options:
                    continue
                seed += 1
                x = draw(kind, 2 * seed, shape, dtype)
                dy = (0.1 * torch.from_numpy(rng(1000 + seed).standard_normal(shape))).to(dtype)
                ties = {"ties": planck.TIES_LAST} if kind in EXTREMA else {}
                dx = gradient(kind, x, dy, axis, LAYOUTS[seed % 4], **options, **ties)
                wide, d_wide = x.double(), dy.double()
                expected = torch_gradient(kind, wide, d_wide, axis, **options).numpy()
                positive = wide.abs() if kind == planck.CUMPROD else wide
                magnitude = torch_gradient(kind, positive, d_wide.abs(), axis, **options).numpy()
                bound = sum_bound((expected, 0.0), magnitude, dtype)
                if kind == planck.LOG_CUMSUM_EXP:
                    bound += saved_y_bound(FUNCTIONS[kind](wide, axis), magnitude, dtype)
                assert_near(dx.double(), expected, bound, (shape, axis, options))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", EXTREMA)
def test_extrema_agree_with_the_forward_winners(kind, dtype):
    """Ties, NaNs, infinities and both zeros: dy, small integers, is summed exactly where the forward run points."""
    pool = torch.tensor([-3, -1, 0, -0.0, 2, 2, 5, INF, -INF, NAN])
    for seed, (shape, axis) in enumerate([((300,), 0), ((7, 90), 1), ((90, 7), 0), ((4, 33, 5), 1)] * 2):
        # The first half has no NaN, which ends all comparison.
        x = pool[torch.from_numpy(rng(seed).integers(0, 9 + seed // 4, shape))].to(dtype)
        dy = torch.from_numpy(rng(50 + seed).integers(-6, 7, shape)).to(dtype)
        for reverse in (False, True):
            for ties in (planck.TIES_FIRST, planck.TIES_LAST):
                options = {"axis": axis, "reverse": reverse, "ties": ties}
                from_x = planck.scan_backward(kind, dy, x, **options)
                for counts in (torch.int32, torch.int64):
                    indices = torch.empty(shape, dtype=counts)
                    planck.scan(kind, x, indices=indices, **options)
                    winners = torch.zeros(shape, dtype=torch.float64).scatter_add(axis, indices.long(), dy.double())
                    assert torch.equal(from_x, winners.to(dtype))
                    assert torch.equal(planck.scan_backward(kind, dy, indices=indices, **options), from_x)
                if ties == planck.TIES_LAST:
                    expected = torch_gradient(kind, x.double(), dy.double(), axis, reverse)
                    assert torch.equal(from_x, expected.to(dtype))


def test_extrema_first_where_torch_takes_the_last():
    x, dy = torch.tensor([1.0, 3.0, 3.0, 2.0, NAN, NAN]), torch.tensor([1.0, 10.0, 100.0, 1e3, 1e4, 1e5])
    assert planck.scan_backward(planck.CUMMAX, dy, x).tolist() == [1, 1110, 0, 0, 1.1e5, 0]
    assert torch_gradient(planck.CUMMAX, x, dy).tolist() == [1, 10, 1100, 0, 1e4, 1e5]


# ---- products ----


def exact_product_gradient(x, dy):
    """dx[j] = (the product before j) * (dy[j] + x[j+1] * (dy[j+1] + ...)), in fractions."""
    x, dy = [Fraction(v) for v in x], [Fraction(v) for v in dy]
    before, rest = [Fraction(1)], [dy[-1]]
    for v in x[:-1]:
        before.append(before[-1] * v)
    for t in range(len(x) - 2, -1, -1):
        rest.append(dy[t] + x[t + 1] * rest[-1])
    return [p * r for p, r in zip(before, reversed(rest))]


def check_products(x, dy, note, reverse=False):
    """No product here leaves f64. What the dtype cannot hold is infinite, as rounding makes it."""
    dtype = x.dtype
    dx = gradient(planck.CUMPROD, x, dy, reverse=reverse)
    if reverse:
        x, dy, dx = x.flip(0), dy.flip(0), dx.flip(0)
    x, dy = x.double().tolist(), dy.double().tolist()
    expected = np.array([float(v) for v in exact_product_gradient(x, dy)])
    magnitude = np.array([float(v) for v in exact_product_gradient(map(abs, x), map(abs, dy))])
    bound = sum_bound((expected, 0.0), magnitude, dtype)
    dx, outside = dx.double().numpy(), np.abs(expected) > torch.finfo(dtype).max
    assert np.array_equal(dx[outside], np.copysign(INF, expected[outside])), note
    assert_near(dx[~outside], expected[~outside], bound[~outside], note)
    return dx


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [[], [0], [39], [17], [16, 17], [3, 9, 30], [0, 1, 2], [8, 16, 24], range(40)])
def test_products_with_zeros(dtype, zeros):
    for seed in range(4):
        x, dy = draw(planck.CUMPROD, seed, (40,), dtype), draw(planck.CUMSUM, 60 + seed, (40,), dtype)
        x[list(zeros)] = 0.0 if seed % 2 == 0 else -0.0
        dx = check_products(x, dy, (seed, zeros), reverse=seed >= 2)
        # Past a second zero nothing changes anything, and that is exact.
        in_order = sorted(39 - z for z in zeros) if seed >= 2 else sorted(zeros)
        if len(zeros) >= 2:
            assert np.all(dx[in_order[1] + 1:] == 0)


LEAVES_THE_MIDDLE = {
    "0.5 x 140, 2 x 140": [0.5] * 140 + [2.0] * 140,
    "2 x 140, 0.5 x 140": [2.0] * 140 + [0.5] * 140,
    "0.1 x 60, 10 x 60": [0.1] * 60 + [10.0] * 60,
    "10 x 60, 0.1 x 60": [10.0] * 60 + [0.1] * 60,
    "0, 10 x 100": [0.0] + [10.0] * 100,
    "10 x 50, 0, 10 x 50": [10.0] * 50 + [0.0] + [10.0] * 50,
    "10 x 100, 0": [10.0] * 100 + [0.0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("name", LEAVES_THE_MIDDLE)
def test_products_that_leave_f32_in_the_middle(name, dtype):
    x = torch.tensor(LEAVES_THE_MIDDLE[name], dtype=torch.float64).to(dtype)
    for at in (len(x) - 1, len(x) // 3, None):
        dy = torch.ones_like(x) if at is None else torch.zeros_like(x)
        dy[at] = 1.0
        check_products(x, dy, (name, at))


def test_products_where_torch_overflows_to_nan():
    """f32 products that overflow, times a gradient of 0: torch has NaN, Planck the exact gradient."""
    x = torch.tensor(LEAVES_THE_MIDDLE["0, 10 x 100"])
    dy = torch.zeros_like(x)
    dy[30] = 1
    assert torch.isnan(torch_gradient(planck.CUMPROD, x, dy)[0])
    dx = gradient(planck.CUMPROD, x, dy)
    assert dx[0] == 1e30 and torch.all(dx[1:] == 0)
    x = torch.tensor(LEAVES_THE_MIDDLE["2 x 140, 0.5 x 140"])
    dy = torch.zeros_like(x)
    dy[-1] = 1
    assert torch.isnan(torch_gradient(planck.CUMPROD, x, dy)[:100]).all()
    assert torch.equal(gradient(planck.CUMPROD, x, dy), 1 / x)


# ---- log-sum-exps ----


LOG_SUM_EXP_CASES = {
    "starts with -Inf": lambda n: np.concatenate([np.full(n // 3, -INF), rng(1).standard_normal(n - n // 3)]),
    "only -Inf": lambda n: np.full(n, -INF),
    "some -Inf": lambda n: np.where(rng(2).uniform(size=n) < 0.5, -INF, rng(3).standard_normal(n)),
    "wide": lambda n: rng(4).uniform(-1000, 1000, n),
    "ascending": lambda n: np.linspace(-1000, 1000, n),
    "descending": lambda n: np.linspace(1000, -1000, n),
    "steps of 1": lambda n: np.arange(n, dtype=np.float64),
    "equal": lambda n: np.full(n, 100.0),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", LOG_SUM_EXP_CASES)
def test_log_sum_exp_against_mpmath(name, dtype):
    x = torch.from_numpy(LOG_SUM_EXP_CASES[name](400)).to(dtype)
    dy = torch.from_numpy(rng(9).standard_normal(400)).to(dtype)
    (expected, _), magnitude, last = exact_log_sum_exp_gradient(x.double().tolist(), dy.double().tolist())
    finite = x[torch.isfinite(x)].double()
    ends = np.array([last, *([finite.min(), finite.max()] if len(finite) else [])])
    bound = sum_bound((expected, 0.0), magnitude, dtype) + saved_y_bound(ends, magnitude, dtype)
    dx = gradient(planck.LOG_CUMSUM_EXP, x, dy)
    assert_near(dx.double(), expected, bound, name)
    assert torch.all(dx[torch.isneginf(x)] == 0)
    reverse = gradient(planck.LOG_CUMSUM_EXP, x.flip(0), dy.flip(0), reverse=True)
    assert torch.equal(reverse.flip(0), dx)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_sum_exp_errors_do_not_grow_with_the_length(dtype):
    """Relative to the magnitudes, without the result's own rounding: 100 000 elements, and in f32, where the oracle can
    follow, 16 million, are as good as 1000."""
    worst = {}
    lengths = (1000, 100_000, 1 << 24) if dtype == torch.float32 else (1000, 100_000)
    for n in lengths:
        x = torch.from_numpy(np.linspace(-5, 5, n)).to(dtype)
        dy = torch.from_numpy(rng(n).standard_normal(n)).to(dtype)
        # 64 bits are enough to see errors of f64, and mpmath would take half a minute.
        powers, d = np.exp(x.double().numpy().astype(np.longdouble)), dy.double().numpy().astype(np.longdouble)
        weights = 1 / np.cumsum(powers)
        expected, magnitude = (powers * np.cumsum((t * weights)[::-1])[::-1] for t in (d, np.abs(d)))
        dx = gradient(planck.LOG_CUMSUM_EXP, x, dy).double().numpy()
        assert np.finfo(np.longdouble).nmant >= 63 and np.all(magnitude > 0)
        rounding = sum_bound((expected, 0.0), 0.0, dtype)
        worst[n] = np.max(np.maximum(np.abs(dx - expected) - rounding, 0) / magnitude)
    # y is below 32, so that its rounding to f32 alone is up to 2^-20. Exponentials of 16-bit elements are f32's; sums of
    # f64 keep below 2^-49.
    limit = {torch.float32: 2.0**-20, torch.float64: 2.0**-48}.get(dtype, 2.5 * 2.0**-24)
    assert max(worst.values()) <= limit, worst
    assert max(worst.values()) <= 4 * worst[1000] + (2.0**-50 if dtype == torch.float64 else 2.0**-24), worst


def test_log_sum_exp_where_torch_has_nan_for_infinities():
    """A prefix of -Inf takes no part; the first +Inf takes all that follows, and what follows it nothing."""
    for values, expected, nan in (([-INF, -INF, 0.0, 0.0], [0, 0, 1.5, 0.5], [0, 1]),
                                  ([0.0, INF, 1.0, 2.0], [1, 3, 0, 0], [1]),
                                  ([0.0, INF, INF, 2.0], [1, 3, 2, 0], [1, 2])):
        for dtype in DTYPES:
            x = torch.tensor(values, dtype=dtype)
            assert gradient(planck.LOG_CUMSUM_EXP, x, torch.ones_like(x)).tolist() == expected
        theirs = torch_gradient(planck.LOG_CUMSUM_EXP, torch.tensor(values), torch.ones(4))
        assert torch.isnan(theirs).nonzero().flatten().tolist() == nan


def test_log_sum_exp_nan_spreads_as_in_torch():
    x = torch.tensor([0.0, 1.0, NAN, 2.0])
    assert torch.isnan(gradient(planck.LOG_CUMSUM_EXP, x, torch.ones(4))).all()
    assert torch.isnan(torch_gradient(planck.LOG_CUMSUM_EXP, x, torch.ones(4))).all()


def test_log_sum_exp_of_bf16_where_torch_trusts_a_rounded_y():
    """The gradient of the last y alone is a softmax, whose sum is 1; torch's weights are off by e^(2^-9 |y|)."""
    x = (40 + torch.sin(torch.arange(300.0))).bfloat16()
    dy = torch.zeros_like(x)
    dy[-1] = 1
    (exact, _), _, _ = exact_log_sum_exp_gradient(x.double().tolist(), dy.double().tolist())
    assert abs(exact.sum() - 1) < 1e-12
    assert abs(gradient(planck.LOG_CUMSUM_EXP, x, dy).double().sum() - 1) < 0.004
    assert abs(torch_gradient(planck.LOG_CUMSUM_EXP, x, dy).double().sum() - 1) > 0.02


# ---- linear recurrences ----


def loop_gradients(dh, a, b, initial, reverse):
    """(h, da, db, d_initial) of a plain loop along axis 1, by autograd."""
    leaves = [t.clone().requires_grad_() for t in (a, b, initial)]
    a, b, h = leaves[0], leaves[1], leaves[2][:, 0]
    order = range(a.shape[1])
    states = [None] * len(order)
    for t in reversed(order) if reverse else order:
        h = states[t] = a[:, t] * h + b[:, t]
    h = torch.stack(states, 1)
    return h.detach(), *torch.autograd.grad(h, leaves, dh)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("with_initial", [False, True])
def test_linear_recurrence(dtype, reverse, with_initial):
    unit = 2.0**-PRECISION[dtype][0]
    for seed, (shape, layout) in enumerate([((3, 1), "packed"), ((4, 130), "packed"), ((5, 33), "transposed"),
                                            ((4, 50), "reversed"), ((2, 70), "gaps"), ((1, 300), "packed")]):
        random = rng(500 + seed)
        a = torch.from_numpy(random.uniform(-1.1, 1.1, shape)).to(dtype)
        b, dh = (torch.from_numpy(random.standard_normal(shape)).to(dtype) for _ in range(2))
        initial = torch.from_numpy(random.standard_normal((shape[0], 1)) * with_initial).to(dtype)
        wide = [t.double() for t in (dh, a, b, initial)]
        _, *expected = loop_gradients(*wide, reverse)
        _, *magnitude = loop_gradients(*(t.abs() for t in wide), reverse)
        h = planck.linear_recurrence(a, b, initial if with_initial else None, 1, reverse)
        dh_view, a_view, h_view, da, db = (laid_out(to_numpy(t), layout)
                                            for t in (dh, a, h, torch.zeros_like(h), torch.zeros_like(h)))
        start = to_numpy(initial) if with_initial else None
        d_initial = np.zeros_like(to_numpy(initial)) if with_initial else None
        planck.linear_recurrence_backward(dh_view, a_view, h_view, start, 1, reverse, outs=(da, db, d_initial))
        names = ["da", "db", "d_initial"] if with_initial else ["da", "db"]
        for name, got, exact, size in zip(names, (da, db, d_initial), expected, magnitude):
            exact, size = exact.numpy(), size.numpy()
            bound = sum_bound((exact, 0.0), size, dtype)
            if name == "da":  # made of h as it was stored
                bound += 1.01 * unit * np.abs(exact) + ulp(0.0, dtype) * size
            assert_near(from_numpy(got, dtype).double(), exact, bound, (name, shape))


def test_linear_recurrence_of_ones_is_a_sum():
    """With a = 1 the gradient of b is that of a running sum, bit for bit: 70 000 elements, one row."""
    dh = torch.from_numpy(rng(8).standard_normal(70_000)).float()
    ones = torch.ones_like(dh)
    for reverse in (False, True):
        da, db, _ = planck.linear_recurrence_backward(dh, ones, ones, None, 0, reverse)
        assert torch.equal(db, planck.scan_backward(planck.CUMSUM, dh, axis=0, reverse=reverse))
        first = -1 if reverse else 0
        assert da[first] == 0
        da[first] = db[first]
        assert torch.equal(da, db)


def test_linear_recurrence_first_factor_where_torch_has_nan():
    """Without an initial state nothing depends on a[0]: Planck has 0, a loop from h = 0 has Inf * 0."""
    a, b, dh = (torch.tensor([v], dtype=torch.float64) for v in ([1.0, INF], [1.0, 1.0], [1.0, 1.0]))
    h, looped, _, _ = loop_gradients(dh, a, b, torch.zeros(1, 1, dtype=torch.float64), False)
    assert torch.isnan(looped[0, 0]) and looped[0, 1] == 1
    da, db, _ = planck.linear_recurrence_backward(dh, a, h, None, 1)
    assert da.tolist() == [[0, 1]] and db.tolist() == [[INF, 1]]


def test_linear_recurrence_has_nan_where_a_loop_has_zero_beyond_f64():
    """A tree multiplies the factors of whole blocks: 2^8192 is infinite, and times a gradient of 0 it is NaN."""
    a, dh = (torch.full((1, 20_000), v, dtype=torch.float64) for v in (2.0, 0.0))
    dh[0, 0] = 1
    g, looped = 0.0, []
    for v in reversed(dh[0].tolist()):
        g = v + 2.0 * g
        looped.append(g)
    assert looped[-1] == 1 and looped[:-1] == [0.0] * 19_999
    db = planck.linear_recurrence_backward(dh, a, dh, None, 1)[1][0]
    assert torch.isnan(db[0]) and torch.all(db[-4096:] == 0)


def test_products_beyond_f64_are_nan_as_in_torch():
    x, dy = torch.full((100,), 1e30), torch.zeros(100)
    dy[0] = 1
    assert torch.isnan(gradient(planck.CUMPROD, x, dy)[-1])
    assert torch.isnan(torch_gradient(planck.CUMPROD, x.double(), dy.double())[-1])


def test_empty_and_single_elements():
    for kind in FUNCTIONS:
        for shape in ((0,), (3, 0), (0, 3)):
            empty = np.empty(shape, np.float32)
            assert planck.scan_backward(kind, empty, empty, empty, 0).shape == shape
        one = np.array([3.0], np.float32)
        assert planck.scan_backward(kind, 2 * one, one, one, 0)[0] == 6
    for kind in IDENTITY:
        one = np.array([3.0], np.float32)
        assert planck.scan_backward(kind, one, one, one, 0, exclusive=True)[0] == 0
