#!/usr/bin/env python3
"""What a call from Python costs: at 64 elements beside NumPy's and PyTorch's own, and large ones in turns with PyTorch's.

Run with a Python that has planck, numpy and torch. Every number is the least of many rounds, taken in turns.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import planck
import planck.torch
import torch


def least_seconds(calls: dict[str, Callable[[], object]], repeats: int, rounds: int) -> dict[str, float]:
    """The least time of one call each; the calls take turns, so that a busy machine is busy for all."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(rounds):
        for name, call in calls.items():
            begin = time.perf_counter()
            for _ in range(repeats):
                call()
            best[name] = min(best[name], (time.perf_counter() - begin) / repeats)
    return best


def small_calls(rounds: int) -> None:
    x, out = np.ones(64, np.float32), np.empty(64, np.float32)
    t, t_out = torch.ones(64), torch.empty(64)
    leaf = torch.ones(64, requires_grad=True)
    scale, zero_point = torch.tensor(0.1), torch.tensor(0, dtype=torch.int32)
    calls = {
        "planck.cumsum(x, out=out)": lambda: planck.cumsum(x, out=out),
        "planck.cumsum(x)": lambda: planck.cumsum(x),
        "numpy.cumsum(x, out=out)": lambda: np.cumsum(x, out=out),
        "planck.fake_quantize(x, 0.1, out=out)": lambda: planck.fake_quantize(x, 0.1, out=out),
        "planck.cumsum(t, out=t_out)": lambda: planck.cumsum(t, out=t_out),
        "planck.torch.cumsum(t, 0)": lambda: planck.torch.cumsum(t, 0),
        "torch.cumsum(t, 0)": lambda: torch.cumsum(t, 0),
        "planck.torch.cumsum(leaf, 0)": lambda: planck.torch.cumsum(leaf, 0),
        "torch.cumsum(leaf, 0)": lambda: torch.cumsum(leaf, 0),
        "planck.torch.fake_quantize(t, scale, zero_point)": lambda: planck.torch.fake_quantize(t, scale, zero_point),
        "torch.fake_quantize_per_tensor_affine(…)": lambda: torch.fake_quantize_per_tensor_affine(
            t, scale, zero_point, -128, 127
        ),
        "torch.ops.planck.cumsum(t, None, 0, False, False)": lambda: torch.ops.planck.cumsum(t, None, 0, False, False),
    }
    print("| call, 64 float32 elements | µs |\n|---|---|")
    for name, seconds in least_seconds(calls, 2000, rounds).items():
        print(f"| `{name}` | {seconds * 1e6:.2f} |")


def alternating(rounds: int) -> None:
    """x to y to z: both steps by PyTorch, both by Planck, and one by each, which should take the mean of the two."""
    print("\n| elements | torch twice ms | planck twice ms | in turns ms | in turns ÷ mean |\n|---|---|---|---|---|")
    for elements in (1 << 14, 1 << 17, 1 << 20, 1 << 23):
        x, y, z = torch.rand(elements), torch.empty(elements), torch.empty(elements)

        def by_torch(x: torch.Tensor, y: torch.Tensor) -> None:
            torch.add(x, 1.0, out=y)

        def by_planck(x: torch.Tensor, y: torch.Tensor) -> None:
            planck.fake_quantize(x, 0.01, out=y)

        calls = {
            "torch": lambda x=x, y=y, z=z: (by_torch(x, y), by_torch(y, z)),
            "planck": lambda x=x, y=y, z=z: (by_planck(x, y), by_planck(y, z)),
            "turns": lambda x=x, y=y, z=z: (by_torch(x, y), by_planck(y, z)),
        }
        best = least_seconds(calls, max(4, (1 << 23) // elements), rounds)
        mean = (best["torch"] + best["planck"]) / 2
        milliseconds = " | ".join(f"{best[name] * 1e3:.3f}" for name in calls)
        print(f"| {elements} | {milliseconds} | {best['turns'] / mean:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    small_calls(rounds)
    alternating(rounds)


if __name__ == "__main__":
    main()
