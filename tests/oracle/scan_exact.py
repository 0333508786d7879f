"""What the scan tests and bench/scan_accuracy.py share: exact prefixes of one row, and the accuracy table's cases.

An exact number is a pair (high, low) of f64 arrays: high is it rounded, low the rest, again rounded. The error of a
result near high is then (result - high) - low, whose first difference is exact.
"""

import itertools

import mpmath
import numpy as np
import torch
from oracle import rng, ulp


def error(got, exact):
    """|got - exact| as f64."""
    high, low = exact
    return np.abs((np.asarray(got, np.float64) - high) - low)


def exact_sums(x):
    """Prefix sums of finite numbers: they are integers in units of the smallest last place among them."""
    x = np.asarray(x, np.float64)
    _, exponent = np.frexp(x[x != 0])
    shift = 53 - int(exponent.min(initial=0))
    sums = list(itertools.accumulate(int(i) for i in np.ldexp(x, shift).tolist()))
    high = [float(s) for s in sums]
    low = [float(s - int(h)) for s, h in zip(sums, high)]
    return np.ldexp(high, -shift), np.ldexp(low, -shift)


def _pairs(numbers):
    high = [float(v) for v in numbers]
    low = [float(v - h) if np.isfinite(h) else 0.0 for v, h in zip(numbers, high)]
    return np.array(high), np.array(low)


def exact_products(x):
    with mpmath.workprec(250):
        return _pairs(list(itertools.accumulate((mpmath.mpf(v) for v in x.tolist()), lambda a, b: a * b)))


def exact_log_sum_exps(x, at=None):
    """mpmath's exponents have no limits, so the sum needs no maximum taken out. Only the places `at`, or all."""
    wanted = range(len(x)) if at is None else at
    with mpmath.workprec(150):
        sums = list(itertools.accumulate(mpmath.exp(mpmath.mpf(v)) for v in x.tolist()))
        return _pairs([mpmath.log(sums[i]) for i in wanted])


def exact_log_sum_exp_gradient(x, dy):
    """(dx, the sums of magnitudes and the last y, both as f64); x has no +Inf. mpmath's exponents have no limits."""
    with mpmath.workprec(150):
        powers = [mpmath.exp(mpmath.mpf(v)) for v in x]
        total, inverse = mpmath.mpf(0), []
        for p in powers:
            total += p
            inverse.append(1 / total if total else mpmath.mpf(0))
        signed, positive, dx, magnitude = mpmath.mpf(0), mpmath.mpf(0), [], []
        for p, i, d in zip(reversed(powers), reversed(inverse), reversed(dy)):
            signed += d * i
            positive += abs(d) * i
            dx.append(p * signed)
            magnitude.append(float(p * positive))
        last = float(mpmath.log(total)) if total else -np.inf
        return _pairs(dx[::-1]), np.array(magnitude[::-1]), last


def exact_recurrence(a, b, initial=0.0):
    with mpmath.workprec(250):
        h, states = mpmath.mpf(initial), []
        for at, bt in zip(a.tolist(), b.tolist()):
            h = mpmath.mpf(at) * h + mpmath.mpf(bt)
            states.append(h)
        return _pairs(states)


def sum_bound(exact, magnitudes, dtype):
    """docs/numerics.md: 0.5 ULP and 2^-45 of the magnitudes summed; f16 and bf16 are rounded to f32 on the way."""
    high, _ = exact
    through_f32 = 2.0**-24 * np.abs(high) if dtype in (torch.float16, torch.bfloat16) else 0.0
    return 0.5 * ulp(high, dtype) + through_f32 + 2.0**-45 * magnitudes


def log_sum_exp_bound(exact, largest, dtype):
    """docs/numerics.md: 4 * 2^-24 * max(1, |y|, |m|), for f64 4 * 2^-53 of the same."""
    unit = 4 * (2.0**-53 if dtype == torch.float64 else 2.0**-24)
    narrow = 0.5 * ulp(exact[0], dtype) if dtype in (torch.float16, torch.bfloat16) else 0.0
    return unit * np.maximum(1, np.maximum(np.abs(exact[0]), np.abs(largest))) + narrow


def _ramp(count, step):
    """(k + 1) * step: exact in f64 as long as both have few enough bits, which the cases below have."""
    high = np.arange(1, count + 1, dtype=np.float64) * float(step)
    return high, np.zeros_like(high)


def accuracy_cases(count=1 << 17):
    """name: (a torch tensor, its exact prefix sums, the sums of its magnitudes)."""
    random = rng(70)
    normal = random.standard_normal(count).astype(np.float32)
    alternating = random.uniform(0, 1, count).astype(np.float32) * np.where(np.arange(count) % 2, -1, 1)
    cases = {}
    for name, x in {"random normal": normal, "all positive": np.abs(normal),
                    "alternating signs": alternating.astype(np.float32)}.items():
        cases[name] = torch.from_numpy(x), exact_sums(x), np.abs(x.astype(np.float64)).cumsum()
    for name, length, value, dtype in (("2^24 ones", 1 << 24, 1.0, torch.float32),
                                       ("5e6 x 0.0005", 5_000_000, 0.0005, torch.float32),
                                       ("5000 ones, bf16", 5000, 1.0, torch.bfloat16)):
        x = torch.full((length,), value, dtype=dtype)
        exact = _ramp(length, x[0])
        cases[name] = x, exact, exact[0]
    return cases


SUMS_OF_16_BITS = ("normal", "cancelling", "wide")


def sums_of_16_bits(data, dtype):
    """Running sums stay below 2^15, so that f16 holds them."""
    random, n = rng(75), 60_000
    if data == "normal":
        x = random.standard_normal(n)
    elif data == "cancelling":  # of three elements, the first two leave nothing but the third
        large = random.standard_normal(n // 3) * (2.0**12 if dtype == torch.float16 else 2.0**24)
        x = np.stack([large, -large, 2.0**-7 * random.standard_normal(n // 3)], 1).reshape(-1)
    else:
        x = random.standard_normal(n) * 2.0 ** random.integers(-14, 6, n)
    return torch.from_numpy(x).to(dtype)


LOG_SUM_EXP_DATA = ("normal", "up to ±1000", "rising from -1000 to 1000", "constant", "nine in ten -Inf", "up to ±1e5")


def log_sum_exp_case(data, dtype, count):
    """A torch tensor of the dtype; f16, which ends at 65504, has up to ±6e4 in place of ±1e5."""
    random = rng(85)
    normal = random.standard_normal(count)
    if data == "normal":
        x = normal
    elif data == "up to ±1000":
        x = random.uniform(-1000, 1000, count)
    elif data == "rising from -1000 to 1000":
        x = np.linspace(-1000, 1000, count)
    elif data == "constant":  # results pass through 0, at 1408 elements
        x = np.full(count, -7.25)
    elif data == "nine in ten -Inf":
        x = np.where((np.arange(count) < 10) | (random.uniform(size=count) < 0.9), -np.inf, normal)
    else:
        x = random.uniform(-1, 1, count) * (6e4 if dtype == torch.float16 else 1e5)
    return torch.from_numpy(x).to(dtype)
