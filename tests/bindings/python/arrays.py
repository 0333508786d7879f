"""What the tests of the Python package share: comparison of bits, layouts in memory, and objects that only speak DLPack."""

import ml_dtypes
import numpy as np
import torch
from hypothesis import settings
from hypothesis import strategies as st

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
INTEGERS = [np.dtype(np.int32), np.dtype(np.int64)]
LAYOUTS = ["C", "F", "permuted", "steps", "negative", "broadcast"]
_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


def search(examples):
    return settings(max_examples=examples, derandomize=True, deadline=None, database=None)


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def compute_of(dtype):
    """The compute type C of docs/numerics.md."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def is_float(dtype):
    return dtype in FLOATS


def shapes(min_rank=0, max_rank=4, largest=7):
    return st.lists(st.integers(0, largest), min_size=min_rank, max_size=max_rank).map(tuple)


def bits(array):
    """The elements' bit patterns, every NaN as the same one."""
    array = to_numpy(array)
    packed = np.array(array, order="C")
    if is_float(packed.dtype):
        packed[np.isnan(packed)] = np.nan
    return packed.view(_BITS[packed.itemsize])


def assert_same_bits(got, expected):
    """Equal dtypes, shapes and bits, except that a NaN is a NaN."""
    got, expected = to_numpy(got), to_numpy(expected)
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    wrong = bits(got) != bits(expected)
    assert not wrong.any(), f"{got[wrong][:5]} instead of {expected[wrong][:5]} at {np.argwhere(wrong)[:5].tolist()}"


def to_numpy(array):
    """A torch tensor or a NumPy array as the latter, without a copy."""
    if not isinstance(array, torch.Tensor):
        return array
    if array.dtype == torch.bfloat16:
        return array.view(torch.int16).numpy().view(BFLOAT16)
    return array.numpy()


def to_torch(array):
    """A tensor on the array's memory; torch has no negative strides and no read-only memory, those are copied."""
    if not array.flags.writeable or any(step < 0 for step in array.strides):
        array = np.array(array)
    if array.dtype == BFLOAT16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def laid_out(array, layout, random):
    """A view with the array's elements in memory of another order; "broadcast" repeats the first along some axes."""
    rank = array.ndim
    if layout == "C" or rank == 0:
        return array.copy()
    if layout == "broadcast":
        source = array
        for axis in range(rank):
            if array.shape[axis] > 0 and random.integers(2):
                source = source.take([0], axis)
        return np.broadcast_to(source, array.shape)
    if layout in ("F", "permuted"):
        order = list(range(rank))[::-1] if layout == "F" else random.permutation(rank).tolist()
        view = np.empty([array.shape[d] for d in order], array.dtype).transpose(np.argsort(order))
    else:
        step = [int(s) for s in random.integers(2, 4, rank)] if layout == "steps" else [-1] * rank
        wide = np.empty([n * abs(s) + 1 for n, s in zip(array.shape, step, strict=True)], array.dtype)
        slices = (
            slice(1, None, s) if s > 0 else slice(n - 1 if n else 0, None, s)
            for n, s in zip(array.shape, step, strict=True)
        )
        view = wide[tuple(slices)][tuple(slice(n) for n in array.shape)]
    view[...] = array
    assert view.shape == array.shape
    return view


class OldDlpack:
    """Memory that can be had through DLPack only, as before its version 1: without `max_version`."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self):
        return self.array.__dlpack__()

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class NewDlpack(OldDlpack):
    """The same with DLPack 1, whose capsules say whether memory is read-only."""

    def __dlpack__(self, *, max_version=None, **options):
        return self.array.__dlpack__(max_version=max_version, **options)
