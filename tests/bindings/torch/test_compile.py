"""torch.compile, export, make_fx and fake tensors see registered operations, and give the bits of eager mode."""

import planck.torch as pt
import pytest
import torch
import torch._dynamo.testing
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch_problems import (
    FLOATS,
    OPS,
    PROBLEMS,
    REPRESENTATIVES,
    all_of,
    assert_same_bits,
    backward_of,
    by_name,
    dynamic,
    first_of,
    learnable,
    randn,
    recurrence,
    scan,
    views,
)

# Inductor takes seconds for each.
WITH_INDUCTOR = [
    scan("cumprod", 1, reverse=True),
    recurrence(1, False, "with dim"),
    learnable("group", "reciprocal", 0.5),
    dynamic("token", "asymmetric", True),
]


def used_ops(graph_module):
    """The planck operations in a graph."""
    return [str(node.target) for node in graph_module.graph.nodes if "planck" in str(node.target)]


class Recorder:
    """A backend that runs a graph as it is and remembers it."""

    def __init__(self):
        self.ops = []

    def __call__(self, graph_module, inputs):
        self.ops += used_ops(graph_module)
        return graph_module.forward


def check(problem, backend, dtype=torch.float32):
    inputs = problem.leaves(dtype)
    compiled = torch.compile(problem.quick, backend=backend, fullgraph=True)
    if problem.differentiable:
        assert_same_bits(tuple(backward_of(compiled, inputs)), tuple(backward_of(problem.quick, inputs)))
    plain = [t if t is None else t.detach() for t in inputs]
    assert_same_bits(compiled(*plain), problem.quick(*plain))


@pytest.mark.parametrize(**by_name(REPRESENTATIVES))
def test_compiled_equals_eager(problem):
    check(problem, "aot_eager")


@pytest.mark.parametrize(**by_name(WITH_INDUCTOR))
def test_compiled_by_inductor_equals_eager(problem):
    check(problem, "inductor")


def test_every_function_is_compiled_here():
    functions = {name for name in pt.__all__ if name[0].islower()} - {"initialize"}
    assert {p.name for p in REPRESENTATIVES} == functions


@pytest.mark.parametrize(**by_name(REPRESENTATIVES))
def test_the_graph_holds_planck_operations(problem):
    recorder = Recorder()
    inputs = [t if t is None else t.detach() for t in problem.leaves(torch.bfloat16)]
    compiled = torch.compile(problem.quick, backend=recorder, fullgraph=True)
    assert_same_bits(compiled(*inputs), problem.quick(*inputs))
    assert len(recorder.ops) == 1 and recorder.ops[0].startswith("planck.")


def test_numbers_as_scale_and_as_weight_compile():
    def function(x):
        codes = pt.quantize(x, 0.1, 3)
        return pt.lerp(x, pt.dequantize(codes, 0.1, 3), 0.5) + pt.fake_quantize(x, 0.25, quant_min=-4, quant_max=3)

    x = randn(4, 5)
    assert_same_bits(torch.compile(function, backend="aot_eager", fullgraph=True)(x), function(x))


@pytest.mark.parametrize("layout", ["transposed", "strided"])
def test_compiled_layouts_equal_eager(layout):
    """Strides come out as the fake says they do."""

    def function(x):
        return pt.cumsum(x, 0), *pt.cummax(x, 1), pt.quantize(x, 0.1), pt.lerp(x, x, 0.5)

    x = views(randn(6, 4))[layout]
    got, want = torch.compile(function, backend="aot_eager", fullgraph=True)(x), function(x)
    assert_same_bits(got, want)
    assert [g.stride() for g in got] == [w.stride() for w in want]


def shapes_change(function, backend, gradients=True):
    counter = torch._dynamo.testing.CompileCounterWithBackend(backend)
    compiled = torch.compile(function, backend=counter, fullgraph=True, dynamic=True)
    for shape in ((4, 6), (7, 9), (3, 12), (11, 5), (5, 7)):
        x = randn(*shape).requires_grad_(gradients)
        if gradients:
            assert_same_bits(tuple(backward_of(compiled, [x])), tuple(backward_of(function, [x])))
        else:
            assert_same_bits(compiled(x), function(x))
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_dynamic_shapes_need_one_compilation(backend):
    shapes_change(lambda x: pt.cumprod(pt.fake_quantize(pt.cumsum(x, 1), 0.1), 0) * 2, backend)


def test_dynamic_shapes_of_scopes_need_one_compilation():
    """The numbers of scales follow from symbolic shapes; the last group is ragged or not."""

    def function(x):
        q, scale, zero_point, sums = pt.dynamic_quantize(
            x, group_size=4, scope="group", mode="asymmetric", row_sum=True
        )
        return (
            pt.dequantize(q, scale, zero_point, group_size=4),
            scale,
            zero_point,
            sums,
            *pt.dynamic_quantize(x, qparams_only=True)[1:3],
        )

    shapes_change(function, "aot_eager", gradients=False)


def test_two_functions_of_a_step_compile_with_torch_around_them():
    """A small gated recurrence, forward and backward, as a model has it."""

    def function(a, b, w):
        h = pt.linear_recurrence(torch.sigmoid(a), b @ w, 1)
        return pt.logcumsumexp(h, 1).mean(0)

    inputs = [t.requires_grad_() for t in (randn(2, 5, 3), randn(2, 5, 3, seed=1), randn(3, 3, seed=2))]
    compiled = torch.compile(function, backend="aot_eager", fullgraph=True)
    assert_same_bits(tuple(backward_of(compiled, inputs)), tuple(backward_of(function, inputs)))


# ---- export, make_fx ----


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(6, 4)
        self.quantize = pt.DynamicQuantize()

    def forward(self, x):
        return pt.cummax(pt.cumsum(self.linear(self.quantize(x)), -1), 0).values


@pytest.mark.parametrize("strict", [False, True])
def test_export_keeps_the_operations(strict):
    model = Model().eval()
    x = randn(5, 6)
    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: rows},), strict=strict)
    ops = {op.split(".")[1] for op in used_ops(program.graph_module)}
    assert ops == {"dynamic_qparams", "fake_quantize", "cumsum", "cummax"}
    for rows in (5, 9):
        x = randn(rows, 6, seed=rows)
        assert_same_bits(program.module()(x), model(x))
    decomposed = program.run_decompositions()
    assert_same_bits(decomposed.module()(x), model(x))


def test_export_saves_and_loads(tmp_path):
    model, x = Model().eval(), randn(5, 6)
    torch.export.save(torch.export.export(model, (x,)), tmp_path / "model.pt2")
    assert_same_bits(torch.export.load(tmp_path / "model.pt2").module()(x), model(x))


@pytest.mark.parametrize("mode", ["real", "fake", "symbolic"])
@pytest.mark.parametrize(**by_name(REPRESENTATIVES))
def test_make_fx_records_the_operation(problem, mode):
    inputs = [t if t is None else t.detach() for t in problem.leaves(torch.float32)]
    traced = make_fx(lambda *t: all_of(problem.quick(*t)), tracing_mode=mode)(*inputs)
    assert len(used_ops(traced)) == 1
    assert_same_bits(tuple(traced(*inputs)), problem.quick(*inputs))


# ---- fakes ----


def shapes_of(tensors):
    return [(t.shape, t.stride(), t.dtype, t.device.type) for t in all_of(tensors)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_fake_tensors_have_the_shapes_and_strides_of_real_ones(dtype):
    """All problems, contiguous and transposed, forward and backward."""
    for problem in PROBLEMS:
        for layout in ("contiguous", "transposed"):
            inputs = [
                t if t is None or t.ndim == 0 else views(t.detach())[layout].requires_grad_(t.requires_grad)
                for t in problem.leaves(dtype)
            ]
            real = problem.quick(*inputs)
            with FakeTensorMode() as mode:
                faked = [t if t is None else mode.from_tensor(t) for t in inputs]
                fake = problem.quick(*faked)
            assert shapes_of(fake) == shapes_of(real), (problem, layout)
            if not problem.differentiable:
                continue
            wanted = [i for i, t in enumerate(inputs) if t is not None and t.requires_grad]
            gradients = torch.autograd.grad(
                first_of(real), [inputs[i] for i in wanted], torch.ones_like(first_of(real))
            )
            with mode:
                fakes = torch.autograd.grad(first_of(fake), [faked[i] for i in wanted], torch.ones_like(first_of(fake)))
            assert shapes_of(fakes) == shapes_of(gradients), (problem, layout)


@pytest.mark.parametrize(**by_name(REPRESENTATIVES))
def test_meta_tensors_have_the_shapes_of_real_ones(problem):
    """As all of torch does: models are measured on the meta device before they are made."""
    inputs = [t if t is None else t.detach() for t in problem.leaves(torch.float32)]
    real = all_of(problem.quick(*inputs))
    for way in problem.ways.values():
        meta = all_of(way(*(t if t is None else t.to("meta") for t in inputs)))
        assert all(m.is_meta for m in meta)
        assert [(m.shape, m.stride(), m.dtype) for m in meta] == [(r.shape, r.stride(), r.dtype) for r in real]


def test_a_mutation_before_the_operation_is_seen():
    """Functionalisation keeps the order of what happens to a tensor."""

    def function(x):
        x = x.clone()
        x.add_(1)
        y = pt.cumsum(x, 0)
        x.mul_(2)
        return y, OPS.cumsum(x, None, 0, False, False)

    x = randn(6)
    assert_same_bits(torch.compile(function, backend="aot_eager", fullgraph=True)(x), function(x))
