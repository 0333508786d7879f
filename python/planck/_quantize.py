"""Quantisation: codes, floats that went through codes, and ranges found on the way."""

from __future__ import annotations

from typing import Any, NamedTuple

from planck import _core
from planck._types import ArrayT, DType, Mode, NonFinite, ScaleForm, Scope


class DynamicQuantized(NamedTuple):
    """What `dynamic_quantize` gives; None for what was not asked for."""

    q: Any
    scale: Any
    zero_point: Any
    row_sum: Any


class LearnableGradients(NamedTuple):
    """What `fake_quantize_learnable_backward` gives."""

    dx: Any
    d_scale: Any
    d_zero_point: Any


def quantize(
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    *,
    dtype: DType = "int8",
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    q_min: int | None = None,
    q_max: int | None = None,
    scale_form: ScaleForm = "divide",
    trust_qparams: bool = False,
    saturate: bool = True,
    out: Any = None,
) -> Any:
    """Floats to codes: ``q = clamp(rne(x / scale), q_min - zp, q_max - zp) + zp``; NaN gives the zero point.

    Which elements share a scale and zero point is the scope: the whole ``tensor``, a ``channel`` (an index along
    ``axis``), a ``token`` (a row along the last axis) or a ``group`` (``group_size`` neighbours along ``axis``, by default
    the last). Left out, it follows from the rest: ``group_size`` means group, ``axis`` alone channel, neither tensor.
    Scales are a number (tensor) or an array with one for each; zero points the same, as integers. The range of codes is
    that of ``dtype`` unless it is given. ``scale_form="reciprocal"`` multiplies by 1 / scale as PyTorch does.
    ``trust_qparams`` leaves out the check that scales and zero points are in range.

    Codes of ``float8_e4m3fn`` and ``float8_e5m2`` are ``x / scale``, limited to ``q_min`` and ``q_max`` (by default their
    largest numbers) and rounded once; NaN gives NaN, and there is no zero point. With ``saturate=False`` nothing is limited:
    overflow gives NaN (float8_e4m3fn) or infinities (float8_e5m2).

    >>> planck.quantize(np.array([-1.0, 0.26, 9.0]), 0.05)
    array([-20,   5, 127], dtype=int8)
    >>> planck.quantize(np.array([[1.0, 2.0], [30.0, 40.0]]), np.array([0.1, 1.0]), axis=0)
    array([[10, 20],
           [30, 40]], dtype=int8)
    >>> planck.quantize(np.array([1.0, 0.3, 1000.0]), 2.0, dtype="float8_e4m3fn").astype(float).tolist()
    [0.5, 0.15625, 448.0]
    """
    return _core.quantize(
        x, scale, zero_point, dtype, scope, axis, group_size, q_min, q_max, scale_form, trust_qparams, saturate, out
    )


def quantize_backward(
    dy: ArrayT,
    x: ArrayT,
    scale: Any,
    zero_point: Any = 0,
    *,
    dtype: DType = "int8",
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    q_min: int | None = None,
    q_max: int | None = None,
    scale_form: ScaleForm = "divide",
    trust_qparams: bool = False,
    saturate: bool = True,
    out: ArrayT | None = None,
) -> ArrayT:
    """The straight-through gradient of `quantize`: ``dy / scale`` where the code was inside the range, else 0.

    >>> planck.quantize_backward(np.ones(3), np.array([-1.0, 0.26, 9.0]), 0.5, q_max=10)
    array([2., 2., 0.])
    """
    return _core.quantize_backward(
        dy, x, scale, zero_point, dtype, scope, axis, group_size, q_min, q_max, scale_form, trust_qparams, saturate, out
    )


def dequantize(
    q: Any,
    scale: Any,
    zero_point: Any = 0,
    *,
    dtype: DType = "float32",
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    trust_qparams: bool = False,
    out: Any = None,
) -> Any:
    """Codes to floats: ``x = scale * (q - zp)``. Scopes as for `quantize`; codes of float8 have no zero point.

    >>> planck.dequantize(np.array([-20, 5, 127], dtype=np.int8), 0.05, dtype="float64")
    array([-1.  ,  0.25,  6.35])
    """
    return _core.dequantize(q, scale, zero_point, dtype, scope, axis, group_size, trust_qparams, out)


def dequantize_backward(
    dy: ArrayT,
    scale: Any,
    *,
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    trust_qparams: bool = False,
    out: ArrayT | None = None,
) -> ArrayT:
    """The gradient of `dequantize` with respect to the codes, as floats: ``dy * scale``.

    >>> planck.dequantize_backward(np.ones(3), 0.5)
    array([0.5, 0.5, 0.5])
    """
    return _core.dequantize_backward(dy, scale, scope, axis, group_size, trust_qparams, out)


def fake_quantize(
    x: ArrayT,
    scale: Any,
    zero_point: Any = 0,
    *,
    q_min: int = -128,
    q_max: int = 127,
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    scale_form: ScaleForm = "divide",
    trust_qparams: bool = False,
    out: ArrayT | None = None,
) -> ArrayT:
    """What is left of floats after codes: ``y = scale * clamp(rne(x / scale), q_min - zp, q_max - zp)``; NaN stays NaN.

    Scopes as for `quantize`.

    >>> planck.fake_quantize(np.array([-1.3, 0.26, 9.0]), 0.5, q_min=-8, q_max=7)
    array([-1.5,  0.5,  3.5])
    """
    return _core.fake_quantize(
        x, scale, zero_point, q_min, q_max, scope, axis, group_size, scale_form, trust_qparams, out
    )


def fake_quantize_backward(
    dy: ArrayT,
    x: ArrayT,
    scale: Any,
    zero_point: Any = 0,
    *,
    q_min: int = -128,
    q_max: int = 127,
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    scale_form: ScaleForm = "divide",
    trust_qparams: bool = False,
    out: ArrayT | None = None,
) -> ArrayT:
    """The straight-through gradient of `fake_quantize`: ``dy`` where the code was inside the range, else 0.

    >>> planck.fake_quantize_backward(np.ones(3), np.array([-1.3, 0.26, 9.0]), 0.5, q_min=-8, q_max=7)
    array([1., 1., 0.])
    """
    return _core.fake_quantize_backward(
        dy, x, scale, zero_point, q_min, q_max, scope, axis, group_size, scale_form, trust_qparams, False, 1.0, out
    )


def fake_quantize_learnable_backward(
    dy: Any,
    x: Any,
    scale: Any,
    zero_point: Any = 0,
    *,
    q_min: int = -128,
    q_max: int = 127,
    scope: Scope | None = None,
    axis: int | None = None,
    group_size: int | None = None,
    scale_form: ScaleForm = "divide",
    trust_qparams: bool = False,
    grad_factor: float = 1.0,
    out: tuple[Any, Any, Any] | None = None,
) -> LearnableGradients:
    """The gradients of `fake_quantize` with respect to its input, scales and zero points, the latter two summed over each
    scope and multiplied by ``grad_factor``. Inside the range ``d_scale += dy * (rne(x / scale) - x / scale)``; outside
    ``d_scale += dy * (q_end - zp)`` and ``d_zero_point -= dy * scale``.

    >>> g = planck.fake_quantize_learnable_backward(np.ones(2), np.array([0.3, 9.0]), np.array(0.5), q_min=-8, q_max=7)
    >>> g.dx, float(g.d_scale), float(g.d_zero_point)
    (array([1., 0.]), 7.4, -0.5)
    """
    return LearnableGradients(
        *_core.fake_quantize_backward(
            dy,
            x,
            scale,
            zero_point,
            q_min,
            q_max,
            scope,
            axis,
            group_size,
            scale_form,
            trust_qparams,
            True,
            grad_factor,
            out,
        )
    )


def dynamic_quantize(
    x: Any,
    *,
    scope: Scope | None = "token",
    mode: Mode = "symmetric",
    dtype: DType = "int8",
    axis: int | None = None,
    group_size: int | None = None,
    q_min: int | None = None,
    q_max: int | None = None,
    zero_in_range: bool = True,
    nonfinite: NonFinite = "saturate",
    scale_dtype: DType | None = None,
    qparams_only: bool = False,
    row_sum: bool = False,
    out: tuple[Any, Any, Any, Any] | None = None,
) -> DynamicQuantized:
    """Finds each scope's range, the scale and zero point that follow from it, and quantises with them.

    ``symmetric``: ``scale = max|x| / q_max``, zero point 0. ``asymmetric``: ``scale = (hi - lo) / (q_max - q_min)``,
    ``zp = q_min - rne(lo / scale)``, with the range widened to contain 0 unless ``zero_in_range=False``. Codes are -127 to
    127 (int8, symmetric), -128 to 127 (int8) or 0 to 255 (uint8) unless given. NaN is ignored; infinities saturate, or
    are refused with ``nonfinite="error"``. ``row_sum`` adds the sum of each scope's codes; ``qparams_only`` leaves out the
    codes. Give ``scope=None`` to have it follow from ``axis`` and ``group_size``, as for `quantize`. Codes of
    ``float8_e4m3fn`` and ``float8_e5m2`` are symmetric, by default as far as their largest numbers; their zero point is None.

    >>> planck.dynamic_quantize(np.array([[1.0, -2.0], [0.0, 12.7]]))
    DynamicQuantized(q=array([[  64, -127],
           [   0,  127]], dtype=int8), scale=array([0.01574803, 0.1       ]), zero_point=array([0, 0], dtype=int32), row_sum=None)
    """
    return DynamicQuantized(
        *_core.dynamic_quantize(
            x,
            scope,
            mode,
            dtype,
            axis,
            group_size,
            q_min,
            q_max,
            zero_in_range,
            nonfinite,
            scale_dtype,
            qparams_only,
            row_sum,
            out,
        )
    )
