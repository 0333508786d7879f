"""Quantisation, prefix scans and blends of arrays, forward and backward, with the same bits everywhere.

Functions take NumPy arrays, PyTorch tensors (also on a CUDA device, if the package was built with CUDA) and other arrays
that speak DLPack, without copying them, and give results of the same library. They record no gradients: `planck.torch`
does.

>>> import numpy as np, planck
>>> planck.cumsum(np.array([1.0, 2.0, 3.0], dtype=np.float32))
array([1., 3., 6.], dtype=float32)
"""

from importlib.metadata import version as _version

from planck._binary import BinaryGradients, add_scaled, add_scaled_backward, lerp, lerp_backward
from planck._quantize import (
    DynamicQuantized,
    LearnableGradients,
    dequantize,
    dequantize_backward,
    dynamic_quantize,
    fake_quantize,
    fake_quantize_backward,
    fake_quantize_learnable_backward,
    quantize,
    quantize_backward,
)
from planck._runtime import get_cmake_dir, get_include, get_num_threads, plan_info, set_num_threads
from planck._scan import (
    Extrema,
    RecurrenceGradients,
    cummax,
    cummax_backward,
    cummin,
    cummin_backward,
    cumprod,
    cumprod_backward,
    cumsum,
    cumsum_backward,
    linear_recurrence,
    linear_recurrence_backward,
    logcumsumexp,
    logcumsumexp_backward,
)

__version__ = _version("planck")

__all__ = [
    "BinaryGradients",
    "DynamicQuantized",
    "Extrema",
    "LearnableGradients",
    "RecurrenceGradients",
    "add_scaled",
    "add_scaled_backward",
    "cummax",
    "cummax_backward",
    "cummin",
    "cummin_backward",
    "cumprod",
    "cumprod_backward",
    "cumsum",
    "cumsum_backward",
    "dequantize",
    "dequantize_backward",
    "dynamic_quantize",
    "fake_quantize",
    "fake_quantize_backward",
    "fake_quantize_learnable_backward",
    "get_cmake_dir",
    "get_include",
    "get_num_threads",
    "lerp",
    "lerp_backward",
    "linear_recurrence",
    "linear_recurrence_backward",
    "logcumsumexp",
    "logcumsumexp_backward",
    "plan_info",
    "quantize",
    "quantize_backward",
    "set_num_threads",
]
