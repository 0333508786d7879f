"""Which way a call goes, and how gradients are found on either.

Eager calls on plain tensors run at once, through `torch.autograd.Function` if a gradient is wanted: a few microseconds.
Everything else (torch.compile and export, tracing, functional transforms, tensor subclasses, modes, forward-mode
gradients) takes the registered operation, which those machineries understand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from planck import _core
from planck.torch._register import operations, public_name

_is_compiling = torch.compiler.is_compiling
# A name that no version of torch promises: without it, all that is dispatched goes the way that transforms need.
_transforms_active = getattr(torch._C, "_are_functorch_transforms_active", lambda: True)
_way = _core.torch_way
_RUN, _RECORD = 1, 2  # _way's numbers; 0 is for calls that others need to know of


def wants_gradient(tensors: tuple[Any, ...]) -> bool:
    return torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)


def _refuse_tangents(name: str, tensors: tuple[Any, ...]) -> None:
    """Below the registered operation tangents would silently be lost."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and forward_ad.unpack_dual(tensor).tangent is not None:
            raise NotImplementedError(f"{public_name(name)} has no forward-mode gradient (jvp): use reverse mode")


def _numbers_moved(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """CPU tensors of no dimensions serve beside tensors of another device, as in torch's own functions."""
    for tensor in tensors:
        if isinstance(tensor, Tensor) and not tensor.is_cpu:
            device = tensor.device
            return tuple(t.to(device) if isinstance(t, Tensor) and t.is_cpu and t.ndim == 0 else t for t in tensors)
    return tensors


def with_numbers(*operands: Any) -> tuple[Any, ...]:
    """Numbers as tensors of no dimensions with the dtype and on the device of the first tensor."""
    for first in operands:
        if isinstance(first, Tensor):
            return tuple(
                torch.full((), x, dtype=first.dtype, device=first.device) if isinstance(x, (int, float)) else x
                for x in operands
            )
    return operands


def _refuse_second(name: str) -> Callable[..., Any]:
    def backward(ctx: Any, *_: Any) -> Any:
        raise RuntimeError(f"{public_name(name)} cannot be differentiated twice")

    return backward


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    pass


class Operation:
    """A registered operation, called as `operation(tensors, options)`, on the way that the call needs."""

    def __init__(
        self, name: str, setup: Callable[..., None] | None = None, backward: Callable[..., Any] | None = None
    ) -> None:
        """`setup` saves what `backward` needs."""
        self.name = name
        self.run, self.op = run, op = operations[name]
        self.function: Any = None
        self.transformed: Any = None
        if name.endswith("_backward"):  # with create_graph, what comes out says why there is no second gradient
            setup, backward = _save_nothing, _refuse_second(name)
        if setup is None or backward is None:
            return
        op.register_autograd(backward, setup_context=setup)

        def forward(ctx: Any, *args: Any) -> Any:
            output = run(*args)
            setup(ctx, args, output)
            return output

        def forward_transformed(*args: Any) -> Any:
            return op(*args)

        members: dict[str, Any] = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        self.function = type(name, (torch.autograd.Function,), members)
        members = {
            "forward": staticmethod(forward_transformed),
            "setup_context": staticmethod(setup),
            "backward": staticmethod(backward),
            "generate_vmap_rule": True,
        }
        self.transformed = type(name, (torch.autograd.Function,), members)

    def __call__(self, tensors: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        if _is_compiling():
            return self.op(*_numbers_moved(tensors), *options)
        way = _way(tensors)
        if way == _RUN:
            return self.run(*tensors, *options)
        if way != _RECORD:
            return self._dispatched(tensors, options)
        if self.function is not None:
            return self.function.apply(*tensors, *options)
        with torch.no_grad():
            return self.run(*tensors, *options)

    def _dispatched(self, tensors: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"{public_name(self.name)} takes tensors, not {type(tensor).__name__}")
            if tensor is not None:
                _core.refuse_kind(tensor, f"{public_name(self.name)}: an argument")
        if getattr(forward_ad, "_current_level", 0) >= 0:
            _refuse_tangents(self.name, tensors)
        tensors = _numbers_moved(tensors)
        if self.transformed is not None and _transforms_active():
            return self.transformed.apply(*tensors, *options)
        return self.op(*tensors, *options)
