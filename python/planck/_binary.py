"""Parameterised binary operations."""

from __future__ import annotations

from typing import Any, NamedTuple

from planck import _core
from planck._types import ArrayT


class BinaryGradients(NamedTuple):
    """What `lerp_backward` and `add_scaled_backward` give; the last is None for a weight that is a number."""

    da: Any
    db: Any
    d_weight: Any


def lerp(a: ArrayT | float, b: ArrayT | float, weight: Any, *, out: ArrayT | None = None) -> ArrayT:
    """``a + weight * (b - a)``, exact at weight 0 and 1 and monotone between: from 0.5 on it is counted from ``b``.

    Each of the three is an array or a number, which takes the dtype of the arrays; shapes broadcast.

    >>> planck.lerp(np.array([0.0, 10.0]), np.array([1.0, 20.0]), 0.25)
    array([ 0.25, 12.5 ])
    """
    return _core.binary(_core.LERP, a, b, weight, out)


def lerp_backward(
    dy: ArrayT, a: ArrayT | float, b: ArrayT | float, weight: Any, *, out: tuple[Any, Any, Any] | None = None
) -> BinaryGradients:
    """The gradients of `lerp`: ``da = (1 - weight) * dy``, ``db = weight * dy``, ``d_weight = dy * (b - a)``, each
    summed over the dimensions along which its operand was broadcast.

    >>> planck.lerp_backward(np.array([1.0, 1.0]), np.array([0.0, 0.0]), np.array([1.0, 2.0]), np.array(0.25))
    BinaryGradients(da=array([0.75, 0.75]), db=array([0.25, 0.25]), d_weight=array(3.))
    """
    return BinaryGradients(*_core.binary_backward(_core.LERP, dy, a, b, weight, out))


def add_scaled(a: ArrayT | float, b: ArrayT | float, alpha: Any, *, out: ArrayT | None = None) -> ArrayT:
    """``a + alpha * b``, with the product rounded before the sum. Each of the three is an array or a number, which takes
    the dtype of the arrays; shapes broadcast.

    >>> planck.add_scaled(np.array([1.0, 2.0]), np.array([10.0, 20.0]), 0.5)
    array([ 6., 12.])
    """
    return _core.binary(_core.ADD_SCALED, a, b, alpha, out)


def add_scaled_backward(
    dy: ArrayT, a: ArrayT | float, b: ArrayT | float, alpha: Any, *, out: tuple[Any, Any, Any] | None = None
) -> BinaryGradients:
    """The gradients of `add_scaled`: ``da = dy``, ``db = alpha * dy``, ``d_weight = dy * b``, where the weight is
    ``alpha``, each summed over the dimensions along which its operand was broadcast.

    >>> planck.add_scaled_backward(np.array([1.0, 1.0]), np.array(1.0), np.array([10.0, 20.0]), 0.5)
    BinaryGradients(da=array(2.), db=array([0.5, 0.5]), d_weight=None)
    """
    return BinaryGradients(*_core.binary_backward(_core.ADD_SCALED, dy, a, b, alpha, out))
