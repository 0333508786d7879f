"""The package: names, documentation that runs, imports, errors that a PyTorch user knows."""

import doctest
import inspect
import subprocess
import sys

import planck
import planck.torch
import pytest
import torch
from planck.torch import _autograd, _binary, _modules, _quantize, _scan

NAMES = {
    "Extrema",
    "DynamicQuantized",
    "DynamicQuantize",
    "FakeQuantize",
    "add_scaled",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "dequantize",
    "dynamic_quantize",
    "fake_quantize",
    "fake_quantize_learnable",
    "initialize",
    "lerp",
    "linear_recurrence",
    "logcumsumexp",
    "quantize",
}
PUBLIC = sorted(planck.torch.__all__)
TUPLES = {"Extrema", "DynamicQuantized"}


def run(code):
    return subprocess.run([sys.executable, "-B", "-c", code], capture_output=True, text=True, cwd="/", timeout=120)


MODULES = [planck.torch, _scan, _binary, _quantize, _modules, _autograd]


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__)
def test_examples_run(module):
    finder = doctest.DocTestFinder()
    examples = finder.find(module, globs={"torch": torch, "planck": planck})
    results = [doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(example) for example in examples]
    assert not any(r.failed for r in results)
    assert module is _autograd or sum(r.attempted for r in results) > 0


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_are_documented(name):
    """A text and an example; the tuples say what they are of."""
    text = inspect.getdoc(getattr(planck.torch, name))
    assert text and len(text.split()) >= 5
    assert name in TUPLES or ">>> " in text
    assert getattr(planck.torch, name).__module__.startswith("planck.torch")


def test_all_is_what_there_is():
    assert set(PUBLIC) == NAMES
    namespace = {}
    exec("from planck.torch import *", namespace)
    assert {n for n in namespace if not n.startswith("_")} == NAMES


@pytest.mark.parametrize(
    "name, parameters",
    [
        ("cumsum", ["x", "dim", "reverse", "exclusive", "offsets"]),
        ("cumprod", ["x", "dim", "reverse", "exclusive", "offsets"]),
        ("logcumsumexp", ["x", "dim", "reverse", "exclusive", "offsets"]),
        ("cummax", ["x", "dim", "reverse", "offsets"]),
        ("cummin", ["x", "dim", "reverse", "offsets"]),
        ("linear_recurrence", ["a", "b", "dim", "initial", "reverse", "offsets"]),
        ("lerp", ["a", "b", "weight"]),
        (
            "fake_quantize",
            ["x", "scale", "zero_point", "quant_min", "quant_max", "scope", "dim", "group_size", "scale_form"],
        ),
    ],
)
def test_parameters_have_torchs_names(name, parameters):
    assert list(inspect.signature(getattr(planck.torch, name)).parameters) == parameters


def test_planck_alone_does_not_import_torch():
    result = run(
        "import sys, planck; print('torch' in sys.modules); import planck.torch; print('torch' in sys.modules, planck.torch.cumsum.__name__)"
    )
    assert result.stdout.split() == ["False", "True", "cumsum"], result.stderr


def test_importing_twice_and_in_any_order():
    result = run(
        "import torch; import planck.torch as a; import importlib, planck; print(planck.torch is a is importlib.import_module('planck.torch'))"
    )
    assert result.stdout.strip() == "True", result.stderr


def test_an_import_does_not_start_the_compiler():
    """torch._dynamo takes seconds to import; who does not compile does not pay for it."""
    result = run(
        "import sys, torch; before = 'torch._dynamo' in sys.modules; import planck.torch; print(before, 'torch._dynamo' in sys.modules)"
    )
    before, after = result.stdout.split()
    assert before == after, result.stderr


@pytest.mark.parametrize(
    "name",
    ["_C._are_functorch_transforms_active", "_C._len_torch_dispatch_stack", "autograd.forward_ad._current_level"],
)
def test_a_torch_without_a_name_that_no_version_promises(name):
    """It is missing while planck looks for it, and there again for torch itself. Calls take the registered operations."""
    *path, last = name.split(".")
    owner = ".".join(["torch", *path])
    result = run(f"""
import torch
kept = {owner}.{last}
del {owner}.{last}
import planck.torch
from planck import _core
assert _core.torch_way((torch.ones(3),)) == 0
{owner}.{last} = kept
x = torch.arange(4.0, requires_grad=True)
planck.torch.cumsum(x, 0).sum().backward()
y = torch.func.vmap(lambda v: planck.torch.fake_quantize(v, 0.5))(torch.ones(2, 3))
print(x.grad.tolist(), planck.torch.cumsum(x.detach(), 0).tolist(), torch.func.grad(lambda v: planck.torch.cumsum(v, 0)[2])(x.detach()).tolist())
""")
    assert result.stdout.strip() == "[4.0, 3.0, 2.0, 1.0] [0.0, 1.0, 3.0, 6.0] [1.0, 1.0, 1.0, 0.0]", result.stderr


def test_results_are_named():
    x = torch.tensor([3.0, 1.0])
    values, indices = planck.torch.cummin(x, 0)
    result = planck.torch.cummin(x, dim=0)
    assert torch.equal(result.values, values) and torch.equal(result.indices, indices)
    assert planck.torch.dynamic_quantize(x)._fields == ("q", "scale", "zero_point", "row_sum")
    assert (
        planck.torch.dynamic_quantize(x).row_sum is None
        and planck.torch.dynamic_quantize(x, qparams_only=True).q is None
    )


# ---- errors ----

X = torch.ones(2, 3)


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda: planck.torch.cumsum([1.0, 2.0], 0), TypeError, "list"),
        (lambda: planck.torch.cumsum(X.numpy(), 0), TypeError, "ndarray"),
        (lambda: planck.torch.cumsum(X, 2), (IndexError, ValueError), r"\b2\b"),
        (lambda: planck.torch.cumsum(X, -3), (IndexError, ValueError), "-3"),
        (
            lambda: planck.torch.cumsum(X.to(torch.complex64), 0),
            (TypeError, NotImplementedError, ValueError),
            "complex64",
        ),
        (
            lambda: planck.torch.cumsum(X.to_sparse(), 0),
            (RuntimeError, NotImplementedError, ValueError),
            "(?i)sparse|storage",
        ),
        (lambda: planck.torch.lerp(X, torch.ones(4), 0.5), (RuntimeError, ValueError), "shape"),
        (lambda: planck.torch.lerp(X, X.double(), 0.5), (RuntimeError, ValueError, TypeError), "f64|float64|dtype"),
        (lambda: planck.torch.quantize(X, 0.0), ValueError, "scale"),
        (lambda: planck.torch.quantize(X, -1.0), ValueError, "scale"),
        (lambda: planck.torch.quantize(X, torch.ones(4), dim=1), ValueError, "scale has shape"),
        (lambda: planck.torch.quantize(X, 0.1, scope="channel"), ValueError, "dim"),
        (lambda: planck.torch.quantize(X, 0.1, scope="tensor", dim=0), ValueError, "dim"),
        (lambda: planck.torch.quantize(X, 0.1, dtype=torch.int16), ValueError, "dtype"),
        (lambda: planck.torch.fake_quantize(X, 0.1, scale_form="multiply"), ValueError, "scale_form"),
        (lambda: planck.torch.fake_quantize(X, 0.1, quant_min=5, quant_max=4), ValueError, "5"),
        (lambda: planck.torch.fake_quantize(X, 0.1, torch.tensor(0.5)), TypeError, "zero_point"),
        (lambda: planck.torch.dynamic_quantize(X, mode="affine"), ValueError, "mode"),
        (lambda: planck.torch.dynamic_quantize(X / 0, nonfinite="error"), ValueError, "(?i)inf"),
        (lambda: planck.torch.linear_recurrence(X, torch.ones(3, 2)), ValueError, "shape"),
        (lambda: planck.torch.linear_recurrence(X, X, initial=torch.ones(5)), ValueError, "initial"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_errors_are_clear(call, error, match):
    with pytest.raises(error, match=match):
        call()


def test_a_tensor_of_no_dimensions_scans_as_in_torch():
    x = torch.tensor(2.5)
    assert torch.equal(torch.cumsum(x, 0), x)
    for dim in (0, -1):
        assert torch.equal(planck.torch.cumsum(x, dim), x) and torch.equal(planck.torch.cumprod(x, dim), x)
    values, indices = planck.torch.cummax(x, 0)
    assert torch.equal(values, x) and indices.item() == 0


def test_lazily_negated_tensors_are_taken_as_torch_takes_them():
    x = torch._neg_view(torch.arange(4.0))
    assert torch.equal(planck.torch.cumsum(x, 0), torch.cumsum(x, 0))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: planck.torch.quantize([1.0], 0.1), "planck.torch.quantize takes tensors, not list"),
        (lambda: planck.torch.dynamic_quantize([1.0]), "planck.torch.dynamic_quantize takes tensors, not list"),
        (lambda: planck.torch.lerp(1.0, 2.0, 0.5), "planck.torch.lerp takes tensors, not float"),
        (lambda: planck.torch.lerp(torch.ones(1), [2.0], 0.5), "planck.torch.lerp takes tensors, not list"),
        (lambda: planck.torch.linear_recurrence(0.5, 1.0), "planck.torch.linear_recurrence takes tensors, not float"),
        (lambda: planck.torch.quantize(torch.ones(1), 1.0, 3.7), "cannot be interpreted as an integer"),
        (
            lambda: planck.torch.fake_quantize_learnable(torch.ones(1), torch.tensor(1.0), 2.6),
            "planck.torch.fake_quantize_learnable takes tensors, not float",
        ),
    ],
)
def test_what_is_no_tensor(call, text):
    with pytest.raises(TypeError, match=text):
        call()
