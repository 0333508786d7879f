"""Codes of float8_e4m3fn and float8_e5m2 against ml_dtypes' and PyTorch's conversions, through the C ABI."""

import ml_dtypes
import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import all_patterns, rng

KINDS = {
    torch.float8_e4m3fn: (ml_dtypes.float8_e4m3fn, 448, 0x7F),
    torch.float8_e5m2: (ml_dtypes.float8_e5m2, 57344, 0x7E),
}
kinds = pytest.mark.parametrize("kind", KINDS)


def patterns(codes):
    return codes.view(torch.uint8).numpy()


def converted(x, kind, saturate):
    """Scale 1 divides exactly: what is left is the conversion."""
    most = KINDS[kind][1]
    return patterns(planck.quantize(x, 1.0, 0, -most, most, kind, saturate=saturate))


def rounded(values, kind):
    """ml_dtypes' codes of NumPy values; NaN as planck has it, without the sign."""
    dtype, _, nan = KINDS[kind]
    with np.errstate(invalid="ignore"):
        return np.where(np.isnan(values), np.uint8(nan), values.astype(dtype).view(np.uint8))


def sampled_f32(seed):
    """2^24 patterns, every other one of the exponents that codes have."""
    bits = rng(seed).integers(0, 2**32, 2**24, np.uint32)
    near = (bits[::2] & np.uint32(0x807FFFFF)) | (rng(seed + 1).integers(100, 147, 2**23, np.uint32) << np.uint32(23))
    bits[::2] = near
    return bits.view(np.float32)


@kinds
@pytest.mark.parametrize("source", [torch.float16, torch.bfloat16])
def test_every_sixteen_bit_pattern_is_that_of_ml_dtypes(source, kind):
    x = all_patterns(source)
    values = x.to(torch.float32).numpy()
    np.testing.assert_array_equal(converted(x, kind, False), rounded(values, kind))


@kinds
def test_sampled_f32_patterns_are_those_of_ml_dtypes_and_torch(kind):
    values = sampled_f32(60)
    x = torch.from_numpy(values)
    got = converted(x, kind, False)
    np.testing.assert_array_equal(got, rounded(values, kind))
    # PyTorch saturates e4m3 and not e5m2.
    saturates = patterns(torch.tensor([1e6]).to(kind))[0] == 0x7E
    if saturates:
        got = converted(x, kind, True)
    number = ~np.isnan(values)
    np.testing.assert_array_equal(got[number], patterns(x.to(kind))[number])


@kinds
def test_f64_is_rounded_once(kind):
    """Exact: a code's neighbours are as far away on either side, or further."""
    dtype, most, _ = KINDS[kind]
    codes = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    codes = np.unique(codes[np.isfinite(codes)])
    middles = (codes[1:] + codes[:-1]) / 2
    x = np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf),
                        rng(62).uniform(-most, most, 100_000), 10.0 ** rng(63).uniform(-8, np.log10(most), 100_000)])
    restored = converted(torch.from_numpy(x), kind, True).view(dtype).astype(np.float64)
    at = np.searchsorted(codes, restored)
    below, above = codes[np.maximum(at - 1, 0)], codes[np.minimum(at + 1, codes.size - 1)]
    error = np.abs(x - restored)
    assert np.all(error <= np.abs(x - below) + (at == 0)) and np.all(error <= np.abs(x - above) + (at == codes.size - 1))
    tied = (error == np.abs(x - below)) & (at > 0) | (error == np.abs(x - above)) & (at < codes.size - 1)
    assert tied.sum() == middles.size
    assert np.all(restored[tied].astype(dtype).view(np.uint8) % 2 == 0)


@kinds
def test_quantise_divides_limits_and_rounds(kind):
    _, most, _ = KINDS[kind]
    x = (rng(64).standard_normal((96, 257)) * most).astype(np.float32)
    x[0, :4] = [np.inf, -np.inf, np.nan, -0.0]
    scale = (10.0 ** rng(65).uniform(-3, 3, 257)).astype(np.float32)
    for s, granularity in ((np.float32(0.37), planck.PER_TENSOR), (scale, planck.per_channel(1))):
        given = float(s) if s.ndim == 0 else torch.from_numpy(s)
        for limit in (most, 16):
            got = planck.quantize(torch.from_numpy(x), given, 0, -limit, limit, kind, granularity=granularity)
            expected = rounded(np.clip(x / s, -limit, limit), kind)
            np.testing.assert_array_equal(patterns(got), expected)


@kinds
@pytest.mark.parametrize("target", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_every_code_dequantised(target, kind):
    q = torch.arange(256, dtype=torch.uint8).view(kind)
    compute = torch.float64 if target == torch.float64 else torch.float32
    for scale in (1.0, 0.37, 3.0e4):
        expected = (q.to(compute) * torch.tensor(scale, dtype=compute)).to(target)
        got = planck.dequantize(q, scale, 0, target)
        assert torch.equal(got.isnan(), expected.isnan())
        number = ~expected.isnan()
        assert torch.equal(got[number], expected[number])
        assert torch.equal(torch.signbit(got[number]), torch.signbit(expected[number]))


@kinds
def test_gradients_are_inside_where_the_rounded_code_is(kind):
    dtype, most, _ = KINDS[kind]
    x = np.concatenate([np.linspace(-1.3 * most, 1.3 * most, 100_003).astype(np.float32),
                        np.array([np.inf, -np.inf, np.nan], np.float32)])
    dy = torch.from_numpy(rng(66).standard_normal(x.size).astype(np.float32))
    for limit in (16, 160):
        with np.errstate(invalid="ignore"):
            code = np.clip(x, -most, most).astype(dtype).astype(np.float32)
        inside = np.abs(code) <= limit
        element = planck.F8E4M3 if kind == torch.float8_e4m3fn else planck.F8E5M2
        dx = planck.quantize_backward(torch.from_numpy(x), dy, 1.0, 0, -limit, limit, element)
        np.testing.assert_array_equal(dx.numpy(), np.where(inside, dy.numpy(), np.float32(0)))
