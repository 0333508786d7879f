"""Numbers among arrays: Python's take their dtype, NumPy's scalars have one; a scale of shape (1,) is a number."""

import ml_dtypes
import numpy as np
import planck
import pytest
import torch
from arrays import FLOATS, assert_same_bits, to_torch

X = np.linspace(-2.0, 3.0, 12).reshape(3, 4)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("number", [2.0, 2, True, np.pi, -0.0, float("inf"), float("nan")])
@pytest.mark.parametrize("change", [lambda x: x, to_torch], ids=["NumPy", "PyTorch"])
def test_python_numbers_take_the_dtype_of_the_arrays(dtype, number, change):
    """The bits of an array of that dtype, wherever the number stands."""
    x = X.astype(dtype)
    one = np.asarray(number, np.float64).astype(dtype)
    for call, expected in [
        (lambda v: planck.lerp(v, number, 0.25), planck.lerp(x, one, 0.25)),
        (lambda v: planck.lerp(number, v, 0.25), planck.lerp(one, x, 0.25)),
        (lambda v: planck.lerp(number, number, v), planck.lerp(one, one, x)),
        (lambda v: planck.add_scaled(v, number, 3), planck.add_scaled(x, one, 3)),
        (lambda v: planck.linear_recurrence(number, v), planck.linear_recurrence(one, x)),
        (
            lambda v: planck.linear_recurrence(v, number, initial=1),
            planck.linear_recurrence(x, one, initial=x.dtype.type(1)),
        ),
    ]:
        got = call(change(x))
        assert isinstance(got, type(change(x)))
        assert_same_bits(got, expected)


def test_numbers_alone_are_float64():
    assert_same_bits(planck.lerp(1, 2, 0.25), np.array(1.25))
    assert_same_bits(planck.linear_recurrence(0.5, 1, initial=2), np.array(2.0))


@pytest.mark.parametrize("wrong", [np.float64(2), np.array(2.0), np.float16(2), torch.tensor(2.0, dtype=torch.float64)])
def test_what_has_a_dtype_of_its_own_is_not_converted(wrong):
    """NumPy 2 would promote both, and PyTorch neither: the caller says which is meant."""
    x = X.astype(np.float32)
    for call in (lambda: planck.lerp(x, wrong, 0.5), lambda: planck.linear_recurrence(wrong, x)):
        with pytest.raises(ValueError, match=r"has dtype float(16|32|64), and a float(16|32|64): convert one of them"):
            call()


def test_the_message_about_a_scalar_says_what_would_do():
    with pytest.raises(ValueError, match=r"b has dtype float64, and a float32: .* \(a Python number takes the dtype"):
        planck.lerp(X.astype(np.float32), np.float64(2), 0.5)
    assert planck.lerp(X.astype(np.float32), np.float32(2), 0.5).dtype == np.float32


@pytest.mark.parametrize(
    ("dtype", "number"), [(np.float16, 7e4), (np.float32, 1e39), (ml_dtypes.bfloat16, -1e39), (np.float32, 10**40)]
)
def test_numbers_beyond_the_dtype_are_refused(dtype, number):
    """Rather than made infinite."""
    with pytest.raises(ValueError, match=rf"b = {str(number).replace('+', '.')} is beyond {np.dtype(dtype)}"):
        planck.lerp(X.astype(dtype), number, 0.5)


@pytest.mark.parametrize("number", [1j, "2", None])
def test_what_is_no_number(number):
    with pytest.raises((TypeError, NotImplementedError), match=r"^b "):
        planck.lerp(X, number, 0.5)


# ---- one scale for a whole tensor ----

ONE, NONE = np.array([0.25], np.float32), np.array([3], np.int32)


@pytest.mark.parametrize("scope", [None, "tensor"])
@pytest.mark.parametrize("change", [lambda x: x, to_torch], ids=["NumPy", "PyTorch"])
def test_a_scale_of_one_element_serves_a_whole_tensor(scope, change):
    x, options = X.astype(np.float32), {"scope": scope}
    one, none = change(ONE), change(NONE)
    q = planck.quantize(x, 0.25, 3)
    for got, expected in [
        (planck.quantize(change(x), one, none, **options), q),
        (planck.quantize(change(x), one, 3, **options), q),
        (planck.quantize(change(x), 0.25, none, **options), q),
        (planck.quantize(change(x), one.reshape(()), none, **options), q),
        (planck.dequantize(change(q), one, none, **options), planck.dequantize(q, 0.25, 3)),
        (planck.fake_quantize(change(x), one, none, **options), planck.fake_quantize(x, 0.25, 3)),
        (planck.quantize_backward(change(x), change(x), one, none, **options), planck.quantize_backward(x, x, 0.25, 3)),
        (planck.dequantize_backward(change(x), one, **options), planck.dequantize_backward(x, 0.25)),
    ]:
        assert_same_bits(got, expected)


def test_gradients_have_the_shape_of_what_they_are_of():
    x = X.astype(np.float32)
    expected = planck.fake_quantize_learnable_backward(x, x, np.float32(0.25), 3, q_min=-4, q_max=5)
    outs = (None, np.zeros(1, np.float32), np.zeros(1, np.float32))
    for out in (None, outs):
        got = planck.fake_quantize_learnable_backward(x, x, ONE, NONE, q_min=-4, q_max=5, out=out)
        assert got.d_scale.shape == got.d_zero_point.shape == (1,)
        assert_same_bits(got.d_scale[0], np.asarray(expected.d_scale))
        assert_same_bits(got.d_zero_point[0], np.asarray(expected.d_zero_point))
    assert got.d_scale is outs[1]
    assert planck.fake_quantize_learnable_backward(x, x, ONE, 3).d_zero_point.shape == ()


@pytest.mark.parametrize("shape", [(1, 1), (2,), (0,)])
def test_scales_of_other_shapes_serve_no_whole_tensor(shape):
    with pytest.raises(ValueError, match=r"scale has shape \[.*\], but must have \[\]"):
        planck.quantize(X, np.ones(shape))


@pytest.mark.parametrize(
    ("dtype", "factor"), [(np.float16, 0.9999), (ml_dtypes.bfloat16, 0.999), (ml_dtypes.bfloat16, -0.998)]
)
def test_a_factor_that_the_dtype_holds_badly_is_refused(dtype, factor):
    """0.999 is 1 in bfloat16: a moving average would be a sum, without a word."""
    b = np.ones(4, dtype)
    with pytest.raises(ValueError, match=rf"a = {factor} is .* in .*float16, which decays otherwise: use float32"):
        planck.linear_recurrence(factor, b)
    assert planck.linear_recurrence(np.array(factor, dtype), b).dtype == dtype  # said as an array, it is meant
    for fine in (0.5, 0.9, 1, 2.0, 0.0, -1.0, np.inf):
        assert planck.linear_recurrence(fine, b).dtype == dtype
    assert planck.linear_recurrence(factor, b.astype(np.float32)).dtype == np.float32
