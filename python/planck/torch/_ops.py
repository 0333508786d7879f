"""Every operation as `torch.ops.planck.*`: what torch.compile, export and tensor subclasses see.

The implementations run on real tensors, below autograd. Each has a fake that says what comes out, and gradients are
operations of their own. `_functions.py` puts the quick path of eager mode in front of them.
"""

# No `from __future__ import annotations`: torch 2.4 reads schemas from annotations that are types, not texts.

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from planck import _core as _numpy_core
from planck.torch._register import register as _register

_core = _numpy_core.for_torch


def _like_first(first: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(first)


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


# Scans.


def cumsum(x: Tensor, dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.CUMSUM, x, dim, reverse, exclusive, None)


def cumprod(x: Tensor, dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.CUMPROD, x, dim, reverse, exclusive, None)


def cumprod_backward(dy: Tensor, x: Tensor, dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan_backward(_core.CUMPROD, dy, x, None, None, dim, reverse, exclusive, "last", None)


def logcumsumexp(x: Tensor, dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.LOGCUMSUMEXP, x, dim, reverse, exclusive, None)


def logcumsumexp_backward(dy: Tensor, x: Tensor, y: Tensor, dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan_backward(_core.LOGCUMSUMEXP, dy, x, y, None, dim, reverse, exclusive, "last", None)


def cummax(x: Tensor, dim: int, reverse: bool) -> tuple[Tensor, Tensor]:
    return _core.extremum(_core.CUMMAX, x, dim, reverse, "last", "int64", None)


def cummin(x: Tensor, dim: int, reverse: bool) -> tuple[Tensor, Tensor]:
    return _core.extremum(_core.CUMMIN, x, dim, reverse, "last", "int64", None)


def cummax_backward(dy: Tensor, indices: Tensor, dim: int, reverse: bool) -> Tensor:
    """Of `cummin` too: the indices say who won."""
    return _core.scan_backward(_core.CUMMAX, dy, None, None, indices, dim, reverse, False, "last", None)


def linear_recurrence(a: Tensor, b: Tensor, initial: Optional[Tensor], dim: int, reverse: bool) -> Tensor:
    return _core.linear_recurrence(a, b, dim, initial, reverse, None)


def linear_recurrence_backward(
    dh: Tensor,
    a: Tensor,
    h: Optional[Tensor],
    initial: Optional[Tensor],
    b_shape: Sequence[int],
    dim: int,
    reverse: bool,
    want_a: bool,
    want_b: bool,
    want_initial: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Empty for what is not wanted. `h` is for the gradient of `a` alone."""
    wanted = (want_a, want_b, want_initial)
    found = _core.linear_recurrence_backward(dh, a, h, dim, initial, b_shape, reverse, *wanted, None)
    da, db, d_initial = (dh.new_empty(0) if x is None else x for x in found)
    return da, db, d_initial


def _extremum_fake(x: Tensor, dim: int, reverse: bool) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


def _recurrence_fake(a: Tensor, b: Tensor, *_: Any) -> Tensor:
    shape = torch.broadcast_shapes(a.shape, b.shape)
    for full in (a, b):
        if full.shape == shape:
            return torch.empty_like(full)
    return a.new_empty(shape)


def _recurrence_backward_fake(
    dh: Tensor, a: Tensor, h: Optional[Tensor], initial: Optional[Tensor], b_shape: Sequence[int], *options: Any
) -> tuple[Tensor, Tensor, Tensor]:
    _, _, want_a, want_b, want_initial = options
    full = a if a.shape == dh.shape else dh
    db = torch.empty_like(full) if tuple(b_shape) == tuple(dh.shape) else dh.new_empty(b_shape)
    return (
        torch.empty_like(a) if want_a else dh.new_empty(0),
        db if want_b else dh.new_empty(0),
        torch.empty_like(initial) if initial is not None and want_initial else dh.new_empty(0),
    )


cumsum_op = _register(cumsum, _like_first)
cumprod_op = _register(cumprod, _like_first)
cumprod_backward_op = _register(cumprod_backward, _like_first)
logcumsumexp_op = _register(logcumsumexp, _like_first)
logcumsumexp_backward_op = _register(logcumsumexp_backward, _like_first)
cummax_op = _register(cummax, _extremum_fake)
cummin_op = _register(cummin, _extremum_fake)
cummax_backward_op = _register(cummax_backward, _like_first)
linear_recurrence_op = _register(linear_recurrence, _recurrence_fake)
linear_recurrence_backward_op = _register(linear_recurrence_backward, _recurrence_backward_fake)


# Parameterised binary operations; a weight is a tensor or, in the `_scalar` ones, a number.


def lerp(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
    return _core.binary(_core.LERP, a, b, weight, None)


def lerp_scalar(a: Tensor, b: Tensor, weight: float) -> Tensor:
    return _core.binary(_core.LERP, a, b, weight, None)


def lerp_backward(dy: Tensor, a: Tensor, b: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _core.binary_backward(_core.LERP, dy, a, b, weight, None)


def lerp_scalar_backward(dy: Tensor, a: Tensor, b: Tensor, weight: float) -> tuple[Tensor, Tensor]:
    return _core.binary_backward(_core.LERP, dy, a, b, weight, None)[:2]


def add_scaled(a: Tensor, b: Tensor, alpha: Tensor) -> Tensor:
    return _core.binary(_core.ADD_SCALED, a, b, alpha, None)


def add_scaled_scalar(a: Tensor, b: Tensor, alpha: float) -> Tensor:
    return _core.binary(_core.ADD_SCALED, a, b, alpha, None)


def add_scaled_backward(dy: Tensor, a: Tensor, b: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _core.binary_backward(_core.ADD_SCALED, dy, a, b, alpha, None)


def add_scaled_scalar_backward(dy: Tensor, a: Tensor, b: Tensor, alpha: float) -> tuple[Tensor, Tensor]:
    return _core.binary_backward(_core.ADD_SCALED, dy, a, b, alpha, None)[:2]


def _binary_fake(a: Tensor, b: Tensor, weight: Tensor | float) -> Tensor:
    shapes = [a.shape, b.shape] + ([weight.shape] if isinstance(weight, Tensor) else [])
    shape = torch.broadcast_shapes(*shapes)
    return torch.empty_like(a) if a.shape == shape else a.new_empty(shape)


def _binary_backward_fake(dy: Tensor, *inputs: Any) -> tuple[Tensor, ...]:
    return tuple(torch.empty_like(x) for x in inputs if isinstance(x, Tensor))


lerp_op = _register(lerp, _binary_fake)
lerp_scalar_op = _register(lerp_scalar, _binary_fake)
lerp_backward_op = _register(lerp_backward, _binary_backward_fake)
lerp_scalar_backward_op = _register(lerp_scalar_backward, _binary_backward_fake)
add_scaled_op = _register(add_scaled, _binary_fake)
add_scaled_scalar_op = _register(add_scaled_scalar, _binary_fake)
add_scaled_backward_op = _register(add_scaled_backward, _binary_backward_fake)
add_scaled_scalar_backward_op = _register(add_scaled_scalar_backward, _binary_backward_fake)


# Quantisation. Scales and zero points are tensors of the scope's shape.


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
) -> Tensor:
    return _core.quantize(
        x, scale, zero_point, dtype, scope, dim, group_size, quant_min, quant_max, scale_form, False, None
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
    return _core.dequantize(q, scale, zero_point, dtype, scope, dim, group_size, False, None)


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
    return q, scale, zero_point, zero_point.new_empty(0) if sums is None else sums


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
    return _core.dynamic_quantize(
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
    )[1:3]


def _quantize_fake(x: Tensor, scale: Tensor, zero_point: Tensor, dtype: torch.dtype, *_: Any) -> Tensor:
    return torch.empty_like(x, dtype=dtype)


def _gradient_fake(dy: Tensor, x: Tensor, *_: Any) -> Tensor:
    return torch.empty_like(x)


def _learnable_backward_fake(
    dy: Tensor, x: Tensor, scale: Tensor, zero_point: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    return torch.empty_like(x), scale.new_empty(scale.shape), zero_point.new_empty(zero_point.shape)


def _qparams_fake(
    x: Tensor, scope: str, dim: int | None, group_size: int | None, scale_dtype: torch.dtype | None
) -> tuple[Tensor, Tensor]:
    shape = qparams_shape(x.shape, scope, dim, group_size)
    return x.new_empty(shape, dtype=scale_dtype or compute_dtype(x.dtype)), x.new_empty(shape, dtype=torch.int32)


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
    scale, zero_point = _qparams_fake(x, scope, dim, group_size, scale_dtype)
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
    return _qparams_fake(x, scope, dim, group_size, scale_dtype)


quantize_op = _register(quantize, _quantize_fake)
dequantize_op = _register(dequantize, _quantize_fake)
fake_quantize_op = _register(fake_quantize, _like_first)
fake_quantize_backward_op = _register(fake_quantize_backward, _gradient_fake)
fake_quantize_learnable_op = _register(fake_quantize_learnable, _like_first)
fake_quantize_learnable_backward_op = _register(fake_quantize_learnable_backward, _learnable_backward_fake)
dynamic_quantize_op = _register(dynamic_quantize, _dynamic_fake)
dynamic_qparams_op = _register(dynamic_qparams, _dynamic_qparams_fake)
