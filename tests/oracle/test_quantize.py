"""Quantise, forward and backward, against the page's formula in NumPy and against PyTorch's quantised tensors."""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, PRECISION, all_patterns, assert_same_bits, rng
from quantize_formula import Formulas, compute_of, narrow, widen

pytestmark = pytest.mark.filterwarnings("ignore:torch.quantize_per")  # deprecated, and still torch's own quantise

FORMS = [planck.DIVIDE, planck.RECIPROCAL]
CODES = {torch.int8: (torch.qint8, -128, 127), torch.uint8: (torch.quint8, 0, 255)}
# (scale, zero point of s8, of u8)
PARAMETERS = [(0.1, 0, 128), (1.0 / 3.0, -3, 10), (7.25e-5, 127, 0), (37.7, -128, 255), (1.0e-20, 5, 77)]


def inputs(scale, seed, count=400_000):
    """f32 numbers around the code range, over all magnitudes, on and beside every half step, and what saturates."""
    random = rng(seed)
    near = (random.standard_normal(count // 2) * (150.0 * scale)).astype(np.float32)
    half = ((np.arange(-600, 600) + 0.5).astype(np.float32) * np.float32(scale)).astype(np.float32)
    half = np.concatenate([half, np.nextafter(half, np.float32(np.inf)), np.nextafter(half, np.float32(-np.inf))])
    wide = random.integers(0, 2**32, count // 2, np.uint32).view(np.float32)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 3.4e38, -3.4e38, 1.0e-45, -1.0e-45], np.float32)
    return np.concatenate([near, half, wide[~np.isnan(wide)], special])


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_formula(dtype, codes, form):
    """Every pattern of the 16-bit dtypes; half steps, infinities and NaN for all."""
    _, lowest, highest = CODES[codes]
    c = np.float64 if dtype == torch.float64 else np.float32
    for scale, *zero_points in PARAMETERS:
        zero_point = zero_points[codes == torch.uint8]
        x = all_patterns(dtype) if PRECISION[dtype][0] <= 11 else narrow(inputs(scale, 30, 100_000), dtype)
        x = torch.cat([x, torch.tensor([np.nan], dtype=dtype)])
        dy = torch.from_numpy(rng(31).standard_normal(x.numel())).to(dtype)
        for q_min, q_max in ((lowest, highest), (lowest + 1, highest), (1, 14)):
            formulas = Formulas(c(scale), zero_point, q_min, q_max, form)
            q = planck.quantize(x, scale, zero_point, q_min, q_max, codes, form)
            assert torch.equal(q.to(torch.int64), torch.from_numpy(formulas.quantize(widen(x))))
            dx = planck.quantize_backward(x, dy, scale, zero_point, q_min, q_max, planck.element_of(q), form)
            with np.errstate(over="ignore"):
                assert_same_bits(dx, narrow(formulas.quantize_backward(widen(x), widen(dy)), dtype))


def where_torch_does_not_wrap(x, scale, zero_point):
    """All of x, or what is below 2^30 steps: test_torch_wraps_in_int32."""
    return x if 0 <= zero_point < 128 else x[np.abs(x.astype(np.float64)) < scale * 2.0**30]


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("parameters", PARAMETERS)
def test_reciprocal_form_is_torch_per_tensor(parameters, codes):
    scale, zero_point = parameters[0], parameters[1 + (codes == torch.uint8)]
    name, lowest, highest = CODES[codes]
    x = torch.from_numpy(where_torch_does_not_wrap(inputs(scale, 32, 4_000_000), scale, zero_point))
    q = planck.quantize(x, scale, zero_point, lowest, highest, codes, planck.RECIPROCAL)
    assert torch.equal(q, torch.quantize_per_tensor(x, scale, zero_point, name).int_repr())
    assert q.min() == lowest and q.max() == highest


@pytest.mark.parametrize("codes", CODES)
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_reciprocal_form_is_torch_per_channel(axis, codes):
    """Infinities included; torch's per-channel kernel clamps before it adds."""
    name, lowest, highest = CODES[codes]
    shape = (12, 40, 25)
    random = rng(33)
    scale = torch.from_numpy((10.0 ** random.uniform(-6, 3, shape[axis])).astype(np.float32))
    zero_point = torch.from_numpy(random.integers(lowest, highest, shape[axis], np.int32, endpoint=True))
    # Steps of a quarter are half steps in every channel's own unit, as far as f32 can say them.
    steps = random.integers(-1200, 1200, shape) / 4 + random.choice([0.0, 1.0e-6], shape)
    along = [shape[axis] if d == axis % 3 else 1 for d in range(3)]
    x = torch.from_numpy((steps * scale.to(torch.float64).numpy().reshape(along)).astype(np.float32))
    x.view(-1)[torch.from_numpy(random.permutation(x.numel())[:300])] = torch.tensor([np.inf, -np.inf] * 150)
    q = planck.quantize(x, scale, zero_point, lowest, highest, codes, planck.RECIPROCAL, planck.per_channel(axis))
    assert torch.equal(q, torch.quantize_per_channel(x, scale, zero_point, axis % 3, name).int_repr())
    assert len(torch.unique(q)) == 256


@pytest.mark.parametrize("codes", CODES)
def test_torch_gives_nan_no_code_of_its_own(codes):
    """planck: the zero point. torch: what the conversion to int32 leaves, another code per tensor than per channel."""
    name, lowest, highest = CODES[codes]
    x = torch.full((64,), np.nan)
    assert torch.all(planck.quantize(x, 0.5, 3, lowest, highest, codes, planck.RECIPROCAL) == 3)
    per_tensor = torch.quantize_per_tensor(x, 0.5, 3, name).int_repr()
    per_channel = torch.quantize_per_channel(x, torch.full((64,), 0.5), torch.full((64,), 3), 0, name).int_repr()
    assert torch.all(per_tensor != 3) and torch.all(per_channel != 3)
    assert torch.all(per_tensor != per_channel)


@pytest.mark.parametrize("steps", [np.inf, 1.0e30, 3.0e9])
def test_torch_wraps_in_int32(steps):
    """planck saturates. torch per tensor limits x/scale to [-2^31, 2^31 - 128] and then adds zp in int32."""
    x = torch.full((64,), -steps)
    assert torch.all(planck.quantize(x, 1.0, -5, -128, 127, torch.int8, planck.RECIPROCAL) == -128)
    assert torch.all(torch.quantize_per_tensor(x, 1.0, -5, torch.qint8).int_repr() == 127)
    assert torch.all(planck.quantize(-x, 1.0, 128, 0, 255, torch.uint8, planck.RECIPROCAL) == 255)
    assert torch.all(torch.quantize_per_tensor(-x, 1.0, 128, torch.quint8).int_repr() == 0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_torch_quantizes_f32_only(dtype):
    x = torch.tensor([1.0], dtype=dtype)
    assert planck.quantize(x, 0.5, 3, -128, 127, torch.int8).item() == 5
    with pytest.raises(RuntimeError, match="Float"):
        torch.quantize_per_tensor(x, 0.5, 3, torch.qint8)


@pytest.mark.parametrize("dtype", DTYPES)
def test_number_and_tensor_of_one_element_agree(dtype):
    """The same scale as a number, in C and in the tensor's dtype, and the zero point either way: the same bits."""
    random = rng(34)
    scale = torch.tensor(0.3, dtype=dtype)
    x = torch.from_numpy(random.standard_normal(5000) * 20).to(dtype)
    dy = torch.from_numpy(random.standard_normal(5000)).to(dtype)
    expected = planck.quantize(x, float(scale), 9, -128, 127, torch.int8)
    gradient = planck.quantize_backward(x, dy, float(scale), 9, -128, 127)
    assert len(torch.unique(expected)) > 100
    for s in (scale, scale.to(compute_of(dtype)), float(scale)):
        for zero_point in (9, torch.tensor(9, dtype=torch.int32)):
            assert torch.equal(planck.quantize(x, s, zero_point, -128, 127, torch.int8), expected)
            assert_same_bits(planck.quantize_backward(x, dy, s, zero_point, -128, 127), gradient)


def test_bad_parameters_are_named_with_their_index():
    x = np.ones((2, 3), np.float32)
    scale, zero_point = np.array([0.5, 0.0, 1.0], np.float32), np.array([0, 0, 2**20 + 1], np.int32)
    with pytest.raises(planck.PlanckError, match=r"scale.*1") as error:
        planck.quantize(x, scale, 0, -128, 127, np.int8, granularity=planck.per_channel(1))
    assert error.value.status == 2
    with pytest.raises(planck.PlanckError, match=r"zero_point.*2") as error:
        planck.quantize(x, np.ones(3, np.float32), zero_point, -128, 127, np.int8, granularity=planck.per_channel(1))
    assert error.value.status == 2
