"""Every argument of a function given wrongly, one at a time; and what no message to its caller may speak of.

`wrong_calls` makes the calls: every array argument and output in every way that an array can be wrong, every other
argument with values of no sense. Some of them are right after all, for some function; what raises is held to the
caller's words.
"""

import inspect
import re

import numpy as np
import torch

# The C++ library's own words.
INTERNAL = re.compile(
    r"""descriptor | \w*Plan\b | \bkernels?\b | planck:: | C\+\+ | nanobind | incompatible\ function\ arguments
    | frame\ \# | null\ data | workspace | stream | granularity
    | \b(d_)?(input|output)\b | \w+_element\b | \b(a|b|weight|input)_shape\b | scan_axis | \bcarry
    | \b(f16|bf16|f32|f64|s8|u8|s32|s64)\b | Per(Tensor|Channel|Token|Group)
    | \b(Cumsum|Cumprod|Cummax|Cummin|LogCumsumExp|LinearRecurrence|Lerp|AddScaled)\b
    | \b(Symmetric|Asymmetric|Saturate|Divide|Reciprocal|First|Last)\b""",
    re.VERBOSE,
)
# Names of the library's arguments, which a message may have only if the function has them too.
LIBRARY = {"y", "dx", "da", "db", "d_weight", "dy", "dh", "h", "d_initial", "d_scale", "d_zero_point", "scale_out"}
LIBRARY |= {"zero_point_out", "indices", "weight"}
LIBRARY |= {"alpha", "axis", "dim", "q_min", "q_max", "quant_min", "quant_max", "row_sum", "initial", "index_dtype"}


def misaligned(array):
    memory = np.zeros(array.nbytes + 1, np.uint8)
    view = memory[1:].view(array.dtype).reshape(array.shape)
    view[...] = array
    return view


def readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


def strided(array, shape, strides):
    return np.lib.stride_tricks.as_strided(np.zeros(64, array.dtype), shape, strides)


# What an array can be instead of itself. NumPy's, for the functions that take NumPy's arrays.
ARRAYS = {
    "None": lambda x: None,
    "text": lambda x: "abc",
    "ragged": lambda x: [[1.0], [1.0, 2.0]],
    "int16": lambda x: x.astype(np.int16),
    "int64": lambda x: x.astype(np.int64),
    "int8": lambda x: x.astype(np.int8),
    "complex": lambda x: x.astype(np.complex64),
    "float64": lambda x: x.astype(np.float64),
    "NumPy scalar": lambda x: np.float64(2),
    "another shape": lambda x: np.ones((5, 7), x.dtype),
    "rank 9": lambda x: np.ones((1,) * 9, x.dtype),
    "rank 0": lambda x: np.ones((), x.dtype),
    "misaligned": misaligned,
    "masked": np.ma.masked_array,
    "huge": lambda x: np.broadcast_to(x.reshape(-1)[0], (2**30, 2**30 if x.itemsize < 8 else 2**29)),
    "far": lambda x: strided(x, x.shape, (2**62,) * x.ndim),
    "infinite": lambda x: (x / 0).astype(x.dtype) if x.dtype.kind == "f" else x,
    "zeros": np.zeros_like,
}
TENSORS = {
    "a meta tensor": lambda x: x.to("meta"),
    "a sparse tensor": lambda x: x.to_sparse(),
    "a quantised tensor": lambda x: torch.quantize_per_tensor(x.float(), 0.1, 0, torch.quint8),
    "a nested tensor": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "an mkldnn tensor": lambda x: x.float().to_mkldnn(),
}
# The same, where only PyTorch's tensors are taken.
ONLY_TENSORS = {
    "None": lambda x: None,
    "a list": lambda x: [1.0, 2.0],
    "an array": lambda x: x.numpy(),
    "int16": lambda x: x.to(torch.int16),
    "int64": lambda x: x.to(torch.int64),
    "int8": lambda x: x.to(torch.int8),
    "complex": lambda x: x.to(torch.complex64),
    "float64": lambda x: x.double(),
    "another shape": lambda x: torch.ones((5, 7), dtype=x.dtype),
    "rank 9": lambda x: torch.ones((1,) * 9, dtype=x.dtype),
    "rank 0": lambda x: torch.ones((), dtype=x.dtype),
    "infinite": lambda x: x / 0,
    "zeros": torch.zeros_like,
    "a jagged tensor": lambda x: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged),
    **{name: change for name, change in TENSORS.items() if name != "a meta tensor"},
}
OUTPUTS = {
    **{name: ARRAYS[name] for name in ("text", "int16", "int64", "complex", "float64", "another shape", "rank 9")},
    "misaligned": misaligned,
    "read-only": readonly,
    "repeated": lambda x: strided(x, x.shape, (0,) * x.ndim),
    "a number": lambda x: 1.0,
    "on meta": lambda x: torch.ones(x.shape, device="meta"),
}
VALUES = [None, "nonsense", -999, 999, 0, 2**70, -(2**70), 1.5, float("nan"), 1j, object(), "int16", "float64", "int7"]


def wrong_calls(function, good):
    """(what is wrong, arguments) of every mistake; `good` is a call that is right."""
    tensors = any(isinstance(value, torch.Tensor) for value in good.values())
    for name in inspect.signature(function).parameters:
        value = good.get(name)
        if isinstance(value, (np.ndarray, torch.Tensor)):
            changes = ONLY_TENSORS if tensors else ARRAYS
            for how, change in changes.items():
                with np.errstate(all="ignore"):
                    yield f"{name}: {how}", {**good, name: change(value)}
            if not tensors:
                for how, change in TENSORS.items():
                    yield f"{name}: {how}", {**good, name: change(torch.from_numpy(np.array(value)))}
                yield (
                    f"{name}: grad",
                    {**good, name: torch.ones(value.shape, dtype=torch.float64, requires_grad=True)},
                )
        elif name != "out":
            for wrong in VALUES:
                yield f"{name} = {wrong}", {**good, name: wrong}


def wrong_outputs(function, good):
    results = function(**good)
    many = isinstance(results, tuple)
    for at, result in enumerate(results if many else [results]):
        if result is None:
            continue
        for how, change in OUTPUTS.items():
            yield f"out[{at}]: {how}", change(result), at, len(results) if many else None
        for name, value in good.items():
            if isinstance(value, np.ndarray) and value.size > 1:
                memory = value.reshape(-1).view(np.uint8)
                size = min(result.nbytes, memory.nbytes) // result.itemsize
                over = memory[: size * result.itemsize].view(result.dtype)
                over = over.reshape(result.shape)[::-1] if size == result.size and result.ndim else over
                yield f"out[{at}]: over {name}", over, at, len(results) if many else None


def internal_words(function, message):
    """What in a message is not the caller's."""
    own = set(inspect.signature(function).parameters)
    found = [match.group() for match in INTERNAL.finditer(message)]
    return found + [name for name in LIBRARY - own if re.search(rf"\b{name}\b", message)]
