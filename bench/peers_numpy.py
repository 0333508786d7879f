"""NumPy as a peer: its own accumulations, and recipes that write into prepared arrays. It uses one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from bench.problems import WEIGHT, Problem
from bench.recipes import beside, blocks, fits

Call = Callable[[], tuple[Any, ...]]


def make(problem: Problem) -> Call | None:
    row = problem.row
    if row.dtype == "bf16":
        return None
    if row.op in _SCANS:
        return _scan(problem)
    if row.op in ("lerp", "add_scaled"):
        return _binary(problem)
    if row.direction == "backward" or not fits(row):
        return None
    return _dynamic(problem) if row.op == "dynamic_quantize" else _quantize(problem)


_SCANS: dict[str, Any] = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "logcumsumexp": np.logaddexp,
    "cummax": None,
    "cummin": None,
    "linear_recurrence": None,
}


def _scan(problem: Problem) -> Call | None:
    row, function = problem.row, _SCANS[problem.row.op]
    if function is None:  # no indices, no recurrences
        return None
    axis: Any = row.axis
    out = problem.peer_outputs[0].numpy()
    if row.direction == "forward":
        x = problem.inputs["x"].numpy()
        return lambda: (function.accumulate(x, axis, out=out),)
    if row.op != "cumsum":
        return None
    dy, flipped = np.flip(problem.inputs["dy"].numpy(), axis), np.flip(out, axis)

    def backward() -> tuple[Any, ...]:
        np.add.accumulate(dy, axis, out=flipped)
        return (out,)

    return backward


def _binary(problem: Problem) -> Call | None:
    row, given = problem.row, problem.inputs
    if row.direction == "backward":
        return None
    a, b, out = given["a"].numpy(), given["b"].numpy(), problem.peer_outputs[0].numpy()
    weight = given["weight"].numpy() if isinstance(given["weight"], Tensor) else out.dtype.type(WEIGHT)

    def lerp() -> tuple[Any, ...]:
        np.subtract(b, a, out=out)
        np.multiply(out, weight, out=out)
        return (np.add(out, a, out=out),)

    def add_scaled() -> tuple[Any, ...]:
        np.multiply(b, weight, out=out)
        return (np.add(out, a, out=out),)

    return lerp if row.op == "lerp" else add_scaled


def _quantize(problem: Problem) -> Call | None:
    row, given = problem.row, problem.inputs
    low, high = problem.qrange
    first = blocks(row, given["q" if row.op == "dequantize" else "x"])
    out = problem.peer_outputs[0].view(first.shape).numpy()
    like = problem.peer_outputs[0] if row.op == "dequantize" else first
    scale, zero = (beside(row, given[name], like).numpy() for name in ("scale", "zero_point"))
    values: Any = first.numpy()
    work = np.empty(first.shape, scale.dtype)

    def dequantize() -> tuple[Any, ...]:
        np.subtract(values, zero, out=work, dtype=work.dtype)
        np.multiply(work, scale, out=out, casting="same_kind")
        return (out,)

    def quantize() -> tuple[Any, ...]:
        np.divide(values, scale, out=work, dtype=work.dtype)
        np.rint(work, out=work)
        np.add(work, zero, out=work)
        np.clip(work, low, high, out=work)
        if row.op == "fake_quantize":
            np.subtract(work, zero, out=work)
            np.multiply(work, scale, out=out, casting="same_kind")
        else:
            np.copyto(out, work, casting="unsafe")
        return (out,)

    return dequantize if row.op == "dequantize" else quantize


def _dynamic(problem: Problem) -> Call | None:
    row = problem.row
    low, high = problem.qrange
    if row.variant == "asymmetric" or row.scope == "tensor":
        return None
    x = blocks(row, problem.inputs["x"]).numpy()
    out = problem.peer_outputs[0].view(tuple(x.shape)).numpy()
    kind = np.dtype(np.float64 if row.dtype == "f64" else np.float32)
    work, axis = np.empty(x.shape, kind), 0 if row.scope == "channel 1" else -1

    def dynamic() -> tuple[Any, ...]:
        np.abs(x, out=work, dtype=kind)
        scale = work.max(axis=axis, keepdims=True) / kind.type(high)
        np.divide(x, np.maximum(scale, kind.type(1e-30)), out=work, dtype=kind)
        np.rint(work, out=work)
        np.clip(work, low, high, out=work)
        np.copyto(out, work, casting="unsafe")
        return out, scale

    return dynamic
