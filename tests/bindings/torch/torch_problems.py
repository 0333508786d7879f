"""What the tests share: every function of planck.torch as a problem that can be called on both of its ways."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import planck.torch as pt
import torch

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
OPS = torch.ops.planck
# What a learnable or plain fake-quantise is asked for after its tensors: (keywords, shape of the scales of SHAPE).
SHAPE = (3, 5)
SCOPES = {
    "tensor": ({}, ()),
    "channel": ({"dim": 1}, (5,)),
    "channel from the end": ({"dim": -2}, (3,)),
    "token": ({"scope": "token"}, (3,)),
    "group": ({"group_size": 2}, (3, 3)),
    "group along 0": ({"group_size": 2, "dim": 0}, (2, 5)),
}


def randn(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def scope_options(scope: str) -> tuple[str, int | None, int | None]:
    """(scope, dim, group_size) as the registered operations take them."""
    keywords, _ = SCOPES[scope]
    dim = keywords.get("dim", -1 if "group_size" in keywords else None)
    return scope.split()[0], dim, keywords.get("group_size")


def views(x: torch.Tensor) -> dict[str, torch.Tensor]:
    """The same values in memory of other layouts."""
    wide = torch.zeros(*(2 * n + 1 for n in x.shape), dtype=x.dtype)
    strided = wide[tuple(slice(1, None, 2) for _ in x.shape)]
    strided.copy_(x)
    transposed = x.movedim(0, -1).contiguous().movedim(-1, 0)
    result = {"contiguous": x.contiguous(), "transposed": transposed, "strided": strided}
    assert all(torch.equal(view, x) for view in result.values())
    return result


def leaves(tensors: tuple[Any, ...], wanted: tuple[bool, ...] | None = None) -> list[Any]:
    """Copies of tensors, which require gradients where they can and it is wanted."""
    wanted = wanted or (True,) * len(tensors)
    return [
        t if t is None else t.detach().clone().requires_grad_(w and t.is_floating_point())
        for t, w in zip(tensors, wanted, strict=True)
    ]


def first_of(result: Any) -> torch.Tensor:
    return result[0] if isinstance(result, tuple) else result


def all_of(result: Any) -> tuple[torch.Tensor, ...]:
    """The tensors of a result; None for what was not asked for is left out."""
    return tuple(r for r in result if r is not None) if isinstance(result, tuple) else (result,)


def assert_same_bits(got: Any, want: Any) -> None:
    got, want = all_of(got), all_of(want)
    assert len(got) == len(want) > 0
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype and g.shape == w.shape and torch.equal(g, w), (g, w)


def backward_of(function: Callable[..., Any], inputs: list[Any], dy_seed: int = 7) -> list[Any]:
    """(the outputs, then the gradient of each input that requires one) for a fixed random dy. The inputs are copied."""
    inputs = leaves(tuple(inputs), tuple(t is not None and t.requires_grad for t in inputs))
    outputs = all_of(function(*inputs))
    outputs[0].backward(randn(*outputs[0].shape, dtype=outputs[0].dtype, seed=dy_seed))
    return [*(o.detach() for o in outputs), *(t.grad for t in inputs if t is not None and t.requires_grad)]


@dataclass(frozen=True)
class Problem:
    """A function with its options; `quick` and `op` take the same tensors."""

    name: str
    quick: Callable[..., Any]
    op: Callable[..., Any]
    make: Callable[[torch.dtype], tuple[Any, ...]]
    differentiable: bool = True
    smooth: bool = True  # False: the gradient is straight-through
    note: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return "-".join([self.name, *(f"{k}={v}" for k, v in self.note.items())])

    def leaves(self, dtype: torch.dtype) -> list[Any]:
        """Fresh tensors, which require gradients where there are any: fake_quantize has one for x alone."""
        tensors = self.make(dtype)
        return leaves(
            tensors,
            tuple(self.differentiable and (i == 0 or self.name != "fake_quantize") for i in range(len(tensors))),
        )

    @property
    def ways(self) -> dict[str, Callable[..., Any]]:
        return {"quick": self.quick, "op": self.op}


def scan(name: str, dim: int, **options: bool) -> Problem:
    function, op = getattr(pt, name), getattr(OPS, name)
    given = tuple(
        options.get(key, False) for key in (("reverse",) if name in ("cummax", "cummin") else ("reverse", "exclusive"))
    )
    return Problem(
        name,
        lambda x: function(x, dim, **options),
        lambda x: op(x, None, dim, *given),
        lambda dtype: (randn(3, 5, 2, dtype=dtype),),
        note={"dim": dim, **options},
    )


def recurrence(
    dim: int, reverse: bool, initial: str, shape_a: tuple[int, ...] = (3, 5, 2), shape_b: tuple[int, ...] = (3, 5, 2)
) -> Problem:
    """Of shape (3, 5, 2), to which a and b broadcast."""
    shape = torch.broadcast_shapes(shape_a, shape_b)
    assert shape == (3, 5, 2)
    with_one = tuple(1 if d == dim % 3 else n for d, n in enumerate(shape))
    without = tuple(n for d, n in enumerate(shape) if d != dim % 3)

    def make(dtype: torch.dtype) -> tuple[Any, ...]:
        state = {
            "none": None,
            "with dim": randn(*with_one, dtype=dtype, seed=3),
            "without dim": randn(*without, dtype=dtype, seed=3),
            "one": randn(dtype=dtype, seed=3),
            "repeated": randn(*(1 if d == 0 else n for d, n in enumerate(with_one)), dtype=dtype, seed=3),
        }[initial]
        return randn(*shape_a, dtype=dtype), randn(*shape_b, dtype=dtype, seed=1), state

    def quick(a: Any, b: Any, state: Any) -> Any:
        return pt.linear_recurrence(a, b, dim, initial=state, reverse=reverse)

    return Problem(
        "linear_recurrence",
        quick,
        lambda a, b, state: OPS.linear_recurrence(a, b, state, None, dim, reverse),
        make,
        note={"dim": dim, "reverse": reverse, "initial": initial, "a": shape_a, "b": shape_b},
    )


def binary(name: str, shapes: tuple[tuple[int, ...], ...], number: float | None = None) -> Problem:
    """Two tensors and a weight: the third shape, or a number."""
    function = getattr(pt, name)

    def make(dtype: torch.dtype) -> tuple[Any, ...]:
        return tuple(randn(*shape, dtype=dtype, seed=i) for i, shape in enumerate(shapes))

    if number is None:
        return Problem(name, function, getattr(OPS, name), make, note={"shapes": shapes})
    op = getattr(OPS, name + "_scalar")
    return Problem(
        name,
        lambda a, b: function(a, b, number),
        lambda a, b: op(a, b, number),
        make,
        note={"shapes": shapes, "number": number},
    )


def make_quantized(scope: str, dtype: torch.dtype, zero_point: torch.dtype) -> tuple[Any, ...]:
    """x on both sides of the codes -8..7, away from half steps, with scales and zero points of the scope."""
    _, shape = SCOPES[scope]
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    scale = (0.3 + 0.1 * randn(*shape, seed=2).abs()).to(torch.bfloat16).to(wide)
    codes = (2 * randn(*shape, seed=3)).round().to(zero_point)
    x = 3 * randn(*SHAPE, dtype=dtype)
    return x, scale, codes


def fake(scope: str, scale_form: str = "divide") -> Problem:
    keywords, _ = SCOPES[scope]
    codes = {"quant_min": -8, "quant_max": 7}

    def quick(x: Any, scale: Any, zero_point: Any) -> Any:
        return pt.fake_quantize(x, scale, zero_point, scale_form=scale_form, **codes, **keywords)

    def op(x: Any, scale: Any, zero_point: Any) -> Any:
        return OPS.fake_quantize(x, scale, zero_point, *codes.values(), *scope_options(scope), scale_form)

    return Problem(
        "fake_quantize",
        quick,
        op,
        lambda dtype: make_quantized(scope, dtype, torch.int32),
        smooth=False,
        note={"scope": scope, "form": scale_form},
    )


def learnable(scope: str, scale_form: str = "divide", grad_factor: float = 1.0) -> Problem:
    keywords, _ = SCOPES[scope]
    codes = {"quant_min": -8, "quant_max": 7}

    def quick(x: Any, scale: Any, zero_point: Any) -> Any:
        return pt.fake_quantize_learnable(
            x, scale, zero_point, scale_form=scale_form, grad_factor=grad_factor, **codes, **keywords
        )

    def op(x: Any, scale: Any, zero_point: Any) -> Any:
        return OPS.fake_quantize_learnable(
            x, scale, zero_point, *codes.values(), *scope_options(scope), scale_form, grad_factor
        )

    return Problem(
        "fake_quantize_learnable",
        quick,
        op,
        lambda dtype: make_quantized(scope, dtype, torch.float32),
        smooth=False,
        note={"scope": scope, "form": scale_form, "factor": grad_factor},
    )


def quantized(scope: str) -> Problem:
    keywords, _ = SCOPES[scope]
    return Problem(
        "quantize",
        lambda x, s, z: pt.quantize(x, s, z, **keywords),
        lambda x, s, z: OPS.quantize(x, s, z, torch.int8, *scope_options(scope), None, None, "divide", True),
        lambda dtype: make_quantized(scope, dtype, torch.int32),
        differentiable=False,
        note={"scope": scope},
    )


def dequantized(scope: str, dtype: torch.dtype) -> Problem:
    keywords, _ = SCOPES[scope]

    def make(_: torch.dtype) -> tuple[Any, ...]:
        _, scale, zero_point = make_quantized(scope, dtype, torch.int32)
        return (20 * randn(*SHAPE)).to(torch.int8), scale, zero_point

    return Problem(
        "dequantize",
        lambda q, s, z: pt.dequantize(q, s, z, dtype=dtype, **keywords),
        lambda q, s, z: OPS.dequantize(q, s, z, dtype, *scope_options(scope)),
        make,
        differentiable=False,
        note={"scope": scope, "dtype": dtype},
    )


def dynamic(scope: str, mode: str = "symmetric", row_sum: bool = False, only: bool = False) -> Problem:
    keywords = {"scope": None, **SCOPES[scope][0]}
    name, dim, size = scope_options(scope)
    options = (name, mode, torch.int8, dim, size, None, None, True, "saturate", None)

    def op(x: Any) -> Any:
        if only:
            return OPS.dynamic_qparams(x, *options)
        q, scale, zero_point, sums = OPS.dynamic_quantize(x, *options, row_sum)
        return (q, scale, zero_point, sums) if row_sum else (q, scale, zero_point)

    return Problem(
        "dynamic_quantize",
        lambda x: pt.dynamic_quantize(x, mode=mode, row_sum=row_sum, qparams_only=only, **keywords),
        op,
        lambda dtype: (randn(*SHAPE, dtype=dtype),),
        differentiable=False,
        note={"scope": scope, "mode": mode, "row_sum": row_sum, "only": only},
    )


DIRECTIONS = [{}, {"reverse": True}, {"exclusive": True}, {"reverse": True, "exclusive": True}]
SCANS = [
    scan(name, dim, **options)
    for name in ("cumsum", "cumprod", "logcumsumexp")
    for dim in (0, -2, 2)
    for options in DIRECTIONS
]
EXTREMA = [
    scan(name, dim, **options) for name in ("cummax", "cummin") for dim in (0, -2, 2) for options in DIRECTIONS[:2]
]
RECURRENCES = [
    recurrence(*which) for which in itertools.product((0, -2, 2), (False, True), ("none", "with dim", "without dim"))
]
FULL = (3, 5, 2)
# (a, b) of linear_recurrence: one number, a channel's, repeated along the batch or the steps, both at once, b alone.
REPEATED = [
    ((), FULL),
    ((2,), FULL),
    ((5, 1), FULL),
    ((3, 1, 2), (5, 1)),
    ((1, 5, 2), FULL),
    (FULL, ()),
    ((3, 1, 1), FULL),
]
RECURRENCES += [
    recurrence(dim, reverse, initial, *shapes)
    for i, (dim, reverse, shapes) in enumerate(itertools.product((0, -2, 2), (False, True), REPEATED))
    for initial in [("none", "one", "repeated", "without dim")[i % 4], ("with dim", "none")[i % 2]]
]
BROADCASTS = [
    ((3, 5), (3, 5), (3, 5)),
    ((3, 5), (5,), ()),
    ((3, 1), (1, 5), (3, 5)),
    ((), (3, 5), (3, 1)),
    ((2, 1, 4), (3, 1), (4,)),
]
BINARIES = [
    binary(name, shapes, number)
    for name in ("lerp", "add_scaled")
    for shapes, number in [*((s, None) for s in BROADCASTS), (BROADCASTS[0][:2], 0.3), (BROADCASTS[2][:2], -1.5)]
]
FAKES = [fake(scope, form) for scope in SCOPES for form in ("divide", "reciprocal")]
LEARNABLES = [
    learnable(scope, form, factor) for scope in SCOPES for form, factor in (("divide", 1.0), ("reciprocal", 0.3))
]
CODES = (
    [quantized(s) for s in SCOPES]
    + [dequantized(s, d) for s in SCOPES for d in (torch.float32, torch.bfloat16)]
    + [dynamic(s, mode, mode == "asymmetric") for s in SCOPES for mode in ("symmetric", "asymmetric")]
    + [dynamic(s, only=True) for s in SCOPES]
)
PROBLEMS = SCANS + EXTREMA + RECURRENCES + BINARIES + FAKES + LEARNABLES + CODES
# One of each function, for what is slow.
REPRESENTATIVES = [
    scan("cumsum", 1, reverse=True),
    scan("cumprod", 0),
    scan("logcumsumexp", -1, exclusive=True),
    scan("cummax", 1),
    scan("cummin", -2, reverse=True),
    recurrence(1, False, "none"),
    recurrence(-1, True, "without dim"),
    recurrence(1, False, "repeated", (2,), FULL),
    recurrence(1, True, "one", (3, 1, 2), (5, 1)),
    binary("lerp", BROADCASTS[2]),
    binary("lerp", BROADCASTS[0][:2], 0.3),
    binary("add_scaled", BROADCASTS[1]),
    binary("add_scaled", BROADCASTS[2][:2], -1.5),
    fake("group"),
    learnable("channel", "reciprocal", 0.3),
    quantized("token"),
    dequantized("channel", torch.bfloat16),
    dynamic("token", "asymmetric", True),
    dynamic("group along 0", only=True),
]


def by_name(problems: list[Problem]) -> dict[str, Any]:
    """Arguments of pytest.mark.parametrize."""
    return {"argnames": "problem", "argvalues": problems, "ids": [str(p) for p in problems]}
