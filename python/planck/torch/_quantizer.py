"""What the modules share: ranges, the scales that follow from them, and the options of every quantiser."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from planck._types import Mode, ScaleForm, Scope
from planck.torch._quantize import _scope_of, dynamic_quantize, fake_quantize


def ranges(x: Tensor, scope: str, dim: int | None, group_size: int | None) -> tuple[Tensor, Tensor]:
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


def qparams(least: Tensor, largest: Tensor, mode: str, quant_min: int, quant_max: int) -> tuple[Tensor, Tensor]:
    """The scale and zero point of a range, as docs/ops/dynamic_quantize.md has them."""
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


class Quantizer(nn.Module):
    """The codes, and which elements have a scale in common."""

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
        assert found.zero_point is not None  # of integer codes
        return fake_quantize(x, found.scale, found.zero_point, scale_form=scale_form, **options)
