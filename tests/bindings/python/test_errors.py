"""Every way to call a function wrongly: the exception's type and what its message says."""

import functools

import numpy as np
import planck
import pytest
import torch
from arrays import OldDlpack
from torch._subclasses.fake_tensor import FakeTensorMode

X = np.arange(12, dtype=np.float32).reshape(3, 4)
Q = X.astype(np.int8)
BUFFER = bytes(33)
HOLES = np.zeros(3, [("number", np.float32), ("letter", np.int8)])["number"]
MASKED = np.ma.masked_array([1.0, 2.0], [False, True])


class Elsewhere(OldDlpack):
    """What says that its memory is a CUDA device's."""

    def __dlpack_device__(self):
        return 2, 1


class Rocm(OldDlpack):
    def __dlpack_device__(self):
        return 10, 0


quantize, cumsum, cummax, dynamic = planck.quantize, planck.cumsum, planck.cummax, planck.dynamic_quantize

# name: (the call, the exception, a part of its message)
CASES = {
    "axis beyond the last": (lambda: cumsum(X, axis=2), ValueError, "axis = 2 is out of range for shape [3, 4]"),
    "axis before the first": (lambda: cumsum(X, axis=-3), ValueError, "axis = -3 is out of range"),
    "axis far away": (lambda: cumsum(X, axis=2**40), ValueError, "axis = 1099511627776 is out of range"),
    "axis None": (lambda: cumsum(X, axis=None), TypeError, "axis = None is not an integer"),
    "axis float": (lambda: cumsum(X, axis=1.0), TypeError, "axis = 1.0 is not an integer"),
    "axis of rank 0": (
        lambda: cumsum(np.float32(1), 1),
        ValueError,
        "axis = 1 is out of range for shape []: it goes from -1",
    ),
    "axis of a channel": (lambda: quantize(X, [1.0] * 3, axis=2), ValueError, "axis"),
    "rank 9": (lambda: cumsum(np.zeros((1,) * 9)), NotImplementedError, "rank 9; ranks 0 to 8"),
    "rank 9 of a tensor": (lambda: cumsum(torch.zeros((1,) * 9)), NotImplementedError, "rank 9; ranks 0 to 8"),
    "rank 9 of a blend": (lambda: planck.lerp(np.zeros((1,) * 9), 1.0, 0.5), NotImplementedError, "rank 9"),
    "int8 has no sums": (lambda: cumsum(Q), NotImplementedError, "x has dtype int8; it can be float16"),
    "integers have no logs": (lambda: planck.logcumsumexp(np.arange(3)), NotImplementedError, "x has dtype int64"),
    "quantize integers": (lambda: quantize(np.arange(3), 0.5), NotImplementedError, "x has dtype int64"),
    "dequantize floats": (lambda: planck.dequantize(X, 0.5), NotImplementedError, "q has dtype float32"),
    "codes of 32 bits": (lambda: quantize(X, 0.5, dtype="int32"), NotImplementedError, "dtype = int32 is none of int8"),
    "indices as floats": (
        lambda: cummax(X, index_dtype="float32"),
        NotImplementedError,
        "index_dtype = float32 is none",
    ),
    "no such dtype": (
        lambda: quantize(X, 0.5, dtype="int7"),
        ValueError,
        "dtype = int7 is no dtype known here; it can be int8, uint8, float8_e4m3fn or float8_e5m2",
    ),
    "no such scale_dtype": (lambda: dynamic(X, scale_dtype="f8e4"), ValueError, "scale_dtype = f8e4"),
    "scale_dtype of another": (lambda: dynamic(X, scale_dtype="float16"), NotImplementedError, "scale_dtype = float16"),
    "dtype None": (lambda: quantize(X, 0.5, dtype=None), ValueError, "dtype = None"),
    "no such scope": (
        lambda: quantize(X, 0.5, scope="row"),
        ValueError,
        "scope = 'row' is none of tensor, channel, token, group",
    ),
    "scope is no text": (lambda: quantize(X, 0.5, scope=1), ValueError, "scope = 1 is none of"),
    "no such mode": (lambda: dynamic(X, mode="affine"), ValueError, "mode = 'affine' is none of symmetric, asymmetric"),
    "no such nonfinite": (
        lambda: dynamic(X, nonfinite="no"),
        ValueError,
        "nonfinite = 'no' is none of saturate, error",
    ),
    "no such form": (
        lambda: quantize(X, 0.5, scale_form="x"),
        ValueError,
        "scale_form = 'x' is none of divide, reciprocal",
    ),
    "no such ties": (lambda: cummax(X, ties="any"), ValueError, "ties = 'any' is none of first, last"),
    "no such argument": (lambda: cumsum(X, dim=0), TypeError, "unexpected keyword argument 'dim'"),
    "options without names": (lambda: cumsum(X, 0, True), TypeError, "positional arguments"),
    "reverse is no bool": (lambda: cumsum(X, reverse="yes"), TypeError, "reverse"),
    "channel without axis": (lambda: quantize(X, 0.5, scope="channel"), ValueError, "'channel' needs an axis"),
    "group without size": (lambda: quantize(X, 0.5, scope="group"), ValueError, "'group' needs a group_size"),
    "group of none": (lambda: quantize(X, 0.5, group_size=0), ValueError, "group_size = 0"),
    "group size float": (lambda: quantize(X, 0.5, group_size=2.0), TypeError, "group_size = 2.0 is not an integer"),
    "size of a channel": (
        lambda: quantize(X, 0.5, scope="channel", axis=0, group_size=2),
        ValueError,
        "group_size is for",
    ),
    "axis of a tensor": (lambda: quantize(X, 0.5, scope="tensor", axis=0), ValueError, "axis is for"),
    "axis of tokens": (lambda: dynamic(X, axis=0), ValueError, "axis is for scope = 'channel' and 'group' only"),
    "token of rank 0": (lambda: dynamic(np.float32(1)), ValueError, "needs x to have at least"),
    "scale of another shape": (
        lambda: quantize(X, np.ones(4), axis=0),
        ValueError,
        "scale has shape [4], but must have [3]",
    ),
    "scale is one number": (lambda: quantize(X, 0.5, axis=0), ValueError, "scale is one number"),
    "zero point's shape": (lambda: quantize(X, 0.5, np.zeros(3, int)), ValueError, "zero_point has shape [3]"),
    "scale 0": (lambda: quantize(X, 0.0), ValueError, "scale = 0 must be finite and at least"),
    "scale below 0": (lambda: planck.fake_quantize(X, -1.0), ValueError, "scale = -1 must be finite"),
    "scale NaN": (lambda: quantize(X, float("nan")), ValueError, "scale = nan must be finite"),
    "a scale among others": (lambda: quantize(X, [1.0, 0.0, 1.0], axis=0), ValueError, "scale[1] = 0 must be finite"),
    "scale None": (lambda: quantize(X, None), TypeError, "scale is None"),
    "scale complex": (lambda: quantize(X, 1j), (TypeError, NotImplementedError), "scale"),
    "scale text": (lambda: quantize(X, "1"), TypeError, "scale is a str, neither"),
    "zero point beyond 2^20": (lambda: quantize(X, 0.5, 2**21), ValueError, "zero_point = 2097152 must lie in"),
    "zero point beyond int32": (lambda: quantize(X, 0.5, 2**40), ValueError, "zero_point = 1099511627776 must lie in"),
    "zero points beyond int32": (
        lambda: quantize(X, [1.0] * 3, [0, 2**40, 0], axis=0),
        ValueError,
        "int32 cannot hold",
    ),
    "zero point float": (lambda: quantize(X, 0.5, 1.0), TypeError, "zero_point = 1.0 is not an integer"),
    "zero points float": (lambda: quantize(X, [1.0] * 3, np.zeros(3), axis=0), TypeError, "zero points are integers"),
    "codes beyond int8": (lambda: quantize(X, 0.5, q_max=128), ValueError, "q_max = 128"),
    "codes upside down": (lambda: quantize(X, 0.5, q_min=5, q_max=4), ValueError, "q_min = 5"),
    "codes float": (lambda: quantize(X, 0.5, q_max=1.5), TypeError, "q_max = 1.5 is not an integer"),
    "infinity refused": (lambda: dynamic(X + np.float32(np.inf), nonfinite="error"), ValueError, "inf"),
    "sums without codes": (lambda: dynamic(X, qparams_only=True, row_sum=True), ValueError, "row_sum"),
    "x None": (lambda: cumsum(None), TypeError, "x is None, not an array"),
    "x ragged": (lambda: cumsum([[1.0], [1.0, 2.0]]), ValueError, "inhomogeneous"),
    "dy of another shape": (lambda: planck.cumprod_backward(X[0], X), ValueError, "shape"),
    "dy of another dtype": (lambda: planck.cumprod_backward(X.astype(float), X), ValueError, "x has dtype float32"),
    "maxima from nothing": (lambda: planck.cummax_backward(X), ValueError, "x and indices are both None"),
    "blends of two dtypes": (
        lambda: planck.lerp(X, X.astype(float), 0.5),
        ValueError,
        "b has dtype float64, and a float32",
    ),
    "blends that do not fit": (lambda: planck.lerp(X, X[:, :3], 0.5), ValueError, "does not broadcast"),
    "weight None": (lambda: planck.lerp(X, X, None), TypeError, "weight is None"),
    "alpha None": (lambda: planck.add_scaled(X, X, None), TypeError, "alpha is None"),
    "weight complex": (lambda: planck.lerp(X, X, 1j), (TypeError, NotImplementedError), "weight"),
    "b of another shape": (
        lambda: planck.linear_recurrence(X, X[:2]),
        ValueError,
        "b has shape [2, 4], which does not",
    ),
    "initial of another shape": (
        lambda: planck.linear_recurrence(X, X, initial=np.zeros(4, np.float32)),
        ValueError,
        "initial",
    ),
    "misaligned": (lambda: cumsum(np.frombuffer(BUFFER, np.float64, offset=1)), ValueError, "not aligned to 8 bytes"),
    "a field": (lambda: cumsum(HOLES), ValueError, "a stride of 5 bytes, which is no whole number of float32 elements"),
    "masked": (lambda: cumsum(MASKED), TypeError, "x is a masked array, whose mask would be lost"),
    "no threads": (lambda: planck.set_num_threads(0), ValueError, "0 is not at least 1"),
    "fewer threads": (lambda: planck.set_num_threads(-1), ValueError, "-1 is not at least 1"),
    "half a thread": (lambda: planck.set_num_threads(1.5), TypeError, "threads"),
    "no plan": (lambda: planck.plan_info(planck.get_num_threads), TypeError, "this function runs no plan"),
    "no function": (lambda: planck.plan_info(X), TypeError, "function"),
    "plan of a wrong call": (lambda: planck.plan_info(cumsum, X, axis=5), ValueError, "axis = 5 is out of range"),
    "plan with a wrong out": (
        lambda: planck.plan_info(cumsum, X, out=np.zeros(3)),
        ValueError,
        "out has dtype float64",
    ),
    "grad": (
        lambda: cumsum(torch.ones(3, requires_grad=True)),
        ValueError,
        "x requires grad, and this function records no gradient",
    ),
    "scale with grad": (lambda: quantize(X, torch.ones((), requires_grad=True)), ValueError, "scale requires grad"),
    "out with grad": (
        lambda: cumsum(torch.ones(3), out=torch.ones(3, requires_grad=True)),
        ValueError,
        "out requires grad",
    ),
    "lazily negated out": (
        lambda: cumsum(torch.ones(3), out=torch.imag(torch.ones(3, dtype=torch.complex64).conj())),
        ValueError,
        "out is read-only",
    ),
    "meta": (lambda: cumsum(torch.ones(3, device="meta")), NotImplementedError, "x is on device meta"),
    "out on meta": (
        lambda: cumsum(torch.ones(3), out=torch.ones(3, device="meta")),
        NotImplementedError,
        "out is on device meta",
    ),
    "sparse": (lambda: cumsum(torch.eye(3).to_sparse()), NotImplementedError, "x is sparse (torch.sparse_coo): call"),
    "quantised by PyTorch": (
        lambda: cumsum(torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8)),
        NotImplementedError,
        "x is quantised by PyTorch (torch.quint8): call dequantize() on it first",
    ),
    "nested": (
        lambda: cumsum(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])),
        NotImplementedError,
        "x is a nested tensor: call this function for each part",
    ),
    "nested and jagged": (
        lambda: cumsum(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)),
        NotImplementedError,
        "x is a nested tensor: call this function for each part",
    ),
    "of oneDNN": (
        lambda: cumsum(torch.ones(3).to_mkldnn()),
        NotImplementedError,
        "x has oneDNN's layout (torch._mkldnn): call to_dense() on it first",
    ),
    "zero points quantised by PyTorch": (
        lambda: quantize(X, [1.0] * 3, torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8), axis=0),
        NotImplementedError,
        "zero_point is quantised by PyTorch (torch.qint8)",
    ),
    "a CUDA device": (
        lambda: cumsum(Elsewhere(X)),
        NotImplementedError,
        # In a package with CUDA: of arrays there only PyTorch's are known.
        "x is on device cuda:1",
    ),
    "scale on a CUDA device": (lambda: quantize(X, Elsewhere(X[0])), NotImplementedError, "scale is on device cuda:1"),
    "another device": (
        lambda: cumsum(Rocm(X)),
        NotImplementedError,
        "x is on device 10; the Python package runs on the CPU",
    ),
    "a tensor's dtype": (
        lambda: cumsum(torch.ones(3, dtype=torch.int16)),
        NotImplementedError,
        "x has dtype torch.int16",
    ),
}


# PyTorch says of some of its own kinds of tensors that they are old, or new.
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", CASES)
def test_error(name):
    call, exception, message = CASES[name]
    with pytest.raises(exception) as caught:
        call()
    assert message in str(caught.value)
    assert "C++" not in str(caught.value) and "frame #" not in str(caught.value)


@pytest.mark.parametrize(
    "dtype",
    [
        "complex64",
        "bool",
        "longdouble",
        "int16",
        "uint32",
        ">f4",
        ">i8",
        "datetime64[s]",
        "object",
        "S3",
        "float8_e4m3fn",
        "int4",
    ],
)
@pytest.mark.parametrize(
    "function", [cumsum, functools.partial(quantize, scale=0.5), functools.partial(planck.lerp, b=X, weight=X)]
)
def test_dtypes_that_there_are_not(function, dtype):
    with pytest.raises(NotImplementedError) as caught:
        function(np.zeros(4, dtype))
    assert f"has dtype {np.dtype(dtype)}; it can be float16, bfloat16" in str(caught.value)


def test_fake_tensors_are_refused():
    """What torch.compile traces with has no memory; the message must name the functions that can be traced."""
    with FakeTensorMode():
        fake = torch.ones(3)
    with pytest.raises((TypeError, NotImplementedError, ValueError)) as caught:
        cumsum(fake)
    assert "x is a FakeTensor" in str(caught.value)


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.functionalize])
def test_function_transforms_are_refused(transform):
    with pytest.raises((TypeError, NotImplementedError, ValueError)) as caught:
        transform(cumsum)(torch.ones(3, 4))
    assert "frame #" not in str(caught.value) and "null data" not in str(caught.value)


def test_grad_is_allowed_where_none_is_recorded():
    x = torch.arange(3.0, requires_grad=True)
    with torch.no_grad():
        y = cumsum(x)
        assert cumsum(torch.ones(3), out=x) is x
    assert y.tolist() == [0.0, 1.0, 3.0] and not y.requires_grad
    assert x.tolist() == [1.0, 2.0, 3.0] and x.requires_grad
    assert cumsum(x.detach()).tolist() == [1.0, 3.0, 6.0]


def test_other_libraries_settings_do_not_matter():
    """Tensors on the CPU give results there, whatever the default device for new ones."""
    x = torch.from_numpy(X)
    with torch.device("meta"):
        found = dynamic(x)
    assert found.q.device.type == found.scale.device.type == "cpu"
    with np.errstate(all="raise"):
        assert cumsum(np.array([3e38, 3e38], np.float32))[1] == np.inf


class Interrupting:
    def __index__(self):
        raise KeyboardInterrupt


def test_other_errors_of_conversions_stay():
    with pytest.raises(KeyboardInterrupt):
        planck.cumsum(np.ones(3), Interrupting())


class ExportedAsCopy:
    """What is written to its export would be lost."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, *, max_version=None, **_):
        return self.array.__dlpack__(max_version=(1, 0), copy=True)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_outputs_that_are_exported_as_copies():
    assert planck.cumsum(ExportedAsCopy(np.ones(3))).tolist() == [1, 2, 3]
    with pytest.raises(ValueError, match="out is read-only"):
        planck.cumsum(np.ones(3), out=ExportedAsCopy(np.zeros(3)))


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: planck.quantize(np.ones(3), 10**400), ValueError, "scale is out of range"),
        (lambda: planck.quantize(np.ones(3), 0.1, q_min=-(10**30)), ValueError, "q_min is out of range"),
        (lambda: planck.quantize(np.ones(3), np.complex64(1)), TypeError, "is not a real number"),
        (lambda: planck.cumsum("abc"), TypeError, "x is a str, neither an array nor numbers"),
        (lambda: planck.cumsum(object()), TypeError, "x is a object, neither an array nor numbers"),
    ],
)
def test_numbers_and_texts(call, error, text):
    with pytest.raises(error, match=text):
        call()
