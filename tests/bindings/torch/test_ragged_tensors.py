"""Ragged batches: every segment has the bits of a call of its own, forward and backward, eager and compiled."""

import itertools

import planck.torch as pt
import pytest
import torch
import torch._dynamo.testing
from torch.autograd import gradcheck, gradgradcheck
from torch_problems import FLOATS, assert_same_bits, leaves, randn

LENGTHS = [3, 0, 1, 8, 0, 9, 64, 2]
TOTAL = sum(LENGTHS)
SUMS = ("cumsum", "cumprod", "logcumsumexp")
EXTREMA = ("cummax", "cummin")


def offsets_of(lengths=LENGTHS, dtype=torch.int64):
    return torch.tensor([0, *itertools.accumulate(lengths)], dtype=dtype)


def ways(name):
    return [{}, {"reverse": True}] + (
        [{"exclusive": True}, {"reverse": True, "exclusive": True}] if name in SUMS else []
    )


CASES = [(name, options) for name in SUMS + EXTREMA for options in ways(name)]
cases = pytest.mark.parametrize("name, options", CASES, ids=str)


def apart(name, x, dim, options, offsets):
    """One call for each segment."""
    parts = [getattr(pt, name)(part, dim, **options) for part in x.split(offsets.diff().tolist(), dim)]
    if isinstance(parts[0], tuple):
        return tuple(torch.cat(column, dim) for column in zip(*parts, strict=True))
    return torch.cat(parts, dim)


def recurrence_apart(a, b, initial, dim, reverse, offsets):
    lengths = offsets.diff().tolist()
    starts = [None] * len(lengths) if initial is None else initial.split(1, dim)
    parts = zip(a.split(lengths, dim), b.split(lengths, dim), starts, strict=True)
    return torch.cat([pt.linear_recurrence(*ab, dim, initial=h, reverse=reverse) for *ab, h in parts], dim)


def both(function, reference, *inputs):
    """The results and gradients of two functions of the same inputs."""
    found = []
    for f in (function, reference):
        mine = leaves(inputs)
        y = f(*mine)
        first = y[0] if isinstance(y, tuple) else y
        first.backward(randn(*first.shape, dtype=first.dtype, seed=5))
        found.append((*(y if isinstance(y, tuple) else (y,)), *(t.grad for t in mine if t is not None)))
    assert_same_bits(*found)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("dim", [0, 1])
@cases
def test_a_segment_is_a_call_of_its_own(name, options, dim, dtype):
    offsets = offsets_of(dtype=(torch.int64, torch.int32)[dim])
    x = randn(*((TOTAL, 3) if dim == 0 else (3, TOTAL)), dtype=dtype)
    both(
        lambda v: getattr(pt, name)(v, dim, **options, offsets=offsets),
        lambda v: apart(name, v, dim, options, offsets),
        x,
    )


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("start", [False, True])
@pytest.mark.parametrize("dim", [0, -1])
def test_a_recurrence_is_one_of_each_segment(dim, start, reverse, dtype):
    offsets = offsets_of()
    shape, states = ((TOTAL, 3), (len(LENGTHS), 3)) if dim == 0 else ((3, TOTAL), (3, len(LENGTHS)))
    initial = randn(*states, dtype=dtype, seed=2) if start else None
    both(
        lambda a, b, h: pt.linear_recurrence(a, b, dim, initial=h, reverse=reverse, offsets=offsets),
        lambda a, b, h: recurrence_apart(a, b, h, dim, reverse, offsets),
        randn(*shape, dtype=dtype),
        randn(*shape, dtype=dtype, seed=1),
        initial,
    )


@cases
def test_against_differences(name, options):
    offsets = offsets_of([2, 0, 3])

    def function(x):
        y = getattr(pt, name)(x, 0, **options, offsets=offsets)
        y = y[0] if isinstance(y, tuple) else y
        return y.masked_fill(torch.isneginf(y), 0)

    assert gradcheck(function, randn(5, 2, dtype=torch.float64).requires_grad_())


@pytest.mark.parametrize("shape_a", [(5, 2), (2,), (5, 1), (), (1, 2)])
@pytest.mark.parametrize("shape_h", [None, (3, 2), (1, 2), (2,), ()])
@pytest.mark.parametrize("reverse", [False, True])
def test_recurrences_that_broadcast_against_differences(shape_a, shape_h, reverse):
    """A factor or a state that all segments have is the sum of what each of them says."""
    offsets = offsets_of([2, 0, 3])

    def function(a, b, h=None):
        return pt.linear_recurrence(a, b, 0, initial=h, reverse=reverse, offsets=offsets)

    shapes = [shape_a, (5, 2), *([] if shape_h is None else [shape_h])]
    inputs = [randn(*shape, dtype=torch.float64, seed=i) for i, shape in enumerate(shapes)]
    assert gradcheck(function, leaves(tuple(inputs)))


def test_sums_can_be_differentiated_twice():
    offsets = offsets_of([2, 0, 3])
    assert gradgradcheck(lambda x: pt.cumsum(x, 0, offsets=offsets), randn(5, 2, dtype=torch.float64).requires_grad_())


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "logcumsumexp", "cummax", "linear_recurrence"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_equals_eager(name, backend):
    """Lengths change from batch to batch: one compilation is enough."""

    def function(x, offsets):
        if name == "linear_recurrence":
            return pt.linear_recurrence(0.5, x, 0, offsets=offsets)
        y = getattr(pt, name)(x, 0, offsets=offsets)
        return y[0] if isinstance(y, tuple) else y

    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
    for lengths in ([3, 4, 5], [6, 0, 2, 9], [5, 4, 3, 2, 6]):
        offsets, x = offsets_of(lengths), randn(sum(lengths), 3)
        both(lambda v, o=offsets: compiled(v, o), lambda v, o=offsets: function(v, o), x)
    assert counter.frame_count == 1


def test_offsets_have_no_gradient_and_are_left_alone():
    offsets = offsets_of()
    before, x = offsets.clone(), randn(TOTAL).requires_grad_()
    pt.cumsum(x, 0, offsets=offsets).sum().backward()
    assert torch.equal(offsets, before) and offsets.grad is None
    assert torch.equal(x.grad, torch.cat([torch.arange(n, 0, -1.0) for n in LENGTHS]))


def test_offsets_changed_before_the_backward_pass_are_an_error():
    offsets, x = offsets_of([2, 3]), randn(5).requires_grad_()
    y = pt.cumprod(x, 0, offsets=offsets)
    offsets[1] = 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_offsets_of_flash_attention_and_of_nested_tensors():
    """cu_seqlens is int32; a jagged tensor's offsets are int64, and its values are packed."""
    nested = torch.nested.nested_tensor([randn(n, 4, seed=n) for n in (3, 1, 5)], layout=torch.jagged)
    got = pt.cumsum(nested.values(), 0, offsets=nested.offsets())
    assert_same_bits(got, torch.cat([pt.cumsum(part, 0) for part in nested.unbind()]))
    assert_same_bits(got, pt.cumsum(nested.values(), 0, offsets=nested.offsets().int()))


@pytest.mark.parametrize(
    "offsets, text",
    [
        (
            torch.tensor([0, 4]),
            r"offsets\[1\] = 4 must lie in \[5, 5\], as offsets rise from 0 to the 5 elements along dim",
        ),
        (torch.tensor([1, 5]), r"offsets\[0\] = 1 must lie in \[0, 0\]"),
        (torch.tensor([0, 4, 2, 5], dtype=torch.int32), r"offsets\[2\] = 2 must lie in \[4, 5\]"),
        (torch.tensor([0]), "offsets stand for 0 segments, but 5 elements along dim have at least 1"),
        (torch.tensor(5), r"offsets has shape \[\], but must have one dimension"),
        (torch.tensor([[0, 5]]), r"offsets has shape \[1, 2\], but must have one dimension"),
        (torch.tensor([], dtype=torch.int64), r"offsets has shape \[0\], but must have one dimension"),
        (torch.tensor([0.0, 5.0]), "offsets has dtype float32; it can be int32 or int64"),
        (torch.tensor([0, 5], dtype=torch.int16), r"offsets has dtype (torch\.)?int16; it can be int32 or int64"),
        ([0, 5], "takes tensors, not list"),
    ],
)
def test_wrong_offsets(offsets, text):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=text):
        pt.cumsum(randn(5), 0, offsets=offsets)
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=text):
        pt.linear_recurrence(randn(5), randn(5), 0, offsets=offsets)


def test_initial_states_of_other_segments():
    with pytest.raises(ValueError, match=r"initial has shape \[4, 2\], which does not broadcast to \[2\] or \[3, 2\]"):
        pt.linear_recurrence(0.5, randn(5, 2), 0, initial=randn(4, 2), offsets=offsets_of([2, 0, 3]))
