"""Gradients of smooth functions: against differences, against torch's own, and what autograd promises around them."""

import weakref  # noqa: I001

import planck.torch as pt
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck
from torch_problems import BINARIES, EXTREMA, FLOATS, OPS, RECURRENCES, REPRESENTATIVES, SCANS
from torch_problems import (
    all_of,
    assert_same_bits,
    backward_of,
    binary,
    by_name,
    first_of,
    leaves,
    randn,
    recurrence,
    scan,
)

SMOOTH = SCANS + EXTREMA + RECURRENCES + BINARIES
DIFFERENTIABLE = [p for p in REPRESENTATIVES if p.differentiable]
WAYS = pytest.mark.parametrize("way", ["quick", "op"])


@WAYS
@pytest.mark.parametrize(**by_name(SMOOTH))
def test_against_differences(problem, way):
    """The -Inf that starts an exclusive logcumsumexp is no number to take differences of."""

    def function(*inputs):
        y = first_of(problem.ways[way](*inputs))
        return y.masked_fill(torch.isneginf(y), 0)

    assert gradcheck(function, problem.leaves(torch.float64))


@WAYS
@pytest.mark.parametrize(
    **by_name([scan("cumprod", 0), scan("cumprod", -1, exclusive=True), scan("cumprod", 1, reverse=True)])
)
@pytest.mark.parametrize("zeros", [[0], [2], [0, 3], [1, 2, 3]])
def test_products_with_zeros_against_differences(problem, way, zeros):
    (x,) = problem.make(torch.float64)
    x.view(-1)[zeros] = 0
    x[0, zeros] = 0
    x[:, :, 0][zeros[0] % 3] = 0
    assert gradcheck(problem.ways[way], x.requires_grad_())


@WAYS
@pytest.mark.parametrize(**by_name([p for p in SCANS if p.name == "cumsum"]))
def test_sums_can_be_differentiated_twice(problem, way):
    assert gradgradcheck(problem.ways[way], problem.leaves(torch.float64))


def penalty(problem, way, power):
    """A loss with a gradient, its gradient with create_graph, and what both are of."""
    inputs = problem.leaves(torch.float64)
    wanted = [t for t in inputs if t is not None and t.requires_grad]
    y = first_of(problem.ways[way](*inputs))
    loss = (y.masked_fill(torch.isneginf(y), 0) ** power).sum()
    return wanted, loss, torch.autograd.grad(loss, wanted, create_graph=True)


def not_twice():
    return pytest.raises(RuntimeError, match=r"twice|no autograd formula")


ONCE = [p for p in DIFFERENTIABLE if p.name != "cumsum"]
# Of these the gradient depends on the inputs, not only on the incoming gradient.
CURVED = [
    p
    for p in ONCE
    if p.name in ("cumprod", "logcumsumexp", "linear_recurrence", "fake_quantize_learnable")
    or (len(p.make(torch.float64)) == 3 and p.smooth)
]


@WAYS
@pytest.mark.parametrize("problem, power", [(p, 2) for p in ONCE] + [(p, 1) for p in CURVED], ids=str)
def test_a_second_gradient_is_a_clear_error(problem, power, way):
    """Never a message about graphs that the user did not make."""
    wanted, _, first = penalty(problem, way, power)
    assert any(g.requires_grad for g in first), "the second gradient would silently be zero"
    with not_twice():
        torch.autograd.grad(sum(g.sum() for g in first if g.requires_grad), wanted)


@WAYS
@pytest.mark.parametrize("problem, power", [(p, 2) for p in ONCE] + [(p, 1) for p in CURVED], ids=str)
def test_a_gradient_penalty_is_not_silently_left_out(problem, power, way):
    """loss + |gradient|^2, as in many training loops: the first term has a gradient, the second cannot have one."""
    wanted, loss, first = penalty(problem, way, power)
    with not_twice():
        torch.autograd.grad(loss + sum((g**2).sum() for g in first), wanted)


# ---- torch's own gradients ----


def torch_scan(name, x, dim, reverse=False):
    y = getattr(torch, name)(x.flip(dim) if reverse else x, dim)
    y = y[0] if isinstance(y, tuple) else y
    return y.flip(dim) if reverse else y


@WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(**by_name([p for p in SCANS + EXTREMA if not p.note.get("exclusive")]))
def test_scans_have_torchs_gradients(problem, dtype, way):
    (x,) = problem.make(dtype)
    if problem.name == "cumprod":
        x[1, 2], x[0, :, 1], x[2, 0, 0] = 0, 0, -0.0
    _, *_, got = backward_of(problem.ways[way], leaves((x,)))
    *_, want = backward_of(lambda v: torch_scan(problem.name, v, **problem.note), leaves((x,)))
    torch.testing.assert_close(got, want)


@WAYS
@pytest.mark.parametrize("name", ["cummax", "cummin"])
def test_ties_and_nan_take_torchs_winner(name, way):
    pool = torch.tensor([-1.0, 0.0, -0.0, 2.0, 2.0, torch.inf, -torch.inf, torch.nan])
    for seed in range(6):
        x = pool[torch.randint(0, 7 + seed // 3, (6, 40), generator=torch.Generator().manual_seed(seed))]
        for dim in (0, 1):
            function = scan(name, dim).ways[way]
            values, indices, dx = backward_of(function, leaves((x,)))
            torch_values, torch_indices, want = backward_of(
                lambda v, dim=dim: getattr(torch, name)(v, dim), leaves((x,))
            )
            assert torch.equal(indices, torch_indices)
            torch.testing.assert_close(values, torch_values, rtol=0, atol=0, equal_nan=True)
            torch.testing.assert_close(dx, want)


@WAYS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(**by_name([p for p in BINARIES if p.name == "lerp"]))
def test_lerp_has_torchs_gradients(problem, dtype, way):
    tensors = problem.leaves(dtype)
    number = problem.note.get("number")
    got = backward_of(problem.ways[way], tensors)
    want = backward_of((lambda a, b: torch.lerp(a, b, number)) if number else torch.lerp, tensors)
    assert len(got) == len(want) == 1 + len(tensors)
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize(**by_name(DIFFERENTIABLE))
def test_both_ways_give_the_same_bits(problem):
    for dtype in FLOATS:
        inputs = problem.leaves(dtype)
        assert_same_bits(tuple(backward_of(problem.quick, inputs)), tuple(backward_of(problem.op, inputs)))


# ---- what autograd promises ----


@WAYS
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(**by_name(DIFFERENTIABLE))
def test_gradients_have_the_dtype_and_shape_of_the_input(problem, dtype, way):
    inputs = problem.leaves(dtype)
    first_of(problem.ways[way](*inputs)).sum().backward()
    for tensor in inputs:
        if tensor is not None and tensor.requires_grad:
            assert tensor.grad.dtype == tensor.dtype and tensor.grad.shape == tensor.shape


@WAYS
@pytest.mark.parametrize(
    **by_name(
        [binary("lerp", ((3, 5),) * 3), binary("add_scaled", ((3, 1), (5,), (3, 5))), recurrence(1, False, "with dim")]
    )
)
def test_gradients_for_some_inputs(problem, way):
    """Whichever are wanted: those come out as if all were, and the others stay without."""
    tensors = problem.make(torch.float64)
    everything = backward_of(problem.ways[way], leaves(tensors))[1:]
    for mask in range(1, 2 ** len(tensors)):
        wanted = tuple(bool(mask >> i & 1) for i in range(len(tensors)))
        inputs = leaves(tensors, wanted)
        y = problem.ways[way](*inputs)
        y.backward(randn(*y.shape, dtype=y.dtype, seed=7))
        for tensor, want, full in zip(inputs, wanted, everything, strict=True):
            assert (tensor.grad is not None) == want
            assert not want or torch.equal(tensor.grad, full)


@WAYS
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize(**by_name(DIFFERENTIABLE))
def test_nothing_is_recorded_without_grad(problem, mode, way):
    inputs = problem.leaves(torch.float32)
    with mode():
        outputs = all_of(problem.ways[way](*inputs))
    assert not any(o.requires_grad or o.grad_fn for o in outputs)
    assert first_of(problem.ways[way](*inputs)).requires_grad
    assert not first_of(problem.ways[way](*(t if t is None else t.detach() for t in inputs))).requires_grad


SAVED = [p for p in DIFFERENTIABLE if p.name not in ("cumsum", "cummax", "cummin")]


@WAYS
@pytest.mark.parametrize(**by_name(SAVED))
def test_inputs_changed_in_place_before_backward_are_noticed(problem, way):
    inputs = problem.leaves(torch.float32)
    y = first_of(problem.ways[way](*inputs))
    with torch.no_grad():
        inputs[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@WAYS
@pytest.mark.parametrize("name, part", [("logcumsumexp", 0), ("cummax", 1), ("cummin", 1)])
def test_outputs_changed_in_place_before_backward_are_noticed(name, part, way):
    outputs = all_of(scan(name, 0).ways[way](randn(4, 3).requires_grad_()))
    outputs[part].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs[0].sum().backward()


def test_outputs_that_no_gradient_needs_may_change_in_place():
    """Where torch allows it: the gradients of sums and products do not read the result."""
    for function in (lambda x: pt.cumsum(x, 0), lambda x: pt.cumprod(x, 0), lambda x: pt.lerp(x, x, 0.5)):
        x = randn(5).requires_grad_()
        expected = torch.autograd.grad(function(x).sum(), x)[0]
        y = function(x)
        y.mul_(2)
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], 2 * expected)


def test_indices_are_not_differentiable():
    extrema = pt.cummax(randn(4).requires_grad_(), 0)
    assert extrema.values.requires_grad and not extrema.indices.requires_grad


@WAYS
def test_gradients_in_odd_layouts(way):
    """A dy that is expanded (as from sum), strided or negated lazily, and inputs that are transposed."""
    x = randn(5, 4, dtype=torch.float64).T.requires_grad_()
    problem = scan("cumprod", 1)
    want = torch.autograd.grad(torch.cumprod(x, 1), x, torch.ones(4, 5, dtype=torch.float64))[0]
    for dy in (
        torch.ones((), dtype=torch.float64).expand(4, 5),
        torch.ones(5, 8, dtype=torch.float64)[:, ::2].T,
        torch._neg_view(-torch.ones(4, 5, dtype=torch.float64)),
    ):
        torch.testing.assert_close(torch.autograd.grad(problem.ways[way](x), x, dy)[0], want)


@pytest.mark.parametrize("name, kept", [("cumsum", 0), ("cumprod", 1), ("logcumsumexp", 2), ("cummax", 1)])
def test_what_is_saved_can_be_hooked_and_is_freed(name, kept):
    """cumsum saves nothing, cumprod its input, logcumsumexp its result too: in no cycle that only gc would end."""
    saved = []
    x = randn(4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t.clone(), lambda t: t):
        first_of(getattr(pt, name)(x, 0)).sum().backward()
    assert len(saved) == kept
    y = first_of(getattr(pt, name)(x, 0))
    references = [weakref.ref(y), weakref.ref(y.grad_fn)]
    del y
    assert [r() for r in references] == [None, None]


def test_the_quick_way_is_not_the_registered_operation():
    """The tests above would prove little if both ways were one."""
    x = randn(4).requires_grad_()
    assert type(pt.cumsum(x, 0).grad_fn) is not type(OPS.cumsum(x, None, 0, False, False).grad_fn)
