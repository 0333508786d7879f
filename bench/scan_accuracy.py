#!/usr/bin/env python3
"""Prints the largest errors of running sums: Planck's beside torch's and NumPy's, against exact sums.

Usage: bench/scan_accuracy.py build/release/libplanck.so [--large]

Needs the Python of the oracle tests. Behind each error stands how many times the bound of docs/numerics.md it is: 0.5 ULP
and 2^-45 of the magnitudes summed, at the same element. --large adds 2^28 ones, which take 4 GB.
"""

import os
import pathlib
import sys

import numpy as np
import torch

COUNT = 1 << 20


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


def main() -> int:
    arguments = [a for a in sys.argv[1:] if a != "--large"]
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    os.environ["PLANCK_LIBRARY"] = os.path.abspath(arguments[0])
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "oracle"))
    import planck_c as planck
    from scan_exact import accuracy_cases, sum_bound

    print("| running sum of | Planck | torch | NumPy |\n|---|---|---|---|")
    for name, (x, exact, magnitudes) in accuracy_cases(COUNT).items():
        bound = sum_bound(exact, magnitudes, x.dtype)
        numpy = "–"  # it has no bf16
        if x.dtype != torch.bfloat16:
            numpy = cell(np.cumsum(x.numpy()), exact, bound)
        ours, torchs = (cell(y.double(), exact, bound) for y in (planck.scan(planck.CUMSUM, x), torch.cumsum(x, 0)))
        print(f"| {name} | {ours} | {torchs} | {numpy} |")
    if len(arguments) != len(sys.argv) - 1:
        print("| 2^28 ones | " + " | ".join(large_ones(planck)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
