"""What the oracle tests share: bit comparison, units in the last place, and random numbers with a fixed seed."""

import numpy as np
import torch

PRECISION = {torch.float16: (11, -14), torch.bfloat16: (8, -126), torch.float32: (24, -126), torch.float64: (53, -1022)}
DTYPES = list(PRECISION)
_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def rng(seed):
    return np.random.Generator(np.random.PCG64(seed))


def to_numpy(x):
    """A torch tensor as NumPy, bf16 as its uint16 patterns."""
    if not isinstance(x, torch.Tensor):
        return np.asarray(x)
    x = x.detach().contiguous()
    return x.view(torch.int16).numpy().view(np.uint16) if x.dtype == torch.bfloat16 else x.numpy()


def _patterns(x):
    """(bits, is NaN) of a float array or tensor."""
    nan = torch.isnan(x).numpy() if isinstance(x, torch.Tensor) else np.isnan(x)
    array = to_numpy(x)
    return array.view(_BITS[array.itemsize]), nan


def assert_same_bits(got, expected):
    """Equal bit for bit, except that a NaN is a NaN; says where and what if not."""
    got_bits, got_nan = _patterns(got)
    expected_bits, expected_nan = _patterns(expected)
    assert got_bits.dtype == expected_bits.dtype and got_bits.shape == expected_bits.shape
    wrong = (got_nan != expected_nan) | (~got_nan & (got_bits != expected_bits))
    if wrong.any():
        first = np.unravel_index(np.argmax(wrong), wrong.shape)
        raise AssertionError(f"{np.count_nonzero(wrong)} of {wrong.size} differ; first at {first}: "
                             f"got {got[first]} ({got_bits[first]:#x}), expected {expected[first]} "
                             f"({expected_bits[first]:#x})")


def ulp(x, dtype):
    """The distance between neighbouring numbers of a dtype around x (an f64 array)."""
    digits, lowest = PRECISION[dtype]
    x = np.abs(np.asarray(x, np.float64))
    exponent = np.where(x == 0, lowest, np.frexp(x)[1])
    return np.ldexp(1.0, np.maximum(exponent - 1, lowest) - (digits - 1))


def all_patterns(dtype):
    """Every value of a 16-bit dtype, NaNs and infinities included."""
    return torch.from_numpy(np.arange(65536, dtype=np.uint16).view(np.int16)).view(dtype)
