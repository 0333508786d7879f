"""Whom Planck is compared with: each peer's module is imported when it is first wanted, and may be missing."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from bench.rows import OPS, SQUARE, Row, plainest

EAGER = "PyTorch"
COMPILED = "torch.compile"
NUMPY = "NumPy"
ONNX = "ONNX Runtime"
TORCHAO = "torchao"
JAX = "JAX"
PEERS = {
    EAGER: ("bench.peers_torch", "eager"),
    COMPILED: ("bench.peers_torch", "compiled"),
    ONNX: ("bench.peers_onnx", "make"),
    TORCHAO: ("bench.peers_torchao", "make"),
    NUMPY: ("bench.peers_numpy", "make"),
    JAX: ("bench.peers_jax", "make"),
}
Make = Callable[[Any], Callable[[], tuple[Any, ...]] | None]


def _plain(row: Row) -> bool:
    return row == replace(plainest(row.op, row.direction, SQUARE, "16M", row.dtype), threads=row.threads)


def wanted(name: str, row: Row, mode: str) -> bool:
    """Whether a peer takes part in a row: everywhere under --full, else where its time and its set-up are bearable."""
    if row.part == "ragged":  # nobody has them: PyTorch in a loop
        return name == EAGER
    if mode == "full" or name == EAGER:
        return True
    if mode == "quick" or name == JAX:
        return False
    if name == COMPILED:  # 5 to 20 s of set-up each
        return _plain(row) and (row.dtype == "f32" or (row.dtype == "bf16" and row.op in OPS[:5]))
    if name == NUMPY:  # one thread, many passes
        return row.dtype == "f32" and row.part not in ("hostile", "scaling") and (row.elements < 1 << 20 or _plain(row))
    return row.part not in ("hostile", "scaling")


class Peers:
    """Makes contestants, and remembers why one is missing."""

    def __init__(self) -> None:
        self._make: dict[str, Make | None] = {}
        self.missing: dict[str, str] = {}

    def make(self, name: str, problem: Any) -> Callable[[], tuple[Any, ...]] | None:
        if name not in self._make:
            module, function = PEERS[name]
            try:
                self._make[name] = getattr(importlib.import_module(module), function)
            except Exception as error:
                self._make[name] = None
                self.missing[name] = f"cannot be imported: {first_line(error)}"
        make = self._make[name]
        return None if make is None else make(problem)


def first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"[:160]
