"""How near scans come to exact arithmetic: the table of bench/scan_accuracy.py, log-sum-exps and linear recurrences."""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, rng, ulp
from scan_exact import (LOG_SUM_EXP_DATA, SUMS_OF_16_BITS, accuracy_cases, error, exact_log_sum_exps,
                        exact_recurrence, exact_sums, log_sum_exp_bound, log_sum_exp_case, sum_bound, sums_of_16_bits)


def test_sums_of_the_table():
    """Planck's column of bench/scan_accuracy.py is within the page's bound; sums held in f32, NumPy's, are not."""
    for name, (x, exact, magnitudes) in accuracy_cases().items():
        some = slice(None, None, 1 + (len(x) >> 20))  # of millions of sums, about one million
        exact = exact[0][some], exact[1][some]
        bound = sum_bound(exact, magnitudes[some], x.dtype)
        assert np.all(error(planck.scan(planck.CUMSUM, x)[some].double(), exact) <= bound), name
        if name == "all positive":
            assert np.max(error(np.cumsum(x.numpy())[some], exact) / bound) > 100


@pytest.mark.parametrize("data", SUMS_OF_16_BITS)
@pytest.mark.parametrize("dtype, twice", [(torch.bfloat16, 2.0**-16), (torch.float16, 2.0**-13)])
def test_sums_of_16_bits_are_within_half_an_ulp(dtype, twice, data):
    """docs/ops/cumsum.md: half an ULP, what rounding twice adds, and what f64 loses. Every axis and direction."""
    x = sums_of_16_bits(data, dtype)
    exact = exact_sums(x.double().numpy())
    lost = 2.0**-45 * x.double().abs().cumsum(0).numpy()
    bound = (0.5 + twice) * ulp(exact[0], dtype) + lost
    row = planck.scan(planck.CUMSUM, x).double()
    assert np.all(error(row, exact) <= bound)
    columns = planck.scan(planck.CUMSUM, x.reshape(-1, 1).repeat(1, 3), 0).double()
    assert all(torch.equal(columns[:, k], row) for k in range(3))
    backwards = planck.scan(planck.CUMSUM, x.flip(0), reverse=True).double()
    assert torch.equal(backwards.flip(0), row)
    if data == "cancelling":  # sums held in f32 are far outside of it
        held_in_f32 = torch.from_numpy(np.cumsum(x.float().numpy())).to(dtype).double()
        assert np.max(error(held_in_f32, exact) / bound) > 100


@pytest.mark.parametrize("kind", [planck.CUMSUM, planck.LOG_CUMSUM_EXP])
def test_one_number_many_times(kind):
    """Where running sums in f32 stop growing: at 2^24 ones. Results that are f32 numbers are exact."""
    count = 1 << 20
    y = planck.scan(kind, np.full(count, 1.0 if kind == planck.CUMSUM else 0.0, np.float32)).astype(np.float64)
    exact = np.arange(1, count + 1, dtype=np.float64)
    if kind == planck.CUMSUM:
        assert np.array_equal(y, exact)
    else:
        assert np.all(np.abs(y - np.log(exact)) <= log_sum_exp_bound((np.log(exact), 0.0), 0.0, torch.float32))


def test_the_longest_sum_that_spec_bounds():
    """2^28 ones, read through a stride of 0; every 4093rd sum, an odd step so that all roundings are met."""
    y = planck.scan(planck.CUMSUM, np.broadcast_to(np.float32(1), (1 << 28,)))
    at = np.r_[np.arange(0, 1 << 28, 4093), (1 << 28) - 1]
    exact = (at + 1.0, 0.0)
    assert np.all(error(y[at], exact) <= sum_bound(exact, at + 1.0, torch.float32))


def log_sum_exp_inputs():
    random, n = rng(80), 1200
    return {
        "normal": random.standard_normal(n),
        "ascending": np.linspace(-60, 80, n),
        "descending": np.linspace(80, -60, n),
        "all equal": np.full(n, -7.25),
        "zeros": np.zeros(n),
        "near -1, results around 0": random.standard_normal(n) * 1e-3 - 1,
        "between -1000 and 1000": random.uniform(-1000, 1000, n),
        "ascending by 1000": np.linspace(-1000, 1000, 9).repeat(16),
        "tiny": random.standard_normal(n) * 1e-30,
        "one far above the rest": np.r_[np.zeros(50), 40.0, np.zeros(50)],
    }


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_sum_exp_against_mpmath(dtype):
    worst = 0.0
    for name, numbers in log_sum_exp_inputs().items():
        x = torch.from_numpy(numbers).to(dtype)
        wide = x.double().numpy()
        for reverse in (False, True):
            y = planck.scan(planck.LOG_CUMSUM_EXP, x, reverse=reverse).double().numpy()
            row, y = (wide[::-1], y[::-1]) if reverse else (wide, y)
            exact = exact_log_sum_exps(row)
            ratio = error(y, exact) / log_sum_exp_bound(exact, np.maximum.accumulate(row), dtype)
            assert np.all(ratio <= 1), (name, reverse, float(ratio.max()))
            worst = max(worst, float(ratio.max()))
    print(f"\n{dtype}: {worst:.2f} of the bound")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("data", LOG_SUM_EXP_DATA)
def test_log_sum_exps_of_the_table(data, dtype):
    """Planck's columns of the table in docs/ops/logcumsumexp.md are within the page's bound; its gradients' bounds are
    in test_scan_backward.py."""
    x = log_sum_exp_case(data, dtype, 3000)
    wide, y = x.double().numpy(), planck.scan(planck.LOG_CUMSUM_EXP, x).double().numpy()
    high, low = exact_log_sum_exps(wide)
    some = np.isfinite(high)
    assert np.array_equal(y[~some], high[~some])
    exact, largest = (high[some], low[some]), np.maximum.accumulate(wide)[some]
    assert np.all(error(y[some], exact) <= log_sum_exp_bound(exact, largest, dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_log_sum_exp_error_does_not_grow_with_length(dtype):
    x = torch.from_numpy(rng(81).standard_normal(60_000)).to(dtype)
    at = np.unique(np.r_[np.geomspace(1, len(x), 200).astype(np.int64) - 1, len(x) - 1])
    y = planck.scan(planck.LOG_CUMSUM_EXP, x).double().numpy()[at]
    wide = x.double().numpy()
    exact = exact_log_sum_exps(wide, at)
    assert np.all(error(y, exact) <= log_sum_exp_bound(exact, np.maximum.accumulate(wide)[at], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_sum_exp_special_values(dtype):
    inf, nan = np.inf, np.nan

    def check(x, expected):
        y = planck.scan(planck.LOG_CUMSUM_EXP, torch.tensor(x, dtype=dtype))
        np.testing.assert_array_equal(y.double().numpy(), np.array(expected))

    check([-inf] * 20, [-inf] * 20)
    check([-inf] * 9 + [2.5] + [-inf] * 9, [-inf] * 9 + [2.5] * 10)
    check([1, inf, 2, -inf] * 5, [1] + [inf] * 19)
    check([-inf, inf, inf], [-inf, inf, inf])
    check([-inf, nan] + [inf, 1, -inf] * 4, [-inf] + [nan] * 13)
    check([inf] * 9 + [nan, 1], [inf] * 9 + [nan, nan])
    check([-1000, 1000, -1000, -1000], [-1000, 1000, 1000, 1000])


def magnitudes_of(a, b, initial):
    """The recurrence of the magnitudes, by which rounding errors are measured."""
    m, states = np.abs(initial), []
    for at, bt in zip(np.abs(a), np.abs(b)):
        m = at * m + bt
        states.append(m)
    return np.array(states)


def loop(a, b, initial):
    h, states = initial, []
    for at, bt in zip(a, b):
        h = at * h + bt
        states.append(h)
    return np.array(states)


def recurrence_case(seed, shape, axis, dtype, with_initial):
    """Torch tensors a, b, initial (or None); |a| up to 1.02, so that states neither vanish nor explode."""
    random = rng(seed)
    a = torch.from_numpy(random.uniform(-1.02, 1.02, shape)).to(dtype)
    b = torch.from_numpy(random.standard_normal(shape)).to(dtype)
    first = list(shape)
    first[axis] = 1
    return a, b, torch.from_numpy(random.standard_normal(first)).to(dtype) if with_initial else None


def lanes_first(x, axis, reverse=False):
    """The axis first, in scan order, and all rows in the second dimension, as f64."""
    x = np.moveaxis(x.double().numpy(), axis, 0)
    return (x[::-1] if reverse else x).reshape(x.shape[0], -1)


def rounded(high, dtype):
    return 0.5 * ulp(high, dtype) + (2.0**-24 * np.abs(high) if dtype in (torch.float16, torch.bfloat16) else 0.0)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_initial", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_linear_recurrence_against_a_loop(dtype, with_initial, reverse):
    """The loop rounds twice a step, the tree at most n + 80 times along each term: 4n and 200 units cover both."""
    for seed, (shape, axis) in enumerate([((1,), 0), ((9,), -1), ((1000,), 0), ((7, 300), 1), ((300, 7), 0),
                                          ((3, 90, 5), 1), ((33, 70), 0), ((20, 5000), 1)]):
        a, b, initial = recurrence_case(seed, shape, axis, dtype, with_initial)
        h = planck.linear_recurrence(a, b, initial, axis, reverse)
        la, lb, lh = (lanes_first(t, axis, reverse) for t in (a, b, h))
        start = np.zeros(la.shape[1]) if initial is None else lanes_first(initial, axis)[0]
        expected, magnitudes = loop(la, lb, start), magnitudes_of(la, lb, start)
        bound = rounded(expected, dtype) + (4 * len(la) + 200) * 2.0**-53 * magnitudes
        assert np.all(np.abs(lh - expected) <= bound)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("with_initial", [False, True])
def test_linear_recurrence_against_mpmath(dtype, with_initial):
    for seed, n in ((90, 8), (91, 65), (92, 2000)):
        a, b, initial = recurrence_case(seed, (n,), 0, dtype, with_initial)
        start = 0.0 if initial is None else float(initial[0])
        h = planck.linear_recurrence(a, b, initial)
        wide_a, wide_b = a.double().numpy(), b.double().numpy()
        exact = exact_recurrence(wide_a, wide_b, start)
        bound = 0.5 * ulp(exact[0], dtype) + (n + 80) * 2.0**-53 * magnitudes_of(wide_a, wide_b, start)
        assert np.all(error(h.double(), exact) <= bound)


def test_linear_recurrence_contains_sums_and_products():
    """a = 1 is the running sum of b, bit for bit: the tree is the same. b = 0 is the initial state times a product."""
    x = torch.from_numpy(rng(93).standard_normal((3, 10_000))).float()
    ones, zeros = torch.ones_like(x), torch.zeros_like(x)
    assert torch.equal(planck.linear_recurrence(ones, x), planck.scan(planck.CUMSUM, x))
    growth = torch.exp2(torch.round(x).clamp(-1, 1))  # powers of two: exact while they stay in range
    h = planck.linear_recurrence(growth, zeros, torch.ones(3, 1))
    assert torch.equal(h, planck.scan(planck.CUMPROD, growth))
