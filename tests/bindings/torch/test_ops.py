"""Every registered operation passes torch's own checks: schema, fake, autograd registration, AOT dispatch."""

import itertools

import pytest
import torch
from planck.torch._register import operations
from torch_problems import FLOATS, OPS, SCOPES, first_of, make_quantized, randn, scope_options, views

NAMES = sorted(operations)
DIRECTIONS = list(itertools.product((False, True), repeat=2))
FORM = (-8, 7)


def scans(*more):
    """Samples of an operation on `1 + more` tensors of one shape: dtypes, layouts, dims, directions."""
    result = []
    for i, dtype in enumerate(FLOATS):
        for j, (layout, x) in enumerate(views(randn(4, 3, 5, dtype=dtype)).items()):
            others = [views(randn(4, 3, 5, dtype=dtype, seed=1 + k))[layout] for k in range(len(more))]
            result.append(([x, *others], ((0, 1, -1)[(i + j) % 3], *DIRECTIONS[(i + j) % 4])))
    result.append(([randn(7), *(randn(7, seed=1) for _ in more)], (-1, False, True)))
    result.append(([randn(0, 3), *(randn(0, 3) for _ in more)], (0, False, False)))
    return result


def integers(samples):
    return samples + [
        ([torch.arange(12, dtype=dtype).reshape(3, 4).T], (0, True, False)) for dtype in (torch.int32, torch.int64)
    ]


def extrema():
    return [(tensors, options[:2]) for tensors, options in integers(scans())]


def extrema_backward():
    result = []
    for (x,), (dim, reverse) in extrema()[:-2]:
        result.append(([torch.randn_like(x), torch.cummax(x, dim).indices], (dim, reverse)))
    return result


def recurrences(backward):
    """Inputs of one shape, and some that broadcast; gradients of all of them, and of some."""
    result = []
    for i, ((a,), (dim, reverse, _)) in enumerate(scans()[:-1]):
        b, h, dh = (torch.randn_like(a) for _ in range(3))
        if i % 3 == 1:
            a = a.narrow(dim, 0, 1).clone()
        if i % 3 == 2:
            b = b.select(0, 0)
        for k, state in enumerate((None, dh.narrow(dim, 0, 1).clone(), dh.select(dim, 0), dh.sum())):
            wanted = (k != 1, k != 2, k != 3)
            options = (list(b.shape), dim, reverse, *wanted) if backward else (dim, reverse)
            result.append(([dh, a, h, state] if backward else [a, b, state], options))
    return result[::2]


def ragged(samples):
    """The same, and every second one in segments; offsets come after the other tensors."""
    result = []
    for i, (tensors, options) in enumerate(samples):
        dim = next(option for option in options if isinstance(option, int))
        n = torch.broadcast_shapes(*(t.shape for t in tensors[:2] if t is not None))[dim]
        offsets = torch.tensor([0, n // 3, n // 3, n], dtype=(torch.int64, torch.int32)[i % 4 // 2])
        result.append(([*tensors, offsets if i % 2 else None], options))
    return result


def binaries(backward, number=False):
    """Broadcast in both directions, with layouts."""
    result = []
    shapes = [
        ((4, 3), (4, 3), (4, 3)),
        ((4, 1), (3,), ()),
        ((1,), (4, 3), (4, 1)),
        ((2, 1, 4), (3, 1), (4,)),
        ((0, 3), (3,), (1,)),
    ]
    for (i, three), dtype in zip(enumerate(shapes), itertools.cycle(FLOATS)):
        tensors = [randn(*shape, dtype=dtype, seed=k) for k, shape in enumerate(three[:2] if number else three)]
        for layout in ("contiguous", "transposed", "strided"):
            laid = [t if t.ndim == 0 else views(t)[layout] for t in tensors]
            dy = [randn(*torch.broadcast_shapes(*three[: len(laid)]), dtype=dtype, seed=9)] if backward else []
            result.append((dy + laid, (0.5 * i - 1,) if number else ()))
    return result


def quantized(backward, zero_point, after):
    """x in every scope, dtype and layout with its scales, and what comes after them."""
    result = []
    for i, (scope, dtype) in enumerate(itertools.product(SCOPES, FLOATS)):
        x, scale, codes = make_quantized(scope, dtype, zero_point)
        x = list(views(x).values())[i % 3]
        if i % 2 and scale.ndim:
            scale = views(scale)["strided"]
        result.append((([torch.randn_like(x)] if backward else []) + [x, scale, codes], after(scope, i)))
    return result


def forms(scope, i):
    return (*FORM, *scope_options(scope), ("divide", "reciprocal")[i % 2])


def codes_of(scope, i):
    dtype = (torch.int8, torch.uint8)[i // 2 % 2]
    limits = (None, None) if i % 2 else (0, 15)
    return (dtype, *scope_options(scope), *limits, ("divide", "reciprocal")[i % 2], True)


def dequantized():
    result = []
    for i, (scope, dtype) in enumerate(itertools.product(SCOPES, FLOATS)):
        x, scale, codes = make_quantized(scope, dtype, torch.int32)
        q = list(views((20 * x).to(torch.int32).clamp(0, 100).to((torch.int8, torch.uint8)[i % 2])).values())[i % 3]
        result.append(([q, scale, codes], (dtype, *scope_options(scope))))
    return result


def dynamic(*more):
    result = []
    for i, (scope, dtype) in enumerate(itertools.product(SCOPES, FLOATS)):
        x = list(views(randn(3, 5, dtype=dtype)).values())[i % 3]
        name, dim, size = scope_options(scope)
        mode, codes = ("symmetric", "asymmetric")[i % 2], (torch.int8, torch.uint8)[i // 2 % 2]
        scale_dtype = (None, dtype)[i // 3 % 2]
        options = (name, mode, codes, dim, size, None, None, i % 5 > 0, "saturate", scale_dtype)
        result.append(([x], (*options, *(value[i % 2] for value in more))))
    return result


SAMPLES = {
    "cumsum": ragged(integers(scans())),
    "cumprod": ragged(integers(scans())),
    "cumprod_backward": ragged(scans("x")),
    "logcumsumexp": ragged(scans()),
    "logcumsumexp_backward": ragged(scans("x", "y")),
    "cummax": ragged(extrema()),
    "cummin": ragged(extrema()),
    "cummax_backward": ragged(extrema_backward()),
    "linear_recurrence": ragged(recurrences(False)),
    "linear_recurrence_backward": ragged(recurrences(True)),
    "lerp": binaries(False),
    "lerp_backward": binaries(True),
    "lerp_scalar": binaries(False, True),
    "lerp_scalar_backward": binaries(True, True),
    "add_scaled": binaries(False),
    "add_scaled_backward": binaries(True),
    "add_scaled_scalar": binaries(False, True),
    "add_scaled_scalar_backward": binaries(True, True),
    "quantize": quantized(False, torch.int32, codes_of),
    "dequantize": dequantized(),
    "fake_quantize": quantized(False, torch.int32, forms),
    "fake_quantize_backward": quantized(True, torch.int32, forms),
    "fake_quantize_learnable": quantized(False, torch.float32, lambda s, i: (*forms(s, i), 0.5)),
    "fake_quantize_learnable_backward": quantized(True, torch.float32, lambda s, i: (*forms(s, i), 0.5)),
    "dynamic_quantize": dynamic((False, True)),
    "dynamic_qparams": dynamic(),
}
CHEAP = ("test_schema", "test_autograd_registration", "test_faketensor")
# Gradients of these exist for all float inputs; fake_quantize's only for x.
DIFFERENTIABLE = {
    "cumsum",
    "cumprod",
    "logcumsumexp",
    "cummax",
    "cummin",
    "linear_recurrence",
    "lerp",
    "lerp_scalar",
    "add_scaled",
    "add_scaled_scalar",
    "fake_quantize",
    "fake_quantize_learnable",
}


def arguments(name, tensors, options, grad):
    only_first = name == "fake_quantize"
    ready = []
    for i, tensor in enumerate(tensors):
        wanted = grad and tensor is not None and tensor.is_floating_point() and not (only_first and i > 0)
        ready.append(tensor.detach().requires_grad_() if wanted else tensor)
    return (*ready, *options)


def test_every_operation_is_registered_and_has_samples():
    assert set(NAMES) == set(SAMPLES), "an operation without samples, or samples of no operation"
    assert all(len(samples) >= 8 for samples in SAMPLES.values())
    for name in NAMES:
        assert getattr(OPS, name).default is operations[name].op._opoverload
    assert set(NAMES) >= DIFFERENTIABLE


@pytest.mark.parametrize("name", NAMES)
def test_schema_fake_and_registration(name):
    """All samples, with and without gradients."""
    op = getattr(OPS, name).default
    for tensors, options in SAMPLES[name]:
        for grad in (False, True):
            args = arguments(name, tensors, options, grad and name in DIFFERENTIABLE)
            torch.library.opcheck(op, args, test_utils=CHEAP)


@pytest.mark.parametrize("name, grad", [(n, False) for n in NAMES] + [(n, True) for n in NAMES if n in DIFFERENTIABLE])
def test_aot_dispatch(name, grad):
    """Forward, and for operations with gradients backward, through AOTAutograd with symbolic shapes."""
    for tensors, options in SAMPLES[name][1:6:2]:
        args = arguments(name, tensors, options, grad)
        torch.library.opcheck(getattr(OPS, name).default, args, test_utils="test_aot_dispatch_dynamic")


@pytest.mark.parametrize("name", [n for n in NAMES if n not in DIFFERENTIABLE])
def test_a_gradient_that_does_not_exist_is_an_error(name):
    """And is never silently left out. Codes are integers, of which autograd asks nothing."""
    tensors, options = SAMPLES[name][0]
    output = first_of(getattr(OPS, name)(*arguments(name, tensors, options, True)))
    assert output.requires_grad == output.is_floating_point()
    if output.is_floating_point():
        with pytest.raises(RuntimeError, match=r"no autograd formula|twice"):
            output.sum().backward()


@pytest.mark.parametrize("name", NAMES)
def test_inputs_are_left_alone(name):
    for tensors, options in SAMPLES[name]:
        before = [None if t is None else t.clone() for t in tensors]
        getattr(OPS, name)(*tensors, *options)
        for then, now in zip(before, tensors, strict=True):
            assert then is None or torch.equal(then, now)
