"""How operations become `torch.ops.planck.*`, which torch.compile, export and tensor subclasses see.

The implementations, in the `_ops` files, run on real tensors, below autograd. Each has a fake that says what comes out,
and gradients are operations of their own. `_autograd.py` puts the quick path of eager mode in front of them.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor


class Registered(NamedTuple):
    implementation: Callable[..., Any]
    op: Any


operations: dict[str, Registered] = {}  # by name


def public_name(name: str) -> str:
    return "planck.torch." + name.removesuffix("_backward").removesuffix("_scalar")


def _on_one_device(implementation: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which refuses tensors of different devices. PyTorch would call the fake for a CPU and a meta tensor,
    and take the uninitialised memory that it makes for a result."""
    name, parameters = implementation.__name__, list(inspect.signature(implementation).parameters)

    @functools.wraps(function)
    def checked(*args: Any) -> Any:
        first = None
        for parameter, arg in zip(parameters, args, strict=True):
            if not isinstance(arg, Tensor):
                continue
            if first is None:
                first = parameter, arg.device
            elif arg.device != first[1]:
                raise RuntimeError(
                    f"{public_name(name)}: {first[0]} is on {first[1]}, and {parameter} on {arg.device}: "
                    "move them to one device"
                )
        return function(*args)

    return checked


def like_first(first: Tensor, *_: Any) -> Tensor:
    """The fake of what gives a tensor like its first argument."""
    return torch.empty_like(first)


def register(implementation: Callable[..., Any], fake: Callable[..., Any]) -> None:
    checked = _on_one_device(implementation, implementation)
    op = torch.library.custom_op(f"planck::{implementation.__name__}", checked, mutates_args=())
    op.register_fake(_on_one_device(implementation, fake))
    operations[implementation.__name__] = Registered(implementation, op)
