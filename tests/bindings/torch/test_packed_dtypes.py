"""Dtypes whose elements are not bytes one for one (int4, uint1, float4_e2m1fn_x2, bits…) are refused wherever a tensor goes in."""

import planck
import planck.torch as pt
import pytest
import torch

# Not all are in all versions of PyTorch.
NAMES = [
    *(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8)),
    *("bits8", "bits16", "bits1x8", "bits2x4", "bits4x2"),
    *(
        "float4_e2m1fn_x2",
        "float8_e8m0fnu",
        "bool",
        "int16",
        "uint16",
        "uint32",
        "uint64",
    ),
]
DTYPES = [getattr(torch, name) for name in NAMES if hasattr(torch, name)]
EACH_DTYPE = pytest.mark.parametrize("dtype", DTYPES, ids=str)
X = torch.ones(2, 4)
REFUSED = (NotImplementedError, TypeError, ValueError)


def packed(dtype, *shape):
    return torch.empty(shape, dtype=dtype)


def test_there_are_such_dtypes():
    assert torch.uint1 in DTYPES and torch.bits8 in DTYPES and torch.int16 in DTYPES


@EACH_DTYPE
@pytest.mark.parametrize(
    "call",
    [
        lambda t: planck.cumsum(t),
        lambda t: planck.cumsum(X, out=t),
        lambda t: planck.dequantize(t, 0.5),
        lambda t: planck.lerp(X, t, 0.5),
        lambda t: planck.quantize(X, 0.5, out=t),
        lambda t: pt.cumsum(t, 0),
        lambda t: pt.cummax(t, 0),
        lambda t: pt.dequantize(t, 0.5),
        lambda t: pt.quantize(t, 0.5),
        lambda t: pt.add_scaled(t, X, 0.5),
        lambda t: torch.ops.planck.cumsum(t, None, 0, False, False),
    ],
    ids=range(11),
)
def test_as_an_array(call, dtype):
    """By its own name: not what it happens to look like."""
    with pytest.raises(REFUSED, match=rf"has dtype {dtype}(; it can be|, but must have) "):
        call(packed(dtype, 2, 4))


@EACH_DTYPE
@pytest.mark.parametrize("function", [planck.quantize, pt.quantize, pt.fake_quantize], ids=lambda f: f.__module__)
def test_as_a_scale(function, dtype):
    with pytest.raises(REFUSED, match=rf"scale has dtype {dtype}; it can be float16"):
        function(X, packed(dtype))


@EACH_DTYPE
@pytest.mark.parametrize("function", [planck.quantize, pt.quantize, pt.fake_quantize], ids=lambda f: f.__module__)
def test_as_a_zero_point(function, dtype):
    if dtype in (torch.int16, torch.uint16, torch.uint32, torch.uint64):
        zeros = torch.zeros((), dtype=torch.int64).to(dtype)
        assert torch.equal(function(X, 0.5, zeros), function(X, 0.5))
        return
    with pytest.raises(REFUSED, match=rf"zero_point has dtype {dtype}; zero points are integers of 8 to 64 bits"):
        function(X, 0.5, packed(dtype))


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8])
def test_bytes_are_taken(dtype):
    codes = torch.tensor([1, 2, 3], dtype=dtype)
    assert pt.dequantize(codes, 0.5).tolist() == [0.5, 1.0, 1.5]
    out = torch.empty(2, 4, dtype=dtype)
    assert planck.quantize(X, 0.5, dtype=dtype, out=out) is out and out.eq(2).all()
    assert torch.equal(planck.quantize(X, 0.5, torch.ones((), dtype=dtype)), planck.quantize(X, 0.5, 1))
