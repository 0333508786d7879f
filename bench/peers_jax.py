"""JAX as a peer, under jit. It allocates its results; its threads cannot be limited from here, so it takes part only
where all of them are used."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import lax
from torch import Tensor

from bench.problems import WEIGHT, Problem
from bench.recipes import beside, blocks, fits, reduced_dims

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")
Call = Callable[[], tuple[Any, ...]]
KINDS = {
    "f32": jnp.float32,
    "f64": jnp.float64,
    "f16": jnp.float16,
    "bf16": jnp.bfloat16,
    "s8": jnp.int8,
    "u8": jnp.uint8,
}


def make(problem: Problem) -> Call | None:
    row = problem.row
    if row.threads != len(os.sched_getaffinity(0)) or row.direction == "backward":
        return None
    builders = {"dynamic_quantize": _dynamic, "lerp": _binary, "add_scaled": _binary}
    builders |= dict.fromkeys(("quantize", "dequantize", "fake_quantize"), _quantize)
    made = builders.get(row.op, _scan)(problem)
    if made is None:
        return None
    function, arguments = made
    fused = jax.jit(function)
    inputs = [jnp.from_dlpack(tensor.contiguous()) for tensor in arguments]

    def call() -> tuple[Any, ...]:
        results = jax.block_until_ready(fused(*inputs))
        return tuple(_Result(result) for result in results)

    return call


class _Result:
    """An array of JAX, as a tensor only when somebody looks."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def tensor(self) -> Tensor:
        return torch.utils.dlpack.from_dlpack(self._array)


def _scan(problem: Problem) -> tuple[Callable[..., Any], list[Tensor]] | None:
    row, given = problem.row, problem.inputs
    axis: Any = row.axis
    if row.op == "linear_recurrence":

        def combine(left: Any, right: Any) -> Any:
            return left[0] * right[0], right[0] * left[1] + right[1]

        return lambda a, b: (lax.associative_scan(combine, (a, b), axis=axis)[1],), [given["a"], given["b"]]
    if row.op in ("cummax", "cummin"):
        return None  # no indices
    function = {"cumsum": lax.cumsum, "cumprod": lax.cumprod, "logcumsumexp": lax.cumlogsumexp}[row.op]
    return lambda x: (function(x, axis),), [given["x"]]


def _binary(problem: Problem) -> tuple[Callable[..., Any], list[Tensor]]:
    given = problem.inputs
    weights = [given["weight"]] if isinstance(given["weight"], Tensor) else []

    def lerp(a: Any, b: Any, w: Any = WEIGHT) -> Any:
        return (a + w * (b - a),)

    def add_scaled(a: Any, b: Any, w: Any = WEIGHT) -> Any:
        return (a + w * b,)

    return lerp if problem.row.op == "lerp" else add_scaled, [given["a"], given["b"], *weights]


def _quantize(problem: Problem) -> tuple[Callable[..., Any], list[Tensor]] | None:
    row, given = problem.row, problem.inputs
    if not fits(row):
        return None
    low, high = problem.qrange
    like = torch.empty(0, dtype=problem.outputs[0].dtype if row.op == "dequantize" else given["x"].dtype)
    scales = [beside(row, given[name], like) for name in ("scale", "zero_point")]

    def dequantize(q: Any, s: Any, z: Any) -> Any:
        return (((q - z) * s).astype(KINDS[row.dtype]),)

    def quantize(x: Any, s: Any, z: Any) -> Any:
        code = jnp.clip(jnp.round(x / s) + z, low, high)
        if row.op == "fake_quantize":
            return (((code - z) * s).astype(KINDS[row.dtype]),)
        return (code.astype(KINDS[row.codes]),)

    if row.op == "dequantize":
        return dequantize, [blocks(row, given["q"]), *scales]
    return quantize, [blocks(row, given["x"]), *scales]


def _dynamic(problem: Problem) -> tuple[Callable[..., Any], list[Tensor]] | None:
    row = problem.row
    if row.variant == "asymmetric" or not fits(row):
        return None
    low, high = problem.qrange
    kind, dims = KINDS["f64" if row.dtype == "f64" else "f32"], reduced_dims(row)

    def dynamic(x: Any) -> Any:
        scale = jnp.maximum(jnp.max(jnp.abs(x), axis=dims, keepdims=True).astype(kind) / high, 1e-30)
        return jnp.clip(jnp.round(x / scale), low, high).astype(KINDS[row.codes]), scale

    return dynamic, [blocks(row, problem.inputs["x"])]
