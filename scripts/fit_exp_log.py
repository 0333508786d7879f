#!/usr/bin/env python3
"""Prints the polynomials of src/numerics/exp_log_math.inl: minimax fits by Remez exchange, rounded to f32 or f64.

Each is the tail of a series whose first terms are exact:
    exp(r)       = 1 + r + r^2 T(r)                              |r| <= ln(2) / 2
    log(1 + f)   = f - s (f - z T(z))                            s = f / (2 + f), z = s^2 <= 1/25
The error that is made small is that of the whole function, relative to its value. Needs mpmath: ~/.cache/planck/venv/bin/python scripts/fit_exp_log.py
"""

from mpmath import cos, exp, expm1, frexp, ldexp, linspace, log, lu_solve, matrix, mp, mpf, nint, pi, polyval, sqrt

mp.prec = 200


def rounded(x, bits):
    fraction, exponent = frexp(x)
    return ldexp(nint(ldexp(fraction, bits)), exponent - bits)


def remez(target, weight, count, lo, hi):
    """The c of min max |weight(x) (sum c[i] x^i - target(x))|."""
    n = count + 1
    points = [(lo + hi) / 2 - (hi - lo) / 2 * cos(pi * i / count) for i in range(n)]
    grid = linspace(lo, hi, 1000)
    for _ in range(8):
        rows = [[weight(x) * x**i for i in range(count)] + [(-1) ** k] for k, x in enumerate(points)]
        c = list(lu_solve(matrix(rows), matrix([weight(x) * target(x) for x in points])))[:count]
        # The new points: where the error is largest between two changes of its sign.
        extrema = []
        for x in grid:
            error = weight(x) * (polyval(c[::-1], x) - target(x))
            if extrema and (extrema[-1][1] > 0) == (error > 0):
                extrema[-1] = max(extrema[-1], (x, error), key=lambda p: abs(p[1]))
            else:
                extrema.append((x, error))
        while len(extrema) > n:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < n:
            return c
        points = [x for x, _ in extrema]
    return c


def fit(name, target, weight, count, lo, hi, bits):
    c = [rounded(x, bits) for x in remez(target, weight, count, mpf(lo), mpf(hi))]
    error = max(abs(weight(x) * (polyval(c[::-1], x) - target(x))) for x in linspace(mpf(lo), mpf(hi), 2000))
    print(f"{name}: within 2^{float(log(error, 2)):.2f}")
    for x in c:
        print("  ", float(x).hex())


def exp_tail(r):
    return (expm1(r) - r) / r**2 if r else mpf(1) / 2


def atanh_tail(z):
    """T of log(1 + f) = 2 atanh(s) = 2 s + s z T(z), where 2 s = f - s f."""
    s = sqrt(z)
    return (log((1 + s) / (1 - s)) - 2 * s) / (s * z) if z else mpf(2) / 3


def atanh_weight(z):
    s = sqrt(z)
    return s * z / log((1 + s) / (1 - s)) if z else mpf(0)


HALF_LN2 = log(2) / 2 * (1 + mpf(2) ** -12)  # n is the nearest whole number only almost

if __name__ == "__main__":
    for name, bits, exp_count, log_count in (("f32", 24, 5, 3), ("f64", 53, 10, 7)):
        fit(f"exp {name}", exp_tail, lambda r: r**2 / exp(r), exp_count, -HALF_LN2, HALF_LN2, bits)
        fit(f"log {name}", atanh_tail, atanh_weight, log_count, 0, mpf(1) / 25, bits)
