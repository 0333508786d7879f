"""Prefix scans and the linear recurrence."""

from __future__ import annotations

from typing import Any, NamedTuple

from planck import _core
from planck._types import ArrayT, DType, Ties


class Extrema(NamedTuple):
    """What `cummax` and `cummin` give."""

    values: Any
    indices: Any


class RecurrenceGradients(NamedTuple):
    """What `linear_recurrence_backward` gives; `d_initial` is None without an initial state."""

    da: Any
    db: Any
    d_initial: Any


def cumsum(
    x: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """Running sums along an axis: ``y[t] = x[0] + … + x[t]``.

    Sums are held in f64 in one fixed order and rounded once, so that threads, strides and machines change no bit.
    ``reverse`` runs from the end; ``exclusive`` leaves ``x[t]`` out of ``y[t]``. float16, bfloat16, float32, float64,
    int32 and int64 (integers wrap, and keep their dtype).

    ``offsets`` (int32 or int64) cut the axis into segments of a ragged batch: segment i has the elements
    ``offsets[i]`` to ``offsets[i + 1] - 1``, and is scanned by itself, with the bits of a call of its own.

    >>> planck.cumsum(np.array([1.0, 2.0, 3.0]))
    array([1., 3., 6.])
    >>> planck.cumsum(np.array([1.0, 2.0, 3.0]), reverse=True, exclusive=True)
    array([5., 3., 0.])
    >>> planck.cumsum(np.array([1.0, 2.0, 3.0, 4.0]), offsets=[0, 3, 4])
    array([1., 3., 6., 4.])
    """
    return _core.scan(_core.CUMSUM, x, axis, reverse, exclusive, offsets, out)


def cumsum_backward(
    dy: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `cumsum`: ``dx[t] = dy[t] + … + dy[n-1]``.

    >>> planck.cumsum_backward(np.array([1.0, 1.0, 1.0]))
    array([3., 2., 1.])
    """
    return _core.scan_backward(_core.CUMSUM, dy, None, None, None, axis, reverse, exclusive, "first", offsets, out)


def cumprod(
    x: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """Running products along an axis: ``y[t] = x[0] * … * x[t]``. Options and dtypes as for `cumsum`.

    >>> planck.cumprod(np.array([2.0, 3.0, 4.0]))
    array([ 2.,  6., 24.])
    """
    return _core.scan(_core.CUMPROD, x, axis, reverse, exclusive, offsets, out)


def cumprod_backward(
    dy: ArrayT,
    x: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `cumprod`, without division: ``dx[j] = L[j] * R[j]`` where ``L[j] = x[0] * … * x[j-1]`` and
    ``R[j] = dy[j] + x[j+1] * R[j+1]``. It is right at zeros.

    >>> planck.cumprod_backward(np.array([1.0, 1.0, 1.0]), np.array([2.0, 0.0, 4.0]))
    array([ 1., 10.,  0.])
    """
    return _core.scan_backward(_core.CUMPROD, dy, x, None, None, axis, reverse, exclusive, "first", offsets, out)


def logcumsumexp(
    x: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """Running log-sum-exps along an axis: ``y[t] = log(exp(x[0]) + … + exp(x[t]))``, which neither over- nor underflows
    on the way. Floating-point dtypes; options as for `cumsum`.

    >>> planck.logcumsumexp(np.array([1000.0, 1000.0])) - 1000.0
    array([0.        , 0.69314718])
    """
    return _core.scan(_core.LOGCUMSUMEXP, x, axis, reverse, exclusive, offsets, out)


def logcumsumexp_backward(
    dy: ArrayT,
    x: ArrayT,
    y: ArrayT,
    axis: int = -1,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `logcumsumexp`: ``dx[k] = sum over t >= k of dy[t] * exp(x[k] - y[t])``.

    >>> x = np.zeros(2)
    >>> planck.logcumsumexp_backward(np.ones(2), x, planck.logcumsumexp(x))
    array([1.5, 0.5])
    """
    return _core.scan_backward(_core.LOGCUMSUMEXP, dy, x, y, None, axis, reverse, exclusive, "first", offsets, out)


def cummax(
    x: Any,
    axis: int = -1,
    *,
    reverse: bool = False,
    ties: Ties = "first",
    index_dtype: DType | None = "int64",
    offsets: Any = None,
    out: tuple[Any, Any] | None = None,
) -> Extrema:
    """Running maxima along an axis and where they stand: ``values[t] = max(x[0], …, x[t])``.

    NaN wins over every number and stays. Of equal elements the first wins, or the last with ``ties="last"`` (PyTorch's
    rule). ``index_dtype`` is int32, int64, or None for no indices. ``offsets`` as for `cumsum`; indices count in their
    segment.

    >>> planck.cummax(np.array([1.0, 3.0, 2.0, 3.0]))
    Extrema(values=array([1., 3., 3., 3.]), indices=array([0, 1, 1, 1]))
    """
    return Extrema(*_core.extremum(_core.CUMMAX, x, axis, reverse, ties, index_dtype, offsets, out))


def cummax_backward(
    dy: ArrayT,
    x: ArrayT | None = None,
    axis: int = -1,
    *,
    indices: Any = None,
    reverse: bool = False,
    ties: Ties = "first",
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `cummax`, from its input or from its indices: ``dx[j]`` is the sum of ``dy`` where ``x[j]`` won.

    >>> planck.cummax_backward(np.ones(4), np.array([1.0, 3.0, 2.0, 3.0]))
    array([1., 3., 0., 0.])
    """
    return _core.scan_backward(_core.CUMMAX, dy, x, None, indices, axis, reverse, False, ties, offsets, out)


def cummin(
    x: Any,
    axis: int = -1,
    *,
    reverse: bool = False,
    ties: Ties = "first",
    index_dtype: DType | None = "int64",
    offsets: Any = None,
    out: tuple[Any, Any] | None = None,
) -> Extrema:
    """Running minima along an axis and where they stand: ``values[t] = min(x[0], …, x[t])``. As `cummax`.

    >>> planck.cummin(np.array([3.0, 1.0, 2.0, 1.0]), ties="last")
    Extrema(values=array([3., 1., 1., 1.]), indices=array([0, 1, 1, 3]))
    """
    return Extrema(*_core.extremum(_core.CUMMIN, x, axis, reverse, ties, index_dtype, offsets, out))


def cummin_backward(
    dy: ArrayT,
    x: ArrayT | None = None,
    axis: int = -1,
    *,
    indices: Any = None,
    reverse: bool = False,
    ties: Ties = "first",
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `cummin`, from its input or from its indices: ``dx[j]`` is the sum of ``dy`` where ``x[j]`` won.

    >>> planck.cummin_backward(np.ones(3), indices=np.array([0, 1, 1]))
    array([1., 2., 0.])
    """
    return _core.scan_backward(_core.CUMMIN, dy, x, None, indices, axis, reverse, False, ties, offsets, out)


_MANTISSA = {"float16": 11, "bfloat16": 8}


def _check_factor(a: Any, *others: Any) -> None:
    """A number that the arrays' dtype holds badly is no such decay: 0.999 is 1 in bfloat16, and the average a sum."""
    if type(a) not in (int, float):  # NumPy's numbers have a dtype of their own
        return
    dtype = next((str(x.dtype).removeprefix("torch.") for x in others if hasattr(x, "dtype")), "")
    if (bits := _MANTISSA.get(dtype)) is None:
        return
    split = a * (2 ** (53 - bits) + 1)  # Dekker's: rounds to so many bits
    rounded = split - (split - a)
    if abs(rounded - a) > 0.1 * abs(1 - abs(a)):
        raise ValueError(
            f"a = {a} is {rounded} in {dtype}, which decays otherwise: use float32, or give that number as an array"
        )


def linear_recurrence(
    a: ArrayT | float,
    b: ArrayT | float,
    axis: int = -1,
    *,
    initial: ArrayT | float | None = None,
    reverse: bool = False,
    offsets: Any = None,
    out: ArrayT | None = None,
) -> ArrayT:
    """``h[t] = a[t] * h[t-1] + b[t]`` along an axis, from ``h[-1] = 0`` or the initial state.

    ``a`` and ``b`` are arrays or numbers whose shapes broadcast, and nothing is copied for that; ``axis`` counts in the
    result. ``initial`` broadcasts to the result's shape with extent 1 along the axis, or without the axis. ``offsets``
    as for `cumsum`: each segment has an initial state of its own along the axis, or all have the same one.

    >>> planck.linear_recurrence(np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.0, 1.0]))
    array([1.  , 1.5 , 1.75])
    >>> rewards = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 4.0]])
    >>> planck.linear_recurrence(0.5, rewards, reverse=True)  # discounted sums of what is to come
    array([[1.5, 1. , 2. ],
           [1. , 2. , 4. ]])
    """
    _check_factor(a, b, initial)
    return _core.linear_recurrence(a, b, axis, initial, reverse, offsets, out)


def linear_recurrence_backward(
    dh: ArrayT,
    a: ArrayT | float,
    h: ArrayT,
    axis: int = -1,
    *,
    b: Any = None,
    initial: ArrayT | float | None = None,
    reverse: bool = False,
    offsets: Any = None,
    out: tuple[Any, Any, Any] | None = None,
) -> RecurrenceGradients:
    """The gradients of `linear_recurrence`: ``g[t] = dh[t] + a[t+1] * g[t+1]``, ``db = g``, ``da[t] = g[t] * h[t-1]``,
    ``d_initial = a[0] * g[0]``; those of inputs that were broadcast are summed to their shape. The gradient of ``b`` has
    the shape of ``dh`` unless ``b`` is given, of which only the shape matters.

    >>> a, b = np.array([0.5, 0.5]), np.array([1.0, 1.0])
    >>> planck.linear_recurrence_backward(np.ones(2), a, planck.linear_recurrence(a, b))
    RecurrenceGradients(da=array([0., 1.]), db=array([1.5, 1. ]), d_initial=None)
    >>> planck.linear_recurrence_backward(np.ones(2), 0.5, planck.linear_recurrence(0.5, b)).da
    array(1.)
    """
    gradients = _core.linear_recurrence_backward(
        dh, a, h, axis, initial, _shape_of(b), reverse, offsets, True, True, True, out
    )
    return RecurrenceGradients(*gradients)


def _shape_of(b: Any) -> Any:
    if b is None or hasattr(b, "shape"):
        return None if b is None else b.shape
    if not isinstance(b, (int, float, list, tuple)):
        raise TypeError(f"b is a {type(b).__name__}, neither an array nor numbers")
    import numpy

    return numpy.shape(b)
