"""Quantisation as `torch.ops.planck.*`, with its fakes and gradients (`_register.py`). Scales and zero points are tensors
of the scope's shape."""

# No `from __future__ import annotations`: torch 2.4 reads schemas from annotations that are types, not texts.

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from planck import _core as _numpy_core
from planck.torch._register import like_first, register

_core = _numpy_core.for_torch


FLOAT_CODES = frozenset((torch.float8_e4m3fn, torch.float8_e5m2))
"""Codes without a zero point, in place of which operations take and give a tensor without elements."""


def _zero_point_of(zero_point: Tensor, codes: torch.dtype) -> Tensor | int:
    return 0 if codes in FLOAT_CODES and zero_point.numel() == 0 else zero_point


def qparams_shape(shape: Sequence[int], scope: str, dim: int | None, group_size: int | None) -> list[int]:
    """The shape of scales and zero points, as the table of scopes in docs/python.md has it."""
    if scope == "tensor":
        return []
    if scope == "token":
        return list(shape[:-1])
    assert dim is not None
    if scope == "channel":
        return [shape[dim]]
    assert group_size is not None
    result = list(shape)
    result[dim] = (shape[dim] + group_size - 1) // group_size
    return result


def compute_dtype(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype == torch.float64 else torch.float32


def quantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    dtype: torch.dtype,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
    quant_min: Optional[int],
    quant_max: Optional[int],
    scale_form: str,
    saturate: bool,
) -> Tensor:
    zero = _zero_point_of(zero_point, dtype)
    return _core.quantize(
        x, scale, zero, dtype, scope, dim, group_size, quant_min, quant_max, scale_form, False, saturate, None
    )


def dequantize(
    q: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    dtype: torch.dtype,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
) -> Tensor:
    zero = _zero_point_of(zero_point, q.dtype)
    return _core.dequantize(q, scale, zero, dtype, scope, dim, group_size, False, None)


def fake_quantize(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
    scale_form: str,
) -> Tensor:
    return _core.fake_quantize(
        x, scale, zero_point, quant_min, quant_max, scope, dim, group_size, scale_form, False, None
    )


def fake_quantize_backward(
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
    scale_form: str,
) -> Tensor:
    return _core.fake_quantize_backward(
        dy, x, scale, zero_point, quant_min, quant_max, scope, dim, group_size, scale_form, False, False, 1.0, None
    )


def _codes(zero_point: Tensor, quant_min: int, quant_max: int) -> Tensor:
    """A zero point that is learnt, as the code that both passes use."""
    _numpy_core.refuse_kind(zero_point, "zero_point")  # before PyTorch rounds it, or cannot
    return zero_point.detach().round().clamp(quant_min, quant_max).to(torch.int32)


def fake_quantize_learnable(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
    scale_form: str,
    grad_factor: float,
) -> Tensor:
    codes = _codes(zero_point, quant_min, quant_max)
    return _core.fake_quantize(x, scale, codes, quant_min, quant_max, scope, dim, group_size, scale_form, False, None)


def fake_quantize_learnable_backward(
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    quant_min: int,
    quant_max: int,
    scope: str,
    dim: Optional[int],
    group_size: Optional[int],
    scale_form: str,
    grad_factor: float,
) -> tuple[Tensor, Tensor, Tensor]:
    codes = _codes(zero_point, quant_min, quant_max)
    dx, d_scale, d_zero_point = _core.fake_quantize_backward(
        dy, x, scale, codes, quant_min, quant_max, scope, dim, group_size, scale_form, False, True, grad_factor, None
    )
    return dx, d_scale.to(scale.dtype), d_zero_point.to(zero_point.dtype)


def dynamic_quantize(
    x: Tensor,
    scope: str,
    mode: str,
    dtype: torch.dtype,
    dim: Optional[int],
    group_size: Optional[int],
    quant_min: Optional[int],
    quant_max: Optional[int],
    zero_in_range: bool,
    nonfinite: str,
    scale_dtype: Optional[torch.dtype],
    row_sum: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, scale, zero_point, sums = _core.dynamic_quantize(
        x,
        scope,
        mode,
        dtype,
        dim,
        group_size,
        quant_min,
        quant_max,
        zero_in_range,
        nonfinite,
        scale_dtype,
        False,
        row_sum,
        None,
    )
    zero_point, sums = (scale.new_empty(0, dtype=torch.int32) if part is None else part for part in (zero_point, sums))
    return q, scale, zero_point, sums


def dynamic_qparams(
    x: Tensor,
    scope: str,
    mode: str,
    dtype: torch.dtype,
    dim: Optional[int],
    group_size: Optional[int],
    quant_min: Optional[int],
    quant_max: Optional[int],
    zero_in_range: bool,
    nonfinite: str,
    scale_dtype: Optional[torch.dtype],
) -> tuple[Tensor, Tensor]:
    _, scale, zero_point, _ = _core.dynamic_quantize(
        x,
        scope,
        mode,
        dtype,
        dim,
        group_size,
        quant_min,
        quant_max,
        zero_in_range,
        nonfinite,
        scale_dtype,
        True,
        False,
        None,
    )
    return scale, scale.new_empty(0, dtype=torch.int32) if zero_point is None else zero_point


def _quantize_fake(x: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype, *_: Any) -> Tensor:
    return torch.empty_like(x, dtype=dtype)


def _gradient_fake(dy: Tensor, x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def _learnable_backward_fake(
    dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), scale.new_empty(scale.shape), zero_point.new_empty(zero_point.shape)


def _qparams_fake(
    x: Tensor,
    scope: str,
    codes: torch.dtype,
    dim: int | None,
    group_size: int | None,
    scale_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    shape = qparams_shape(x.shape, scope, dim, group_size)
    zero_points = [0] if codes in FLOAT_CODES else shape
    return x.new_empty(shape, dtype=scale_dtype or compute_dtype(x.dtype)), x.new_empty(zero_points, dtype=torch.int32)


def _dynamic_fake(
    x: Tensor,
    scope: str,
    mode: str,
    dtype: torch.dtype,
    dim: int | None,
    group_size: int | None,
    quant_min: int | None,
    quant_max: int | None,
    zero_in_range: bool,
    nonfinite: str,
    scale_dtype: torch.dtype | None,
    row_sum: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    scale, zero_point = _qparams_fake(x, scope, dtype, dim, group_size, scale_dtype)
    sums = torch.empty_like(zero_point) if row_sum else zero_point.new_empty(0)
    return torch.empty_like(x, dtype=dtype), scale, zero_point, sums


def _dynamic_qparams_fake(
    x: Tensor,
    scope: str,
    mode: str,
    dtype: torch.dtype,
    dim: int | None,
    group_size: int | None,
    quant_min: int | None,
    quant_max: int | None,
    zero_in_range: bool,
    nonfinite: str,
    scale_dtype: torch.dtype | None,
) -> tuple[Tensor, Tensor]:
    return _qparams_fake(x, scope, dtype, dim, group_size, scale_dtype)


register(quantize, _quantize_fake)
register(dequantize, _quantize_fake)
register(fake_quantize, like_first)
register(fake_quantize_backward, _gradient_fake)
register(fake_quantize_learnable, like_first)
register(fake_quantize_learnable_backward, _learnable_backward_fake)
register(dynamic_quantize, _dynamic_fake)
register(dynamic_qparams, _dynamic_qparams_fake)
