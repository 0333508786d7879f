"""f16 and bf16 to and from f32, seen through AddScaled: y = narrow(widen(a) + w * widen(b)) with w in f32.

With a = 0 every pattern of b is widened and w * b narrowed. Powers of two bring each pattern to another place of
the range, subnormals into the normal one and back, so a wrong widening cannot hide behind a wrong narrowing;
weights just off them give exact ties. The expected bits are torch's own conversions around the same product.
"""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import all_patterns, assert_same_bits, rng

SIXTEEN = [torch.float16, torch.bfloat16]


def product(b, weight):
    return planck.binary_param(planck.ADD_SCALED, torch.zeros_like(b), b, weight)


def expected_product(b, weight):
    return (0.0 + b.to(torch.float32) * torch.tensor(weight, dtype=torch.float32)).to(b.dtype)


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_every_pattern_survives(dtype):
    x = all_patterns(dtype)
    finite = x[torch.isfinite(x)]
    assert_same_bits(planck.binary_param(planck.LERP, finite, finite, 0.0), finite + 0.0)
    # A gradient that is handed through keeps also -0, infinities and NaN.
    da, _, _ = planck.binary_param_backward(planck.ADD_SCALED, x, x, x, 1.0)
    assert_same_bits(da, x)


@pytest.mark.parametrize("dtype", SIXTEEN)
@pytest.mark.parametrize("exponent", [-130, -40, -24, -14, -10, -1, 0, 1, 9, 10, 14, 24, 40, 110])
def test_every_pattern_widened(dtype, exponent):
    x = all_patterns(dtype)
    weight = 2.0**exponent
    assert_same_bits(product(x, weight), expected_product(x, weight))


@pytest.mark.parametrize("dtype", SIXTEEN)
@pytest.mark.parametrize("step", [8, 9, 11, 12])
def test_ties(dtype, step):
    x = all_patterns(dtype)
    for weight in (1.0 + 2.0**-step, 1.0 - 2.0**-step, 2.0**-12 * (1.0 + 2.0**-step)):
        assert_same_bits(product(x, weight), expected_product(x, weight))


@pytest.mark.parametrize("dtype", SIXTEEN)
def test_a_million_f32_values_narrowed(dtype):
    random = rng(30)
    x = all_patterns(dtype)
    distinct = 0
    for _ in range(32):
        weight = float(np.float32(random.uniform(1, 2) * 2.0 ** random.integers(-12, 12)))
        assert_same_bits(product(x, weight), expected_product(x, weight))
        distinct += torch.unique(x.to(torch.float32).nan_to_num() * weight).numel()
    assert distinct > 1_000_000
