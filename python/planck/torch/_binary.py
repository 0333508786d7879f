"""Parameterised binary operations of `planck.torch`."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from planck.torch import _binary_ops  # noqa: F401  registers them
from planck.torch._autograd import Operation, with_numbers


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
        return _lerp(with_numbers(a, b, weight), ())
    return _lerp_scalar(with_numbers(a, b), (weight,))


def add_scaled(a: Tensor | float, b: Tensor | float, alpha: Tensor | float) -> Tensor:
    """``a + alpha * b``, with the product rounded before the sum; shapes broadcast, and numbers take the dtype of the
    tensors.

    >>> planck.torch.add_scaled(torch.tensor([1.0, 2.0]), torch.tensor([10.0, 20.0]), 0.5)
    tensor([ 6., 12.])
    """
    if isinstance(alpha, Tensor):
        return _add_scaled(with_numbers(a, b, alpha), ())
    return _add_scaled_scalar(with_numbers(a, b), (alpha,))
