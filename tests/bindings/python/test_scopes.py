"""Which elements share a scale, what scales and zero points may be, and what is assumed where nothing is said."""

import ml_dtypes
import numpy as np
import planck
import pytest
import torch
from arrays import BFLOAT16, FLOATS, OldDlpack, assert_same_bits, rng
from formulas import segments

X = rng(1).standard_normal((3, 5, 7)).astype(np.float32) * 3
# What a user writes, and the scope it means; the last of five or seven elements is a shorter group.
SCOPES = [
    ({}, {"scope": "tensor"}),
    ({"scope": "tensor"}, {"scope": "tensor"}),
    ({"axis": 1}, {"scope": "channel", "axis": 1}),
    ({"axis": -3}, {"scope": "channel", "axis": 0}),
    ({"scope": "channel", "axis": 2}, {"scope": "channel", "axis": 2}),
    ({"scope": "token"}, {"scope": "token"}),
    ({"group_size": 4}, {"scope": "group", "axis": 2, "group_size": 4}),
    ({"group_size": 2, "axis": 1}, {"scope": "group", "axis": 1, "group_size": 2}),
    ({"scope": "group", "group_size": 3}, {"scope": "group", "axis": 2, "group_size": 3}),
    ({"scope": "group", "group_size": 100, "axis": -1}, {"scope": "group", "axis": 2, "group_size": 100}),
]
INTEGER_DTYPES = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
INT8_NAMES = ["int8", "s8", np.int8, np.dtype("int8"), np.dtype("int8").type, torch.int8]
BF16_NAMES = ["bfloat16", "bf16", ml_dtypes.bfloat16, BFLOAT16, torch.bfloat16]


@pytest.mark.parametrize(("written", "meant"), SCOPES)
def test_scope(written, meant):
    """The segments are the page's, for scales that are given and for scales that are found."""
    flat, shape = segments(X.shape, **meant)
    scale = rng(2).uniform(0.02, 0.5, shape).astype(np.float32)
    zero_point = rng(3).integers(-9, 9, shape).astype(np.int32)
    spread, zeros = scale.reshape(-1)[flat], zero_point.reshape(-1)[flat].astype(np.float32)
    q = planck.quantize(X, scale, zero_point, **written)
    assert_same_bits(q, np.clip(np.rint(X / spread) + zeros, -128, 127).astype(np.int8))
    assert_same_bits(planck.dequantize(q, scale, zero_point, **written), spread * (q.astype(np.float32) - zeros))
    assert_same_bits(planck.dequantize_backward(X, scale, **written), X * spread)
    fake = planck.fake_quantize(X, scale, zero_point, **written)
    assert_same_bits(fake, planck.dequantize(q, scale, zero_point, **written))
    gradients = planck.fake_quantize_learnable_backward(X, X, scale, zero_point, **written)
    assert gradients.d_scale.shape == gradients.d_zero_point.shape == shape
    found = planck.dynamic_quantize(X, **{"scope": None, **written}, row_sum=True)
    assert found.scale.shape == found.zero_point.shape == found.row_sum.shape == shape
    largest = np.zeros(scale.size, np.float32)
    np.maximum.at(largest, flat.ravel(), np.abs(X).ravel())
    assert_same_bits(found.scale, (largest / np.float32(127)).reshape(shape))
    sums = np.zeros(scale.size, np.int32)
    np.add.at(sums, flat.ravel(), found.q.ravel().astype(np.int32))
    assert_same_bits(found.row_sum, sums.reshape(shape))


def test_dynamic_quantize_finds_a_range_for_each_token():
    assert planck.dynamic_quantize(X).scale.shape == (3, 5)
    assert planck.dynamic_quantize(X[0, 0]).scale.shape == ()


def test_numbers_and_arrays_are_the_same():
    expected = planck.quantize(X, 0.25, 3)
    for scale in [np.float32(0.25), np.float64(0.25), ml_dtypes.bfloat16(0.25), np.array(0.25), torch.tensor(0.25)]:
        for zero_point in [np.int8(3), np.uint64(3), np.array(3), torch.tensor(3)]:
            assert_same_bits(planck.quantize(X, scale, zero_point), expected)
    assert_same_bits(planck.quantize(X, 0.25, None), planck.quantize(X, 0.25, 0))
    assert_same_bits(planck.quantize(X, 2), planck.quantize(X, 2.0))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("scale_dtype", FLOATS, ids=str)
def test_scales_of_other_dtypes_are_converted(dtype, scale_dtype):
    """To the compute type, in which they would have been given."""
    x, scale = X.astype(dtype), np.array([0.1, 0.3, 0.7]).astype(scale_dtype)
    c = np.float64 if dtype == np.float64 else np.float32
    expected = planck.quantize(x, scale.astype(c), axis=0)
    assert_same_bits(planck.quantize(x, scale, axis=0), expected)
    assert_same_bits(
        planck.quantize(x, OldDlpack(scale.astype(np.float64)), axis=0),
        planck.quantize(x, scale.astype(np.float64).astype(c), axis=0),
    )


def test_scales_of_lists_and_integers():
    expected = planck.quantize(X, np.array([1, 2, 3], np.float32), np.array([0, 1, 2], np.int32), axis=0)
    assert_same_bits(planck.quantize(X, [1.0, 2.0, 3.0], [0, 1, 2], axis=0), expected)
    assert_same_bits(planck.quantize(X, (1, 2, 3), (0, 1, 2), axis=0), expected)
    assert_same_bits(planck.quantize(X, np.array([1, 2, 3]), range(3), axis=0), expected)
    assert_same_bits(planck.quantize(X.tolist(), [1.0, 2.0, 3.0], [0, 1, 2], axis=0), expected)


@pytest.mark.parametrize("dtype", INTEGER_DTYPES)
def test_zero_points_of_any_integer_dtype(dtype):
    zero_point = np.array([0, 5, 100], dtype)
    expected = planck.quantize(X, [0.1, 0.2, 0.3], np.array([0, 5, 100], np.int32), axis=0)
    assert_same_bits(planck.quantize(X, [0.1, 0.2, 0.3], zero_point, axis=0), expected)
    assert_same_bits(
        planck.quantize(torch.from_numpy(X), [0.1, 0.2, 0.3], torch.from_numpy(zero_point), axis=0), expected
    )


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_zero_points_through_dlpack(dtype):
    zero_point = np.array([0, 5, 100], dtype)
    expected = planck.quantize(X, [0.1, 0.2, 0.3], zero_point, axis=0)
    assert_same_bits(planck.quantize(X, [0.1, 0.2, 0.3], OldDlpack(zero_point), axis=0), expected)


def test_libraries_may_be_mixed():
    """Results are of the library of the first array."""
    scale, zero_point = np.array([0.1, 0.2, 0.3], np.float32), np.array([1, 2, 3])
    expected = planck.quantize(X, scale, zero_point, axis=0)
    from_torch = planck.quantize(torch.from_numpy(X), scale, zero_point, axis=0)
    assert isinstance(from_torch, torch.Tensor)
    assert_same_bits(from_torch, expected)
    from_numpy = planck.quantize(X, torch.from_numpy(scale), torch.from_numpy(zero_point), axis=0)
    assert type(from_numpy) is np.ndarray
    assert_same_bits(from_numpy, expected)


@pytest.mark.parametrize(("dtype", "low", "high"), [("int8", -128, 127), ("uint8", 0, 255)])
def test_quantize_uses_the_whole_dtype(dtype, low, high):
    ends = np.array([-1e9, 1e9], np.float32)
    assert planck.quantize(ends, 0.5, dtype=dtype).tolist() == [low, high]
    assert planck.quantize(ends, 0.5, dtype=dtype, q_min=3, q_max=np.int64(9)).tolist() == [3, 9]
    found = planck.dynamic_quantize(ends + 2e9, mode="asymmetric", dtype=dtype)
    assert found.q.dtype == dtype and found.q[1] == high and found.zero_point == low


def test_fake_quantize_is_int8_by_default():
    assert planck.fake_quantize(np.array([-1e9, 1e9]), 0.5).tolist() == [-64.0, 63.5]


def test_symmetric_codes_have_the_same_ends():
    """-128 is no code of theirs, though an element may lie beyond -127 by rounding; uint8 has all of its codes."""
    found = planck.dynamic_quantize(np.array([-2.0, 1.0, np.inf, -np.inf]))
    assert found.q.tolist() == [-127, 64, 127, -127]
    assert planck.dynamic_quantize(np.array([2.0, -np.inf]), dtype="uint8").q.tolist() == [255, 0]
    assert planck.dynamic_quantize(np.array([-2.0, -np.inf]), q_min=-128).q.tolist() == [-127, -128]


def test_dynamic_quantize_gives_a_named_tuple():
    found = planck.dynamic_quantize(X)
    assert found._fields == ("q", "scale", "zero_point", "row_sum")
    assert isinstance(found, planck.DynamicQuantized) and found.row_sum is None
    assert (found.q.dtype, found.scale.dtype, found.zero_point.dtype) == (np.int8, np.float32, np.int32)
    assert not found.zero_point.any()
    assert_same_bits(
        found.q, planck.quantize(X.reshape(15, 7), found.scale.ravel(), axis=0, q_min=-127).reshape(X.shape)
    )


def test_qparams_only():
    whole, only = planck.dynamic_quantize(X), planck.dynamic_quantize(X, qparams_only=True)
    assert only.q is None and only.row_sum is None
    assert_same_bits(only.scale, whole.scale)
    assert_same_bits(only.zero_point, whole.zero_point)


def test_scale_dtype():
    x = X.astype(np.float16)
    assert planck.dynamic_quantize(x).scale.dtype == np.float32
    assert planck.dynamic_quantize(x, scale_dtype="float16").scale.dtype == np.float16
    assert planck.dynamic_quantize(X.astype(np.float64)).scale.dtype == np.float64


@pytest.mark.parametrize("form", ["divide", "reciprocal"])
def test_scale_form(form):
    """At halves of a step x / scale and x * (1 / scale) round to different codes here and there."""
    scales = rng(4).uniform(0.02, 0.5, (200, 1)).astype(np.float32)
    x = (np.arange(-12, 12, dtype=np.float32) + np.float32(0.5)) * scales
    steps = {"divide": np.rint(x / scales), "reciprocal": np.rint(x * (np.float32(1) / scales))}
    assert (np.clip(steps["divide"], -7, 7) != np.clip(steps["reciprocal"], -7, 7)).any()
    expected, inside = np.clip(steps[form], -7, 7), np.abs(steps[form]) <= 7
    options = {"axis": 0, "q_min": -7, "q_max": 7, "scale_form": form}
    scales = scales[:, 0]
    assert_same_bits(planck.quantize(x, scales, **options), expected.astype(np.int8))
    assert_same_bits(planck.fake_quantize(x, scales, **options), scales[:, None] * expected + np.float32(0))
    assert_same_bits(planck.fake_quantize_backward(x, x, scales, **options), np.where(inside, x, np.float32(0)))
    assert_same_bits(
        planck.fake_quantize_learnable_backward(x, x, scales, **options).dx, np.where(inside, x, np.float32(0))
    )
    dy = np.full_like(x, 0.3)
    step = dy / scales[:, None] if form == "divide" else dy * (np.float32(1) / scales[:, None])
    assert_same_bits(planck.quantize_backward(dy, x, scales, **options), np.where(inside, step, np.float32(0)))


def test_trusted_qparams_are_not_checked():
    bad = [1.0, 0.0, float("nan")]
    with pytest.raises(ValueError, match="scale"):
        planck.quantize(X, bad, axis=0)
    assert_same_bits(planck.quantize(X, bad, axis=0, trust_qparams=True)[0], planck.quantize(X[0], 1.0))


def test_zero_in_range():
    x = np.array([10.0, 12.55], np.float32)
    wide = planck.dynamic_quantize(x, mode="asymmetric", dtype="uint8")
    tight = planck.dynamic_quantize(x, mode="asymmetric", dtype="uint8", zero_in_range=False)
    assert wide.zero_point == 0 and wide.q[0] > 0
    assert tight.q.tolist() == [0, 255] and tight.zero_point < -255


def test_out_of_dynamic_quantize():
    """A tuple with None for what is to be made."""
    expected = planck.dynamic_quantize(X, row_sum=True)
    q, sums = np.zeros((3, 5, 14), np.int8)[:, :, ::2], np.zeros((3, 5), np.int32)
    got = planck.dynamic_quantize(X, row_sum=True, out=(q, None, None, sums))
    assert got.q is q and got.row_sum is sums
    for one, other in zip(got, expected, strict=True):
        assert_same_bits(one, other)
    again = planck.dynamic_quantize(X * 2, row_sum=True, out=got)
    assert all(one is other for one, other in zip(again, got, strict=True))


@pytest.mark.parametrize("name", INT8_NAMES, ids=repr)
def test_spellings_of_int8(name):
    assert planck.quantize(X, 0.5, dtype=name).dtype == np.int8
    assert planck.dynamic_quantize(X, dtype=name).q.dtype == np.int8


@pytest.mark.parametrize("name", BF16_NAMES, ids=repr)
def test_spellings_of_bfloat16(name):
    q = np.array([1, 2], np.int8)
    assert planck.dequantize(q, 0.5, dtype=name).dtype == BFLOAT16
    assert planck.dequantize(torch.from_numpy(q), 0.5, dtype=name).dtype == torch.bfloat16
    assert planck.dynamic_quantize(X.astype(BFLOAT16), scale_dtype=name).scale.dtype == BFLOAT16


@pytest.mark.parametrize("name", ["float16", "f16", np.float64, "f64", torch.float32])
def test_spellings_of_dtypes(name):
    text = name if isinstance(name, str) else str(name).removeprefix("torch.")
    expected = {"f16": "float16", "f64": "float64"}.get(text, getattr(name, "__name__", text))
    assert planck.dequantize(np.zeros(2, np.uint8), 0.5, dtype=name).dtype == np.dtype(expected)


@pytest.mark.parametrize("name", ["int32", "s32", np.int64, torch.int32, None])
def test_index_dtype(name):
    indices = planck.cummax(X, index_dtype=name).indices
    assert indices is None if name is None else indices.dtype == np.dtype("int64" if name is np.int64 else "int32")
