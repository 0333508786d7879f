"""Dequantise, forward and backward, against the formula in NumPy and in torch, for every code."""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, PRECISION, all_patterns, assert_same_bits, rng, to_numpy

CODES = {torch.int8: torch.arange(-128, 128, dtype=torch.int8), torch.uint8: torch.arange(256).to(torch.uint8)}
PARAMETERS = [(1.0, 0), (0.1, 3), (1.0 / 3.0, -128), (7.0e-7, 200), (250.0, 1_048_576), (1.5e-38, -1_048_576)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_every_code(codes, dtype, parameters):
    scale, zero_point = parameters
    q = CODES[codes].repeat(3)
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    # q - zp is exact in f32, so one product and, for 16 bits, one more rounding is all there is.
    expected = (torch.tensor(scale, dtype=compute) * (q.to(compute) - zero_point)).to(dtype)
    got = planck.dequantize(q, scale, zero_point, dtype)
    assert_same_bits(got, expected)


@pytest.mark.parametrize("codes", [np.int8, np.uint8])
def test_numpy(codes):
    q = rng(20).integers(np.iinfo(codes).min, np.iinfo(codes).max, (300, 7), codes, endpoint=True)
    expected = np.float32(0.3) * (q.astype(np.float32) - np.float32(9))
    assert_same_bits(planck.dequantize(q, 0.3, 9, np.float32), expected)
    assert_same_bits(planck.dequantize(q.T[::-1], 0.3, 9, np.float32), np.ascontiguousarray(expected.T[::-1]))
    assert_same_bits(planck.dequantize(q, 0.3, 9, np.float16), expected.astype(np.float16))
    as_bf16 = planck.dequantize(q, 0.3, 9, np.uint16)
    assert np.array_equal(as_bf16, to_numpy(torch.from_numpy(expected).to(torch.bfloat16)))


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")  # deprecated, and still torch's own dequantise
@pytest.mark.parametrize("codes", [torch.qint8, torch.quint8])
def test_torch_quantized_tensors(codes):
    """torch may compute scale*q - scale*zp in one fused step, so it agrees within the rounding of the parts."""
    x = torch.from_numpy((rng(21).standard_normal(10_000) * 9).astype(np.float32))
    quantized = torch.quantize_per_tensor(x, 0.1, 7, codes)
    got = planck.dequantize(quantized.int_repr(), 0.1, 7, torch.float32)
    bound = 2.0**-23 * 0.1 * (quantized.int_repr().to(torch.float64).abs() + 7)
    assert torch.all((got.to(torch.float64) - quantized.dequantize().to(torch.float64)).abs() <= bound)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scale", [1.0, 0.1, 1.0e-30, 3.0e30])
def test_backward_is_autograd(dtype, scale):
    if PRECISION[dtype][0] <= 11:
        dy = all_patterns(dtype)
    else:
        dy = torch.from_numpy(rng(22).standard_normal(100_000)).to(dtype)
    compute = torch.float64 if dtype == torch.float64 else torch.float32
    q = torch.zeros(dy.shape, dtype=compute, requires_grad=True)
    (torch.tensor(scale, dtype=compute) * (q - 5)).backward(dy.to(compute))
    for codes in (planck.S8, planck.U8):
        assert_same_bits(planck.dequantize_backward(dy, scale, codes), q.grad.to(dtype))
