"""Lerp and AddScaled, forward and backward, against torch, exact sums and finite differences."""

import math

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import DTYPES, PRECISION, assert_same_bits, rng, ulp

KINDS = [planck.LERP, planck.ADD_SCALED]


def compute_of(dtype):
    return torch.float64 if dtype == torch.float64 else torch.float32


def normal(seed, shape, dtype=torch.float32, scale=1.0):
    return torch.from_numpy(np.asarray(rng(seed).standard_normal(shape) * scale)).to(dtype)


def lerp_formula(a, b, w):
    """docs/ops/binary_param.md, one rounding per operation: torch's elementwise operators do not fuse across calls."""
    return torch.where(w.abs() < 0.5, a + w * (b - a), b - (b - a) * (1 - w))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
def test_formula(kind, dtype):
    a, b = normal(40, 200_000, dtype, 3.0), normal(41, 200_000, dtype)
    c = compute_of(dtype)
    wa, wb = a.to(c), b.to(c)
    weights = [0.0, 1.0, 0.25, 0.3, 0.5, 0.7, -0.6, 1.5, normal(42, 200_000, dtype)]
    for weight in weights:
        w = weight.to(c) if isinstance(weight, torch.Tensor) else torch.tensor(weight, dtype=c)
        expected = lerp_formula(wa, wb, w) if kind == planck.LERP else wa + w * wb
        assert_same_bits(planck.binary_param(kind, a, b, weight), expected.to(dtype))


@pytest.mark.parametrize("tensor_weight", [False, True])
def test_lerp_is_near_torch(tensor_weight):
    """torch's vector kernel may fuse the product and the sum; each side has at most three roundings of that size."""
    a, b = normal(43, 1_000_000, scale=5.0), normal(44, 1_000_000)
    w = torch.from_numpy(rng(45).uniform(0, 1, 1_000_000).astype(np.float32)) if tensor_weight else 0.37109375
    got = planck.binary_param(planck.LERP, a, b, w).to(torch.float64)
    bound = 3 * 2.0**-24 * (a.to(torch.float64).abs() + b.to(torch.float64).abs())
    assert torch.all((got - torch.lerp(a, b, w).to(torch.float64)).abs() <= bound)


@pytest.mark.parametrize("dtype", DTYPES)
def test_lerp_ends(dtype):
    a, b = normal(46, 100_000, dtype, 7.0), normal(47, 100_000, dtype, 0.01)
    assert_same_bits(planck.binary_param(planck.LERP, a, b, 0.0), a)
    assert_same_bits(planck.binary_param(planck.LERP, a, b, 1.0), b)
    ends = torch.tensor([[0.0], [1.0]], dtype=dtype)
    assert_same_bits(planck.binary_param(planck.LERP, a, b, ends), torch.stack([a, b]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_lerp_is_monotone(dtype):
    """Over 0 <= w <= 1, densely around 0.5, where the formula changes its form."""
    near_half = 0.5 + torch.arange(-40, 41, dtype=torch.float64) * 2.0 ** -(PRECISION[dtype][0] + 1)
    w = torch.cat([torch.from_numpy(rng(48).uniform(0, 1, 200)), near_half, torch.tensor([0.0, 1.0])])
    w = torch.unique(w.to(dtype)).reshape(-1, 1)
    a = normal(49, 4000, dtype)
    # Also pairs whose middle is near zero: there the result shows the smallest error of b - a.
    opposite = -a[2000:].to(torch.float64) * (1 + normal(51, 2000, torch.float64, 1e-6))
    b = torch.cat([normal(50, 2000, dtype), opposite.to(dtype)])
    y = planck.binary_param(planck.LERP, a, b, w).to(torch.float64)
    steps = torch.diff(y, dim=0) * torch.sign(b.to(torch.float64) - a.to(torch.float64))
    assert torch.all(steps >= 0)
    assert torch.any(steps > 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("tensor_weight", [False, True])
def test_backward_is_autograd(kind, dtype, tensor_weight):
    """Bit for bit: torch's gradients grad*(1 - w), grad*w, grad*(end - start) are the page's, rounded as often.

    A scalar w is a number of the tensor's dtype here. torch subtracts it from 1 in f64 and rounds then, which
    gives what one subtraction in f32 gives.
    """
    shape = (100_000,)
    a, b = (normal(seed, shape, dtype).requires_grad_() for seed in (52, 53))
    dy = normal(54, shape, dtype)
    if tensor_weight:
        w = torch.from_numpy(rng(55).uniform(-0.5, 1.5, shape)).to(dtype).requires_grad_()
    else:
        w = float(torch.tensor(0.3, dtype=dtype))
    y = torch.lerp(a, b, w) if kind == planck.LERP else torch.add(a, w * b)
    y.backward(dy)
    weight = w.detach() if tensor_weight else w
    da, db, dw = planck.binary_param_backward(kind, dy, a.detach(), b.detach(), weight)
    assert_same_bits(da, a.grad)
    assert_same_bits(db, b.grad)
    if tensor_weight:
        assert_same_bits(dw, w.grad)


def gradient_terms(kind, dy, a, b, w):
    """The three gradients before any sum, in C and in full shape."""
    c = compute_of(dy.dtype)
    dy, a, b, w = (t.to(c) for t in (dy, a, b, w))
    if kind == planck.LERP:
        terms = (1 - w) * dy, w * dy, dy * (b - a)
    else:
        terms = dy, w * dy, dy * b
    return [torch.broadcast_to(t, dy.shape) for t in terms]


def sum_to(terms, shape):
    """(exact sums rounded to f64, sums of magnitudes) over the dimensions that broadcasting repeated."""
    padded = (1,) * (terms.dim() - len(shape)) + tuple(shape)
    kept = [d for d in range(terms.dim()) if padded[d] == terms.shape[d]]
    reduced = [d for d in range(terms.dim()) if d not in kept]
    rows = terms.to(torch.float64).permute(*kept, *reduced).reshape(math.prod(shape), -1).numpy()
    exact = np.array([math.fsum(row) for row in rows]).reshape(shape)
    return exact, np.abs(rows).sum(axis=1).reshape(shape)


SHAPES = [((), ()), ((257,), (300, 1)), ((300, 1), (257,)), ((1, 257), (1, 1)), ((300, 257), (300, 257))]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight_shape", [(), (257,), (300, 1), (300, 257)])
def test_summed_gradients_against_exact_sums(kind, dtype, weight_shape):
    """Within half a unit in the last place, and 2^-45 of the terms' magnitudes for the f64 sum itself."""
    shape = (300, 257)
    for a_shape, b_shape in SHAPES:
        dy, a, b = normal(56, shape, dtype), normal(57, a_shape, dtype, 2.0), normal(58, b_shape, dtype)
        w = normal(59, weight_shape, dtype)
        gradients = planck.binary_param_backward(kind, dy, a, b, w)
        terms = gradient_terms(kind, dy, a, b, w)
        for got, term, to in zip(gradients, terms, (a_shape, b_shape, weight_shape), strict=True):
            exact, magnitude = sum_to(term, to)
            error = np.abs(got.to(torch.float64).numpy() - exact)
            assert got.shape == to
            assert np.all(error <= 0.5 * ulp(exact, dtype) + 2.0**-45 * magnitude)


@pytest.mark.parametrize("weight_shape", [(), (257,), (300, 1)])
def test_broadcast_weight_gradient_is_near_autograd(weight_shape):
    shape = (300, 257)
    dy, a, b = normal(60, shape), normal(61, shape), normal(62, shape)
    w = normal(63, weight_shape).requires_grad_()
    torch.lerp(a, b, w).backward(dy)
    _, _, dw = planck.binary_param_backward(planck.LERP, dy, a, b, w.detach())
    # torch adds in f32, in pieces: 2^-21 of the magnitudes is enough for 77100 terms.
    _, magnitude = sum_to(dy * (b - a), weight_shape)
    error = (dw.to(torch.float64) - w.grad.to(torch.float64)).abs().numpy()
    assert np.all(error <= 2.0**-21 * magnitude)
    assert torch.all(dw != 0)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weight_shape", [(), (5,), (4, 1), (4, 5)])
def test_finite_differences(kind, weight_shape):
    """Away from |w| = 0.5 both forms are linear in each argument, so a central difference has no error of its own."""
    shape, step = (4, 5), 2.0**-12
    dy, a, b = (normal(seed, shape, torch.float64) for seed in (64, 65, 66))
    w = torch.from_numpy(rng(67).uniform(0.55, 0.95, weight_shape)).to(torch.float64)
    gradients = planck.binary_param_backward(kind, dy, a, b, w)
    for which, gradient in enumerate(gradients):
        for index in np.ndindex(tuple(gradient.shape)):
            loss = []
            for sign in (1.0, -1.0):
                operands = [a.clone(), b.clone(), w.clone()]
                operands[which][index] += sign * step
                loss.append(float((planck.binary_param(kind, *operands) * dy).sum()))
            assert abs((loss[0] - loss[1]) / (2 * step) - float(gradient[index])) < 1e-10
