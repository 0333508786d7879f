"""linear_recurrence with inputs that broadcast: against a loop, without copies, the same bits on any threads."""

import planck
import planck.torch as pt
import pytest
import torch
from torch.profiler import ProfilerActivity, profile
from torch_problems import FLOATS, RECURRENCES, assert_same_bits, backward_of, by_name, leaves, randn

REPEATED = [p for p in RECURRENCES if p.note["a"] != (3, 5, 2) or p.note["b"] != (3, 5, 2)]


def loop(a, b, dim, initial=None, reverse=False):
    """The definition, step by step in PyTorch, which finds the gradients."""
    a, b = torch.broadcast_tensors(a, b)
    shape = list(b.shape)
    dim %= len(shape)
    state = torch.zeros((), dtype=b.dtype) if initial is None else initial
    if state.ndim == len(shape):
        state = state.squeeze(dim)
    state = state.expand(shape[:dim] + shape[dim + 1 :])
    steps = []
    for t in reversed(range(shape[dim])) if reverse else range(shape[dim]):
        state = a.select(dim, t) * state + b.select(dim, t)
        steps.append(state)
    return torch.stack(steps[::-1] if reverse else steps, dim)


@pytest.mark.parametrize("way", ["quick", "op"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(**by_name(RECURRENCES))
def test_against_a_loop(problem, dtype, way):
    inputs, note = problem.leaves(dtype), problem.note
    got = backward_of(problem.ways[way], inputs)
    want = backward_of(lambda a, b, state: loop(a, b, note["dim"], state, note["reverse"]), inputs)
    assert len(got) == len(want) == 1 + sum(t is not None for t in inputs)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        torch.testing.assert_close(g, w)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(**by_name(REPEATED))
def test_forward_is_that_of_copies_bit_for_bit(problem, dtype):
    a, b, state = problem.make(dtype)
    copies = [t.contiguous() for t in torch.broadcast_tensors(a, b)]
    want = pt.linear_recurrence(*copies, problem.note["dim"], initial=state, reverse=problem.note["reverse"])
    assert_same_bits(problem.quick(a, b, state), want)


@pytest.mark.parametrize("numbers", [(0.9, None, None), (None, 0.25, None), (0.9, None, 2.0), (None, 1, 3)], ids=str)
@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers(dtype, numbers):
    """As tensors of no dimensions, with the dtype of the tensors."""
    x = randn(4, 6, dtype=dtype)
    a, b, initial = (x if n is None else n for n in numbers)
    tensors = [t if isinstance(t, torch.Tensor) else torch.tensor(t, dtype=dtype) for t in (a, b, initial)]
    initial, tensors[2] = (None, None) if numbers[2] is None else (initial, tensors[2])
    got = pt.linear_recurrence(a, b, initial=initial)
    assert got.dtype == dtype
    assert_same_bits(got, pt.linear_recurrence(tensors[0], tensors[1], initial=tensors[2]))


def test_moving_averages_and_discounted_sums():
    x = randn(3, 50, dtype=torch.float64)
    average, alpha = torch.zeros(3, dtype=torch.float64), 0.1
    averages = []
    for t in range(50):
        average = (1 - alpha) * average + alpha * x[:, t]
        averages.append(average)
    torch.testing.assert_close(pt.linear_recurrence(1 - alpha, alpha * x), torch.stack(averages, 1))
    returns = torch.stack([sum(0.9 ** (k - t) * x[:, k] for k in range(t, 50)) for t in range(50)], 1)
    torch.testing.assert_close(pt.linear_recurrence(0.9, x, reverse=True), returns)


def test_a_learnt_decay_for_each_channel():
    """(batch, steps, channels): the factor has one element for each channel, and so has its gradient."""
    decay, x = randn(7, dtype=torch.float64).sigmoid().requires_grad_(), randn(2, 9, 7, dtype=torch.float64, seed=1)
    pt.linear_recurrence(decay, x, 1).sum().backward()
    (want,) = torch.autograd.grad(loop(decay, x, 1).sum(), decay)
    torch.testing.assert_close(decay.grad, want)


# ---- memory ----

SHAPE = (64, 4096)
BYTES = 64 * 4096 * 4


def allocated(function):
    """Bytes that PyTorch allocates in a call, in blocks of a page and more; planck's results are its tensors."""
    function()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiled:
        function()
    events = [event for event in profiled.profiler.kineto_results.events() if event.name() == "[memory]"]
    return sum(event.nbytes() for event in events if event.nbytes() >= 4096)


@pytest.mark.parametrize("a", [0.5, (), (64, 1), (4096,)], ids=str)
def test_no_copy_of_what_is_broadcast(a):
    """The result is all that is made."""
    x = randn(*SHAPE)
    a = randn(*a) if isinstance(a, tuple) else a
    assert BYTES <= allocated(lambda: pt.linear_recurrence(a, x)) < 1.1 * BYTES
    assert BYTES <= allocated(lambda: planck.linear_recurrence(a, x)) < 1.1 * BYTES


@pytest.mark.parametrize(
    "a, grads, tensors",
    [
        (0.5, (False, True), 1),  # db
        ((), (True, True), 1),  # db; da is a sum of it
        ((64, 1), (True, True), 1),
        ((), (True, False), 1),  # g, of which da is made
        (SHAPE, (False, True), 1),  # no da
        (SHAPE, (True, False), 1),  # no db
        (SHAPE, (True, True), 2),
    ],
    ids=str,
)
def test_gradients_that_nobody_wants_are_not_made(a, grads, tensors):
    """The backward pass makes one full-size tensor for each full-size gradient, or the one that sums are made of."""
    x = randn(*SHAPE).requires_grad_(grads[1])
    a = randn(*a).requires_grad_(grads[0]) if isinstance(a, tuple) else a
    h, dh = pt.linear_recurrence(a, x), torch.ones(SHAPE)
    wanted = [t for t in (a, x) if isinstance(t, torch.Tensor) and t.requires_grad]
    bytes_ = allocated(lambda: torch.autograd.grad(h, wanted, dh, retain_graph=True))
    assert tensors * BYTES <= bytes_ < (tensors + 0.1) * BYTES


@pytest.mark.parametrize("grad", [False, True])
def test_states_are_kept_for_the_factor_s_gradient_alone(grad):
    saved = []
    a, x = randn(4).requires_grad_(grad), randn(3, 4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.shape) or t, lambda t: t):
        pt.linear_recurrence(a, x, 0)
    assert saved == ([(4,), (3, 4)] if grad else [(4,)])


# ---- the same bits ----


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(), (300, 1), (500,)], ids=str)
def test_threads_change_no_bit_of_a_sum(shape, dtype):
    """The sums follow the library's canonical order."""
    tensors = [0.5 * randn(*shape, dtype=dtype).sigmoid(), randn(300, 500, dtype=dtype, seed=1), randn(dtype=dtype)]
    before, found = torch.get_num_threads(), []
    for threads in (1, 2, 3, 7):
        torch.set_num_threads(threads)
        found.append(backward_of(lambda a, b, s: pt.linear_recurrence(a, b, 1, initial=s), leaves(tuple(tensors))))
    torch.set_num_threads(before)
    for other in found[1:]:
        assert_same_bits(tuple(other), tuple(found[0]))


# ---- what does not fit ----


@pytest.mark.parametrize(
    "a, b, initial, dim, text",
    [
        ((4,), (3, 5), None, 1, r"a has shape \[4\], which does not broadcast to \[3, 5\]"),
        ((3, 5), (2, 5), None, 1, r"b has shape \[2, 5\], which does not broadcast to \[3, 5\]"),
        ((), (3, 5), (5,), 1, r"initial has shape \[5\], which does not broadcast to \[3\] or \[3, 1\]"),
        ((), (3, 5), (2, 3, 1), 1, "initial has shape"),
        ((), (3, 3, 5), (3, 1), 2, r"could stand for \[1, 3, 1\] or, as if without dim, for \[3, 1, 1\]"),
        ((2,), (), None, 1, r"dim = 1 is out of range for shape \[2\]"),
    ],
)
def test_shapes_that_do_not_fit(a, b, initial, dim, text):
    tensors = [None if shape is None else torch.ones(shape) for shape in (a, b, initial)]
    with pytest.raises(ValueError, match=text):
        pt.linear_recurrence(tensors[0], tensors[1], dim, initial=tensors[2])


def test_numbers_beyond_the_dtype_are_refused():
    with pytest.raises(RuntimeError, match="overflow"):
        pt.linear_recurrence(1e300, torch.ones(3))


def test_compiled_with_a_number_and_a_channel_s_factor():
    """One graph, with gradients of the shapes of the inputs."""

    def both(a, x):
        return pt.linear_recurrence(0.5, x, 1) + pt.linear_recurrence(a, x, 1, initial=1.0)

    inputs = leaves((randn(4), randn(2, 5, 4, seed=1)))
    compiled = torch.compile(both, fullgraph=True, backend="aot_eager")
    assert_same_bits(tuple(backward_of(compiled, inputs)), tuple(backward_of(both, inputs)))


def test_a_term_of_fewer_dimensions_that_is_not_repeated():
    """Its gradient is no sum, though that of the factor is."""
    inputs = leaves((randn(5, dtype=torch.float64), randn(5, dtype=torch.float64, seed=1)))
    state = randn(1, 1, dtype=torch.float64)
    got = backward_of(lambda a, b: pt.linear_recurrence(a.sum(), b, 0, initial=state[0, 0])[None], inputs)
    wide = backward_of(lambda a, b: pt.linear_recurrence(a.sum(), b[None], 1, initial=state), inputs)
    assert_same_bits(tuple(got), tuple(wide))
    direct = backward_of(lambda a, b: pt.linear_recurrence(a.sum().reshape(1, 1), b, 1, initial=state), inputs)
    assert_same_bits(tuple(got), tuple(direct))


@pytest.mark.parametrize(("dtype", "factor"), [(torch.bfloat16, 0.999), (torch.float16, 0.9999)])
def test_a_factor_that_the_dtype_holds_badly_is_refused(dtype, factor):
    b = torch.ones(4, dtype=dtype)
    with pytest.raises(ValueError, match="which decays otherwise: use float32"):
        pt.linear_recurrence(factor, b)
    assert pt.linear_recurrence(0.9, b).dtype == dtype
    assert pt.linear_recurrence(torch.tensor(factor, dtype=dtype), b).tolist() == [1, 2, 3, 4]
