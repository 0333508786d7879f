"""The rows of the grid: what is measured, as plain values. Nothing here touches an array.

A row is one operation in one direction on one dtype, shape and axis. Three modes choose rows: `quick` (a handful, for
every change), `default` (every operation, direction and dtype, and every shape for f32 and bf16) and `full` (the product).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

DTYPES = ("f32", "bf16", "f16", "f64")
BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "s8": 1, "u8": 1}
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp", "linear_recurrence")
BINARY = ("lerp", "add_scaled")
FORWARD_ONLY = ("dynamic_quantize",)
BACKWARD_ONLY = ("fake_quantize_learnable",)
OPS = ("quantize", "dequantize", "fake_quantize", *BACKWARD_ONLY, *FORWARD_ONLY, *BINARY, *SCANS)
SCOPES = ("tensor", "token", "group", "channel 0", "channel 1")
GROUP_SIZE = 128
SQUARE = (4096, 4096)
M16 = 1 << 24
SMALL = tuple(4**i for i in range(7))
# 1 KiB to 1 GiB of f32.
SCALING = tuple(256 * 4**i for i in range(11))
LLM = tuple((tokens, hidden) for hidden in (4096, 11008, 14336) for tokens in (1, 16, 512))
SCAN_LAYOUTS = ((SQUARE, 1), (SQUARE, 0), ((1, M16), 1), ((131072, 128), 1), ((32, 1024, 512), 1))
HOSTILE = ("zeros", "denormal", "ascending")
# A ragged batch: 512 segments of 1 to 8192 elements, mixed, 2 M in all.
RAGGED = "512 segments"
RAGGED_LENGTHS = tuple(1 + i * 115 % 512 * 8191 // 511 for i in range(512))


@dataclass(frozen=True)
class Row:
    """One row. `part` names the part of the grid; `variant` what an operation is told beyond scope and codes."""

    part: str
    op: str
    direction: str
    dtype: str
    shape: tuple[int, ...]
    axis: int | None = None
    threads: int = 2
    scope: str = ""
    codes: str = ""
    variant: str = ""
    data: str = "normal"

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def length(self) -> int:
        """Elements along the axis; for the quantise family, along the last one."""
        return self.shape[-1 if self.axis is None else self.axis]

    @property
    def name(self) -> str:
        """What `--filter` searches: `16M/cumsum/forward/f32/4096x4096/axis=1/threads=2`, with what else there is."""
        words = [self.part, self.op, self.direction, self.dtype, "x".join(map(str, self.shape))]
        words += [f"axis={self.axis}"] if self.axis is not None else []
        words += [word.replace(" ", "_") for word in (self.scope, self.codes, self.variant) if word]
        words += [self.data] if self.data != "normal" else []
        return "/".join([*words, f"threads={self.threads}"])

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, **asdict(self), "shape": list(self.shape)}


def directions(op: str) -> tuple[str, ...]:
    if op in FORWARD_ONLY:
        return ("forward",)
    return ("backward",) if op in BACKWARD_ONLY else ("forward", "backward")


def kind_of_row(row: Row) -> str:
    """The operation with what tells its rows apart on one shape: the first column of tables."""
    words = [row.op, "backward" if row.direction == "backward" else "", row.scope, row.codes, row.variant]
    return " ".join(word for word in words if word)


def scan_rows(full: bool) -> Iterator[Row]:
    for op in SCANS:
        for direction in directions(op):
            for dtype in DTYPES:
                for shape, axis in SCAN_LAYOUTS:
                    # cummin is cummax with another sign, and f16 and f64 run in the schedules of bf16 and f32.
                    one_layout = op == "cummin" or dtype in ("f16", "f64")
                    if full or not one_layout or (shape, axis) == (SQUARE, 1):
                        yield Row("16M", op, direction, dtype, shape, axis)
            if op == "cummax" and direction == "backward":
                yield Row("16M", op, direction, "f32", SQUARE, 1, variant="from x")


def ragged_rows(full: bool) -> Iterator[Row]:
    for op in SCANS:
        for direction in directions(op):
            for dtype in DTYPES if full else ("f32", "bf16"):
                if full or direction == "forward" or dtype == "f32":
                    yield Row("ragged", op, direction, dtype, (sum(RAGGED_LENGTHS),), 0, variant=RAGGED)


def quantize_rows(full: bool) -> Iterator[Row]:
    for op in ("quantize", "dequantize", "fake_quantize", "fake_quantize_learnable", "dynamic_quantize"):
        codes = "s8" if op in ("quantize", "dequantize", "dynamic_quantize") else ""
        for direction in directions(op):
            for dtype in DTYPES:
                for scope in SCOPES:
                    if full or dtype in ("f32", "bf16") or scope in ("tensor", "token"):
                        yield Row("16M", op, direction, dtype, SQUARE, scope=scope, codes=codes)
                reciprocal = op in ("quantize", "fake_quantize")
                if reciprocal and (full or dtype in ("f32", "bf16")):
                    yield Row("16M", op, direction, dtype, SQUARE, None, 2, "tensor", codes, "reciprocal")
    for dtype in DTYPES if full else ("f32", "bf16"):
        yield Row("16M", "quantize", "forward", dtype, SQUARE, scope="tensor", codes="u8")
        yield Row("16M", "dequantize", "forward", dtype, SQUARE, scope="tensor", codes="u8")
        yield Row("16M", "dynamic_quantize", "forward", dtype, SQUARE, None, 2, "tensor", "u8", "asymmetric")
        for shape in ((131072, 128), (1, M16)):
            yield Row("16M", "dynamic_quantize", "forward", dtype, shape, scope="token", codes="s8")
            yield Row("16M", "fake_quantize", "forward", dtype, shape, scope="token")


def binary_rows(full: bool) -> Iterator[Row]:
    for op in BINARY:
        for direction in directions(op):
            for dtype in DTYPES:
                for variant in ("scalar weight", "tensor weight"):
                    yield Row("16M", op, direction, dtype, SQUARE, variant=variant)
        for dtype in DTYPES if full else ("f32", "bf16"):
            for variant in ("summed to a scalar", "summed along rows", "summed along columns"):
                yield Row("16M", op, "backward", dtype, SQUARE, variant=variant)


def llm_rows(full: bool) -> Iterator[Row]:
    for shape in LLM:
        for dtype in DTYPES if full else ("f32", "bf16"):
            for scope in ("token", "group"):
                yield Row("llm", "dynamic_quantize", "forward", dtype, shape, scope=scope, codes="s8")
            yield Row("llm", "fake_quantize", "forward", dtype, shape, scope="token")
            if full:
                yield Row("llm", "dequantize", "forward", dtype, shape, scope="token", codes="s8")


def plainest(op: str, direction: str, shape: tuple[int, ...], part: str, dtype: str = "f32") -> Row:
    """An operation as most people would call it."""
    if op in SCANS:
        return Row(part, op, direction, dtype, shape, len(shape) - 1)
    if op in BINARY:
        return Row(part, op, direction, dtype, shape, variant="scalar weight")
    scope = "token" if op in FORWARD_ONLY else "tensor"
    codes = "" if op.startswith("fake") else "s8"
    return Row(part, op, direction, dtype, shape, scope=scope, codes=codes)


def other_rows(full: bool) -> Iterator[Row]:
    """Latency, scaling with size, one thread, and data that might be slow."""
    every = [(op, direction) for op in OPS for direction in directions(op)]
    for op, direction in every:
        if full or direction == "forward":
            yield from (plainest(op, direction, (size,), "small") for size in SMALL)
        yield plainest(op, direction, (256, 256), "64Ki")
        yield replace(plainest(op, direction, SQUARE, "16M"), threads=1)
        if full:
            yield replace(plainest(op, direction, SQUARE, "16M", "bf16"), threads=1)
    for op in OPS if full else ("fake_quantize", "dynamic_quantize", "cumsum"):
        # Rows of at most 4096, so that the size varies and not the schedule.
        shapes = [(max(1, size // 4096), min(size, 4096)) for size in SCALING]
        yield from (plainest(op, directions(op)[0], shape, "scaling") for shape in shapes)
    for op, direction in every:
        hostile = op in SCANS or (op, direction) in (("fake_quantize", "forward"), ("dynamic_quantize", "forward"))
        for data in HOSTILE if hostile and (full or op != "cummin") else ():
            yield replace(plainest(op, direction, SQUARE, "hostile"), data=data)
        if op == "logcumsumexp":
            yield replace(plainest(op, direction, SQUARE, "hostile"), data="±1000")


def quick_rows() -> Iterator[Row]:
    for shape, part in (((256, 256), "64Ki"), (SQUARE, "16M")):
        for dtype in ("f32", "bf16"):
            for op in ("fake_quantize", "quantize", "dequantize", "dynamic_quantize", "lerp", "cumsum", "cummax"):
                yield plainest(op, "forward", shape, part, dtype)
            for op in ("fake_quantize", "fake_quantize_learnable", "cumsum", "linear_recurrence"):
                yield plainest(op, "backward", shape, part, dtype)
        yield plainest("logcumsumexp", "forward", shape, part)
        yield replace(plainest("cumsum", "forward", shape, part), axis=0)


def rows(mode: str, filter_text: str = "", threads: int = 2) -> list[Row]:
    """The rows of a mode whose names the regular expression finds; `threads` is how many the machine has."""
    if mode == "quick":
        found = list(quick_rows())
    else:
        full = mode == "full"
        found = [*scan_rows(full), *ragged_rows(full), *quantize_rows(full), *binary_rows(full)]
        found += [*llm_rows(full), *other_rows(full)]
    # A machine with more cores measures one thread and all of them; one with a single core has no second count.
    found = [replace(row, threads=threads) if row.threads == 2 else row for row in found]
    pattern = re.compile(filter_text)
    return [row for row in dict.fromkeys(found) if pattern.search(row.name)]
