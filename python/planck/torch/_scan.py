"""Scans of `planck.torch`."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from planck._scan import _check_factor
from planck.torch import _scan_ops  # noqa: F401  registers them
from planck.torch._autograd import Operation, with_numbers


class Extrema(NamedTuple):
    """What `cummax` and `cummin` give."""

    values: Tensor
    indices: Tensor


def _save_offsets(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, offsets, *ctx.options = inputs
    ctx.save_for_backward(offsets)


def _cumsum_backward(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    dim, reverse, exclusive = ctx.options
    (offsets,) = ctx.saved_tensors
    return cumsum(dy, dim, reverse=not reverse, exclusive=exclusive, offsets=offsets), None, None, None, None


def _save_input(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, offsets, *ctx.options = inputs
    ctx.save_for_backward(x, offsets)


def _cumprod_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return _cumprod_backward((dy, *ctx.saved_tensors), ctx.options), None, None, None, None


def _save_input_and_output(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    x, offsets, *ctx.options = inputs
    ctx.save_for_backward(x, output, offsets)


def _logcumsumexp_backward_of(ctx: Any, dy: Tensor) -> tuple[Any, ...]:
    return _logcumsumexp_backward((dy, *ctx.saved_tensors), ctx.options), None, None, None, None


def _save_indices(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    _, offsets, *ctx.options = inputs
    ctx.save_for_backward(output[1], offsets)


def _extremum_backward_of(ctx: Any, dy: Tensor, _: Any) -> tuple[Any, ...]:
    return _cummax_backward((dy, *ctx.saved_tensors), ctx.options), None, None, None


def _save_recurrence(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """The states are needed for the gradient of `a` alone."""
    a, b, initial, offsets, *options = inputs
    ctx.save_for_backward(a, output if ctx.needs_input_grad[0] else None, initial, offsets)
    ctx.options = tuple(b.shape), *options


def _linear_recurrence_backward_of(ctx: Any, dh: Tensor) -> tuple[Any, ...]:
    wanted = tuple(ctx.needs_input_grad[:3])
    found = _linear_recurrence_backward((dh, *ctx.saved_tensors), (*ctx.options, *wanted))
    return *(x if want else None for x, want in zip(found, wanted, strict=True)), None, None, None


_cumsum = Operation("cumsum", _save_offsets, _cumsum_backward)
_cumprod = Operation("cumprod", _save_input, _cumprod_backward_of)
_cumprod_backward = Operation("cumprod_backward")
_logcumsumexp = Operation("logcumsumexp", _save_input_and_output, _logcumsumexp_backward_of)
_logcumsumexp_backward = Operation("logcumsumexp_backward")
_cummax = Operation("cummax", _save_indices, _extremum_backward_of)
_cummin = Operation("cummin", _save_indices, _extremum_backward_of)
_cummax_backward = Operation("cummax_backward")
_linear_recurrence = Operation("linear_recurrence", _save_recurrence, _linear_recurrence_backward_of)
_linear_recurrence_backward = Operation("linear_recurrence_backward")


def cumsum(
    x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False, offsets: Tensor | None = None
) -> Tensor:
    """Running sums along a dimension, held in f64 in one fixed order. ``reverse`` runs from the end; ``exclusive`` leaves
    ``x[t]`` out of ``y[t]``. Can be differentiated any number of times.

    ``offsets`` (int32 or int64, as ``cu_seqlens``) cut the dimension into segments of a ragged batch, each scanned by
    itself: segment i has the elements ``offsets[i]`` to ``offsets[i + 1] - 1``.

    >>> planck.torch.cumsum(torch.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    >>> planck.torch.cumsum(torch.tensor([1.0, 2.0, 3.0, 4.0]), 0, offsets=torch.tensor([0, 3, 4]))
    tensor([1., 3., 6., 4.])
    """
    return _cumsum((x, offsets), (dim, reverse, exclusive))


def cumprod(
    x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False, offsets: Tensor | None = None
) -> Tensor:
    """Running products along a dimension. The gradient is found without division and is right at zeros.

    >>> x = torch.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> planck.torch.cumprod(x, 0).sum().backward()
    >>> x.grad
    tensor([ 1., 10.,  0.])
    """
    return _cumprod((x, offsets), (dim, reverse, exclusive))


def logcumsumexp(
    x: Tensor, dim: int, *, reverse: bool = False, exclusive: bool = False, offsets: Tensor | None = None
) -> Tensor:
    """Running log-sum-exps along a dimension: ``log(exp(x[0]) + … + exp(x[t]))``.

    >>> planck.torch.logcumsumexp(torch.tensor([1000.0, 1000.0]), 0)
    tensor([1000.0000, 1000.6932])
    """
    return _logcumsumexp((x, offsets), (dim, reverse, exclusive))


def cummax(x: Tensor, dim: int, *, reverse: bool = False, offsets: Tensor | None = None) -> Extrema:
    """Running maxima along a dimension and where they stand; of equal elements the last wins, as in `torch.cummax`.
    ``offsets`` as for `cumsum`; indices count in their segment.

    >>> planck.torch.cummax(torch.tensor([1.0, 3.0, 2.0, 3.0]), 0)
    Extrema(values=tensor([1., 3., 3., 3.]), indices=tensor([0, 1, 1, 3]))
    """
    return Extrema(*_cummax((x, offsets), (dim, reverse)))


def cummin(x: Tensor, dim: int, *, reverse: bool = False, offsets: Tensor | None = None) -> Extrema:
    """Running minima along a dimension and where they stand; of equal elements the last wins, as in `torch.cummin`.

    >>> planck.torch.cummin(torch.tensor([3.0, 1.0, 2.0]), 0).indices
    tensor([0, 1, 1])
    """
    return Extrema(*_cummin((x, offsets), (dim, reverse)))


def linear_recurrence(
    a: Tensor | float,
    b: Tensor | float,
    dim: int = -1,
    *,
    initial: Tensor | float | None = None,
    reverse: bool = False,
    offsets: Tensor | None = None,
) -> Tensor:
    """``h[t] = a[t] * h[t-1] + b[t]`` along a dimension, from ``h[-1] = 0`` or the initial state.

    ``a`` and ``b`` are tensors or numbers whose shapes broadcast, and nothing is copied for that; ``dim`` counts in the
    result. ``initial`` broadcasts to the result's shape with extent 1 along the dimension, or without the dimension.
    ``offsets`` as for `cumsum`: each segment has an initial state of its own along the dimension, or all the same one.

    >>> planck.torch.linear_recurrence(torch.tensor([0.5, 0.5, 0.5]), torch.tensor([1.0, 1.0, 1.0]))
    tensor([1.0000, 1.5000, 1.7500])
    >>> x = torch.tensor([4.0, 8.0, 0.0])
    >>> planck.torch.linear_recurrence(0.75, 0.25 * x)  # an exponential moving average
    tensor([1.0000, 2.7500, 2.0625])
    """
    _check_factor(a, b, initial)
    return _linear_recurrence((*with_numbers(a, b, initial), offsets), (dim, reverse))
