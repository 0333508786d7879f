"""The compiled half: every argument in order, nothing defaulted. Use the functions of `planck` instead."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

for_torch: ModuleType
"""The calls below, whose messages have PyTorch's names for arguments."""

CUMSUM: int
CUMPROD: int
CUMMAX: int
CUMMIN: int
LOGCUMSUMEXP: int
LERP: int
ADD_SCALED: int

def set_num_threads(threads: int) -> None: ...
def get_num_threads() -> int: ...
def set_executor(name: str) -> bool: ...
def element_kinds() -> list[tuple[int, str, str, int, str, int]]: ...
def torch_way(tensors: tuple[Any, ...], /) -> int: ...
def refuse_kind(tensor: Any, name: str, /) -> None: ...
def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> str: ...
def quantize(
    x: Any,
    scale: Any,
    zero_point: Any,
    dtype: Any,
    scope: Any,
    axis: Any,
    group_size: Any,
    q_min: Any,
    q_max: Any,
    scale_form: Any,
    trust_qparams: bool,
    saturate: bool,
    out: Any,
    /,
) -> Any: ...
def quantize_backward(
    dy: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    dtype: Any,
    scope: Any,
    axis: Any,
    group_size: Any,
    q_min: Any,
    q_max: Any,
    scale_form: Any,
    trust_qparams: bool,
    saturate: bool,
    out: Any,
    /,
) -> Any: ...
def dequantize(
    q: Any,
    scale: Any,
    zero_point: Any,
    dtype: Any,
    scope: Any,
    axis: Any,
    group_size: Any,
    trust_qparams: bool,
    out: Any,
    /,
) -> Any: ...
def dequantize_backward(
    dy: Any, scale: Any, scope: Any, axis: Any, group_size: Any, trust_qparams: bool, out: Any, /
) -> Any: ...
def fake_quantize(
    x: Any,
    scale: Any,
    zero_point: Any,
    q_min: Any,
    q_max: Any,
    scope: Any,
    axis: Any,
    group_size: Any,
    scale_form: Any,
    trust_qparams: bool,
    out: Any,
    /,
) -> Any: ...
def fake_quantize_backward(
    dy: Any,
    x: Any,
    scale: Any,
    zero_point: Any,
    q_min: Any,
    q_max: Any,
    scope: Any,
    axis: Any,
    group_size: Any,
    scale_form: Any,
    trust_qparams: bool,
    learnable: bool,
    grad_factor: float,
    out: Any,
    /,
) -> Any: ...
def dynamic_quantize(
    x: Any,
    scope: Any,
    mode: Any,
    dtype: Any,
    axis: Any,
    group_size: Any,
    q_min: Any,
    q_max: Any,
    zero_in_range: bool,
    nonfinite: Any,
    scale_dtype: Any,
    qparams_only: bool,
    row_sum: bool,
    out: Any,
    /,
) -> tuple[Any, Any, Any, Any]: ...
def scan(kind: int, x: Any, axis: Any, reverse: bool, exclusive: bool, offsets: Any, out: Any, /) -> Any: ...
def extremum(
    kind: int, x: Any, axis: Any, reverse: bool, ties: Any, index_dtype: Any, offsets: Any, out: Any, /
) -> tuple[Any, Any]: ...
def scan_backward(
    kind: int,
    dy: Any,
    x: Any,
    y: Any,
    indices: Any,
    axis: Any,
    reverse: bool,
    exclusive: bool,
    ties: Any,
    offsets: Any,
    out: Any,
    /,
) -> Any: ...
def linear_recurrence(a: Any, b: Any, axis: Any, initial: Any, reverse: bool, offsets: Any, out: Any, /) -> Any: ...
def linear_recurrence_backward(
    dh: Any,
    a: Any,
    h: Any,
    axis: Any,
    initial: Any,
    b_shape: Any,
    reverse: bool,
    offsets: Any,
    want_a: bool,
    want_b: bool,
    want_initial: bool,
    out: Any,
    /,
) -> tuple[Any, Any, Any]: ...
def binary(kind: int, a: Any, b: Any, weight: Any, out: Any, /) -> Any: ...
def binary_backward(kind: int, dy: Any, a: Any, b: Any, weight: Any, out: Any, /) -> tuple[Any, Any, Any]: ...
