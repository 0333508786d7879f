"""Tensors that say that they lie on a CUDA device go to the CUDA library, on PyTorch's stream, and come back with the bits of
the CPU. The library is the one of testing/cuda_on_cpu, whose device is the CPU; PyTorch is torch_stand_in.py."""

import numpy as np
import planck
import pytest
import torch_stand_in
from torch_stand_in import Tensor

RNG = np.random.Generator(np.random.PCG64(5))
FLOATS = [np.float16, np.float32, np.float64]


def some(dtype, *shape):
    return RNG.standard_normal(shape).astype(dtype)


def scales(x, *shape):
    return (np.abs(some(np.float32, *shape)) + 0.1).astype(np.float64 if x.dtype == np.float64 else np.float32)


# What each function is called with; `on` puts an array onto the device, or leaves it.
CALLS = {
    "cumsum": lambda on, x, y: planck.cumsum(on(x), 0),
    "cumsum_backward": lambda on, x, y: planck.cumsum_backward(on(x), reverse=True),
    "cumprod": lambda on, x, y: planck.cumprod(on(x), exclusive=True),
    "cumprod_backward": lambda on, x, y: planck.cumprod_backward(on(y), on(x), 0),
    "logcumsumexp": lambda on, x, y: planck.logcumsumexp(on(x)),
    "logcumsumexp_backward": lambda on, x, y: planck.logcumsumexp_backward(on(y), on(x), on(planck.logcumsumexp(x))),
    "cummax": lambda on, x, y: planck.cummax(on(x), ties="last"),
    "cummax_backward": lambda on, x, y: planck.cummax_backward(on(y), on(x)),
    "cummin": lambda on, x, y: planck.cummin(on(x), 0, index_dtype="int32"),
    "cummin_backward": lambda on, x, y: planck.cummin_backward(on(y), indices=on(planck.cummin(x).indices)),
    "linear_recurrence": lambda on, x, y: planck.linear_recurrence(on(x), on(y), initial=on(y[:, 0].copy())),
    "linear_recurrence_backward": lambda on, x, y: planck.linear_recurrence_backward(
        on(y), on(x), on(planck.linear_recurrence(x, y))
    ),
    "quantize": lambda on, x, y: planck.quantize(on(x), 0.05, 3),
    "quantize_backward": lambda on, x, y: planck.quantize_backward(on(y), on(x), 0.05, q_max=20),
    "dequantize": lambda on, x, y: planck.dequantize(on(planck.quantize(x, 0.05)), 0.05, dtype="float32"),
    "dequantize_backward": lambda on, x, y: planck.dequantize_backward(on(y), 0.25),
    "fake_quantize": lambda on, x, y: planck.fake_quantize(on(x), 0.05, q_min=-8, q_max=7),
    "fake_quantize_backward": lambda on, x, y: planck.fake_quantize_backward(on(y), on(x), 0.05, q_min=-8, q_max=7),
    "fake_quantize_learnable_backward": lambda on, x, y: planck.fake_quantize_learnable_backward(
        on(y), on(x), on(np.full((), 0.05, scales(x).dtype)), on(np.zeros((), np.int32)), q_min=-8, q_max=7
    ),
    "dynamic_quantize": lambda on, x, y: planck.dynamic_quantize(on(x), mode="asymmetric", row_sum=True),
    "lerp": lambda on, x, y: planck.lerp(on(x), on(y), 0.25),
    "lerp_backward": lambda on, x, y: planck.lerp_backward(on(y), on(x), on(y[0]), on(x[:1, :1])),
    "add_scaled": lambda on, x, y: planck.add_scaled(on(x), on(y[:, :1]), 0.5),
    "add_scaled_backward": lambda on, x, y: planck.add_scaled_backward(on(y), on(x), on(y[0]), 0.5),
}


def test_every_function_is_called():
    functions = {name for name in planck.__all__ if name[0].islower() and callable(getattr(planck, name))}
    assert functions - set(CALLS) == {"get_cmake_dir", "get_include", "get_num_threads", "plan_info", "set_num_threads"}


def parts(result):
    """Arrays of a result, and None for what it leaves out."""
    results = result if isinstance(result, tuple) else (result,)
    return [part.array if isinstance(part, Tensor) else part for part in results], results


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", CALLS)
def test_the_bits_of_the_cpu_on_the_current_stream(name, dtype, last_stream):
    x, y = some(dtype, 7, 300), some(dtype, 7, 300)
    torch_stand_in.cuda.stream += 0x100  # plans are kept, streams are not
    got, tensors = parts(CALLS[name](Tensor, x, y))
    assert last_stream() == torch_stand_in.cuda.stream
    expected, _ = parts(CALLS[name](lambda array: array, x, y))
    assert len(got) == len(expected)
    for tensor, one, other in zip(tensors, got, expected, strict=True):
        if other is None:
            assert one is None
            continue
        assert isinstance(tensor, Tensor) and tensor.device == "cuda:0"
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        assert np.ascontiguousarray(one).tobytes() == np.ascontiguousarray(other).tobytes()


@pytest.mark.parametrize("scope", ["channel", "token", "group"])
def test_scales_and_zero_points_on_the_device(scope):
    x = some(np.float32, 6, 64)
    axis = 1 if scope == "channel" else None
    group_size = 16 if scope == "group" else None
    shape = {"channel": (64,), "token": (6,), "group": (6, 4)}[scope]
    # int64 zero points are narrowed on the device.
    scale, zero_point = scales(x, *shape), RNG.integers(-5, 5, shape)
    wanted = {"scope": scope, "axis": axis, "group_size": group_size}
    got = planck.quantize(Tensor(x), Tensor(scale), Tensor(zero_point), **wanted)
    assert (got.array == planck.quantize(x, scale, zero_point, **wanted)).all()


def test_views_and_outputs_of_the_caller():
    x = some(np.float32, 40, 50)
    out = Tensor(np.zeros((50, 20), np.float32))
    assert planck.cumsum(Tensor(x[::2].T), out=out) is out
    assert out.version == 1
    assert out.array.tobytes() == planck.cumsum(np.ascontiguousarray(x[::2].T)).tobytes()


def test_workspace_comes_from_the_device():
    x = some(np.float32, 1, 300_000)
    torch_stand_in.allocated.clear()
    got = planck.cumsum(Tensor(x))
    output, workspace = sorted(torch_stand_in.allocated, reverse=True)
    assert output == x.nbytes and 0 < workspace < x.nbytes
    assert got.array.tobytes() == planck.cumsum(x).tobytes()


def test_plans_name_the_device():
    assert "sm80" in planck.plan_info(planck.cumsum, Tensor(some(np.float32, 4, 4)))
    assert "sm80" not in planck.plan_info(planck.cumsum, some(np.float32, 4, 4))


class OfAnotherLibrary:
    """An array on the device that is not PyTorch's."""

    def __init__(self, array):
        self.tensor = Tensor(array)
        self.__dlpack__, self.__dlpack_device__ = self.tensor.__dlpack__, self.tensor.__dlpack_device__


X = some(np.float32, 4, 8)
ERRORS = {
    "another array on the CPU": (
        lambda: planck.lerp(Tensor(X), X, 0.5),
        ValueError,
        "b is on the CPU, and a on cuda:0",
    ),
    "the output on the CPU": (lambda: planck.cumsum(Tensor(X), out=X.copy()), ValueError, "out is on the CPU"),
    "scales on the CPU": (
        lambda: planck.quantize(Tensor(X), scales(X, 8), axis=1),
        ValueError,
        "scale is on the CPU, and x on cuda:0",
    ),
    "two devices": (lambda: planck.lerp(Tensor(X), Tensor(X, 1), 0.5), ValueError, "b is on cuda:1, and a on cuda:0"),
    "not the current device": (
        lambda: planck.cumsum(Tensor(X, 1)),
        ValueError,
        "the arrays are on cuda:1, but the current device is cuda:0: call under torch.cuda.device()",
    ),
    "another library's array": (
        lambda: planck.cumsum(OfAnotherLibrary(X)),
        NotImplementedError,
        "of arrays on CUDA devices only PyTorch's tensors are known here",
    ),
    "what a run would wait for": (
        lambda: planck.dynamic_quantize(Tensor(X), nonfinite="error"),
        NotImplementedError,
        "nonfinite",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name):
    call, kind, message = ERRORS[name]
    with pytest.raises(kind, match=message.replace("(", r"\(").replace(")", r"\)")):
        call()


def test_the_cpu_still_works():
    assert (planck.cumsum(np.ones(3, np.float32)) == [1, 2, 3]).all()
