"""Every function on drawn shapes, axes, dtypes and layouts: the pages' values, and the same bits for every layout."""

import functools

import numpy as np
import planck
import problems as p
import pytest
import quantize_problems as q
import torch
from arrays import LAYOUTS, assert_same_bits, is_float, laid_out, rng, search, to_numpy, to_torch
from hypothesis import given
from hypothesis import strategies as st

CALLS = {
    "cumsum": p.sums("cumsum"),
    "cumprod": p.sums("cumprod"),
    "logcumsumexp": p.sums("logcumsumexp"),
    "cumsum_backward": p.sum_gradients("cumsum"),
    "cumprod_backward": p.sum_gradients("cumprod"),
    "logcumsumexp_backward": p.sum_gradients("logcumsumexp"),
    "cummax": p.extrema("cummax"),
    "cummin": p.extrema("cummin"),
    "cummax_backward": p.extrema("cummax", backward=True),
    "cummin_backward": p.extrema("cummin", backward=True),
    "linear_recurrence": p.recurrences(),
    "linear_recurrence_backward": p.recurrences(backward=True),
    "lerp": p.blends("lerp"),
    "lerp_backward": p.blends("lerp", backward=True),
    "add_scaled": p.blends("add_scaled"),
    "add_scaled_backward": p.blends("add_scaled", backward=True),
    "quantize": q.codes("quantize"),
    "quantize_backward": q.codes("quantize_backward"),
    "dequantize": q.decoded("dequantize"),
    "dequantize_backward": q.decoded("dequantize_backward"),
    "fake_quantize": q.fakes("fake_quantize"),
    "fake_quantize_backward": q.fakes("fake_quantize_backward"),
    "fake_quantize_learnable_backward": q.fakes("fake_quantize_learnable_backward"),
    "dynamic_quantize": q.dynamic(),
}
# One argument of each that a result may be written over.
IN_PLACE = {
    "cumsum": "x",
    "cumprod": "x",
    "logcumsumexp": "x",
    "cummax": "x",
    "cummin": "x",
    "fake_quantize": "x",
    "linear_recurrence": "b",
    "lerp": "a",
    "add_scaled": "b",
    "cumsum_backward": "dy",
    "cumprod_backward": "x",
    "logcumsumexp_backward": "dy",
    "cummax_backward": "dy",
    "fake_quantize_backward": "dy",
    "quantize_backward": "x",
    "dequantize_backward": "dy",
    "linear_recurrence_backward": "dh",
    "fake_quantize_learnable_backward": "dy",
}


def on_calls(names, examples):
    """A test of drawn problems of every one of these functions."""

    def decorate(test):
        @pytest.mark.parametrize("name", names)
        @functools.wraps(test)
        def run(name):
            search(examples)(given(CALLS[name], st.integers(0, 2**32 - 1))(test))()

        del run.__wrapped__  # or pytest asks for the drawn arguments as fixtures
        return run

    return decorate


def assert_close(got, expected):
    if expected is None or got is None:
        assert got is None and expected is None
        return
    if not isinstance(expected, tuple):
        assert_same_bits(got, expected)
        return
    values, tolerance = expected
    assert got.shape == values.shape
    wide = to_numpy(got).astype(np.float64).astype(np.longdouble)
    with np.errstate(invalid="ignore"):
        right = (np.abs(wide - values) <= tolerance) | (wide == values) | (np.isnan(wide) & np.isnan(values))
    assert right.all(), f"{wide[~right][:5]} instead of {values[~right][:5]} within {tolerance[~right][:5]}"


def same_results(got, expected):
    for one, other in zip(got, expected, strict=True):
        if other is None:
            assert one is None
        else:
            assert_same_bits(one, other)


def out_argument(outs):
    return outs[0] if len(outs) == 1 else tuple(outs)


def test_every_function_is_here():
    helpers = {"get_cmake_dir", "get_include", "get_num_threads", "plan_info", "set_num_threads"}
    assert set(CALLS) == {name for name in planck.__all__ if name.islower()} - helpers


@on_calls(CALLS, 45)
def test_values(problem, seed):
    packed = {name: np.array(array, order="C") for name, array in problem.arrays.items()}
    for got, expected in zip(problem.call(), problem.expected(**packed), strict=True):
        assert_close(got, expected)


@on_calls(CALLS, 20)
def test_layout_changes_no_bit(problem, seed):
    got = problem.call()
    same_results(got, problem.call(lambda array: np.array(array, order="C")))
    assert all(type(array) is np.ndarray and array.flags.writeable for array in got if array is not None)


@on_calls(CALLS, 15)
def test_torch_gives_the_same_bits(problem, seed):
    got = problem.call(to_torch)
    assert all(isinstance(tensor, torch.Tensor) for tensor in got if tensor is not None)
    same_results(got, problem.call())


@on_calls(CALLS, 20)
def test_out(problem, seed):
    """Outputs of any layout get the same bits, and are what is returned; some are left for the call to make."""
    random, expected = rng(seed), problem.call()
    layouts = [layout for layout in LAYOUTS if layout != "broadcast"]
    given_outs = [None if e is None else laid_out(np.zeros_like(e), random.choice(layouts), random) for e in expected]
    if len(given_outs) > 1:
        given_outs[random.integers(len(given_outs))] = None
    got = problem.call(out=out_argument(given_outs))
    same_results(got, expected)
    assert all(out is None or out is result for out, result in zip(given_outs, got, strict=True))


@on_calls(IN_PLACE, 20)
def test_in_place(problem, seed):
    name, expected = IN_PLACE[problem.function], problem.call()
    random = rng(seed)
    array = laid_out(problem.arrays[name], random.choice(["C", "F", "permuted", "steps", "negative"]), random)
    if array.shape != expected[0].shape:
        return  # repeated to the result's shape, and so no place for it
    problem.arrays[name] = array
    got = problem.call(out=out_argument([array] + [None] * (len(expected) - 1)))
    assert got[0] is array
    same_results(got, expected)


@on_calls(["cumsum", "lerp", "quantize", "dynamic_quantize"], 20)
def test_results_have_the_order_of_their_input(problem, seed):
    """As NumPy's: where an input of the result's shape is dense, dimensions keep their order in memory."""
    source = problem.arrays.get("x", problem.arrays.get("a"))
    dense = laid_out(np.array(source), rng(seed).choice(["C", "F", "permuted"]), rng(seed))
    problem.arrays["x" if "x" in problem.arrays else "a"] = dense
    result = problem.call()[0]
    if result is not None and result.shape == dense.shape and dense.size > 0:
        like = np.empty_like(dense, dtype=result.dtype)
        longer = np.array(result.shape) > 1
        assert np.array_equal(np.array(result.strides)[longer], np.array(like.strides)[longer])


@on_calls(CALLS, 5)
def test_plan_info(problem, seed):
    """Names what would run, and leaves an output as it is."""
    outs = [None if result is None else np.zeros_like(result) for result in problem.call()]
    function = getattr(planck, problem.function)
    text = planck.plan_info(function, **problem.arrays, **problem.options, out=out_argument(outs))
    names = {"float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "int64": "s64"}
    floats = (
        problem.options.get("dtype")
        if problem.function == "dequantize"
        else next(problem.arrays[name] for name in ("x", "dy", "dh", "a") if name in problem.arrays).dtype
    )
    assert names[floats.name] == text.split()[1].split("/")[0] and "cpu/" in text
    assert ("Backward" in text) == problem.function.endswith("_backward")
    assert not any(out.any() for out in outs if out is not None)


def test_subclasses_of_arrays():
    class Own(np.ndarray):
        pass

    x = np.arange(6.0).reshape(2, 3)
    y = planck.cumsum(x.view(Own))
    assert type(y) is np.ndarray
    assert_same_bits(y, planck.cumsum(x))


@pytest.mark.parametrize("dtype", ["int32", "int64", "intc", "long", "longlong"])
def test_integers_keep_their_dtype_and_wrap(dtype):
    largest = np.iinfo(dtype).max
    y = planck.cumsum(np.array([largest, 1], dtype))
    assert y.dtype == dtype and y.tolist() == [largest, np.iinfo(dtype).min]
    assert not is_float(planck.cumprod(np.array([2, 3], dtype)).dtype)


def test_lists_and_numbers_are_arrays():
    assert planck.cumsum([1.0, 2.0]).tolist() == [1.0, 3.0]
    assert planck.cumsum([[1, 2], [3, 4]], axis=0).tolist() == [[1, 2], [4, 6]]
    assert planck.quantize(np.float32(1.0), 0.5).item() == 2
    assert planck.lerp(0.0, 4.0, 0.25).item() == 1.0


def test_numpys_bools_are_bools():
    assert planck.cumsum([1, 2], reverse=np.True_).tolist() == [3, 2]


def test_a_number_is_an_axis_of_one_element():
    assert planck.cumsum(np.float32(3)).shape == ()
    assert planck.cumsum(np.float32(3), 0) == 3
    assert planck.cumprod(torch.tensor(3.0), exclusive=True) == 1
    assert planck.cummax(np.array(2.0)) == (2, 0)
    assert planck.linear_recurrence(np.array(2.0), np.array(1.0), initial=np.array(5.0)) == 11


def test_lazily_negated_tensors_are_negated():
    x = torch.tensor([1 + 2j, 3 + 4j]).conj().imag
    assert x.is_neg()
    assert planck.cumsum(x).tolist() == [-2, -6]
