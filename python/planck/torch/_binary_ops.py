"""The parameterised binary operations as `torch.ops.planck.*`, with their fakes and gradients (`_register.py`). A weight
is a tensor or, in the `_scalar` ones, a number."""

# No `from __future__ import annotations`: torch 2.4 reads schemas from annotations that are types, not texts.

from typing import Any

import torch
from torch import Tensor

from planck import _core as _numpy_core
from planck.torch._register import register

_core = _numpy_core.for_torch


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


register(lerp, _binary_fake)
register(lerp_scalar, _binary_fake)
register(lerp_backward, _binary_backward_fake)
register(lerp_scalar_backward, _binary_backward_fake)
register(add_scaled, _binary_fake)
register(add_scaled_scalar, _binary_fake)
register(add_scaled_backward, _binary_backward_fake)
register(add_scaled_scalar_backward, _binary_backward_fake)
