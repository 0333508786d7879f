"""Messages speak of what the caller wrote: the function's arguments and NumPy's dtypes, never of the library."""

import inspect

import numpy as np
import planck
import pytest
from mistakes import internal_words, wrong_calls, wrong_outputs

X = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
DY = np.ones_like(X)
SCALES, ZEROS = np.full(3, 0.5, np.float32), np.zeros(3, np.int32)
ROWS = {"scope": "channel", "axis": 0}
RANGE = {"scale": SCALES, "zero_point": ZEROS, **ROWS}
# A right call of every function, with every array that it can have.
GOOD = {
    "quantize": {"x": X, **RANGE},
    "quantize_backward": {"dy": DY, "x": X, **RANGE},
    "dequantize": {"q": X.astype(np.int8), **RANGE},
    "dequantize_backward": {"dy": DY, "scale": SCALES, **ROWS},
    "fake_quantize": {"x": X, **RANGE},
    "fake_quantize_backward": {"dy": DY, "x": X, **RANGE},
    "fake_quantize_learnable_backward": {"dy": DY, "x": X, **RANGE},
    "dynamic_quantize": {"x": X, "row_sum": True, "nonfinite": "error"},
    "cumsum": {"x": X},
    "cumsum_backward": {"dy": DY},
    "cumprod": {"x": X},
    "cumprod_backward": {"dy": DY, "x": X},
    "logcumsumexp": {"x": X},
    "logcumsumexp_backward": {"dy": DY, "x": X, "y": planck.logcumsumexp(X)},
    "cummax": {"x": X},
    "cummax_backward": {"dy": DY, "x": X},
    "cummin": {"x": X},
    "cummin_backward": {"dy": DY, "indices": planck.cummin(X).indices},
    "linear_recurrence": {"a": X, "b": X[0], "initial": SCALES},
    "linear_recurrence_backward": {"dh": DY, "a": X[0], "h": X, "b": X[0], "initial": SCALES},
    "lerp": {"a": X, "b": X, "weight": X},
    "lerp_backward": {"dy": DY, "a": X, "b": X[0], "weight": X},
    "add_scaled": {"a": X, "b": X, "alpha": X},
    "add_scaled_backward": {"dy": DY, "a": X, "b": X[0], "alpha": X},
}
RUNTIME = {"get_cmake_dir", "get_include", "get_num_threads", "plan_info", "set_num_threads"}


def copied(arguments):
    return {name: value.copy() if isinstance(value, np.ndarray) else value for name, value in arguments.items()}


def test_every_function_is_here():
    assert set(GOOD) == {name for name in planck.__all__ if name.islower()} - RUNTIME


# PyTorch says of some of its own kinds of tensors that they are old, or new.
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", GOOD)
def test_messages_about_arguments(name):
    """Every argument, wrong in every way: what is refused is refused in the caller's words, and each is named."""
    function, named = getattr(planck, name), set()
    for what, arguments in wrong_calls(function, copied(GOOD[name])):
        try:
            function(**arguments)
        except Exception as error:
            message = str(error)
            assert not internal_words(function, message), (what, message)
            assert message, what
            named |= {part for part in inspect.signature(function).parameters if part in message}
    assert named >= set(inspect.signature(function).parameters) - {"out"}


@pytest.mark.parametrize("name", GOOD)
def test_messages_about_outputs(name):
    """`out`, and never the name that the library has for it."""
    function, raised = getattr(planck, name), 0
    good = copied(GOOD[name])
    for what, output, at, count in wrong_outputs(function, good):
        out = output if count is None else tuple(output if i == at else None for i in range(count))
        try:
            function(**good, out=out)
        except Exception as error:
            message = str(error)
            raised += 1
            assert not internal_words(function, message), (what, message)
            assert ("out" if count is None else f"out[{at}]") in message, (what, message)
    assert raised >= 10


@pytest.mark.parametrize("axis", [2, -3, 2**31, 2**40, -(2**70)])
@pytest.mark.parametrize("name", [n for n in GOOD if "axis" in inspect.signature(getattr(planck, n)).parameters])
def test_the_axis_in_the_message_is_the_one_given(name, axis):
    good = {**GOOD[name], "axis": axis}
    if "scope" in good or name == "dynamic_quantize":
        good["scope"] = "channel"
    with pytest.raises(ValueError, match=rf"^axis = {axis} is out of range for shape \[3, 4\]: it goes from -2 to 1$"):
        getattr(planck, name)(**good)


FLOATS = "float16, bfloat16, float32 or float64"
LISTS = {
    "quantize": ("x", FLOATS),
    "dequantize": ("q", "int8, uint8, float8_e4m3fn or float8_e5m2"),
    "cumsum": ("x", "float16, bfloat16, float32, float64, int32 or int64"),
    "cummax": ("x", "float16, bfloat16, float32, float64, int32 or int64"),
    "logcumsumexp": ("x", FLOATS),
    "cumsum_backward": ("dy", FLOATS),
    "lerp": ("a", FLOATS),
    "linear_recurrence": ("a", FLOATS),
    "dynamic_quantize": ("x", FLOATS),
}


@pytest.mark.parametrize("dtype", ["int16", "bool", "complex64"])
@pytest.mark.parametrize("name", LISTS)
def test_lists_of_dtypes_are_those_of_the_function(name, dtype):
    argument, known = LISTS[name]
    wrong = {**GOOD[name], argument: GOOD[name][argument].astype(dtype)}
    with pytest.raises(NotImplementedError, match=f"^{argument} has dtype {dtype}; it can be {known}$"):
        getattr(planck, name)(**wrong)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (
            lambda: planck.quantize(X, 0.5, dtype="float32"),
            "dtype = float32 is none of int8, uint8, float8_e4m3fn or float8_e5m2",
        ),
        (lambda: planck.dequantize(X.astype(np.int8), 0.5, dtype="int8"), f"dtype = int8 is none of {FLOATS}"),
        (lambda: planck.cummax(X, index_dtype="int8"), "index_dtype = int8 is none of int32 or int64"),
        (lambda: planck.dynamic_quantize(X, scale_dtype="float16"), "scale_dtype = float16 is none of float32"),
        (
            lambda: planck.dynamic_quantize(X.astype(np.float16), scale_dtype="float64"),
            "scale_dtype = float64 is none of float16 or float32",
        ),
    ],
)
def test_lists_of_dtypes_are_those_of_the_option(call, text):
    with pytest.raises(NotImplementedError, match=f"^{text}$"):
        call()


def test_a_huge_axis_and_short_indices():
    """index_dtype, not the library's index_element."""
    x = np.broadcast_to(np.float32(1), (2**31 + 1,))
    with pytest.raises(ValueError, match="index_dtype = int32 cannot count an axis of 2147483649 elements: use int64"):
        planck.cummax(x, index_dtype="int32")
