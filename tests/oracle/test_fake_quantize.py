"""Fake-quantise against PyTorch (reciprocal form), NumPy (divide form) and exact fractions."""

from fractions import Fraction

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, all_patterns, assert_same_bits, rng

COUNT = 16_000_000  # of which at least 10^7 are in the domain that torch defines
PARAMETERS = [(0.1, 0, -128, 127), (0.3, 10, 0, 255), (1.0 / 3.0, -3, -8, 7), (7.25e-5, 128, 0, 255),
              (1.0e-20, 0, -128, 127), (37.7, -128, -128, 127)]
FORMS = [planck.DIVIDE, planck.RECIPROCAL]


def inputs(scale, seed, count):
    """f32 numbers around the code range, over all magnitudes, and on and beside every half step."""
    random = rng(seed)
    near = (random.standard_normal(count // 2) * (150.0 * scale)).astype(np.float32)
    half_steps = ((np.arange(-600, 600) + 0.5).astype(np.float32) * np.float32(scale)).astype(np.float32)
    half_steps = np.concatenate(
        [half_steps, np.nextafter(half_steps, np.float32(np.inf)), np.nextafter(half_steps, np.float32(-np.inf))])
    wide = random.integers(0, 2**32, count - near.size - half_steps.size, np.uint32).view(np.float32)
    # torch casts x/scale to int64 before it clamps, which is undefined from 2^63 on and for NaN and infinities;
    # below 2^62 the two definitions agree. planck saturates there and keeps NaN: test_special_values.
    wide = wide[np.abs(wide) < np.float32(min(scale * 2.0**62, 3.0e38))]
    return np.concatenate([near, half_steps, wide, np.array([0.0, -0.0], np.float32)])


def formula(x, scale, zero_point, q_min, q_max, form):
    """docs/ops/fake_quantize.md in NumPy, in the dtype of x: f32 or f64."""
    c = x.dtype.type
    with np.errstate(all="ignore"):
        steps = x / c(scale) if form == planck.DIVIDE else x * (c(1) / c(scale))
        r = np.rint(steps)
        y = c(scale) * np.clip(r, c(q_min - zero_point), c(q_max - zero_point)) + c(0)
        inside = (c(q_min - zero_point) <= r) & (r <= c(q_max - zero_point))
    return np.where(np.isnan(x), x, y).astype(x.dtype), inside


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_reciprocal_form_is_torch_bit_for_bit(parameters):
    scale, zero_point, q_min, q_max = parameters
    x = torch.from_numpy(inputs(scale, 1, COUNT))
    assert x.numel() >= 10_000_000
    y = planck.fake_quantize(x, scale, zero_point, q_min, q_max, planck.RECIPROCAL)
    assert_same_bits(y, torch.fake_quantize_per_tensor_affine(x, scale, zero_point, q_min, q_max))


@pytest.mark.parametrize("parameters", PARAMETERS)
def test_backward_is_autograd(parameters):
    scale, zero_point, q_min, q_max = parameters
    x = torch.from_numpy(inputs(scale, 2, 1_000_000)).requires_grad_()
    dy = torch.from_numpy(rng(3).standard_normal(x.numel()).astype(np.float32))
    torch.fake_quantize_per_tensor_affine(x, scale, zero_point, q_min, q_max).backward(dy)
    dx = planck.fake_quantize_backward(x.detach(), dy, scale, zero_point, q_min, q_max, planck.RECIPROCAL)
    # torch multiplies by the mask, so a negative dy outside becomes -0; planck's zero is +0.
    assert_same_bits(dx, x.grad + 0.0)
    assert 0 < torch.count_nonzero(dx) < dx.numel()


@pytest.mark.parametrize("parameters", PARAMETERS)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_formula(parameters, form, dtype):
    random = rng(4)
    x = np.concatenate([inputs(parameters[0], 5, 500_000).astype(dtype),
                        (random.standard_normal(500_000) * 150 * parameters[0]).astype(dtype)])
    expected, inside = formula(x, *parameters, form)
    assert_same_bits(planck.fake_quantize(x, *parameters, form), expected)
    dy = random.standard_normal(x.size).astype(dtype)
    assert_same_bits(planck.fake_quantize_backward(x, dy, *parameters, form), np.where(inside, dy, dtype(0)))


def test_forms_differ():
    x = inputs(0.3, 6, 100_000)
    divided = planck.fake_quantize(x, 0.3, 0, -512, 511, planck.DIVIDE)
    assert np.any(divided != planck.fake_quantize(x, 0.3, 0, -512, 511, planck.RECIPROCAL))


@pytest.mark.parametrize("form", FORMS)
def test_f64_against_exact_fractions(form):
    """Python's fractions round each operation once and share nothing with the processor's arithmetic."""
    random = rng(7)
    for scale in (0.1, 1.0 / 3.0, 1.7e-300, 2.5e120):
        steps = np.concatenate([random.uniform(-140, 140, 500), np.arange(-130, 130) + 0.5])
        x = np.concatenate([steps * scale, np.nextafter(steps * scale, np.inf)])
        inverse = Fraction(float(Fraction(1) / Fraction(scale)))
        expected = []
        for value in x:
            exact = Fraction(value) / Fraction(scale) if form == planck.DIVIDE else Fraction(value) * inverse
            code = min(max(round(Fraction(float(exact))), -128 - 5), 127 - 5)
            expected.append(float(Fraction(scale) * code))
        assert_same_bits(planck.fake_quantize(x, scale, 5, -128, 127, form), np.array(expected))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_every_16_bit_input(dtype, form):
    x = all_patterns(dtype)
    dy = torch.from_numpy(rng(8).standard_normal(65536).astype(np.float32)).to(dtype)
    for parameters in PARAMETERS:
        wide, inside = formula(x.to(torch.float32).numpy(), *parameters, form)
        assert_same_bits(planck.fake_quantize(x, *parameters, form), torch.from_numpy(wide).to(dtype))
        assert_same_bits(planck.fake_quantize_backward(x, dy, *parameters, form),
                         torch.where(torch.from_numpy(inside), dy, torch.zeros((), dtype=dtype)))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_special_values(dtype, form):
    x = torch.tensor([np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0e-30, 3.0e38], dtype=torch.float64).to(dtype)
    y = planck.fake_quantize(x, 0.5, 1, -8, 7, form)
    expected = torch.tensor([np.nan, 3.0, -4.5, 0.0, 0.0, 0.0, 3.0], dtype=torch.float64).to(dtype)
    assert_same_bits(y, expected)
    dx = planck.fake_quantize_backward(x, torch.full_like(x, -2.0), 0.5, 1, -8, 7, form)
    assert_same_bits(dx, torch.tensor([0.0, 0.0, 0.0, -2.0, -2.0, -2.0, 0.0]).to(dtype))


def test_views_are_not_copied():
    """Transposed, reversed and stepped views of NumPy and torch, in and out."""
    x = rng(9).standard_normal((40, 30)).astype(np.float32)
    expected, _ = formula(x, 0.1, 0, -8, 7, planck.DIVIDE)
    got = planck.fake_quantize(x[::-1, ::-3], 0.1, 0, -8, 7)
    assert_same_bits(got, np.ascontiguousarray(expected[::-1, ::-3]))
    out = np.full((30, 80), np.float32(7))
    planck.fake_quantize(x.T, 0.1, 0, -8, 7, out=out[:, 1::2])
    assert_same_bits(np.ascontiguousarray(out[:, 1::2]), np.ascontiguousarray(expected.T))
    assert np.all(out[:, ::2] == 7)
    got = planck.fake_quantize(torch.from_numpy(x).t()[::2], 0.1, 0, -8, 7)
    assert_same_bits(got, torch.from_numpy(expected).t()[::2].contiguous())


def test_errors_have_a_status_and_a_text():
    with pytest.raises(planck.PlanckError, match="FakeQuantizePlan: scale = 0 ") as error:
        planck.fake_quantize(np.ones(3, np.float32), 0.0, 0, -8, 7)
    assert error.value.status == 2
