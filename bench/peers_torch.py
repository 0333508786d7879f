"""PyTorch as a peer: its own functions in eager mode, or the recipe where it has none; and the recipe compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from bench.problems import WEIGHT, Problem
from bench.recipes import recipe_of
from bench.rows import RAGGED, RAGGED_LENGTHS, SCANS

Call = Callable[[], tuple[Tensor, ...]]


def eager(problem: Problem) -> Call | None:
    """What a user would call. Writes prepared outputs where PyTorch's function takes them."""
    row = problem.row
    if row.variant == RAGGED:
        return _ragged(problem)
    special = _scan if row.op in SCANS else _binary if row.op in ("lerp", "add_scaled") else _quantize
    found = special(problem)
    if found is not None:
        return found
    recipe = recipe_of(problem) if row.op != "linear_recurrence" else None
    if recipe is None:
        return None
    function, arguments = recipe
    return lambda: function(*arguments)


def compiled(problem: Problem) -> Call | None:
    """The recipe under torch.compile, which fuses it and stores straight into the prepared outputs."""
    recipe = recipe_of(problem)
    if recipe is None:
        return None
    function, arguments = recipe
    results = function(*arguments)
    outputs = [out.view(result.shape) for out, result in zip(problem.peer_outputs, results, strict=False)]

    def write(outputs: list[Tensor], arguments: list[Tensor]) -> None:
        for out, result in zip(outputs, function(*arguments), strict=True):
            out.copy_(result)

    torch._dynamo.reset()
    fused = torch.compile(write, dynamic=False, fullgraph=True)

    def call() -> tuple[Tensor, ...]:
        fused(outputs, arguments)
        return tuple(outputs)

    return call


def _quantize(problem: Problem) -> Call | None:
    row, given = problem.row, problem.inputs
    low, high = problem.qrange
    # A token of a matrix is a channel of its first axis.
    axis = {"token": 0, "channel 0": 0, "channel 1": 1}.get(row.scope)
    known = row.scope == "tensor" or (axis is not None and len(row.shape) == 2)
    if row.op == "dynamic_quantize" or not known or "scale" not in given:
        return None
    scale: Any = given["scale"]
    zero: Any = given.get("zero_point")
    code_type = torch.quint8 if row.codes == "u8" else torch.qint8
    x: Any = given.get("x")
    dy = given.get("dy")
    if row.op == "fake_quantize_learnable":
        return _learnable(problem, axis)
    if row.op == "fake_quantize":
        if axis is not None and row.dtype == "f64":
            return None  # scales must be f32
        if dy is None and axis is None:
            return lambda: (torch.fake_quantize_per_tensor_affine(x, scale, zero, low, high),)
        if dy is None:
            return lambda: (torch.fake_quantize_per_channel_affine(x, scale, zero, axis or 0, low, high),)
        # The forward pass has left a mask.
        aten = torch.ops.aten
        if axis is None:
            _, mask = aten.fake_quantize_per_tensor_affine_cachemask(x, scale, zero, low, high)
            return lambda: (aten.fake_quantize_per_tensor_affine_cachemask_backward(dy, mask),)
        _, mask = aten.fake_quantize_per_channel_affine_cachemask(x, scale, zero, axis, low, high)
        return lambda: (aten.fake_quantize_per_channel_affine_cachemask_backward(dy, mask),)
    # Tensors of codes with their scales exist for f32 alone.
    if row.dtype != "f32" or dy is not None:
        return None

    def codes(values: Tensor) -> Tensor:
        if axis is None:
            return torch.quantize_per_tensor(values, scale, zero, code_type)
        return torch.quantize_per_channel(values, scale, zero, axis, code_type)

    if row.op == "quantize":
        return lambda: (_Codes(codes(x)),)  # type: ignore[return-value]
    q = given["q"]
    if axis is None:
        stored = torch._make_per_tensor_quantized_tensor(q, scale, zero)
    else:
        stored = torch._make_per_channel_quantized_tensor(q, scale.double(), zero.long(), axis)
    return lambda: (stored.dequantize(),)


class _Codes:
    """A quantised tensor whose codes are copied out only when somebody looks."""

    def __init__(self, quantized: Tensor) -> None:
        self._quantized = quantized

    def tensor(self) -> Tensor:
        return self._quantized.int_repr()


def _learnable(problem: Problem, axis: int | None) -> Call | None:
    given, (low, high) = problem.inputs, problem.qrange
    x, dy, scale = given["x"], given["dy"], given["scale"]
    if x.dtype != torch.float32:
        return None  # scales would have to be of x's type, or are refused: the recipe is what is left
    zero = given["zero_point"].to(x.dtype)
    if axis is None:
        scale, zero = scale.view(1), zero.view(1)
        backward = torch.ops.aten._fake_quantize_learnable_per_tensor_affine_backward
        return lambda: backward(dy, x, scale, zero, low, high, 1.0)
    channels = torch.ops.aten._fake_quantize_learnable_per_channel_affine_backward
    return lambda: channels(dy, x, scale, zero, axis, low, high, 1.0)


def _binary(problem: Problem) -> Call | None:
    row, given, outputs = problem.row, problem.inputs, problem.peer_outputs
    a, b, weight = given["a"], given["b"], given["weight"]
    lerp, with_tensor = row.op == "lerp", isinstance(weight, Tensor)
    if row.direction == "forward":
        if lerp:
            return lambda: (torch.lerp(a, b, weight, out=outputs[0]),)
        if with_tensor:
            return lambda: (torch.addcmul(a, b, weight, out=outputs[0]),)
        return lambda: (torch.add(a, b, alpha=weight, out=outputs[0]),)
    if "summed" in row.variant or with_tensor:
        return None
    dy = given["dy"]
    da, db = outputs
    if lerp:
        return lambda: (torch.mul(dy, 1.0 - WEIGHT, out=da), torch.mul(dy, WEIGHT, out=db))
    return lambda: (da.copy_(dy), torch.mul(dy, WEIGHT, out=db))


def _scan(problem: Problem) -> Call | None:
    row, given, outputs = problem.row, problem.inputs, problem.peer_outputs
    axis: Any = row.axis
    if row.op == "linear_recurrence":
        return _recurrence(problem)
    function = getattr(torch, row.op)
    if row.direction == "forward":
        x = given["x"]
        if row.op in ("cummax", "cummin"):
            return lambda: tuple(function(x, axis, out=outputs))
        return lambda: (function(x, axis, out=outputs[0]),)
    if row.op == "cumsum":
        return None
    x, dy = given["x"], given["dy"]
    if row.op in ("cummax", "cummin"):
        indices = given["indices"]
        return lambda: (torch.ops.aten.cummaxmin_backward(dy, x, indices, axis),)
    leaf = x.detach().requires_grad_()
    y = function(leaf, axis)
    return lambda: torch.autograd.grad(y, leaf, dy, retain_graph=True)


def _ragged(problem: Problem) -> Call | None:
    """A loop over the segments, which is what there is: a function call for each."""
    row, given, outputs = problem.row, problem.inputs, problem.peer_outputs
    if row.op == "linear_recurrence" or (row.direction == "backward" and row.op in ("cumprod", "logcumsumexp")):
        return None
    function = getattr(torch, row.op)

    def cut(tensor: Tensor) -> tuple[Tensor, ...]:
        return tensor.split(RAGGED_LENGTHS)

    if row.direction == "forward":
        pieces = list(zip(cut(given["x"]), *(cut(output) for output in outputs), strict=True))

        def forward() -> tuple[Tensor, ...]:
            for x, *y in pieces:
                function(x, 0, out=tuple(y) if len(y) > 1 else y[0])
            return outputs

        return forward
    dx, dy = outputs[0], cut(given["dy"])
    if row.op == "cumsum":

        def backward() -> tuple[Tensor, ...]:
            for to, d in zip(cut(dx), dy, strict=True):
                to.copy_(d.flip(0).cumsum(0).flip(0))
            return outputs

        return backward
    winners = list(zip(cut(dx), dy, cut(given["x"]), cut(given["indices"]), strict=True))

    def extrema_backward() -> tuple[Tensor, ...]:
        for to, d, x, indices in winners:
            to.copy_(torch.ops.aten.cummaxmin_backward(d, x, indices, 0))
        return outputs

    return extrema_backward


def _recurrence(problem: Problem) -> Call | None:
    """A loop over the axis, where its steps are long enough that people would write one."""
    row, given, outputs = problem.row, problem.inputs, problem.peer_outputs
    axis: Any = row.axis
    steps = row.length
    if row.elements // steps < 128 or axis == len(row.shape) - 1:
        return None
    a = given["a"].unbind(axis)
    if row.direction == "forward":
        b, h = given["b"].unbind(axis), outputs[0].unbind(axis)

        def forward() -> tuple[Tensor, ...]:
            h[0].copy_(b[0])
            for t in range(1, steps):
                torch.addcmul(b[t], a[t], h[t - 1], out=h[t])
            return outputs

        return forward
    dh, da, db = given["dh"].unbind(axis), outputs[0], outputs[1]
    g = db.unbind(axis)

    def backward() -> tuple[Tensor, ...]:
        g[-1].copy_(dh[-1])
        for t in range(steps - 2, -1, -1):
            torch.addcmul(dh[t], a[t + 1], g[t + 1], out=g[t])
        da.narrow(axis, 0, 1).zero_()
        torch.mul(
            db.narrow(axis, 1, steps - 1), given["h"].narrow(axis, 0, steps - 1), out=da.narrow(axis, 1, steps - 1)
        )
        return outputs

    return backward
