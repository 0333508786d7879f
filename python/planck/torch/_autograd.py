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

from planck.torch import _ops

_PLAIN = (Tensor, torch.nn.Parameter)
_is_compiling = torch.compiler.is_compiling
_is_grad_enabled = torch.is_grad_enabled
_get_tracing_state = torch._C._get_tracing_state
_transforms_active = torch._C._are_functorch_transforms_active
_dispatch_modes = torch._C._len_torch_dispatch_stack
_function_modes = torch._C._len_torch_function_stack


def runs_at_once(tensors: tuple[Any, ...]) -> bool:
    """Whether nobody but the caller needs to know of this call."""
    if _is_compiling():
        return False
    for tensor in tensors:
        if tensor is not None and type(tensor) not in _PLAIN:
            return False
    return (
        _get_tracing_state() is None
        and not _transforms_active()
        and _dispatch_modes() == 0
        and _function_modes() == 0
        and forward_ad._current_level < 0
    )


def wants_gradient(tensors: tuple[Any, ...]) -> bool:
    if not _is_grad_enabled():
        return False
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)


class Operation:
    """One of `_ops`, called as `operation(tensors, options)`, on the way that the call needs."""

    def __init__(
        self,
        name: str,
        setup: Callable[..., None] | None = None,
        backward: Callable[..., Any] | None = None,
        *,
        twice: bool = False,
    ) -> None:
        """`setup` saves what `backward` needs; a backward of differentiable calls works `twice`."""
        self.run = run = getattr(_ops, name)
        self.op = getattr(_ops, name + "_op")
        self.function: Any = None
        if setup is None or backward is None:
            return
        self.op.register_autograd(backward, setup_context=setup)

        def forward(ctx: Any, *args: Any) -> Any:
            output = run(*args)
            setup(ctx, args, output)
            return output

        once = backward if twice else torch.autograd.function.once_differentiable(backward)
        members = {"forward": staticmethod(forward), "backward": staticmethod(once)}
        self.function = type(name, (torch.autograd.Function,), members)

    def __call__(self, tensors: tuple[Any, ...], options: tuple[Any, ...]) -> Any:
        if not runs_at_once(tensors):
            return self.op(*tensors, *options)
        if not wants_gradient(tensors):
            return self.run(*tensors, *options)
        if self.function is None:
            with torch.no_grad():
                return self.run(*tensors, *options)
        return self.function.apply(*tensors, *options)
