"""The straight-through gradients of fake_quantize and fake_quantize_learnable: by their formula, and as torch has them."""

import planck.torch as pt
import pytest
import torch
from torch_problems import (
    FAKES,
    FLOATS,
    LEARNABLES,
    SCOPES,
    SHAPE,
    assert_same_bits,
    backward_of,
    by_name,
    learnable,
    leaves,
    make_quantized,
    randn,
    scope_options,
)

CODES = (-8, 7)
WAYS = pytest.mark.parametrize("way", ["quick", "op"])


def spread(qparams, scope, shape=SHAPE):
    """Scales or zero points of a scope, one for each element."""
    name, dim, size = scope_options(scope)
    if name == "tensor":
        return qparams.expand(shape)
    if name == "token":
        return qparams.unsqueeze(-1).expand(shape)
    if name == "channel":
        return qparams.reshape([-1 if d == dim % len(shape) else 1 for d in range(len(shape))]).expand(shape)
    return qparams.repeat_interleave(size, dim).narrow(dim, 0, shape[dim])


def gather(terms, scope):
    """The sum of each segment's terms in f64."""
    name, dim, size = scope_options(scope)
    if name == "tensor":
        return terms.sum()
    if name == "token":
        return terms.sum(-1)
    if name == "channel":
        return terms.sum([d for d in range(terms.ndim) if d != dim % terms.ndim])
    return torch.stack([part.sum(dim) for part in terms.split(size, dim)], dim)


def formula(x, scale, zero_point, dy, scope, form, factor=1.0):
    """(y, dx, d_scale, d_zero_point) as the page has them, in the dtype that planck computes in; the sums in f64."""
    compute = scale.dtype
    steps = spread(scale, scope)
    low, high = (q - spread(zero_point.round().clamp(*CODES), scope).to(compute) for q in CODES)
    wide, d_wide = x.to(compute), dy.to(compute)
    ratio = wide / steps if form == "divide" else wide * (1 / steps)
    rounded = ratio.round()
    inside = (rounded >= low) & (rounded <= high)
    y = steps * rounded.clamp(low, high)
    d_scale = torch.where(inside, d_wide * (rounded - ratio), d_wide * torch.where(rounded < low, low, high))
    d_zero_point = torch.where(inside, 0, -d_wide * steps)
    sums = [gather(terms.double(), scope) * factor for terms in (d_scale, d_zero_point)]
    return y.to(x.dtype) + 0.0, torch.where(inside, dy, 0), *sums


@WAYS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(**by_name(FAKES))
def test_fake_quantize_is_its_formula(problem, dtype, way):
    inputs = problem.leaves(dtype)
    inputs[0].data[0, :2] = torch.tensor([100.0, -100.0])
    got = backward_of(problem.ways[way], inputs)
    want = formula(
        *(t.detach() for t in inputs), randn(*SHAPE, dtype=dtype, seed=7), problem.note["scope"], problem.note["form"]
    )
    assert_same_bits(tuple(got), want[:2])
    assert 0 < got[1].count_nonzero() < got[1].numel()


@WAYS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(**by_name(LEARNABLES))
def test_learnable_is_its_formula(problem, dtype, way):
    inputs = problem.leaves(dtype)
    inputs[0].data[0, :2] = torch.tensor([100.0, -100.0])
    y, dx, d_scale, d_zero_point = backward_of(problem.ways[way], inputs)
    want = formula(
        *(t.detach() for t in inputs),
        randn(*SHAPE, dtype=dtype, seed=7),
        problem.note["scope"],
        problem.note["form"],
        problem.note["factor"],
    )
    assert_same_bits((y, dx), want[:2])
    torch.testing.assert_close(d_scale, want[2].to(d_scale.dtype))
    torch.testing.assert_close(d_zero_point, want[3].to(d_zero_point.dtype))
    assert d_scale.count_nonzero() and d_zero_point.count_nonzero()


@WAYS
@pytest.mark.parametrize(
    "zero_point, code",
    [(2.3, 2), (-2.3, -2), (2.5, 2), (3.5, 4), (-2.5, -2), (7.4, 7), (40.0, 7), (-40.0, -8), (-8.4, -8)],
)
def test_fractional_zero_points_are_one_code_in_both_passes(zero_point, code, way):
    """Elements at both ends show which code each pass used; d_zero_point passes through rounding and clamping."""
    problem = learnable("tensor")
    inputs = leaves((torch.tensor([-100.0, 100.0]), torch.tensor(0.5), torch.tensor(zero_point)))
    y = problem.ways[way](*inputs)
    assert y.tolist() == [0.5 * (-8 - code), 0.5 * (7 - code)]
    (y * torch.tensor([1.0, 10.0])).sum().backward()
    assert inputs[1].grad.item() == (-8 - code) + 10 * (7 - code)
    assert inputs[2].grad.item() == -0.5 * 11


# ---- torch ----


def away_from_ties(x, steps):
    """x with what is near half a step moved to 0."""
    ratio = x.double() / steps.double()
    return torch.where((ratio - ratio.round()).abs() > 0.49, 0, x)


def torch_problem(shape, channels, seed, dtype=torch.float32):
    """(x on both sides of -128..127, scale, zero point)"""
    scale = 0.01 + randn(*channels, seed=seed).abs()
    zero_point = (40 * randn(*channels, seed=seed + 1).abs()).round().clamp(0, 100)
    steps = scale if not channels else scale.reshape(-1, *[1] * (len(shape) - 1))
    return away_from_ties((150 * randn(*shape, seed=seed + 2) * steps).to(dtype), steps), scale, zero_point


@WAYS
def test_per_tensor_is_torchs(way):
    """Forward and backward, bit for bit in the reciprocal form; torch's zeros may be -0."""
    x, scale, zero_point = torch_problem((40, 30), (), 0)
    function = {
        "quick": lambda v: pt.fake_quantize(v, scale, zero_point.int(), scale_form="reciprocal"),
        "op": lambda v: torch.ops.planck.fake_quantize(
            v, scale, zero_point.int(), -128, 127, "tensor", None, None, "reciprocal"
        ),
    }[way]
    got = backward_of(function, leaves((x,)))
    want = backward_of(
        lambda v: torch.fake_quantize_per_tensor_affine(v, scale.item(), int(zero_point), -128, 127), leaves((x,))
    )
    assert_same_bits(tuple(got), tuple(w + 0.0 for w in want))
    assert 0 < got[1].count_nonzero() < got[1].numel()


@WAYS
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_per_channel_is_torchs(dim, way):
    x, scale, zero_point = torch_problem((6, 20, 10), (6,), 3)
    x = x.movedim(0, dim)
    function = {
        "quick": lambda v: pt.fake_quantize(v, scale, zero_point.int(), dim=dim, scale_form="reciprocal"),
        "op": lambda v: torch.ops.planck.fake_quantize(
            v, scale, zero_point.int(), -128, 127, "channel", dim, None, "reciprocal"
        ),
    }[way]
    got = backward_of(function, leaves((x,)))
    want = backward_of(
        lambda v: torch.fake_quantize_per_channel_affine(v, scale, zero_point.int(), dim, -128, 127), leaves((x,))
    )
    assert_same_bits(tuple(got), tuple(w + 0.0 for w in want))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("factor", [1.0, 0.37])
@pytest.mark.parametrize("dim", [None, 0])
def test_learnable_is_torchs(dim, factor, dtype):
    """For zero points that are whole and not negative, where torch's two passes agree: tests/oracle shows the rest."""
    x, scale, zero_point = torch_problem((6, 200), (1,) if dim is None else (6,), 6, dtype)

    def theirs(v, s, z):
        if dim is None:
            return torch._fake_quantize_learnable_per_tensor_affine(v, s, z, -128, 127, factor)
        return torch._fake_quantize_learnable_per_channel_affine(v, s, z, dim, -128, 127, factor)

    got = backward_of(
        lambda v, s, z: pt.fake_quantize_learnable(v, s, z, dim=dim, scale_form="reciprocal", grad_factor=factor),
        leaves((x, scale, zero_point)),
    )
    want = backward_of(theirs, leaves((x, scale, zero_point)))
    assert_same_bits(tuple(got[:2]), tuple(w + 0.0 for w in want[:2]))
    for g, w in zip(got[2:], want[2:], strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5 * w.abs().max().item())
        assert g.count_nonzero() == g.numel()


def test_gradients_of_qparams_are_not_silently_lost():
    """fake_quantize and dequantize have none for scales, and say where to go."""
    x, scale, zero_point = make_quantized("tensor", torch.float32, torch.int32)
    scale.requires_grad_()
    with pytest.raises(NotImplementedError, match="fake_quantize_learnable"):
        pt.fake_quantize(x, scale, zero_point)
    with pytest.raises(NotImplementedError, match="detach"):
        pt.dequantize(x.to(torch.int8), scale, zero_point)
    with torch.no_grad():
        assert_same_bits(pt.fake_quantize(x, scale, zero_point), pt.fake_quantize(x, scale.detach(), zero_point))


@pytest.mark.parametrize("scope", SCOPES)
def test_learnable_gradients_are_those_of_the_scope_wanted_alone(scope):
    """Only the scale, or only x, require gradients: the same bits as with all."""
    problem = learnable(scope)
    inputs = problem.leaves(torch.float32)
    everything = backward_of(problem.quick, inputs)
    for i in range(3):
        alone = leaves(problem.make(torch.float32), tuple(i == j for j in range(3)))
        assert_same_bits(tuple(backward_of(problem.quick, alone)), (everything[0], everything[1 + i]))
