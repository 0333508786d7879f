"""Messages of planck.torch speak of what the caller wrote: dim and quant_min, never of the library or of axis."""

import inspect
import sys
from pathlib import Path

import planck.torch as pt
import pytest
import torch
from torch_problems import OPS

sys.path.append(str(Path(__file__).parents[1] / "python"))
from mistakes import internal_words, wrong_calls

X = torch.arange(1.0, 13.0).reshape(3, 4)
RANGE = {"scale": torch.full((3,), 0.5), "zero_point": torch.zeros(3, dtype=torch.int32), "scope": "channel", "dim": 0}
GOOD = {
    "quantize": {"x": X, **RANGE},
    "dequantize": {"q": X.to(torch.int8), **RANGE},
    "fake_quantize": {"x": X, **RANGE},
    "fake_quantize_learnable": {"x": X, **RANGE, "zero_point": torch.zeros(3)},
    "dynamic_quantize": {"x": X, "nonfinite": "error"},
    "cumsum": {"x": X, "dim": 0},
    "cumprod": {"x": X, "dim": 0},
    "logcumsumexp": {"x": X, "dim": 0},
    "cummax": {"x": X, "dim": 0},
    "cummin": {"x": X, "dim": 0},
    "linear_recurrence": {"a": X, "b": X[0], "initial": torch.ones(3)},
    "lerp": {"a": X, "b": X, "weight": X},
    "add_scaled": {"a": X, "b": X, "alpha": X},
}


def test_every_function_is_here():
    assert set(GOOD) == {name for name in pt.__all__ if inspect.isfunction(getattr(pt, name)) and hasattr(OPS, name)}


# PyTorch says of some of its own kinds of tensors that they are old, or new.
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("name", GOOD)
def test_messages_about_arguments(name):
    """Every argument, wrong in every way, as in tests/bindings/python/test_messages.py."""
    function, raised = getattr(pt, name), set()
    for what, arguments in wrong_calls(function, GOOD[name]):
        try:
            function(**arguments)
        except Exception as error:
            message = str(error)
            assert message and not internal_words(function, message), (what, message)
            raised.add(what.replace(" ", ":").split(":")[0])
    assert raised >= set(inspect.signature(function).parameters)


@pytest.mark.parametrize("name", [name for name in GOOD if "dim" in inspect.signature(getattr(pt, name)).parameters])
@pytest.mark.parametrize("dim", [2, -3, 2**40])
def test_the_dim_in_the_message_is_the_one_given(name, dim):
    good = {**GOOD[name], "dim": dim}
    if name == "dynamic_quantize":
        good["scope"] = "channel"
    with pytest.raises(ValueError, match=rf"^dim = {dim} is out of range for shape \[3, 4\]: it goes from -2 to 1$"):
        getattr(pt, name)(**good)


@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor", "ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize(
    "make, text",
    [
        (lambda: torch.quantize_per_tensor(X, 0.1, 0, torch.quint8), "quantised by PyTorch"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), "nested tensor"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged), "nested tensor"),
        (lambda: X.to_mkldnn(), "oneDNN's layout"),
        (lambda: X.to_sparse(), "sparse"),
        (lambda: X.to_sparse_csr(), "sparse"),
    ],
)
def test_other_kinds_of_tensors(make, text, grad):
    """Each with its own true message, also where a gradient is wanted."""
    for function in (lambda x: pt.cumsum(x, 0), lambda x: pt.fake_quantize(x, 0.1), lambda x: pt.lerp(x, x, 0.5)):
        x = make()
        if grad and x.is_floating_point():
            x.requires_grad_()
        with pytest.raises(NotImplementedError, match=text):
            function(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_take_the_dtype_of_the_tensors(dtype):
    """As `other` of torch.add, and a and b of lerp; gradients of the tensors are those beside a tensor."""
    x = X.to(dtype).requires_grad_()
    two = torch.tensor(2.0, dtype=dtype)
    for function in (pt.lerp, pt.add_scaled):
        for weight in (0.25, X.to(dtype)):
            for number, tensor in (((x, 2, weight), (x, two, weight)), ((2.0, x, weight), (two, x, weight))):
                got, want = function(*number), function(*tensor)
                assert got.dtype == dtype and torch.equal(got, want)
                assert torch.equal(*(torch.autograd.grad(y.sum(), x)[0] for y in (got, want)))
    assert torch.equal(pt.add_scaled(X, 2.0, 0.5), torch.add(X, 2.0, alpha=0.5))
