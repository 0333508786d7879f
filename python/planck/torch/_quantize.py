"""Quantisation of `planck.torch`."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from planck._types import Mode, NonFinite, ScaleForm, Scope
from planck.torch._autograd import Operation, wants_gradient
from planck.torch._quantize_ops import FLOAT_CODES, compute_dtype


class DynamicQuantized(NamedTuple):
    """What `dynamic_quantize` gives; None for what was not asked for."""

    q: Tensor | None
    scale: Tensor
    zero_point: Tensor | None
    row_sum: Tensor | None


def _save_quantized(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*inputs[:3])
    ctx.options = inputs[3:]


def _fake_quantize_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return (_fake_quantize_backward((dy, *ctx.saved_tensors), ctx.options),) + (None,) * (2 + len(ctx.options))


def _learnable_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return tuple(_learnable_backward((dy, *ctx.saved_tensors), ctx.options)) + (None,) * len(ctx.options)


_quantize = Operation("quantize")
_dequantize = Operation("dequantize")
_fake_quantize = Operation("fake_quantize", _save_quantized, _fake_quantize_backward_of)
_fake_quantize_backward = Operation("fake_quantize_backward")
_learnable = Operation("fake_quantize_learnable", _save_quantized, _learnable_backward_of)
_learnable_backward = Operation("fake_quantize_learnable_backward")
_dynamic_quantize = Operation("dynamic_quantize")
_dynamic_qparams = Operation("dynamic_qparams")


def _scope_of(scope: Scope | None, dim: int | None, group_size: int | None) -> tuple[Scope, int | None]:
    """The scope, where it was left out from the rest; and the dimension, of which a group has a default."""
    if scope is None:
        scope = "group" if group_size is not None else "channel" if dim is not None else "tensor"
    if scope not in ("tensor", "channel", "token", "group"):
        raise ValueError(f"scope = {scope!r} is none of tensor, channel, token, group")
    if dim is not None and scope not in ("channel", "group"):
        raise ValueError("dim is for scope = 'channel' and 'group' only")
    if group_size is not None and (scope != "group" or group_size < 1):
        raise ValueError("group_size is for scope = 'group' only, and at least 1")
    if scope == "channel" and dim is None:
        raise ValueError("scope = 'channel' needs a dim")
    if scope == "group" and group_size is None:
        raise ValueError("scope = 'group' needs a group_size")
    return scope, -1 if scope == "group" and dim is None else dim


def _tensor(function: str, x: Any) -> Any:
    if not isinstance(x, Tensor):
        raise TypeError(f"planck.torch.{function} takes tensors, not {type(x).__name__}")
    return x


def _as_tensors(
    scale: Tensor | float,
    zero_point: Tensor | int | None,
    scope: str,
    dtype: torch.dtype,
    device: torch.device,
    codes: torch.dtype = torch.int8,
) -> tuple[Tensor, Tensor]:
    """Numbers as tensors on the input's device, and one element as the scale of a whole tensor. Codes without zero points
    have a tensor without elements."""
    if not isinstance(scale, Tensor):
        scale = torch.full((), scale, dtype=compute_dtype(dtype), device=device)
    if scope == "tensor" and scale.ndim == 1 and scale.shape[0] == 1:
        scale = scale.reshape(())
    if codes in FLOAT_CODES:
        if isinstance(zero_point, Tensor) or (zero_point is not None and operator.index(zero_point) != 0):
            raise ValueError(f"zero_point must be the number 0: codes of {codes} have no zero point")
        return scale, torch.empty(0, dtype=torch.int32, device=device)
    if zero_point is None:
        raise TypeError(f"zero_point is None, but codes of {codes} have one: give 0")
    if not isinstance(zero_point, Tensor):
        zero_point = torch.full(scale.shape, operator.index(zero_point), dtype=torch.int32, device=device)
    elif scope == "tensor" and zero_point.ndim == 1 and zero_point.shape[0] == 1:
        zero_point = zero_point.reshape(())
    return scale, zero_point


def quantize(
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int | None = 0,
    *,
    dtype: torch.dtype = torch.int8,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
    quant_min: int | None = None,
    quant_max: int | None = None,
    scale_form: ScaleForm = "divide",
    saturate: bool = True,
) -> Tensor:
    """Floats to codes: ``clamp(rne(x / scale) + zero_point, quant_min, quant_max)``. Codes carry no gradient. Those of
    float8 are ``clamp(x / scale, quant_min, quant_max)``, rounded once; ``saturate=False`` lets them overflow.

    ``scope`` says which elements share a scale: the ``tensor``, a ``channel`` (an index along ``dim``), a ``token`` (a row
    along the last dimension) or a ``group`` (``group_size`` neighbours along ``dim``); left out, it follows from the rest.

    >>> planck.torch.quantize(torch.tensor([-1.0, 0.26, 9.0]), 0.05)
    tensor([-20,   5, 127], dtype=torch.int8)
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    scale, zero_point = _as_tensors(scale, zero_point, scope_, _tensor("quantize", x).dtype, x.device, dtype)
    return _quantize(
        (x, scale, zero_point), (dtype, scope_, dim, group_size, quant_min, quant_max, scale_form, saturate)
    )


def dequantize(
    q: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int | None = 0,
    *,
    dtype: torch.dtype = torch.float32,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
) -> Tensor:
    """Codes to floats: ``scale * (q - zero_point)``. There is no gradient with respect to codes or scales.
    Codes of float8 have no zero point.

    >>> planck.torch.dequantize(torch.tensor([-20, 5, 127], dtype=torch.int8), 0.5)
    tensor([-10.0000,   2.5000,  63.5000])
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    scale, zero_point = _as_tensors(scale, zero_point, scope_, dtype, _tensor("dequantize", q).device, q.dtype)
    if wants_gradient((q, scale, zero_point)):
        raise NotImplementedError("dequantize has no gradient with respect to q, scale and zero_point: detach() them")
    return _dequantize((q, scale, zero_point), (dtype, scope_, dim, group_size))


def fake_quantize(
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int = 0,
    *,
    quant_min: int = -128,
    quant_max: int = 127,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
    scale_form: ScaleForm = "divide",
) -> Tensor:
    """What is left of floats after codes: ``scale * clamp(rne(x / scale), quant_min - zp, quant_max - zp)``. The gradient
    passes straight through where the code was inside the range. Scopes as for `quantize`.

    >>> x = torch.tensor([-1.3, 0.26, 9.0], requires_grad=True)
    >>> y = planck.torch.fake_quantize(x, 0.5, quant_min=-8, quant_max=7)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([-1.5, 0.5, 3.5], [1.0, 1.0, 0.0])
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    scale, zero_point = _as_tensors(scale, zero_point, scope_, _tensor("fake_quantize", x).dtype, x.device)
    if wants_gradient((scale, zero_point)):
        raise NotImplementedError(
            "fake_quantize has no gradient with respect to scale and zero_point: use fake_quantize_learnable"
        )
    return _fake_quantize((x, scale, zero_point), (quant_min, quant_max, scope_, dim, group_size, scale_form))


def fake_quantize_learnable(
    x: Tensor,
    scale: Tensor,
    zero_point: Tensor,
    *,
    quant_min: int = -128,
    quant_max: int = 127,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
    scale_form: ScaleForm = "divide",
    grad_factor: float = 1.0,
) -> Tensor:
    """`fake_quantize` with gradients for the scale and zero point too, which are tensors of floats. Both passes use the
    code ``clamp(rne(zero_point), quant_min, quant_max)``, and the zero point's gradient passes straight through that;
    ``grad_factor`` multiplies both gradients.

    >>> scale = torch.tensor(0.5, requires_grad=True)
    >>> y = planck.torch.fake_quantize_learnable(torch.tensor([0.25, 9.0]), scale, torch.tensor(0.0), quant_max=7)
    >>> y.sum().backward()
    >>> scale.grad
    tensor(6.5000)
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    tensors = _tensor("fake_quantize_learnable", scale), _tensor("fake_quantize_learnable", zero_point)
    if not isinstance(grad_factor, (int, float)):  # the forward pass would not notice
        raise TypeError(f"grad_factor = {grad_factor!r} is not a real number")
    scale, zero_point = _as_tensors(*tensors, scope_, _tensor("fake_quantize_learnable", x).dtype, x.device)
    return _learnable((x, scale, zero_point), (quant_min, quant_max, scope_, dim, group_size, scale_form, grad_factor))


def dynamic_quantize(
    x: Tensor,
    *,
    scope: Scope | None = "token",
    mode: Mode = "symmetric",
    dtype: torch.dtype = torch.int8,
    dim: int | None = None,
    group_size: int | None = None,
    quant_min: int | None = None,
    quant_max: int | None = None,
    zero_in_range: bool = True,
    nonfinite: NonFinite = "saturate",
    scale_dtype: torch.dtype | None = None,
    qparams_only: bool = False,
    row_sum: bool = False,
) -> DynamicQuantized:
    """Finds each scope's range, the scale and zero point that follow from it, and quantises with them. Options as for
    `planck.dynamic_quantize`. Codes and scales carry no gradient; the module `DynamicQuantize` does. Codes of float8 have
    no zero point: it is None.

    >>> result = planck.torch.dynamic_quantize(torch.tensor([[1.0, -2.0], [0.0, 12.7]]))
    >>> result.q.tolist(), result.zero_point.tolist()
    ([[64, -127], [0, 127]], [0, 0])
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    options = (scope_, mode, dtype, dim, group_size, quant_min, quant_max, zero_in_range, nonfinite, scale_dtype)
    if _tensor("dynamic_quantize", x).requires_grad:
        x = x.detach()
    if not isinstance(qparams_only, bool):
        raise TypeError(f"qparams_only = {qparams_only!r} is not a bool")
    if qparams_only:
        scale, zero_point = _dynamic_qparams((x,), options)
        return DynamicQuantized(None, scale, None if dtype in FLOAT_CODES else zero_point, None)
    q, scale, zero_point, sums = _dynamic_quantize((x,), (*options, row_sum))
    return DynamicQuantized(q, scale, None if dtype in FLOAT_CODES else zero_point, sums if row_sum else None)
