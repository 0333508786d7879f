"""Fake-quantise per channel and with learnable parameters against PyTorch, in the reciprocal form.

Where the two agree: fake_quantize_per_channel_affine bit for bit; the learnable gradients as far as torch's f32 terms
and sums go, for integer zero points, finite x and no half steps. Where they do not, a test of its own shows both.
"""

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import assert_same_bits, rng, ulp
from quantize_formula import Formulas, narrow, spread, widen

Q = (-128, 127)
SHAPE = (6, 50, 40)
CHANNELS = [planck.per_channel(axis) for axis in range(3)]


def along(axis, values, rank=3):
    return values.reshape([-1 if d == axis else 1 for d in range(rank)])


def problem(axis, dtype, seed, zero_points=(0, 100), half_steps=False):
    """(x, dy, scale, zero point) with x on both sides of the range; axis None: one scale."""
    random = rng(seed)
    channels = 1 if axis is None else SHAPE[axis]
    scale = (10.0 ** random.uniform(-3, 1, channels)).astype(np.float32)
    zero_point = random.integers(*zero_points, channels, np.int32, endpoint=True)
    wide = scale.astype(np.float64) if axis is None else along(axis, scale.astype(np.float64))
    steps = random.integers(-260, 200, SHAPE) + random.uniform(-0.48, 0.48, SHAPE)
    if half_steps:
        steps = np.where(random.uniform(size=SHAPE) < 0.2, np.floor(steps) + 0.5, steps)
    x = narrow(steps * wide, dtype)
    if not half_steps:
        # The rounding of x to a 16-bit dtype may have moved it to a half step: those become 0.
        fraction = x.to(torch.float64).numpy() / wide
        x[torch.from_numpy(np.abs(fraction - np.rint(fraction)) > 0.49)] = 0
    return x, narrow(random.standard_normal(SHAPE), dtype), torch.from_numpy(scale), torch.from_numpy(zero_point)


@pytest.mark.parametrize("granularity", CHANNELS, ids=str)
def test_per_channel_is_torch_bit_for_bit(granularity):
    """f32, half steps included, forward and backward."""
    x, dy, scale, zero_point = problem(granularity.axis, torch.float32, 80, (-128, 127), half_steps=True)
    leaf = x.clone().requires_grad_()
    expected = torch.fake_quantize_per_channel_affine(leaf, scale, zero_point, granularity.axis, *Q)
    expected.backward(dy)
    args = scale, zero_point, *Q, planck.RECIPROCAL
    assert_same_bits(planck.fake_quantize(x, *args, granularity=granularity), expected.detach() + 0.0)
    dx = planck.fake_quantize_backward(x, dy, *args, granularity=granularity)
    # torch multiplies by the mask, so a negative dy outside becomes -0; planck's zero is +0.
    assert_same_bits(dx, leaf.grad + 0.0)
    assert 0 < torch.count_nonzero(dx) < dx.numel()


def torch_learnable(x, dy, scale, zero_point, axis, factor=1.0, q=Q):
    """(y, dx, d_scale, d_zp) of torch's learnable operators; the zero point is a float there."""
    leaves = [t.clone().requires_grad_() for t in (x, scale, zero_point)]
    if axis is None:
        y = torch._fake_quantize_learnable_per_tensor_affine(*leaves, *q, factor)
    else:
        y = torch._fake_quantize_learnable_per_channel_affine(*leaves, axis, *q, factor)
    y.backward(dy)
    return y.detach(), *(leaf.grad for leaf in leaves)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("axis", [None, 0, 1, 2])
@pytest.mark.parametrize("factor", [1.0, 0.37])
def test_learnable_gradients_are_near_torch(axis, dtype, factor):
    """Within 1e-5 of the terms' magnitudes, which is what torch's f32 terms and sums leave; the mask bit for bit."""
    x, dy, scale, zero_point = problem(axis, dtype, 81)
    _, dx, d_scale, d_zero_point = torch_learnable(x, dy, scale, zero_point.to(torch.float32), axis, factor)
    granularity = planck.PER_TENSOR if axis is None else planck.per_channel(axis)
    if axis is None:
        scale, zero_point = scale[0], zero_point[0]
    got = planck.learn_quantize(x, dy, scale, zero_point, *Q, planck.RECIPROCAL, granularity, factor)
    assert_same_bits(got[0], dx + 0.0)
    formulas = Formulas(*spread(scale, zero_point, SHAPE, granularity), *Q, planck.RECIPROCAL)
    rest = tuple(d for d in range(3) if d != axis)
    for gradient, expected, terms in ((got[1], d_scale, formulas.d_scale_terms),
                                      (got[2], d_zero_point, formulas.d_zero_point_terms)):
        magnitude = np.abs(terms(widen(x), widen(dy))).astype(np.float64).sum(axis=rest) * factor
        error = np.abs(gradient.to(torch.float64).numpy() - expected.to(torch.float64).numpy())
        assert gradient.dtype == expected.dtype == torch.float32
        assert np.all(error <= 1e-5 * magnitude)
        assert torch.all(gradient != 0)


def test_learnable_gradients_in_bf16_are_near_torch():
    """x and scale both bf16: torch's result is rounded to bf16 too, so the two may be neighbours."""
    x, dy, scale, zero_point = problem(None, torch.bfloat16, 83)
    scale = scale.to(torch.bfloat16)
    fraction = x.to(torch.float64) / scale.to(torch.float64)
    x[(fraction - torch.round(fraction)).abs() > 0.49] = 0
    _, dx, d_scale, _ = torch_learnable(x, dy, scale, zero_point.to(torch.float32), None)
    got = planck.learn_quantize(x, dy, scale[0], zero_point[0], *Q, planck.RECIPROCAL)
    assert_same_bits(got[0], dx + 0.0)
    formulas = Formulas(widen(scale), zero_point.numpy(), *Q, planck.RECIPROCAL)
    magnitude = np.abs(formulas.d_scale_terms(widen(x), widen(dy))).astype(np.float64).sum()
    assert got[1].dtype == d_scale.dtype == torch.bfloat16
    difference = abs(got[1].item() - d_scale.item())
    assert difference <= 1e-5 * magnitude + ulp(got[1].item(), torch.bfloat16)


@pytest.mark.parametrize("axis", [None, 0])
def test_learnable_gradients_inside_the_range_are_near_torch(axis):
    """Only rounding errors, no range ends: torch takes them from (r*scale - x)/scale, 2^-24 of x/scale apart."""
    x, dy, scale, zero_point = problem(axis, torch.float32, 82, (0, 0))
    x = x / 32  # at most 8 steps
    wide = scale.to(torch.float64) if axis is None else along(axis, scale.to(torch.float64))
    fraction = x.to(torch.float64) / wide
    x[(fraction - torch.round(fraction)).abs() > 0.49] = 0
    _, _, d_scale, _ = torch_learnable(x, dy, scale, zero_point.to(torch.float32), axis)
    granularity = planck.PER_TENSOR if axis is None else planck.per_channel(axis)
    if axis is None:
        scale, zero_point, d_scale = scale[0], zero_point[0], d_scale[0]
    _, got, _ = planck.learn_quantize(x, dy, scale, zero_point, *Q, planck.RECIPROCAL, granularity)
    formulas = Formulas(*spread(scale, zero_point, SHAPE, granularity), *Q, planck.RECIPROCAL)
    terms = formulas.d_scale_terms(widen(x), widen(dy)).astype(np.float64)
    magnitude = np.abs(terms).sum(axis=None if axis is None else (1, 2))
    assert np.all(np.abs((got.to(torch.float64) - d_scale.to(torch.float64)).numpy()) <= 1e-5 * magnitude)
    assert torch.all(got != 0)


# ---- what PyTorch does otherwise ----


def one(x, zero_point, axis, dtype=torch.float32):
    """torch's and planck's (dx, d_scale, d_zp) of one element with dy = 1, scale 0.5 and codes in [-8, 7]."""
    x = torch.tensor([[x]], dtype=dtype)
    dy, q = torch.ones_like(x), (-8, 7)
    _, *torchs = torch_learnable(x, dy, torch.tensor([0.5]), torch.tensor([float(zero_point)]), axis, q=q)
    plancks = planck.learn_quantize(x, dy, 0.5, zero_point, *q, planck.RECIPROCAL, dtype=torch.float32)
    return tuple(g.item() for g in torchs), tuple(g.item() for g in plancks)


AXES = pytest.mark.parametrize("axis", [None, 0])


@AXES
def test_torch_rounds_after_adding_the_zero_point(axis):
    """Half a step is 0 steps everywhere in planck. torch's backward rounds x/scale + zp, so with an odd zero point ties
    go the other way: its d_scale changes sign, while its own forward rounds like planck's."""
    torch_even, planck_even = one(0.25, 2, axis)
    torch_odd, planck_odd = one(0.25, 3, axis)
    assert torch_even == planck_even == planck_odd == (1.0, -0.5, 0.0)
    assert torch_odd == (1.0, 0.5, 0.0)
    assert torch.fake_quantize_per_tensor_affine(torch.tensor([0.25]), 0.5, 3, -8, 7).item() == 0.0


@AXES
def test_torch_passes_a_gradient_from_outside_its_own_forward(axis):
    """-9.5 steps are -10 with zero point 1: code -9, below -8. torch's learnable backward sees code -8, inside."""
    torchs, plancks = one(-4.75, 1, axis)
    assert plancks == (0.0, -9.0, -0.5)
    assert torchs == (1.0, 0.5, 0.0)
    x = torch.tensor([-4.75], requires_grad=True)
    torch.fake_quantize_per_tensor_affine(x, 0.5, 1, -8, 7).backward(torch.ones(1))
    assert x.grad.item() == 0.0


@AXES
@pytest.mark.parametrize("x", [np.inf, 1.0e30])
def test_torch_takes_far_above_for_below(axis, x):
    """The conversion of x/scale to int64 gives -2^63. planck: above is above, d_scale is q_max - zp."""
    torchs, plancks = one(x, 3, axis)
    assert plancks == (0.0, 4.0, -0.5)
    assert torchs == (0.0, -11.0, -0.5)


@AXES
def test_torch_takes_nan_for_below(axis):
    """planck: NaN adds nothing to the gradients of scale and zero point."""
    torchs, plancks = one(np.nan, 3, axis)
    assert plancks == (0.0, 0.0, 0.0)
    assert torchs == (0.0, -11.0, -0.5)


@pytest.mark.parametrize("x", [np.nan, np.inf])
def test_torch_forward_of_nan_and_infinity(x):
    """planck keeps NaN and saturates infinities; torch per channel takes both for the lowest code."""
    scale, zero_point = torch.tensor([0.5]), torch.tensor([1], dtype=torch.int32)
    value = torch.tensor([x])
    assert torch.fake_quantize_per_channel_affine(value, scale, zero_point, 0, -8, 7).item() == -4.5
    got = planck.fake_quantize(value, scale, zero_point, -8, 7, planck.RECIPROCAL, granularity=planck.per_channel(0))
    assert_same_bits(got, torch.tensor([3.0 if x == np.inf else np.nan]))


@pytest.mark.parametrize("zero_point, forward, backward", [(-3, -3, -2), (-20, -8, -8), (3, 3, 3), (20, 7, 7)])
def test_torch_moves_zero_points(zero_point, forward, backward):
    """torch limits the zero point to [q_min, q_max], and per tensor its backward takes zp + 0.5 cut off towards zero:
    -3 becomes -2 there, and not in its forward or per channel. planck takes the integer it is given."""
    scale, zp = torch.tensor([0.5]), torch.tensor([float(zero_point)])
    y = torch._fake_quantize_learnable_per_tensor_affine(torch.tensor([-100.0]), scale, zp, -8, 7, 1.0)
    per_tensor, plancks = one(-100.0, zero_point, None)
    per_channel, _ = one(-100.0, zero_point, 0)
    assert y.item() == 0.5 * (-8 - forward)
    assert per_channel[1] == -8 - forward
    assert per_tensor[1] == -8 - backward
    assert plancks[1] == -8 - zero_point


def test_torch_rounds_negative_fractional_zero_points_two_ways():
    """torch's zero points are floats. planck's are integers, so rounding them is the caller's choice: per tensor, torch
    rounds -2.3 to -2 forwards and to -1 backwards; 2.3 is 2 in both."""
    def torchs(zero_point):
        x, scale, zero_point = (torch.tensor([v]) for v in (-100.0, 0.5, zero_point))
        y, _, d_scale, _ = torch_learnable(x, torch.ones(1), scale, zero_point, None, q=(-8, 7))
        return -8 - y.item() / 0.5, -8 - d_scale.item()

    assert torchs(2.3) == (2, 2)
    assert torchs(-2.3) == (-2, -1)


def test_torch_keeps_an_f32_scale_for_f64():
    """planck's f64 scale is the f64 number. torch's is the f32 next to it: exact to 24 bits only."""
    x = torch.tensor([0.26], dtype=torch.float64)
    assert planck.fake_quantize(x, 0.1, 0, *Q).item() == 0.1 * 3.0
    y = torch.fake_quantize_per_channel_affine(x, torch.tensor([0.1]), torch.zeros(1, dtype=torch.int32), 0, *Q).item()
    assert y == 3 * float(np.float32(0.1)) != 0.1 * 3.0
    assert torch.fake_quantize_per_tensor_affine(x, 0.1, 0, *Q).item() == float(np.float32(0.1) * np.float32(3))


@AXES
@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_torch_has_no_learnable_gradients_of_f64_and_f16(axis, dtype):
    """planck has all four dtypes: tests/oracle/test_learnable.py."""
    with pytest.raises(RuntimeError, match="ScalarType::Float"):
        one(0.3, 3, axis, dtype)
