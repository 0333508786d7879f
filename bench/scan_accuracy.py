#!/usr/bin/env python3
"""Prints the largest errors of scans, Planck's beside torch's and NumPy's, against exact arithmetic.

Usage: bench/scan_accuracy.py build/release/libplanck.so [sums | sums-16 | log-sum-exps] [--large]

Needs the Python of the oracle tests; the exact results and the data are those of tests/oracle/scan_exact.py.

sums          running sums of f32 and bf16. Behind each error stands how many times the bound of docs/numerics.md it is:
              0.5 ULP and 2^-45 of the magnitudes summed, at the same element. --large adds 2^28 ones, which take 4 GB.
sums-16       running sums of f16 and bf16, in ULP of the exact sum (docs/ops/cumsum.md)
log-sum-exps  LogCumsumExp and its gradient (docs/ops/logcumsumexp.md); takes two minutes
"""

import os
import pathlib
import sys

import numpy as np
import torch

COUNT = 1 << 20
LOG_SUM_EXP_COUNT = 1 << 16
NAMES = {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16"}
SHORT = (torch.float16, torch.bfloat16)


def cell(y, exact, bound):
    from scan_exact import error

    off = error(y, exact)
    ratio = float((off / bound).max())
    return f"{off.max():.2g} ({ratio:.2g} ×)" if ratio < 1e3 else f"{off.max():.2g} ({ratio:.1e} ×)"


def large_ones(planck):
    """Too long for f64 copies of everything: every 4093rd result, an odd step so that all roundings are met."""
    x = np.ones(1 << 28, np.float32)
    at = np.unique(np.r_[np.arange(0, len(x), 4093), len(x) - 1])
    exact = (at + 1).astype(np.float64)
    bound = 0.5 * 2.0 ** np.maximum(np.floor(np.log2(exact)) - 23, -149) + 2.0**-45 * exact
    cells = []
    for scan in (
        lambda: planck.scan(planck.CUMSUM, x),
        lambda: torch.cumsum(torch.from_numpy(x), 0).numpy(),
        lambda: np.cumsum(x),
    ):
        cells.append(cell(scan()[at], (exact, 0.0), bound))
    return cells


def sums(planck, large):
    from scan_exact import accuracy_cases, sum_bound

    print("| running sum of | Planck | torch | NumPy |\n|---|---|---|---|")
    for name, (x, exact, magnitudes) in accuracy_cases(COUNT).items():
        bound = sum_bound(exact, magnitudes, x.dtype)
        numpy = "–"  # it has no bf16
        if x.dtype != torch.bfloat16:
            numpy = cell(np.cumsum(x.numpy()), exact, bound)
        ours, torchs = (cell(y.double(), exact, bound) for y in (planck.scan(planck.CUMSUM, x), torch.cumsum(x, 0)))
        print(f"| {name} | {ours} | {torchs} | {numpy} |")
    if large:
        print("| 2^28 ones | " + " | ".join(large_ones(planck)) + " |")


def number(value):
    if value == 0:
        return "0"
    return f"{value:.2f}" if value < 10 else f"{value:.0f}" if value < 1000 else f"{value:.0e}".replace("e+0", "e")


def worst(y, exact, unit):
    """The largest error in units, where the exact result is finite; and how many NaN there are that should not be."""
    from scan_exact import error

    y = y.double().numpy() if isinstance(y, torch.Tensor) else y.astype(np.float64)
    finite = np.isfinite(exact[0])
    nan = np.isnan(y) & ~np.isnan(exact[0])
    with np.errstate(invalid="ignore"):
        off = np.where(finite & ~nan, error(y, exact) / unit, 0.0)
    return number(float(off.max())) + (", NaN" if nan.any() else "")


def attempt(call, exact, unit):
    """A cell, or – where the library does not take the dtype."""
    try:
        y = call()
    except (RuntimeError, TypeError):
        return "–"
    return worst(y, exact, unit)


def sums_16(planck):
    from oracle import ulp
    from scan_exact import SUMS_OF_16_BITS, exact_sums, sums_of_16_bits

    print("| largest error in ULP | f16: Planck | torch | NumPy | bf16: Planck | torch |\n|---|---|---|---|---|---|")
    for data in SUMS_OF_16_BITS:
        cells = []
        for dtype in SHORT:
            x = sums_of_16_bits(data, dtype)
            exact = exact_sums(x.double().numpy())
            unit = ulp(exact[0], dtype)
            cells += [worst(planck.scan(planck.CUMSUM, x), exact, unit), worst(torch.cumsum(x, 0), exact, unit)]
            cells += [worst(np.cumsum(x.numpy()), exact, unit)] if dtype == torch.float16 else []
        print(f"| {data} | " + " | ".join(cells) + " |")


def torch_gradient(x, dy):
    x = x.clone().requires_grad_()
    return torch.autograd.grad(torch.logcumsumexp(x, 0), x, dy)[0]


def planck_gradient(planck, x, dy):
    kind = planck.LOG_CUMSUM_EXP
    return planck.scan_backward(kind, dy, x, planck.scan(kind, x))


def log_sum_exps(planck):
    from oracle import rng, ulp
    from scan_exact import LOG_SUM_EXP_DATA, exact_log_sum_exp_gradient, exact_log_sum_exps, log_sum_exp_case

    forward, backward = [], []
    for data in LOG_SUM_EXP_DATA:
        y_cells, dx_cells = [], []
        for dtype in NAMES:
            x = log_sum_exp_case(data, dtype, LOG_SUM_EXP_COUNT)
            wide = x.double().numpy()
            exact = exact_log_sum_exps(wide)
            sizes = np.maximum(np.abs(exact[0]), np.abs(np.maximum.accumulate(wide)))
            size = np.maximum(1, np.where(np.isfinite(sizes), sizes, 0))
            half = 2.0**-53 if dtype == torch.float64 else 2.0**-24
            unit = ulp(np.where(np.isfinite(exact[0]), exact[0], 0), dtype) if dtype in SHORT else half * size
            y_cells += [
                attempt(lambda x=x: planck.scan(planck.LOG_CUMSUM_EXP, x), exact, unit),
                attempt(lambda x=x: torch.logcumsumexp(x, 0), exact, unit),
            ]
            if dtype != torch.bfloat16:
                y_cells.append(attempt(lambda x=x: np.logaddexp.accumulate(x.numpy()), exact, unit))
            dy = torch.from_numpy(rng(86).standard_normal(len(x))).to(dtype)
            exact, magnitude, _ = exact_log_sum_exp_gradient(wide.tolist(), dy.double().tolist())
            # What the terms add up to in magnitude, and at least the element's smallest number.
            unit = ulp(magnitude, dtype) if dtype in SHORT else half * size.max() * magnitude
            unit = np.maximum(unit, ulp(0.0, dtype))
            dx_cells += [
                attempt(lambda x=x, dy=dy: planck_gradient(planck, x, dy), exact, unit),
                attempt(lambda x=x, dy=dy: torch_gradient(x, dy), exact, unit),
            ]
        forward.append(f"| {data} | " + " | ".join(y_cells) + " |")
        backward.append(f"| {data} | " + " | ".join(dx_cells) + " |")
    peers = {name: "torch | NumPy" if name != "bf16" else "torch" for name in NAMES.values()}
    print("| y | " + " | ".join(f"{name}: Planck | {after}" for name, after in peers.items()) + " |")
    print("|" + "---|" * 12 + "\n" + "\n".join(forward) + "\n")
    print("| dx | " + " | ".join(f"{name}: Planck | torch" for name in NAMES.values()) + " |")
    print("|" + "---|" * 9 + "\n" + "\n".join(backward))


def main() -> int:
    library, *rest = [a for a in sys.argv[1:] if a != "--large"] or [None]
    table = rest[0] if rest else "sums"
    large = "--large" in sys.argv[1:]
    if library is None or len(rest) > 1 or table not in ("sums", "sums-16", "log-sum-exps"):
        print(__doc__, file=sys.stderr)
        return 2
    os.environ["PLANCK_LIBRARY"] = os.path.abspath(library)
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "oracle"))
    import planck_c as planck

    if table == "sums":
        sums(planck, large)
    elif table == "sums-16":
        sums_16(planck)
    else:
        log_sum_exps(planck)
    return 0


if __name__ == "__main__":
    sys.exit(main())
