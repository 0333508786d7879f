"""The operations as a PyTorch user would write them out, for eager mode where there is no such function, and for
torch.compile.

A recipe is a function of tensors alone. `recipe_of` gives it with its arguments, shaped so that they broadcast, or None
where only a loop would do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.problems import TORCH, WEIGHT, Problem
from bench.rows import GROUP_SIZE, Row

Recipe = Callable[..., tuple[Tensor, ...]]


def blocks(row: Row, tensor: Tensor) -> Tensor:
    """A view in which the elements of one scope are whole dimensions."""
    return tensor.view(*tensor.shape[:-1], -1, GROUP_SIZE) if row.scope == "group" else tensor


def beside(row: Row, value: Any, like: Tensor) -> Tensor:
    """Scales or zero points shaped to broadcast against `blocks`."""
    kind = torch.float64 if like.dtype == torch.float64 else torch.float32
    if not isinstance(value, Tensor):
        return torch.tensor([value], dtype=kind)
    tensor = value.to(kind)
    if tensor.dim() == 0:
        return tensor.view(1)
    return tensor.view(1, -1) if row.scope == "channel 1" else tensor.unsqueeze(-1)


def reduced_dims(row: Row) -> tuple[int, ...]:
    return {"tensor": tuple(range(len(row.shape))), "channel 1": (0,)}.get(row.scope, (-1,))


def fits(row: Row) -> bool:
    """Whether groups divide the rows; a ragged last one would need padding."""
    return row.scope != "group" or row.shape[-1] % GROUP_SIZE == 0


def recipe_of(problem: Problem) -> tuple[Recipe, list[Tensor]] | None:
    row = problem.row
    if row.op in ("quantize", "dequantize", "fake_quantize", "fake_quantize_learnable"):
        return _quantize(problem) if fits(row) else None
    if row.op == "dynamic_quantize":
        return _dynamic(problem) if fits(row) else None
    return _binary(problem) if row.op in ("lerp", "add_scaled") else _scan(problem)


def _quantize(problem: Problem) -> tuple[Recipe, list[Tensor]]:
    row, given = problem.row, problem.inputs
    low, high = problem.qrange
    kind, codes = TORCH[row.dtype], TORCH[row.codes or "s8"]
    first = next(given[name] for name in ("x", "dy", "q") if name in given)
    like = torch.empty(0, dtype=kind)
    scale, zero = beside(row, given["scale"], like), beside(row, given.get("zero_point", 0), like)
    dims = reduced_dims(row)

    def quantize(x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return (torch.clamp(torch.round(x / s) + z, low, high).to(codes),)

    def dequantize(q: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return (((q - z) * s).to(kind),)

    def fake(x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        return (((torch.clamp(torch.round(x / s) + z, low, high) - z) * s).to(kind),)

    def quantize_backward(dy: Tensor, x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        code = torch.round(x / s) + z
        return (torch.where((code >= low) & (code <= high), dy / s, 0.0).to(kind),)

    def dequantize_backward(dy: Tensor, s: Tensor) -> tuple[Tensor, ...]:
        return ((dy * s).to(kind),)

    def fake_backward(dy: Tensor, x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        code = torch.round(x / s) + z
        return (torch.where((code >= low) & (code <= high), dy, 0.0),)

    def learnable_backward(dy: Tensor, x: Tensor, s: Tensor, z: Tensor) -> tuple[Tensor, ...]:
        ratio = x / s
        code = torch.round(ratio) + z
        inside = (code >= low) & (code <= high)
        slope = torch.where(inside, torch.round(ratio) - ratio, torch.clamp(code, low, high) - z)
        d_scale = (dy * slope).sum(dims)
        d_zero = torch.where(inside, 0.0, -dy * s).sum(dims)
        return torch.where(inside, dy, 0.0), d_scale, d_zero

    if row.direction == "forward":
        recipe: Recipe = {"quantize": quantize, "dequantize": dequantize, "fake_quantize": fake}[row.op]
        return recipe, [blocks(row, first), scale, zero]
    if row.op == "dequantize":
        return dequantize_backward, [blocks(row, first), scale]
    recipe = {"quantize": quantize_backward, "fake_quantize": fake_backward}.get(row.op, learnable_backward)
    return recipe, [blocks(row, given["dy"]), blocks(row, given["x"]), scale, zero]


def _dynamic(problem: Problem) -> tuple[Recipe, list[Tensor]]:
    row = problem.row
    low, high = problem.qrange
    kind = torch.float64 if row.dtype == "f64" else torch.float32
    codes, dims = TORCH[row.codes], reduced_dims(row)

    def symmetric(x: Tensor) -> tuple[Tensor, ...]:
        scale = (x.abs().amax(dims, keepdim=True).to(kind) / high).clamp(min=1e-30)
        return torch.clamp(torch.round(x / scale), low, high).to(codes), scale

    def asymmetric(x: Tensor) -> tuple[Tensor, ...]:
        least = x.amin(dims, keepdim=True).to(kind).clamp(max=0.0)
        most = x.amax(dims, keepdim=True).to(kind).clamp(min=0.0)
        scale = ((most - least) / (high - low)).clamp(min=1e-30)
        zero = low - torch.round(least / scale)
        return torch.clamp(torch.round(x / scale) + zero, low, high).to(codes), scale, zero.to(torch.int32)

    return asymmetric if row.variant == "asymmetric" else symmetric, [blocks(row, problem.inputs["x"])]


def _binary(problem: Problem) -> tuple[Recipe, list[Tensor]]:
    row, given = problem.row, problem.inputs
    a, b, weight = given["a"], given["b"], given["weight"]
    dims = {"summed to a scalar": (0, 1), "summed along rows": (1,), "summed along columns": (0,)}.get(row.variant)
    lerp = row.op == "lerp"

    def summed(gradient: Tensor) -> Tensor:
        return gradient if dims is None else gradient.sum(dims, keepdim=True)

    def forward(a: Tensor, b: Tensor) -> tuple[Tensor, ...]:
        return (torch.lerp(a, b, WEIGHT) if lerp else torch.add(a, b, alpha=WEIGHT),)

    def forward_tensor(a: Tensor, b: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return (torch.lerp(a, b, w) if lerp else torch.addcmul(a, b, w),)

    def backward(dy: Tensor) -> tuple[Tensor, ...]:
        return dy * (1.0 - WEIGHT) if lerp else dy.clone(), summed(dy * WEIGHT)

    def backward_tensor(dy: Tensor, a: Tensor, b: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        return dy * (1.0 - w) if lerp else dy.clone(), dy * w, dy * ((b - a) if lerp else b)

    if isinstance(weight, Tensor):
        return (
            (forward_tensor, [a, b, weight])
            if row.direction == "forward"
            else (backward_tensor, [given["dy"], a, b, weight])
        )
    return (forward, [a, b]) if row.direction == "forward" else (backward, [given["dy"]])


def _scan(problem: Problem) -> tuple[Recipe, list[Tensor]] | None:
    row, given = problem.row, problem.inputs
    axis = row.axis
    if row.direction == "backward":
        if row.op != "cumsum":
            return None
        return lambda dy: (dy.flip(axis).cumsum(axis).flip(axis),), [given["dy"]]
    if row.op == "linear_recurrence":
        return None
    function = getattr(torch, row.op)
    if row.op in ("cummax", "cummin"):
        return lambda x: tuple(function(x, axis)), [given["x"]]
    return lambda x: (function(x, axis),), [given["x"]]
