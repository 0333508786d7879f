"""The scans as `torch.ops.planck.*`, with their fakes and gradients (`_register.py`)."""

# No `from __future__ import annotations`: torch 2.4 reads schemas from annotations that are types, not texts.

from collections.abc import Sequence
from typing import Any, Optional

import torch
from torch import Tensor

from planck import _core as _numpy_core
from planck.torch._register import like_first, register

_core = _numpy_core.for_torch


def cumsum(x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.CUMSUM, x, dim, reverse, exclusive, offsets, None)


def cumprod(x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.CUMPROD, x, dim, reverse, exclusive, offsets, None)


def cumprod_backward(
    dy: Tensor, x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool, exclusive: bool
) -> Tensor:
    return _core.scan_backward(_core.CUMPROD, dy, x, None, None, dim, reverse, exclusive, "last", offsets, None)


def logcumsumexp(x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool, exclusive: bool) -> Tensor:
    return _core.scan(_core.LOGCUMSUMEXP, x, dim, reverse, exclusive, offsets, None)


def logcumsumexp_backward(
    dy: Tensor, x: Tensor, y: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool, exclusive: bool
) -> Tensor:
    return _core.scan_backward(_core.LOGCUMSUMEXP, dy, x, y, None, dim, reverse, exclusive, "last", offsets, None)


def cummax(x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool) -> tuple[Tensor, Tensor]:
    return _core.extremum(_core.CUMMAX, x, dim, reverse, "last", "int64", offsets, None)


def cummin(x: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool) -> tuple[Tensor, Tensor]:
    return _core.extremum(_core.CUMMIN, x, dim, reverse, "last", "int64", offsets, None)


def cummax_backward(dy: Tensor, indices: Tensor, offsets: Optional[Tensor], dim: int, reverse: bool) -> Tensor:
    """Of `cummin` too: the indices say who won."""
    return _core.scan_backward(_core.CUMMAX, dy, None, None, indices, dim, reverse, False, "last", offsets, None)


def linear_recurrence(
    a: Tensor, b: Tensor, initial: Optional[Tensor], offsets: Optional[Tensor], dim: int, reverse: bool
) -> Tensor:
    return _core.linear_recurrence(a, b, dim, initial, reverse, offsets, None)


def linear_recurrence_backward(
    dh: Tensor,
    a: Tensor,
    h: Optional[Tensor],
    initial: Optional[Tensor],
    offsets: Optional[Tensor],
    b_shape: Sequence[int],
    dim: int,
    reverse: bool,
    want_a: bool,
    want_b: bool,
    want_initial: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Empty for what is not wanted. `h` is for the gradient of `a` alone."""
    wanted = (want_a, want_b, want_initial)
    found = _core.linear_recurrence_backward(dh, a, h, dim, initial, b_shape, reverse, offsets, *wanted, None)
    da, db, d_initial = (dh.new_empty(0) if x is None else x for x in found)
    return da, db, d_initial


def _extremum_fake(x: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return torch.empty_like(x), torch.empty_like(x, dtype=torch.int64)


def _recurrence_fake(a: Tensor, b: Tensor, *_: Any) -> Tensor:
    shape = torch.broadcast_shapes(a.shape, b.shape)
    for full in (a, b):
        if full.shape == shape:
            return torch.empty_like(full)
    return a.new_empty(shape)


def _recurrence_backward_fake(
    dh: Tensor,
    a: Tensor,
    h: Optional[Tensor],
    initial: Optional[Tensor],
    offsets: Optional[Tensor],
    b_shape: Sequence[int],
    *options: Any,
) -> tuple[Tensor, Tensor, Tensor]:
    _, _, want_a, want_b, want_initial = options
    full = a if a.shape == dh.shape else dh
    db = torch.empty_like(full) if tuple(b_shape) == tuple(dh.shape) else dh.new_empty(b_shape)
    return (
        torch.empty_like(a) if want_a else dh.new_empty(0),
        db if want_b else dh.new_empty(0),
        torch.empty_like(initial) if initial is not None and want_initial else dh.new_empty(0),
    )


register(cumsum, like_first)
register(cumprod, like_first)
register(cumprod_backward, like_first)
register(logcumsumexp, like_first)
register(logcumsumexp_backward, like_first)
register(cummax, _extremum_fake)
register(cummin, _extremum_fake)
register(cummax_backward, like_first)
register(linear_recurrence, _recurrence_fake)
register(linear_recurrence_backward, _recurrence_backward_fake)
