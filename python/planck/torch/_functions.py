"""The functions of `planck.torch`."""

from __future__ import annotations

import operator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from planck._scan import _check_factor
from planck._types import Mode, NonFinite, ScaleForm, Scope
from planck.torch import _ops
from planck.torch._autograd import Operation, wants_gradient


class Extrema(NamedTuple):
    """What `cummax` and `cummin` give."""

    values: Tensor
    indices: Tensor


class DynamicQuantized(NamedTuple):
    """What `dynamic_quantize` gives; None for what was not asked for."""

    q: Tensor | None
    scale: Tensor
    zero_point: Tensor
    row_sum: Tensor | None


def _save_options(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.options = inputs[1:]


# Scans.


def _cumsum_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    dim, reverse, exclusive = ctx.options
    return cumsum(dy, dim, reverse=not reverse, exclusive=exclusive), None, None, None


def _save_input(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.options = inputs[1:]


def _cumprod_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    (x,) = ctx.saved_tensors
    return _cumprod_backward((dy, x), ctx.options), None, None, None


def _save_input_and_output(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(inputs[0], output)
    ctx.options = inputs[1:]


def _logcumsumexp_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    x, y = ctx.saved_tensors
    return _logcumsumexp_backward((dy, x, y), ctx.options), None, None, None


def _save_indices(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(output[1])
    ctx.options = inputs[1:]


def _extremum_backward_of(ctx: Any, dy: Tensor, _: Any) -> tuple[Any, ...]:
    (indices,) = ctx.saved_tensors
    return _cummax_backward((dy, indices), ctx.options), None, None


def _save_recurrence(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """The states are needed for the gradient of `a` alone."""
    a, b, initial, *options = inputs
    ctx.save_for_backward(a, output if ctx.needs_input_grad[0] else None, initial)
    ctx.options = tuple(b.shape), *options


def _linear_recurrence_backward_of(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
    a, h, initial = ctx.saved_tensors
    wanted = tuple(ctx.needs_input_grad[:3])
    found = _linear_recurrence_backward((dh, a, h, initial), (*ctx.options, *wanted))
    return *(x if want else None for x, want in zip(found, wanted, strict=True)), None, None


_cumsum = Operation("cumsum", _save_options, _cumsum_backward)
_cumprod = Operation("cumprod", _save_input, _cumprod_backward_of)
_cumprod_backward = Operation("cumprod_backward")
_logcumsumexp = Operation("logcumsumexp", _save_input_and_output, _logcumsumexp_backward_of)
_logcumsumexp_backward = Operation("logcumsumexp_backward")
_cummax = Operation("cummax", _save_indices, _extremum_backward_of)
_cummin = Operation("cummin", _save_indices, _extremum_backward_of)
_cummax_backward = Operation("cummax_backward")
_linear_recurrence = Operation("linear_recurrence", _save_recurrence, _linear_recurrence_backward_of)
_linear_recurrence_backward = Operation("linear_recurrence_backward")


def cumsum(x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Running sums along a dimension, held in f64 in one fixed order. ``reverse`` runs from the end; ``exclusive`` leaves
    ``x[t]`` out of ``y[t]``. Can be differentiated any number of times.

    >>> planck.torch.cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    return _cumsum((x,), (dim, reverse, exclusive))


def cumprod(x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Running products along a dimension. The gradient is found without division and is right at zeros.

    >>> x = torch.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> planck.torch.cumprod(x, 0).sum().backward()
    >>> x.grad
    tensor([ 1., 10.,  0.])
    """
    return _cumprod((x,), (dim, reverse, exclusive))


def logcumsumexp(x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False) -> Tensor:
    """Running log-sum-exps along a dimension: ``log(exp(x[0]) + … + exp(x[t]))``.

    >>> planck.torch.logcumsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor([1000.0000, 1000.6932])
    """
    return _logcumsumexp((x,), (dim, reverse, exclusive))


def cummax(x: Tensor, dim: int, *, reverse: bool = False) -> Extrema:
    """Running maxima along a dimension and where they stand; of equal elements the last wins, as in `torch.cummax`.

    >>> planck.torch.cummax(torch.tensor([1.0, 3.0, 2.0, 3.0]), 0)
    Extrema(values=tensor([1., 3., 3., 3.]), indices=tensor([0, 1, 1, 3]))
    """
    return Extrema(*_cummax((x,), (dim, reverse)))


def cummin(x: Tensor, dim: int, *, reverse: bool = False) -> Extrema:
    """Running minima along a dimension and where they stand; of equal elements the last wins, as in `torch.cummin`.

    >>> planck.torch.cummin(torch.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return Extrema(*_cummin((x,), (dim, reverse)))


def _with_numbers(*operands: Any) -> tuple[Any, ...]:
    """Numbers as tensors of no dimensions with the dtype and on the device of the first tensor."""
    for first in operands:
        if isinstance(first, Tensor):
            return tuple(
                torch.full((), x, dtype=first.dtype, device=first.device) if isinstance(x, (int, float)) else x
                for x in operands
            )
    return operands


def linear_recurrence(
    a: Tensor | float,
    b: Tensor | float,
    dim: int = -1,
    *,
    initial: Tensor | float | None = None,
    reverse: bool = False,
) -> Tensor:
    """``h[t] = a[t] * h[t-1] + b[t]`` along a dimension, from ``h[-1] = 0`` or the initial state.

    ``a`` and ``b`` are tensors or numbers whose shapes broadcast, and nothing is copied for that; ``dim`` counts in the
    result. ``initial`` broadcasts to the result's shape with extent 1 along the dimension, or without the dimension.

    >>> planck.torch.linear_recurrence(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([1.0, 1.0, 1.0]))
    tensor([1.0000, 1.5000, 1.7500])
    >>> x = torch.tensor([4.0, 8.0, 0.0])
    >>> planck.torch.linear_recurrence(0.75, 0.25 * x)  # an exponential moving average
    tensor([1.0000, 2.7500, 2.0625])
    """
    _check_factor(a, b, initial)
    return _linear_recurrence(_with_numbers(a, b, initial), (dim, reverse))


# Parameterised binary operations.


def _save_all(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(x for x in inputs if isinstance(x, Tensor)))
    ctx.options = tuple(x for x in inputs if not isinstance(x, Tensor))


def _backward_by(name: str) -> Any:
    backward = Operation(name)

    def of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
        return tuple(backward((dy, *ctx.saved_tensors), ctx.options)) + (None,) * len(ctx.options)

    return of


_lerp = Operation("lerp", _save_all, _backward_by("lerp_backward"))
_lerp_scalar = Operation("lerp_scalar", _save_all, _backward_by("lerp_scalar_backward"))
_add_scaled = Operation("add_scaled", _save_all, _backward_by("add_scaled_backward"))
_add_scaled_scalar = Operation("add_scaled_scalar", _save_all, _backward_by("add_scaled_scalar_backward"))


def lerp(a: Tensor | float, b: Tensor | float, weight: Tensor | float) -> Tensor:
    """``a + weight * (b - a)``, exact at weight 0 and 1 and monotone between; shapes broadcast, and numbers take the
    dtype of the tensors.

    >>> planck.torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0]), 0.25)
    tensor([ 0.2500, 12.5000])
    """
    if isinstance(weight, Tensor):
        return _lerp(_with_numbers(a, b, weight), ())
    return _lerp_scalar(_with_numbers(a, b), (weight,))


def add_scaled(a: Tensor | float, b: Tensor | float, alpha: Tensor | float) -> Tensor:
    """``a + alpha * b``, with the product rounded before the sum; shapes broadcast, and numbers take the dtype of the
    tensors.

    >>> planck.torch.add_scaled(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), 0.5)
    tensor([ 6., 12.])
    """
    if isinstance(alpha, Tensor):
        return _add_scaled(_with_numbers(a, b, alpha), ())
    return _add_scaled_scalar(_with_numbers(a, b), (alpha,))


# Quantisation.


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
    scale: Tensor | float, zero_point: Tensor | int, scope: str, dtype: torch.dtype, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Numbers as tensors on the input's device, and one element as the scale of a whole tensor."""
    if not isinstance(scale, Tensor):
        scale = torch.full((), scale, dtype=_ops.compute_dtype(dtype), device=device)
    if scope == "tensor" and scale.ndim == 1 and scale.shape[0] == 1:
        scale = scale.reshape(())
    if not isinstance(zero_point, Tensor):
        zero_point = torch.full(scale.shape, operator.index(zero_point), dtype=torch.int32, device=device)
    elif scope == "tensor" and zero_point.ndim == 1 and zero_point.shape[0] == 1:
        zero_point = zero_point.reshape(())
    return scale, zero_point


def quantize(
    x: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int = 0,
    *,
    dtype: torch.dtype = torch.int8,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
    quant_min: int | None = None,
    quant_max: int | None = None,
    scale_form: ScaleForm = "divide",
) -> Tensor:
    """Floats to codes: ``clamp(rne(x / scale) + zero_point, quant_min, quant_max)``. Codes carry no gradient.

    ``scope`` says which elements share a scale: the ``tensor``, a ``channel`` (an index along ``dim``), a ``token`` (a row
    along the last dimension) or a ``group`` (``group_size`` neighbours along ``dim``); left out, it follows from the rest.

    >>> planck.torch.quantize(torch.tensor([-1.0, 0.26, 9.0]), 0.05)
    tensor([-20,   5, 127], dtype=torch.int8)
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    scale, zero_point = _as_tensors(scale, zero_point, scope_, _tensor("quantize", x).dtype, x.device)
    return _quantize((x, scale, zero_point), (dtype, scope_, dim, group_size, quant_min, quant_max, scale_form))


def dequantize(
    q: Tensor,
    scale: Tensor | float,
    zero_point: Tensor | int = 0,
    *,
    dtype: torch.dtype = torch.float32,
    scope: Scope | None = None,
    dim: int | None = None,
    group_size: int | None = None,
) -> Tensor:
    """Codes to floats: ``scale * (q - zero_point)``. There is no gradient with respect to codes or scales.

    >>> planck.torch.dequantize(torch.tensor([-20, 5, 127], dtype=torch.int8), 0.5)
    tensor([-10.0000,   2.5000,  63.5000])
    """
    scope_, dim = _scope_of(scope, dim, group_size)
    scale, zero_point = _as_tensors(scale, zero_point, scope_, dtype, _tensor("dequantize", q).device)
    if wants_gradient((scale, zero_point)):
        raise NotImplementedError("dequantize has no gradient with respect to scale and zero_point: detach() them")
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
    `planck.dynamic_quantize`. Codes and scales carry no gradient; the module `DynamicQuantize` does.

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
        return DynamicQuantized(None, scale, zero_point, None)
    q, scale, zero_point, sums = _dynamic_quantize((x,), (*options, row_sum))
    return DynamicQuantized(q, scale, zero_point, sums if row_sum else None)
