"""Planck for PyTorch: the same operations with torch's names, gradients, `torch.compile` and modules.

Functions take tensors on the CPU and, if the package was built with CUDA, on a CUDA device. Each is registered as
`torch.ops.planck.*` with a fake and gradients.

>>> import torch, planck.torch
>>> planck.torch.cumsum(torch.ones(3), 0)
tensor([1., 2., 3.])
"""

from planck import _core
from planck.torch._binary import add_scaled, lerp
from planck.torch._modules import DynamicQuantize, FakeQuantize, initialize
from planck.torch._quantize import (
    DynamicQuantized,
    dequantize,
    dynamic_quantize,
    fake_quantize,
    fake_quantize_learnable,
    quantize,
)
from planck.torch._scan import Extrema, cummax, cummin, cumprod, cumsum, linear_recurrence, logcumsumexp

# PyTorch's threads, where it has OpenMP: two pools would wait for each other's turns.
_core.set_executor("openmp")

__all__ = [
    "DynamicQuantize",
    "DynamicQuantized",
    "Extrema",
    "FakeQuantize",
    "add_scaled",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dequantize",
    "dynamic_quantize",
    "fake_quantize",
    "fake_quantize_learnable",
    "initialize",
    "lerp",
    "linear_recurrence",
    "logcumsumexp",
    "quantize",
]
