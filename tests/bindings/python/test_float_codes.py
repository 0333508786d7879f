"""Codes of float8 in NumPy's and PyTorch's arrays: values, what comes back, and what is refused."""

import ml_dtypes
import numpy as np
import planck
import pytest
import torch

KINDS = {
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, 448, 0x7F),
    "float8_e5m2": (ml_dtypes.float8_e5m2, 57344, 0x7E),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def rounded(values, kind):
    dtype, _, nan = KINDS[kind]
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(values), np.uint8(nan), values.astype(dtype).view(np.uint8))


def drawn(shape, seed=70):
    return (np.random.default_rng(seed).standard_normal(shape) * 10.0).astype(np.float32)


@kinds
def test_numpy_round_trip(kind):
    dtype, most, _ = KINDS[kind]
    x = drawn((33, 70))
    x[0, :3] = [np.nan, np.inf, -0.0]
    scale = np.abs(drawn(33, 71)) / 100
    q = planck.quantize(x, scale, dtype=kind, axis=0)
    assert q.dtype == dtype
    np.testing.assert_array_equal(q.view(np.uint8), rounded(np.clip(x / scale[:, None], -most, most), kind))
    back = planck.dequantize(q, scale, axis=0)
    np.testing.assert_array_equal(back, scale[:, None] * q.astype(np.float32))
    np.testing.assert_array_equal(planck.dequantize(q, scale, None, axis=0), back)


@kinds
def test_names_and_dtypes_mean_the_same(kind):
    x = drawn(100)
    expected = planck.quantize(x, 0.5, dtype=kind).view(np.uint8)
    short = {"float8_e4m3fn": "f8e4m3", "float8_e5m2": "f8e5m2"}[kind]
    for dtype in (short, KINDS[kind][0], np.dtype(KINDS[kind][0]), getattr(torch, kind)):
        np.testing.assert_array_equal(planck.quantize(x, 0.5, dtype=dtype).view(np.uint8), expected)
    tensor = planck.quantize(torch.from_numpy(x), 0.5, dtype=kind)
    assert tensor.dtype == getattr(torch, kind)
    np.testing.assert_array_equal(tensor.view(torch.uint8).numpy(), expected)
    out = np.empty(100, KINDS[kind][0])
    assert planck.quantize(x, 0.5, dtype=kind, out=out) is out
    np.testing.assert_array_equal(out.view(np.uint8), expected)


@kinds
def test_unsaturated_codes_overflow(kind):
    dtype, most, _ = KINDS[kind]
    x = np.array([most, 2 * most, -2 * most, np.inf], np.float32)
    q = planck.quantize(x, 1.0, dtype=kind, saturate=False)
    np.testing.assert_array_equal(q.view(np.uint8), x.astype(dtype).view(np.uint8))
    gradient = planck.quantize_backward(np.ones(4, np.float32), x, 1.0, dtype=kind, saturate=False)
    np.testing.assert_array_equal(gradient, [1, 0, 0, 0])


@kinds
@pytest.mark.parametrize("scope", ["tensor", "token", "channel", "group"])
def test_dynamic_range(kind, scope):
    """The largest magnitude of each part is the largest code."""
    _, most, _ = KINDS[kind]
    x = drawn((16, 64), 72)
    x[3] = 0
    options = {"channel": {"axis": 1}, "group": {"group_size": 16}}.get(scope, {})
    result = planck.dynamic_quantize(x, scope=scope, dtype=kind, **options)
    parts = {"tensor": (1, 1, 1024), "token": (16, 1, 64), "channel": (16, 64, 1), "group": (64, 1, 16)}[scope]
    axes = {"channel": 0}.get(scope, (1, 2))
    cut = x.reshape(parts)
    largest = np.abs(cut).max(axes, keepdims=True)
    scale = np.where(largest == 0, np.float32(1), largest / np.float32(most))
    expected = rounded(np.clip(cut / scale, -most, most), kind)
    np.testing.assert_array_equal(result.scale.ravel(), scale.ravel())
    np.testing.assert_array_equal(result.q.view(np.uint8).reshape(parts), expected)
    assert result.zero_point is None and result.row_sum is None
    again = planck.quantize(x, result.scale, result.zero_point, dtype=kind, scope=scope, **options)
    np.testing.assert_array_equal(again.view(np.uint8), result.q.view(np.uint8))
    back = planck.dequantize(result.q, result.scale, result.zero_point, scope=scope, **options)
    assert np.all(np.abs(back - x) <= np.abs(x) / 8 + 1e-6)


def test_refused():
    x = np.ones(4, np.float32)
    q = planck.quantize(x, 1.0, dtype="float8_e4m3fn")
    with pytest.raises(ValueError, match="zero_point = 3 must be 0, since codes of float8_e4m3fn have no zero point"):
        planck.quantize(x, 1.0, 3, dtype="float8_e4m3fn")
    with pytest.raises(ValueError, match="zero_point is present but float codes have no zero points"):
        planck.dequantize(q, 1.0, np.array(0, np.int32))
    with pytest.raises(ValueError, match="q_max = 100 is no number of float8_e4m3fn; the nearest is 96"):
        planck.quantize(x, 1.0, dtype="float8_e4m3fn", q_max=100)
    with pytest.raises(ValueError, match="saturate = False is for codes of float8_e4m3fn and float8_e5m2, not of int8"):
        planck.quantize(x, 1.0, saturate=False)
    with pytest.raises(ValueError, match=r"saturate = False limits nothing to \[-16, 448\]"):
        planck.quantize(x, 1.0, dtype="float8_e4m3fn", q_min=-16, saturate=False)
    with pytest.raises(ValueError, match="'asymmetric' needs zero points, which codes of float8_e5m2 do not have"):
        planck.dynamic_quantize(x, mode="asymmetric", dtype="float8_e5m2")
    with pytest.raises(ValueError, match="row_sum is of integer codes, not float8"):
        planck.dynamic_quantize(x, dtype="float8_e5m2", row_sum=True)
    with pytest.raises(NotImplementedError, match="x has dtype float8_e4m3fn; it can be float16"):
        planck.quantize(q, 1.0)
