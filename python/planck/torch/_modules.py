"""Modules that put quantisation into a model, for training with it and for simulating int8 activations."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from planck._types import Mode, ScaleForm, Scope
from planck.torch._functions import _scope_of, dynamic_quantize, fake_quantize, fake_quantize_learnable


def _ranges(x: Tensor, scope: str, dim: int | None, group_size: int | None) -> tuple[Tensor, Tensor]:
    """The least and the largest element of each scope."""
    if scope == "tensor":
        least, largest = torch.aminmax(x)
        return least, largest
    if scope == "token":
        return x.amin(-1), x.amax(-1)
    assert dim is not None
    dim %= x.ndim
    if scope == "channel":
        others = [d for d in range(x.ndim) if d != dim]
        return (x.amin(others), x.amax(others)) if others else (x, x)
    assert group_size is not None
    groups = -(-x.shape[dim] // group_size)
    # A last group that is shorter is filled up with its last element.
    index = torch.arange(groups * group_size, device=x.device).clamp_(max=x.shape[dim] - 1)
    grouped = x.index_select(dim, index).unflatten(dim, (groups, group_size))
    return grouped.amin(dim + 1), grouped.amax(dim + 1)


def _qparams(least: Tensor, largest: Tensor, mode: str, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    """The scale and zero point of a range, as SPEC has them for dynamic ranges."""
    tiny = torch.finfo(least.dtype).tiny
    least, largest = least.clamp(max=0), largest.clamp(min=0)
    if mode == "symmetric":
        reach = torch.maximum(-least, largest)
        scale = torch.where(reach == 0, 1.0, (reach / quant_max).clamp(min=tiny))
        return scale, torch.zeros_like(scale, dtype=torch.int32)
    steps = quant_max - quant_min
    span = largest - least
    scale = torch.where(span.isinf(), largest / steps - least / steps, span / steps)
    scale = torch.where(span == 0, 1.0, scale.clamp(min=tiny))
    return scale, (quant_min - torch.round(least / scale)).clamp(quant_min, quant_max).to(torch.int32)


class _Quantizer(nn.Module):
    """What the modules share: the codes, and which elements have a scale in common."""

    def __init__(
        self, scope: Scope | None, dim: int | None, group_size: int | None, mode: Mode, quant_min: int, quant_max: int
    ) -> None:
        super().__init__()
        if mode not in ("symmetric", "asymmetric"):
            raise ValueError(f"mode = {mode!r} is none of symmetric, asymmetric")
        if quant_min >= quant_max or (mode == "symmetric" and quant_max <= 0):
            raise ValueError(f"quant_min = {quant_min} and quant_max = {quant_max} are no range of codes")
        self.scope, self.dim = _scope_of(scope, dim, group_size)
        self.group_size = group_size
        self.quant_min, self.quant_max = quant_min, quant_max
        self.mode: Mode = mode

    def extra_repr(self) -> str:
        where = "" if self.dim is None else f", dim={self.dim}"
        size = "" if self.group_size is None else f", group_size={self.group_size}"
        return f"scope={self.scope}{where}{size}, codes={self.quant_min}..{self.quant_max}, mode={self.mode}"

    def _codes_and_scope(self) -> dict[str, Any]:
        return {
            "quant_min": self.quant_min,
            "quant_max": self.quant_max,
            "scope": self.scope,
            "dim": self.dim,
            "group_size": self.group_size,
        }

    def _by_own_range(
        self, x: Tensor, dtype: torch.dtype, *, zero_in_range: bool = True, scale_form: ScaleForm = "divide"
    ) -> Tensor:
        """Fake-quantised with scales that come from the input alone."""
        options = self._codes_and_scope()
        found = dynamic_quantize(
            x, mode=self.mode, dtype=dtype, zero_in_range=zero_in_range, qparams_only=True, **options
        )
        return fake_quantize(x, found.scale, found.zero_point, scale_form=scale_form, **options)


class FakeQuantize(_Quantizer):
    """Fake-quantises what passes through, with straight-through gradients: put it behind a layer, or apply it to weights.

    ``observer="moving_average"``: in training mode the range of each input moves the stored range by
    ``averaging_constant``, and the scales follow from that; in evaluation mode they stay as they are.
    ``observer="dynamic"``: scales come from each input alone.
    ``learnable=True``: the first input in training mode sets the scales and zero points; from then on they are
    parameters, trained with gradients that are multiplied by ``grad_factor``. For scopes other than the tensor, say their
    ``shape``.

    >>> fake = planck.torch.FakeQuantize(quant_min=0, quant_max=15, averaging_constant=1.0)
    >>> fake(torch.tensor([0.0, 0.4, 1.5]))
    tensor([0.0000, 0.4000, 1.5000])
    >>> fake.scale
    tensor(0.1000)
    """

    min_val: Tensor
    max_val: Tensor
    scale: Tensor
    zero_point: Tensor
    initialized: Tensor

    def __init__(
        self,
        *,
        scope: Scope | None = None,
        dim: int | None = None,
        group_size: int | None = None,
        quant_min: int = -128,
        quant_max: int = 127,
        mode: Mode = "asymmetric",
        observer: Literal["moving_average", "dynamic"] = "moving_average",
        averaging_constant: float = 0.01,
        learnable: bool = False,
        shape: tuple[int, ...] | None = None,
        grad_factor: float = 1.0,
        scale_form: ScaleForm = "divide",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        super().__init__(scope, dim, group_size, mode, quant_min, quant_max)
        if observer not in ("moving_average", "dynamic"):
            raise ValueError(f"observer = {observer!r} is none of moving_average, dynamic")
        if scale_form not in ("divide", "reciprocal"):
            raise ValueError(f"scale_form = {scale_form!r} is none of divide, reciprocal")
        if learnable and observer == "dynamic":
            raise ValueError("learnable scales cannot come from each input alone: leave observer at moving_average")
        if shape is None:
            if learnable and self.scope != "tensor":
                raise ValueError(f"learnable scales per {self.scope} need their shape")
            shape = () if self.scope == "tensor" else (0,)
        self.observer = observer
        self.averaging_constant = averaging_constant
        self.learnable, self.grad_factor = learnable, grad_factor
        self.scale_form: ScaleForm = scale_form
        self.observing = self.quantizing = True
        self.register_buffer("initialized", torch.tensor(False))
        self.register_buffer("min_val", torch.full(shape, torch.inf, dtype=dtype))
        self.register_buffer("max_val", torch.full(shape, -torch.inf, dtype=dtype))
        scale = torch.ones(shape, dtype=dtype)
        if learnable:
            self.scale = nn.Parameter(scale)
            self.zero_point = nn.Parameter(torch.zeros(shape, dtype=dtype), requires_grad=mode == "asymmetric")
        else:
            self.register_buffer("scale", scale)
            self.register_buffer("zero_point", torch.zeros(shape, dtype=torch.int32))

    def forward(self, x: Tensor) -> Tensor:
        if self.observer == "dynamic":
            if not self.quantizing:
                return x
            dtype = torch.int8 if self.quant_min >= -128 and self.quant_max <= 127 else torch.uint8
            return self._by_own_range(x, dtype, scale_form=self.scale_form)
        if self.training and self.observing:
            self._observe(x.detach())
        if not self.quantizing:
            return x
        if self.scale.shape == (0,) and x.numel() > 0:
            raise RuntimeError("FakeQuantize has observed no input yet: pass one in training mode, or load a state")
        if self.learnable:
            # A step of the optimizer may have been too long. As `data`: an earlier use may wait for its backward.
            self.scale.data.clamp_(min=torch.finfo(self.scale.dtype).eps)
            return fake_quantize_learnable(
                x,
                self.scale,
                self.zero_point,
                scale_form=self.scale_form,
                grad_factor=self.grad_factor,
                **self._codes_and_scope(),
            )
        # Copies: the next input changes the buffers in place, and this one may wait for its backward.
        scale, zero_point = self.scale.clone(), self.zero_point.clone()
        return fake_quantize(x, scale, zero_point, scale_form=self.scale_form, **self._codes_and_scope())

    def enable_observer(self, enabled: bool = True) -> None:
        """Whether inputs in training mode move the range."""
        self.observing = enabled

    def enable_fake_quant(self, enabled: bool = True) -> None:
        """Whether inputs are quantised, or passed on as they are."""
        self.quantizing = enabled

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {'learnable' if self.learnable else self.observer}"

    @torch.no_grad()
    def _observe(self, x: Tensor) -> None:
        # A branch on `initialized` would end the graph of torch.compile.
        if x.numel() == 0 or (self.learnable and not torch.compiler.is_compiling() and self.initialized):
            return
        least, largest = (r.to(self.min_val.dtype) for r in _ranges(x, self.scope, self.dim, self.group_size))
        if self.min_val.shape != least.shape:
            if self.min_val.shape != (0,):
                raise ValueError(
                    f"FakeQuantize holds ranges of shape {list(self.min_val.shape)}, "
                    f"but this input has ranges of shape {list(least.shape)}"
                )
            self._resize(least.shape)
        first = torch.isinf(self.min_val)
        moves = torch.isfinite(least) & torch.isfinite(largest)  # an overflow moves nothing
        if self.learnable:
            moves &= first

        def moved(stored: Tensor, seen: Tensor) -> Tensor:
            average = stored + self.averaging_constant * (seen - stored)
            average = torch.where(average.isinf(), seen, average)  # where the difference has overflowed
            return torch.where(moves, torch.where(first, seen, average), stored)

        self.min_val.copy_(moved(self.min_val, least))
        self.max_val.copy_(moved(self.max_val, largest))
        scale, zero_point = _qparams(self.min_val, self.max_val, self.mode, self.quant_min, self.quant_max)
        self.scale.copy_(torch.where(moves, scale, self.scale))
        self.zero_point.copy_(torch.where(moves, zero_point, self.zero_point))
        self.initialized.copy_(torch.isfinite(self.min_val).all())

    def _resize(self, shape: torch.Size) -> None:
        for name, value in (("min_val", torch.inf), ("max_val", -torch.inf), ("scale", 1), ("zero_point", 0)):
            setattr(self, name, getattr(self, name).new_full(shape, value))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "min_val")
        if stored is not None and not self.learnable and stored.shape != self.min_val.shape:
            self._resize(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)


class DynamicQuantize(_Quantizer):
    """Simulates activations that are quantised on the fly: each input is brought to codes with scales found from itself,
    and back. The gradient passes straight through.

    >>> planck.torch.DynamicQuantize(quant_max=15)(torch.tensor([[1.5, 0.26]]))
    tensor([[1.5000, 0.3000]])
    """

    def __init__(
        self,
        *,
        scope: Scope | None = "token",
        dim: int | None = None,
        group_size: int | None = None,
        mode: Mode = "symmetric",
        dtype: torch.dtype = torch.int8,
        quant_min: int | None = None,
        quant_max: int | None = None,
        zero_in_range: bool = True,
    ) -> None:
        low, high = (0, 255) if dtype == torch.uint8 else (-127 if mode == "symmetric" else -128, 127)
        if dtype not in (torch.int8, torch.uint8):
            raise ValueError(f"dtype = {dtype} is none of int8, uint8")
        low = low if quant_min is None else quant_min
        high = high if quant_max is None else quant_max
        limits = torch.iinfo(dtype)
        if low < limits.min or high > limits.max:
            raise ValueError(f"quant_min = {low} and quant_max = {high} must lie in [{limits.min}, {limits.max}]")
        super().__init__(scope, dim, group_size, mode, low, high)
        self.dtype = dtype
        self.zero_in_range = zero_in_range

    def forward(self, x: Tensor) -> Tensor:
        return self._by_own_range(x, self.dtype, zero_in_range=self.zero_in_range)
