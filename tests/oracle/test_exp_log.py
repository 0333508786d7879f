"""The exponential and the logarithm against mpmath: the maximum error in units in the last place, range by range.

With -s it prints the table of docs/numerics.md. The functions are not exported; print_exp_log applies them.
"""

import os
import subprocess

import mpmath
import numpy as np
import pytest
from oracle import rng

PROGRAM = os.environ.get("PLANCK_PRINT_EXP_LOG", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="PLANCK_PRINT_EXP_LOG is not set")

COUNT = 1500
# Stated maxima: f32 as measured over every number, f64 over 20 million, with room for those not tried. A logarithm's is in
# units of max(1, |log|).
BOUND = {("exp", "f32"): 0.99, ("exp", "f64"): 1.1, ("log", "f32"): 1.4, ("log", "f64"): 1.4}
TYPES = {"f32": (np.float32, np.uint32, 24, -126), "f64": (np.float64, np.uint64, 53, -1022)}
REACH = {"f32": 70.0, "f64": 600.0}


def apply(function, kind, x):
    number, pattern, _, _ = TYPES[kind]
    lines = "".join(f"{function} {kind} {u:x}\n" for u in x.view(pattern).tolist())
    out = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True).stdout
    return np.array([int(line, 16) for line in out.split()], pattern).view(number)


def error(function, kind, x, y):
    """|y - exact| in units in the last place of the exact exponential, or of max(1, |the logarithm|)."""
    digits = TYPES[kind][2]
    exact = (mpmath.exp if function == "exp" else mpmath.log)(mpmath.mpf(float(x)))
    if function == "log":
        unit = max(mpmath.mpf(1), abs(exact)) * mpmath.mpf(2) ** -digits
    else:
        unit = mpmath.mpf(2) ** (int(mpmath.frexp(exact)[1]) - digits)
    return float(abs(mpmath.mpf(float(y)) - exact) / unit)


def neighbours(number, centre, count=40):
    """Numbers around one of them, by steps of one unit in the last place."""
    x = [number(centre)]
    for towards in (np.inf, -np.inf):
        at = number(centre)
        for _ in range(count):
            at = np.nextafter(at, number(towards))
            x.append(at)
    return x


def exp_ranges(kind):
    number = TYPES[kind][0]
    random = rng(40)
    return {
        "|x| < 2^-10": random.uniform(-1, 1, COUNT) * 2.0 ** random.uniform(-60, -10, COUNT),
        "|x| <= 1": random.uniform(-1, 1, COUNT),
        "all": random.uniform(-REACH[kind], REACH[kind], 2 * COUNT),
        "between two n": [n for k in range(-90, 90, 7) for n in neighbours(number, (k + 0.5) * np.log(2), 3)],
    }


def log_ranges(kind):
    number, _, digits, lowest = TYPES[kind]
    random = rng(41)
    return {
        "near 1": 1 + random.uniform(-1, 1, COUNT) * 2.0 ** -random.uniform(2, digits, COUNT),
        "3/4 <= x < 3/2": random.uniform(0.75, 1.5, 2 * COUNT),
        "1/4 <= x < 4": random.uniform(0.25, 4, 2 * COUNT),
        "all normal numbers": random.uniform(1, 2, COUNT) * 2.0 ** random.integers(lowest, -lowest, COUNT),
        "where k changes": [n for e in range(-8, 9) for n in neighbours(number, 1.5 * 2.0**e, 10)],
    }


@pytest.mark.parametrize("function, kind", BOUND)
def test_maximum_error(function, kind):
    number = TYPES[kind][0]
    print(f"\n| {function} {kind} | points | maximum |\n|---|---|---|")
    worst = 0.0
    with mpmath.workprec(160):
        for name, numbers in (exp_ranges if function == "exp" else log_ranges)(kind).items():
            x = np.asarray(numbers, np.float64).astype(number)
            errors = [error(function, kind, a, b) for a, b in zip(x, apply(function, kind, x))]
            print(f"| {name} | {len(x)} | {max(errors):.3f} |")
            worst = max(worst, max(errors))
    assert worst <= BOUND[function, kind]


@pytest.mark.parametrize("kind", TYPES)
def test_exact_results(kind):
    number = TYPES[kind][0]
    np.testing.assert_array_equal(apply("exp", kind, np.array([0.0, -0.0], number)), np.array([1, 1], number))
    one = apply("log", kind, np.array([1.0], number))
    assert one[0] == 0 and not np.signbit(one[0])
