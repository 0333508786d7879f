"""A row's arrays, the bytes that it must move, and Planck's call. Peers take their inputs from here.

Arrays are prefixes of a few large buffers, since filling 16 M elements takes longer than most operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import planck
import torch
from torch import Tensor

from bench.goals import reads_twice
from bench.rows import GROUP_SIZE, M16, RAGGED, RAGGED_LENGTHS, SCANS, Row

TORCH = {
    "f32": torch.float32,
    "f64": torch.float64,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "s8": torch.int8,
    "u8": torch.uint8,
    "s32": torch.int32,
    "s64": torch.int64,
}
CODE_RANGE = {"s8": (-128, 127), "u8": (0, 255), "": (-128, 127)}
WEIGHT = 0.3
_SEEDS = {"x": 1, "dy": 2, "b": 3, "weight": 4}


class Buffers:
    """Flat tensors by use and dtype. Those of more than 16 M elements are forgotten by `trim`."""

    def __init__(self) -> None:
        self._filled: dict[tuple[str, str, str], Tensor] = {}
        self._empty: dict[tuple[str, str], Tensor] = {}

    def filled(self, use: str, data: str, dtype: str, shape: Sequence[int]) -> Tensor:
        key, count = (use, data, dtype), math.prod(shape)
        if key not in self._filled or self._filled[key].numel() < count:
            self._filled[key] = self._fill(use, data, dtype, max(count, M16))
        return self._filled[key][:count].view(tuple(shape))

    def empty(self, use: str, dtype: str, shape: Sequence[int]) -> Tensor:
        key, count = (use, dtype), math.prod(shape)
        if key not in self._empty or self._empty[key].numel() < count:
            self._empty[key] = torch.zeros(max(count, M16 if count > 1 << 16 else 1 << 16), dtype=TORCH[dtype])
        return self._empty[key][:count].view(tuple(shape))

    def trim(self) -> None:
        for buffers in (self._filled, self._empty):
            for key in [key for key, tensor in buffers.items() if tensor.numel() > M16]:
                del buffers[key]  # type: ignore[arg-type]

    def _fill(self, use: str, data: str, dtype: str, count: int) -> Tensor:
        if count > M16:
            return self._fill(use, data, dtype, M16).repeat(math.ceil(count / M16))
        if dtype != "f32" and dtype not in ("s8", "u8"):
            return self.filled(use, data, "f32", (count,)).to(TORCH[dtype])
        generator = torch.Generator().manual_seed(_SEEDS.get(use, 5))
        if dtype in ("s8", "u8"):
            low, high = CODE_RANGE[dtype]
            return torch.randint(low, high + 1, (count,), dtype=TORCH[dtype], generator=generator)
        if data == "zeros":
            return torch.zeros(count)
        if data == "denormal":
            return torch.randint(1, 1000, (count,), generator=generator).to(torch.float32) * 2.0**-149
        if data == "ascending":  # within rows of 4096; products of them stay in range
            return (0.99 + 0.02 * (torch.arange(count) % 4096) / 4096).to(torch.float32)
        if data == "±1000":
            return torch.where(torch.rand(count, generator=generator) < 0.5, -1000.0, 1000.0)
        if data == "some zeros":
            near_one = 1.0 + 0.001 * torch.randn(count, generator=generator)
            return torch.where(torch.rand(count, generator=generator) < 0.001, 0.0, near_one)
        if data == "near one":
            return 1.0 + 0.001 * torch.randn(count, generator=generator)
        if data == "unit":
            return torch.rand(count, generator=generator)
        return torch.randn(count, generator=generator)


@dataclass
class Problem:
    """A row with its arrays: `planck()` writes `outputs`; peers may write `peer_outputs`."""

    row: Row
    inputs: dict[str, Any]
    outputs: tuple[Tensor, ...]
    peer_outputs: tuple[Tensor, ...]
    planck: Callable[[], object]
    bytes: int

    @property
    def qrange(self) -> tuple[int, int]:
        """The least and the largest code."""
        symmetric = self.row.op == "dynamic_quantize" and self.row.variant != "asymmetric"
        return (-127, 127) if symmetric else CODE_RANGE[self.row.codes]


def qparams_shape(row: Row) -> tuple[int, ...]:
    rows, columns = math.prod(row.shape[:-1]), row.shape[-1]
    shapes = {"tensor": (), "token": (rows,), "channel 0": (row.shape[0],), "channel 1": (columns,)}
    if row.scope == "group":
        return (rows, math.ceil(columns / GROUP_SIZE))
    return row.shape[:-1] if row.scope == "token" else shapes[row.scope]


def scope_options(row: Row) -> dict[str, Any]:
    if row.scope == "group":
        return {"scope": "group", "group_size": GROUP_SIZE}
    if row.scope.startswith("channel"):
        return {"scope": "channel", "axis": int(row.scope[-1])}
    return {"scope": row.scope}


def make_problem(row: Row, buffers: Buffers) -> Problem:
    build = _scan if row.op in SCANS else _dynamic if row.op == "dynamic_quantize" else None
    build = build or (_binary if row.op in ("lerp", "add_scaled") else _quantize)
    return build(row, buffers)


def _problem(
    row: Row,
    buffers: Buffers,
    inputs: dict[str, Any],
    outputs: Sequence[tuple[str, Sequence[int]]],
    call: Callable[[tuple[Tensor, ...]], object],
    unread: Sequence[str] = (),
) -> Problem:
    own = tuple(buffers.empty(f"planck {i}", dtype, shape) for i, (dtype, shape) in enumerate(outputs))
    peers = tuple(buffers.empty(f"peer {i}", dtype, shape) for i, (dtype, shape) in enumerate(outputs))
    read = [tensor for name, tensor in inputs.items() if isinstance(tensor, Tensor) and name not in unread]
    total = sum(tensor.numel() * tensor.element_size() for tensor in [*read, *own])
    if reads_twice(row):
        total += inputs["x"].numel() * inputs["x"].element_size()
    return Problem(row, inputs, own, peers, lambda: call(own), total)


def _quantize(row: Row, buffers: Buffers) -> Problem:
    compute = "f64" if row.dtype == "f64" else "f32"
    shape = qparams_shape(row)
    low, high = CODE_RANGE[row.codes]
    scale: Any = 0.02
    zero_point: Any = 3 + (128 if row.codes == "u8" else 0)
    if shape or row.op == "fake_quantize_learnable":
        unit = buffers.filled("scale", "unit", compute, shape)
        scale = 0.015 + 0.015 * unit
        zero_point = (unit * 7).to(torch.int32) + (125 if row.codes == "u8" else -3)
    inputs: dict[str, Any] = {"scale": scale, "zero_point": zero_point}
    options = scope_options(row)
    reciprocal = {"scale_form": "reciprocal"} if row.variant == "reciprocal" else {}
    x = buffers.filled("x", row.data, row.dtype, row.shape) if row.op != "dequantize" else None
    dy = buffers.filled("dy", "normal", row.dtype, row.shape) if row.direction == "backward" else None
    like_x = (row.dtype, row.shape)
    if row.op == "dequantize":
        if dy is not None:
            del inputs["zero_point"]
            inputs["dy"] = dy
            return _problem(
                row, buffers, inputs, [like_x], lambda o: planck.dequantize_backward(dy, scale, out=o[0], **options)
            )
        q = inputs["q"] = buffers.filled("q", "normal", row.codes, row.shape)
        options["dtype"] = TORCH[row.dtype]
        return _problem(
            row, buffers, inputs, [like_x], lambda o: planck.dequantize(q, scale, zero_point, out=o[0], **options)
        )
    inputs["x"] = x
    if dy is not None:
        inputs["dy"] = dy
    options |= {"q_min": low, "q_max": high, **reciprocal}
    if row.op == "fake_quantize_learnable":
        backward = planck.fake_quantize_learnable_backward
        outputs = [like_x, (compute, shape), (compute, shape)]
        return _problem(
            row,
            buffers,
            inputs,
            outputs,
            lambda o: backward(dy, x, scale, zero_point, out=(o[0], o[1], o[2]), **options),
        )
    if row.op == "quantize":
        options["dtype"] = TORCH[row.codes]
        if dy is None:
            like_x = (row.codes, row.shape)
    function = getattr(planck, row.op if dy is None else f"{row.op}_backward")
    arguments = ([] if dy is None else [dy]) + [x, scale, zero_point]
    return _problem(row, buffers, inputs, [like_x], lambda o: function(*arguments, out=o[0], **options))


def _dynamic(row: Row, buffers: Buffers) -> Problem:
    compute = "f64" if row.dtype == "f64" else "f32"
    x = buffers.filled("x", row.data, row.dtype, row.shape)
    shape = qparams_shape(row)
    options = {**scope_options(row), "mode": row.variant or "symmetric", "dtype": TORCH[row.codes]}
    options["scale_dtype"] = TORCH[compute]
    outputs = [(row.codes, row.shape), (compute, shape), ("s32", shape)]
    return _problem(
        row, buffers, {"x": x}, outputs, lambda o: planck.dynamic_quantize(x, out=(o[0], o[1], o[2], None), **options)
    )


def _binary(row: Row, buffers: Buffers) -> Problem:
    rows, columns = row.shape if len(row.shape) == 2 else (1, *row.shape)
    full = row.shape
    b_shape = {
        "summed to a scalar": (1, 1),
        "summed along rows": (rows, 1),
        "summed along columns": (1, columns),
    }.get(row.variant, full)
    a = buffers.filled("x", row.data, row.dtype, full)
    b = buffers.filled("b", "normal", row.dtype, b_shape)
    with_tensor = row.variant == "tensor weight"
    weight: Any = buffers.filled("weight", "unit", row.dtype, full) if with_tensor else WEIGHT
    inputs = {"a": a, "b": b, "weight": weight}
    if row.direction == "forward":
        function = getattr(planck, row.op)
        return _problem(row, buffers, inputs, [(row.dtype, full)], lambda o: function(a, b, weight, out=o[0]))
    dy = inputs["dy"] = buffers.filled("dy", "normal", row.dtype, full)
    backward = getattr(planck, f"{row.op}_backward")
    outputs: list[tuple[str, Sequence[int]]] = [(row.dtype, full), (row.dtype, b_shape)]
    if with_tensor:
        # b - a, or b alone, is the weight's factor; AddScaled's weight is read for db, its a never.
        outputs.append((row.dtype, full))
        unread = ["a"] if row.op == "add_scaled" else []
        return _problem(row, buffers, inputs, outputs, lambda o: backward(dy, a, b, weight, out=o), unread)
    return _problem(
        row, buffers, inputs, outputs, lambda o: backward(dy, a, b, weight, out=(*o, None)), ["a", "b", "weight"]
    )


def _ragged_options(row: Row) -> dict[str, Any]:
    if row.variant != RAGGED:
        return {}
    return {"offsets": torch.tensor((0, *RAGGED_LENGTHS)).cumsum(0)}


def _scan(row: Row, buffers: Buffers) -> Problem:
    if row.op == "linear_recurrence":
        return _recurrence(row, buffers)
    if row.direction == "backward":
        return _scan_backward(row, buffers)
    x, like_x = _scanned(row, buffers), (row.dtype, row.shape)
    function, axis, options = getattr(planck, row.op), row.axis, _ragged_options(row)
    if row.op in ("cummax", "cummin"):
        outputs = [like_x, ("s64", row.shape)]
        # PyTorch's rule for equal elements.
        return _problem(row, buffers, {"x": x}, outputs, lambda o: function(x, axis, ties="last", out=o, **options))
    return _problem(row, buffers, {"x": x}, [like_x], lambda o: function(x, axis, out=o[0], **options))


def _scanned(row: Row, buffers: Buffers) -> Tensor:
    # One zero in a thousand: after the first one a product is 0, and its gradient is where formulas go wrong.
    data = {"normal": "near one", "zeros": "some zeros"}.get(row.data, row.data) if row.op == "cumprod" else row.data
    return buffers.filled("x", data, row.dtype, row.shape)


def _scan_backward(row: Row, buffers: Buffers) -> Problem:
    x, like_x = _scanned(row, buffers), (row.dtype, row.shape)
    dy = buffers.filled("dy", "normal", row.dtype, row.shape)
    forward, backward = getattr(planck, row.op), getattr(planck, f"{row.op}_backward")
    axis, inputs, options = row.axis, {"dy": dy, "x": x}, _ragged_options(row)
    call: Callable[[tuple[Tensor, ...]], object]
    unread: list[str]
    if row.op == "cumsum":
        unread, call = ["x"], lambda o: backward(dy, axis, out=o[0], **options)
    elif row.op == "cumprod":
        unread, call = [], lambda o: backward(dy, x, axis, out=o[0], **options)
    elif row.op == "logcumsumexp":
        y = inputs["y"] = buffers.empty("y", row.dtype, row.shape)
        forward(x, axis, out=y, **options)
        unread, call = [], lambda o: backward(dy, x, y, axis, out=o[0], **options)
    else:
        indices = inputs["indices"] = buffers.empty("indices", "s64", row.shape)
        forward(x, axis, ties="last", out=(buffers.empty("y", *like_x), indices), **options)
        if row.variant == "from x":
            unread, call = ["indices"], lambda o: backward(dy, x, axis, ties="last", out=o[0], **options)
        else:
            unread, call = ["x"], lambda o: backward(dy, axis=axis, indices=indices, out=o[0], **options)
    return _problem(row, buffers, inputs, [like_x], call, unread)


def _recurrence(row: Row, buffers: Buffers) -> Problem:
    axis: Any = row.axis
    like_x, options = (row.dtype, row.shape), _ragged_options(row)
    a = buffers.filled("a", "unit" if row.data == "normal" else row.data, row.dtype, row.shape)
    b = buffers.filled("x", row.data, row.dtype, row.shape)
    function, backward = planck.linear_recurrence, planck.linear_recurrence_backward
    if row.direction == "forward":
        return _problem(row, buffers, {"a": a, "b": b}, [like_x], lambda o: function(a, b, axis, out=o[0], **options))
    h = buffers.empty("h", row.dtype, row.shape)
    function(a, b, axis, out=h, **options)
    dh = buffers.filled("dy", "normal", row.dtype, row.shape)
    return _problem(
        row,
        buffers,
        {"dh": dh, "a": a, "h": h},
        [like_x, like_x],
        lambda o: backward(dh, a, h, axis, out=(o[0], o[1], None), **options),
    )
