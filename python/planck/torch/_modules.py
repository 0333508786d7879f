"""Modules that put quantisation into a model, for training with it and for simulating int8 activations."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self

import torch
from torch import Tensor, distributed, nn

from planck._types import Mode, ScaleForm, Scope
from planck.torch._quantize import fake_quantize, fake_quantize_learnable
from planck.torch._quantizer import Quantizer, qparams, ranges

_WIDE = (torch.float32, torch.float64)
_STARTS = {"min_val": torch.inf, "max_val": -torch.inf, "scale": 1, "zero_point": 0}
_INITIALIZE_FIRST = (
    "Call planck.torch.initialize(model, batch) before the model is wrapped, with the same batch in each process, or load "
    "a state"
)
_NOTHING_OBSERVED = (
    "FakeQuantize has observed no finite input yet, and has no scale for this one: pass one in training mode, call "
    "planck.torch.initialize(model, batch), or load a state"
)


def _readable(tensor: Tensor) -> Tensor | None:
    """The tensor that Python can ask what it holds, below the wrappers of torch.func; None where a graph is recorded."""
    if torch.compiler.is_compiling():
        return None
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return None if tensor.is_meta or type(tensor) not in (Tensor, nn.Parameter) else tensor


class FakeQuantize(Quantizer):
    """Fake-quantises what passes through, with straight-through gradients: put it behind a layer, or apply it to weights.

    ``observer="moving_average"``: in training mode the range of each input moves the stored range by
    ``averaging_constant``, and the scales follow from that; in evaluation mode they stay as they are.
    ``observer="dynamic"``: scales come from each input alone.
    ``learnable=True``: the first input in training mode sets the scales and zero points; from then on they are
    parameters, trained with gradients that are multiplied by ``grad_factor``. For scopes other than the tensor, say their
    ``shape``; ``(1,)`` for the tensor where a parameter must have a dimension.

    An input is an error as long as a scale has had no finite range: see `initialize`. Ranges and scales are float32, or
    float64 after ``double()``, whatever the model is cast to.

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
    least_scale: Tensor  # the least that a step has left behind, where only the device has seen it

    _ready = False  # what `initialized` held when it was last read
    _read_at = -1  # its version then; -1: not read
    _start: bool | None = None  # in `initialize`: whether to observe, whatever the mode
    _warned = False

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
        if dtype not in _WIDE:
            raise ValueError(f"dtype = {dtype} is none of float32, float64")
        if shape is None:
            if learnable and self.scope != "tensor":
                raise ValueError(f"learnable scales per {self.scope} need their shape")
            shape = () if self.scope == "tensor" else (0,)
        elif self.scope == "tensor" and tuple(shape) not in ((), (1,)):
            raise ValueError(f"shape = {shape}, but a tensor has one scale: () or (1,)")
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
            self.register_buffer("least_scale", torch.tensor(torch.inf, dtype=dtype), persistent=False)
        else:
            self.register_buffer("scale", scale)
            self.register_buffer("zero_point", torch.zeros(shape, dtype=torch.int32))
        self._tensors_changed()

    def forward(self, x: Tensor) -> Tensor:
        if self.observer == "dynamic":
            if not self.quantizing:
                return x
            dtype = torch.int8 if self.quant_min >= -128 and self.quant_max <= 127 else torch.uint8
            return self._by_own_range(x, dtype, scale_form=self.scale_form)
        if x.device != self.scale.device:
            raise RuntimeError(
                f"FakeQuantize is on {self.scale.device}, and its input on {x.device}: move them to one device"
            )
        if self.scale.dtype not in _WIDE or self.min_val.dtype not in _WIDE:
            raise RuntimeError(
                f"FakeQuantize's scales arrive as {self.scale.dtype} and its ranges as {self.min_val.dtype}, but they are "
                "float32 or float64: keep it out of mixed precision, for example by fully_shard(module) of its own"
            )
        if self.training and self.observing if self._start is None else self._start:
            self._observe(x.detach())
        if not self.quantizing:
            return x
        if x.numel() > 0:
            self._require_ranges()
        if self.learnable:
            return fake_quantize_learnable(
                x,
                self._positive_scale(),
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

    def train(self, mode: bool = True) -> Self:
        self._report_least_scale()
        return super().train(mode)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {'learnable' if self.learnable else self.observer}"

    # What has been observed.

    def _is_ready(self) -> bool:
        """Whether every scale has had a finite range. Asked of the buffer after it has changed: asking waits for a device."""
        known, own = _readable(self.initialized), self.initialized is self._own[1]
        if known is None:
            exporting = torch.compiler.is_compiling() and not torch.compiler.is_dynamo_compiling()
            return self._ready and (own or exporting)  # torch.export lends the module tensors for its own
        if not own:  # in torch.func.functional_call
            return bool(known.all())
        version = -1 if known.is_inference() else known._version
        if self._read_at == -1 or self._read_at != version:
            self._ready, self._read_at = bool(known), version
        return self._ready

    def _require_ranges(self) -> None:
        if self._is_ready():
            return
        if self.scale.shape == (0,) or _readable(self.initialized) is not None:
            raise RuntimeError(_NOTHING_OBSERVED)
        # A branch on what a tensor holds would end the graph of torch.compile.
        torch._assert_async(self.initialized, _NOTHING_OBSERVED)

    def _refuse_lost_start(self) -> None:
        """Where the first input cannot set the parameters."""
        if self.scale is not self._own[0]:
            raise RuntimeError(
                "FakeQuantize(learnable=True) has no scales yet, and this input cannot set them: its parameter is held by "
                f"a wrapper, such as FSDP, that would lose them. {_INITIALIZE_FIRST}"
            )
        if self._start is None and distributed.is_available() and distributed.is_initialized():
            if distributed.get_world_size() > 1:
                raise RuntimeError(
                    "FakeQuantize(learnable=True) has no scales yet, and each of the "
                    f"{distributed.get_world_size()} processes would start from its own input. {_INITIALIZE_FIRST}"
                )

    @torch.no_grad()
    def _observe(self, x: Tensor) -> None:
        ready = self._is_ready()
        if x.numel() == 0 or (self.learnable and ready):
            return
        if self.learnable:
            self._refuse_lost_start()
        least, largest = (r.to(self.min_val.dtype) for r in ranges(x, self.scope, self.dim, self.group_size))
        if self.scope == "tensor":
            least, largest = least.reshape(self.min_val.shape), largest.reshape(self.min_val.shape)
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
        scale, zero_point = qparams(self.min_val, self.max_val, self.mode, self.quant_min, self.quant_max)
        self.scale.copy_(torch.where(moves, scale, self.scale))
        self.zero_point.copy_(torch.where(moves, zero_point, self.zero_point))
        if not ready:
            self.initialized.copy_(torch.isfinite(self.min_val).all())

    # A step of the optimizer may have been too long.

    def _positive_scale(self) -> Tensor:
        least = torch.finfo(self.scale.dtype).eps
        scale, readable = self.scale.detach(), _readable(self.scale)
        if readable is not None and readable.is_cpu:
            found = readable.detach().amin().item()
            if found >= least:
                return self.scale
            self._warn_of(found)
        else:
            self.least_scale.copy_(torch.minimum(self.least_scale, scale.amin()))
        if self.scale is self._own[0]:
            # As `data`: an earlier use may wait for its backward.
            self.scale.data.clamp_(min=least)
            return self.scale
        # FSDP gathers its copy anew for the backward. With the gradient of the parameter, whose value takes itself away.
        return scale.clamp(min=least) + (self.scale - scale)

    def _report_least_scale(self) -> None:
        """What torch.compile and devices could not say at once."""
        if self.learnable and not self._warned and (least := _readable(self.least_scale)) is not None:
            self._warn_of(least.item())

    def _warn_of(self, found: float) -> None:
        least = torch.finfo(self.scale.dtype).eps
        if found < least and not self._warned:
            self._warned = True
            warnings.warn(
                f"a step took a learnt scale of FakeQuantize to {found:.6g}; it is set to {least:.6g}, the least there is. "
                "Scales need a smaller learning rate, or a smaller grad_factor",
                stacklevel=3,
            )

    # Tensors that come from elsewhere.

    def _tensors_changed(self) -> None:
        # In a tuple, where they are registered no second time: copies and pickles keep each one.
        self._own = (self.scale, self.initialized)
        self._read_at = -1
        self._is_ready()

    def _resize(self, shape: torch.Size) -> None:
        for name, value in _STARTS.items():
            setattr(self, name, getattr(self, name).new_full(shape, value))
        self._tensors_changed()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Moves and casts. In bfloat16 a moving average would stand still: its steps are below half a unit of its last place."""
        was_meta = self.initialized.is_meta

        def applied(t: Tensor) -> Tensor:
            result = fn(t)
            dtype = t.dtype
            if t.is_floating_point():
                dtype = result.dtype if result.dtype in _WIDE else torch.float32
            return result if result.dtype == dtype else t.to(result.device, dtype)

        super()._apply(applied, recurse)  # type: ignore[no-untyped-call]
        if was_meta and not self.initialized.is_meta:  # by to_empty(): whatever the memory held
            with torch.no_grad():
                for name, value in {**_STARTS, "initialized": False, "least_scale": torch.inf}.items():
                    if hasattr(self, name):
                        getattr(self, name).fill_(value)
        self._tensors_changed()
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        stored = state_dict.get(prefix + "min_val")
        if stored is not None and not self.learnable and stored.shape != self.min_val.shape:
            self._resize(stored.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)
        if self.scale.dtype in _WIDE and self.min_val.dtype in _WIDE and self.max_val.dtype in _WIDE:
            self._tensors_changed()
        else:  # of a state that was assigned
            self._apply(lambda t: t)

    def _save_to_state_dict(self, *args: Any) -> None:
        self._report_least_scale()
        super()._save_to_state_dict(*args)


@torch.no_grad()
def initialize(model: nn.Module, *inputs: Any, **keywords: Any) -> None:
    """Runs ``model(*inputs, **keywords)`` once, without gradients, in the mode it is in: every `FakeQuantize` in it that
    has no ranges yet starts from what it sees there, also in evaluation mode; the others keep theirs.

    Where several processes train one model, call it before the model is wrapped, with the same inputs in each.

    >>> model = torch.nn.Sequential(torch.nn.ReLU(), planck.torch.FakeQuantize(quant_min=0, quant_max=15, learnable=True))
    >>> planck.torch.initialize(model, torch.tensor([-1.0, 0.4, 1.5]))
    >>> model[1].scale.item(), bool(model[1].initialized)
    (0.10000000149011612, True)
    """
    if any(isinstance(module, nn.parallel.DistributedDataParallel) for module in model.modules()):
        raise ValueError("initialize comes before DistributedDataParallel, which sends what it holds to all processes")
    fakes = [module for module in model.modules() if isinstance(module, FakeQuantize)]
    try:
        for fake in fakes:
            fake._start = not fake._is_ready()
        model(*inputs, **keywords)
    finally:
        for fake in fakes:
            fake._start = None


class DynamicQuantize(Quantizer):
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
