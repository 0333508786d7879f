"""Functional transforms, forward mode, tracing, modes and tensor subclasses: right, or a clear error; never wrong."""

import re
from typing import ClassVar

import planck.torch as pt
import pytest
import torch
from torch.autograd import forward_ad
from torch.func import grad, jacrev, jvp, vmap
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch_problems import REPRESENTATIVES, all_of, assert_same_bits, backward_of, by_name, first_of, randn, scan

# vmap without a batching rule is a loop, and says so; jit.trace says that it is old.
pytestmark = [
    pytest.mark.filterwarnings("ignore:There is a performance drop"),
    pytest.mark.filterwarnings("ignore:`torch.jit"),
]
DIFFERENTIABLE = [p for p in REPRESENTATIVES if p.differentiable]
EACH = pytest.mark.parametrize(**by_name(REPRESENTATIVES))
EACH_DIFFERENTIABLE = pytest.mark.parametrize(**by_name(DIFFERENTIABLE))
TORCHS = {"cumsum": torch.cumsum, "cumprod": torch.cumprod, "logcumsumexp": torch.logcumsumexp}


def plain(problem):
    return [t if t is None else t.detach() for t in problem.leaves(torch.float32)]


# ---- torch.func ----


@EACH_DIFFERENTIABLE
def test_func_grad_is_the_gradient(problem):
    inputs = problem.leaves(torch.float64)
    wanted = tuple(i for i, t in enumerate(inputs) if t is not None and t.requires_grad)

    def loss(*tensors):
        y = first_of(problem.quick(*tensors))
        return (y * randn(*y.shape, dtype=y.dtype, seed=7)).masked_fill(torch.isneginf(y), 0).sum()

    got = grad(loss, argnums=wanted)(*(t if t is None else t.detach() for t in inputs))
    want = backward_of(problem.quick, inputs)[-len(wanted) :]
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("name", TORCHS)
def test_jacobians_and_gradients_per_sample(name):
    x = randn(3, 4, dtype=torch.float64)
    ours, theirs = (lambda v, f=f: f(v, 0) for f in (getattr(pt, name), TORCHS[name]))
    torch.testing.assert_close(jacrev(ours)(x), jacrev(theirs)(x))
    per_sample = [vmap(grad(lambda v, f=f: (f(v) ** 2).sum()))(x) for f in (ours, theirs)]
    torch.testing.assert_close(*per_sample)


@EACH
def test_vmap_is_a_loop(problem):
    """Over a new first dimension of the first tensor, the others shared."""
    first, *rest = plain(problem)
    batch = torch.stack([first, first.flip(0), first + first])
    got = vmap(lambda v: all_of(problem.quick(v, *rest)))(batch)
    want = [torch.stack(parts) for parts in zip(*(all_of(problem.quick(v, *rest)) for v in batch), strict=True)]
    assert_same_bits(tuple(got), tuple(want))


def test_vmap_over_the_last_dimension():
    x = randn(4, 5, 3)
    assert_same_bits(vmap(lambda v: pt.cumsum(v, -1), in_dims=2, out_dims=2)(x), pt.cumsum(x, 1))


def test_a_second_gradient_by_torch_func():
    """Right for cumsum, an error for the others."""
    x = randn(4, dtype=torch.float64)
    second = [jacrev(grad(lambda v, f=f: (f(v, 0) ** 3).sum()))(x) for f in (pt.cumsum, torch.cumsum)]
    torch.testing.assert_close(*second)
    with pytest.raises(RuntimeError, match="twice"):
        jacrev(grad(lambda v: pt.cumprod(v, 0).sum()))(x)


# ---- forward mode ----


def no_forward_mode():
    return pytest.raises((NotImplementedError, RuntimeError), match=r"forward.mode|jvp")


@pytest.mark.parametrize("requires_grad", [False, True])
@EACH_DIFFERENTIABLE
def test_forward_mode_is_a_clear_error(problem, requires_grad):
    """A tangent that silently vanishes would be a derivative of 0."""
    first, *rest = plain(problem)
    first.requires_grad_(requires_grad)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(first, torch.ones_like(first))
        with no_forward_mode():
            problem.quick(dual, *rest)


@EACH_DIFFERENTIABLE
def test_jvp_is_a_clear_error(problem):
    first, *rest = plain(problem)
    with no_forward_mode():
        jvp(lambda v: first_of(problem.quick(v, *rest)), (first,), (torch.ones_like(first),))


@EACH
def test_a_dual_level_without_tangents_changes_nothing(problem):
    inputs = plain(problem)
    with forward_ad.dual_level():
        got = problem.quick(*inputs)
    assert_same_bits(got, problem.quick(*inputs))


# ---- tracing ----


@EACH
def test_jit_trace_records_the_operation(problem):
    """The result follows new inputs: nothing was baked in."""
    given = plain(problem)
    present = [i for i, t in enumerate(given) if t is not None]

    def function(*tensors):
        inputs = list(given)
        for i, t in zip(present, tensors, strict=True):
            inputs[i] = t
        return all_of(problem.quick(*inputs))

    traced = torch.jit.trace(function, tuple(given[i] for i in present), check_trace=False)
    assert re.search(r"planck::\w+\(", str(traced.graph))
    other = [given[i] * (-2 if i == 0 else 1) for i in present]
    assert_same_bits(traced(*other), function(*other))


# ---- modes ----


@EACH
def test_the_default_device_does_not_move_real_tensors(problem):
    inputs = problem.leaves(torch.float32)
    want = [*all_of(problem.quick(*inputs))]
    if problem.differentiable:
        want = backward_of(problem.quick, inputs)
    with torch.device("meta"):
        got = [*all_of(problem.quick(*inputs))]
    torch.set_default_device("meta")
    again = [*all_of(problem.quick(*inputs))]
    torch.set_default_device(None)
    assert_same_bits(tuple(g.detach() for g in got), tuple(want[: len(got)]))
    assert_same_bits(tuple(g.detach() for g in again), tuple(want[: len(got)]))


@EACH
def test_dispatch_modes_see_the_operation(problem):
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    inputs = plain(problem)
    with Watch():
        got = problem.quick(*inputs)
    assert_same_bits(got, problem.quick(*inputs))
    assert [s.split(".")[0] for s in seen].count("planck") == 1


def test_numbers_become_tensors_on_the_input_s_device():
    """Scales and zero points beside a CUDA tensor must not stay on the CPU; the meta device shows where they go."""
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            if str(function).startswith("planck"):
                seen.extend(a.device.type for a in args if isinstance(a, torch.Tensor))
            return function(*args, **(kwargs or {}))

    x, q = torch.ones(4, device="meta"), torch.ones(4, dtype=torch.int8, device="meta")
    with Watch():
        pt.quantize(x, 0.5, 1)
        pt.fake_quantize(x, 0.5)
        pt.dequantize(q, 0.5, 1)
    assert seen == ["meta"] * 9


def test_function_modes_see_the_operation():
    seen = []

    class Watch(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = randn(4)
    with Watch():
        got = pt.cumsum(x, 0)
    assert_same_bits(got, pt.cumsum(x, 0))
    assert any("planck" in s for s in seen)


# ---- subclasses ----


class Named(torch.Tensor):
    """A subclass that only carries its type on, as many do."""


class Wrapper(torch.Tensor):
    """A subclass that holds another tensor and sees every operation."""

    seen: ClassVar[list[str]] = []

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, requires_grad=inner.requires_grad
        )

    def __init__(self, inner):
        self.inner = inner.detach()

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        cls.seen.append(str(function))
        unwrap = lambda t: t.inner if isinstance(t, cls) else t  # noqa: E731
        result = function(*tree_map(unwrap, args), **tree_map(unwrap, kwargs or {}))
        return tree_map(lambda t: cls(t) if isinstance(t, torch.Tensor) else t, result)


@EACH
def test_subclasses_keep_their_type(problem):
    inputs = plain(problem)
    got = all_of(problem.quick(inputs[0].as_subclass(Named), *inputs[1:]))
    assert all(type(t) is Named for t in got)
    assert_same_bits(tuple(t.as_subclass(torch.Tensor) for t in got), problem.quick(*inputs))


@EACH
def test_wrappers_see_the_operation(problem):
    inputs = problem.leaves(torch.float32)
    Wrapper.seen.clear()
    wrapped = Wrapper(inputs[0])
    got = all_of(problem.quick(wrapped, *inputs[1:]))
    assert all(type(t) is Wrapper for t in got)
    assert any(s.startswith("planck.") for s in Wrapper.seen)
    assert_same_bits(tuple(t.inner for t in got), tuple(t.detach() for t in all_of(problem.quick(*inputs))))


def test_wrappers_have_gradients():
    x = randn(3, 4)
    wrapped = Wrapper(x.requires_grad_())
    pt.cumprod(wrapped, 0).sum().backward()
    assert type(wrapped.grad) is Wrapper
    pt.cumprod(x, 0).sum().backward()
    assert_same_bits(wrapped.grad.inner, x.grad)


def test_parameters_give_plain_tensors():
    """nn.Parameter is a subclass too, and torch's functions do not keep it."""
    y = scan("cumsum", 0).quick(torch.nn.Parameter(randn(3, 2)))
    assert type(y) is torch.Tensor and y.requires_grad
