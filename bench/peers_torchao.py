"""torchao as a peer: its dynamic quantisation, in eager mode."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torchao.quantization.quant_primitives import MappingType, choose_qparams_affine, quantize_affine

from bench.problems import Problem
from bench.recipes import fits
from bench.rows import GROUP_SIZE

Call = Callable[[], tuple[Tensor, ...]]


def make(problem: Problem) -> Call | None:
    row = problem.row
    if row.op != "dynamic_quantize" or row.codes != "s8" or not fits(row) or len(row.shape) != 2:
        return None
    x = problem.inputs["x"]
    low, high = problem.qrange
    rows, columns = row.shape
    block = {
        "tensor": (rows, columns),
        "token": (1, columns),
        "group": (1, GROUP_SIZE),
        "channel 0": (1, columns),
        "channel 1": (rows, 1),
    }[row.scope]
    kind = torch.float64 if row.dtype == "f64" else torch.float32

    def dynamic() -> tuple[Tensor, ...]:
        scale, zero = choose_qparams_affine(
            x, MappingType.SYMMETRIC, block, torch.int8, low, high, eps=1e-30, scale_dtype=kind
        )
        return quantize_affine(x, block, scale, zero, torch.int8, low, high), scale

    return dynamic
