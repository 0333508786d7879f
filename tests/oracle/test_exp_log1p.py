"""exp and log1p against mpmath: the maximum error in units in the last place, range by range.

With -s it prints the table of docs/numerics.md. The functions are not exported; print_exp_log1p applies them.
"""

import os
import subprocess

import mpmath
import numpy as np
import pytest
from oracle import rng

PROGRAM = os.environ.get("PLANCK_PRINT_EXP_LOG1P", "")
pytestmark = pytest.mark.skipif(not PROGRAM, reason="PLANCK_PRINT_EXP_LOG1P is not set")

COUNT = 1500
# Stated maxima: f32 as measured over every number, f64 over 20 million, with room for those not tried.
BOUND = {("exp", "f32"): 0.99, ("exp", "f64"): 1.1, ("log1p", "f32"): 1.01, ("log1p", "f64"): 1.15}
TYPES = {"f32": (np.float32, np.uint32, 24, -126), "f64": (np.float64, np.uint64, 53, -1022)}


def apply(function, kind, x):
    number, pattern, _, _ = TYPES[kind]
    lines = "".join(f"{function} {kind} {u:x}\n" for u in x.view(pattern).tolist())
    out = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True).stdout
    return np.array([int(line, 16) for line in out.split()], pattern).view(number)


def error(function, kind, x, y):
    """|y - exact| in units in the last place of the exact result; an overflow counts as the next power of two."""
    _, _, digits, lowest = TYPES[kind]
    exact = (mpmath.exp if function == "exp" else mpmath.log1p)(mpmath.mpf(float(x)))
    if exact == 0:
        return 0.0 if y == 0 else np.inf
    got = mpmath.mpf(2) ** (2 - lowest) if np.isinf(y) else mpmath.mpf(float(y))
    exponent = max(int(mpmath.frexp(abs(exact))[1]) - 1, lowest)
    return float(abs(got - exact) / mpmath.mpf(2) ** (exponent - digits + 1))


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
    """name: numbers. Limits: the last finite result, the last normal one, the last one above 0."""
    number, _, _, _ = TYPES[kind]
    random = rng(40)
    last, normal, zero = (88.7228, -87.3365, -103.9721) if kind == "f32" else (709.7827, -708.3964, -745.1332)
    return {
        "|x| < 2^-10": random.uniform(-1, 1, COUNT) * 2.0 ** random.uniform(-60, -10, COUNT),
        "|x| <= 1": random.uniform(-1, 1, COUNT),
        "all normal results": random.uniform(normal, last, 2 * COUNT),
        "subnormal results": random.uniform(zero, normal, COUNT),
        "near the limits": [n for c in (last, normal, zero) for n in neighbours(number, c) if n <= number(last)],
        "between two n": [n for k in range(-100, 100, 7) for n in neighbours(number, (k + 0.5) * np.log(2), 3)
                          if n <= number(last)],
    }


def log1p_ranges(kind):
    number, _, digits, lowest = TYPES[kind]
    random = rng(41)
    return {
        "|x| < 2^-10": random.uniform(-1, 1, COUNT) * 2.0 ** random.uniform(lowest - digits, -10, COUNT),
        "-1/4 <= x < 1/2": random.uniform(-0.25, 0.5, 2 * COUNT),
        "-1 < x < -1/4": np.concatenate([random.uniform(-0.75, -0.25, 2 * COUNT), random.uniform(-1, -0.25, COUNT)]),
        "near -1": -1 + 2.0 ** -random.uniform(2, digits - 1, COUNT),
        "1/2 <= x < 16": random.uniform(0.5, 16, COUNT),
        "x >= 16": random.uniform(1, 2, COUNT) * 2.0 ** random.integers(4, -lowest + 1, COUNT),
        "where k changes": [n for e in range(-8, 9) for n in neighbours(number, 1.5 * 2.0**e - 1, 10)],
    }


@pytest.mark.parametrize("function, kind", BOUND)
def test_maximum_error(function, kind):
    number = TYPES[kind][0]
    print(f"\n| {function} {kind} | points | maximum (ULP) |\n|---|---|---|")
    worst = 0.0
    with mpmath.workprec(160), np.errstate(under="ignore"):
        for name, numbers in (exp_ranges if function == "exp" else log1p_ranges)(kind).items():
            x = np.asarray(numbers, np.float64).astype(number)
            x = x[x > -1] if function == "log1p" else x
            errors = [error(function, kind, a, b) for a, b in zip(x, apply(function, kind, x))]
            print(f"| {name} | {len(x)} | {max(errors):.3f} |")
            worst = max(worst, max(errors))
    assert worst <= BOUND[function, kind]


@pytest.mark.parametrize("kind", TYPES)
def test_exact_results(kind):
    number = TYPES[kind][0]
    inf, nan = np.inf, np.nan

    def check(function, x, expected):
        np.testing.assert_array_equal(apply(function, kind, np.array(x, number)), np.array(expected, number))

    check("exp", [0.0, -0.0, -inf, inf, nan], [1, 1, 0, inf, nan])
    check("log1p", [-1, -1.5, -inf, inf, nan], [-inf, nan, nan, inf, nan])
    zeros = apply("log1p", kind, np.array([0.0, -0.0], number))
    assert (zeros == 0).all() and np.signbit(zeros).tolist() == [False, True]
