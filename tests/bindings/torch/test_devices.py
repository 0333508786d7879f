"""Tensors of different devices are refused, eagerly and in graphs, where a fake would give uninitialised memory for a result."""

import planck.torch as pt
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_problems import OPS, REPRESENTATIVES, all_of, by_name, fake, leaves, randn

MIXED = "on (cpu|meta|cuda:0), and .* on (cpu|meta|cuda:0): move them to one device"
PROBLEMS = [p for p in REPRESENTATIVES if sum(t is not None for t in p.make(torch.float32)) > 1]


def mixtures(problem, first, second):
    """The problem's tensors on the first device but for one on the second, for each of them, and the other way round."""
    tensors = problem.make(torch.float32)
    for alone in (i for i, t in enumerate(tensors) if t is not None):
        for rest, odd in ((first, second), (second, first)):
            if odd != "cpu" or tensors[alone].ndim > 0:  # a CPU tensor of no dimensions serves: below
                yield [t if t is None else t.to(odd if i == alone else rest) for i, t in enumerate(tensors)]


def test_every_function_of_two_tensors_is_tried():
    one = {"cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "dynamic_quantize", "initialize"}
    assert {p.name for p in PROBLEMS} == {name for name in pt.__all__ if name[0].islower()} - one


@pytest.mark.parametrize(**by_name(PROBLEMS))
def test_cpu_and_meta_tensors_are_refused(problem):
    for tensors in mixtures(problem, "cpu", "meta"):
        for way in problem.ways.values():
            with pytest.raises(RuntimeError, match=MIXED):
                way(*tensors)
            if problem.differentiable:
                with pytest.raises(RuntimeError, match=MIXED):
                    way(*leaves(tuple(tensors), tuple(i == 0 for i in range(len(tensors)))))


@pytest.mark.parametrize("other", ["meta", "cuda"])
@pytest.mark.parametrize(**by_name(PROBLEMS))
def test_fakes_refuse_them_too(problem, other):
    with FakeTensorMode():
        for tensors in mixtures(problem, "cpu", other):
            for way in problem.ways.values():
                with pytest.raises(RuntimeError, match=MIXED):
                    way(*tensors)


@pytest.mark.parametrize(**by_name(PROBLEMS))
def test_graphs_refuse_them_too(problem):
    for tensors in mixtures(problem, "cpu", "meta"):
        torch.compiler.reset()
        with pytest.raises(RuntimeError, match=MIXED):
            torch.compile(problem.quick, backend="eager", fullgraph=True)(*tensors)


@pytest.mark.parametrize(**by_name([p for p in PROBLEMS if p.differentiable]))
def test_backward_refuses_a_gradient_of_another_device(problem):
    """Autograd checks that itself; who calls the node does not."""
    for way in problem.ways.values():
        y = all_of(way(*problem.leaves(torch.float32)))[0]
        with pytest.raises(RuntimeError, match=MIXED):
            y.grad_fn.apply(torch.ones_like(y, device="meta"))


def test_gradients_of_one_tensor_refuse_one_of_another_device():
    x, dy = randn(3, 4), torch.ones(3, 4, device="meta")
    indices = torch.zeros(3, 4, dtype=torch.int64)
    for call in (
        lambda: OPS.cumprod_backward(dy, x, None, 0, False, False),
        lambda: OPS.logcumsumexp_backward(dy, x, x, None, 0, False, False),
        lambda: OPS.cummax_backward(dy, indices, None, 0, False),
    ):
        with pytest.raises(RuntimeError, match=MIXED):
            call()


# ---- CPU tensors of no dimensions ----


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_cpu_tensor_of_no_dimensions_serves_as_in_torch(number):
    shapes = [(3, 5), (3, 5), (3, 5)]
    shapes[number] = ()
    tensors = [randn(*shape, seed=i).to("cpu" if shape == () else "meta") for i, shape in enumerate(shapes)]
    want = torch.lerp(*tensors)
    for function in (pt.lerp, pt.add_scaled):
        got = function(*tensors)
        assert (got.device, got.shape) == (want.device, want.shape)
    # Not the other way round.
    tensors = [torch.ones(t.shape, device="meta" if t.is_cpu else "cpu") for t in tensors]
    for function in (torch.lerp, pt.lerp):
        with pytest.raises(RuntimeError, match="on"):
            function(*tensors)


def test_its_gradient_comes_back_to_the_cpu():
    """Through the node of the copy; without a device there is no more to run."""
    weight = torch.tensor(0.5, requires_grad=True)
    y = pt.lerp(*(torch.ones(3, device="meta", requires_grad=True) for _ in range(2)), weight)
    (copy, _), (leaf, _) = y.grad_fn.next_functions[2], y.grad_fn.next_functions[2][0].next_functions[0]
    assert copy.name() == "ToCopyBackward0" and leaf.variable is weight


def test_scales_and_zero_points_of_no_dimensions_serve_too():
    problem = fake("tensor")
    x, scale, zero_point = problem.make(torch.float32)
    assert problem.quick(x.to("meta"), scale, zero_point).is_meta
    compiled = torch.compile(problem.quick, backend="eager", fullgraph=True)
    assert compiled(x.to("meta"), scale, zero_point).is_meta


# ---- modules ----


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"dim": 1}, {"learnable": True}, {"learnable": True, "dim": 1, "shape": (5,)}], ids=str
)
def test_a_module_left_on_meta_says_so(options, training):
    module = pt.FakeQuantize(**options)
    module(randn(3, 5))
    module.to("meta").train(training)
    with pytest.raises(RuntimeError, match="FakeQuantize is on meta, and its input on cpu"):
        module(randn(3, 5))
    assert module(randn(3, 5).to("meta")).is_meta
