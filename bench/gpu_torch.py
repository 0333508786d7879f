"""PyTorch on a CUDA device, for the problems of gpu_bench.cu: a name and milliseconds for each."""

from collections.abc import Callable

import torch

SIDE = 4096


def milliseconds(body: Callable[[], object]) -> float:
    """The least of several rounds, timed by events on the stream."""
    best = float("inf")
    for _ in range(20):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        body()
        end.record()
        end.synchronize()
        best = min(best, begin.elapsed_time(end))
    return best


def dynamic_token(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What people write: symmetric int8 codes of each row."""
    scale = x.abs().amax(dim=-1, keepdim=True).float().clamp(min=1e-12) / 127
    return torch.round(x / scale).clamp(-127, 127).to(torch.int8), scale


def main() -> None:
    if not torch.cuda.is_available():
        print("skipped: PyTorch finds no CUDA device")
        return
    x = torch.randn(SIDE, SIDE, device="cuda")
    narrow = x.bfloat16()
    compiled = torch.compile(dynamic_token)
    problems: dict[str, Callable[[], object]] = {
        "fake_quantize f32": lambda: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
        "dynamic_quantize token f32, eager": lambda: dynamic_token(x),
        "dynamic_quantize token f32, torch.compile": lambda: compiled(x),
        "dynamic_quantize token bf16, torch.compile": lambda: compiled(narrow),
        "cumsum f32, axis 1": lambda: torch.cumsum(x, 1),
        "cumsum f32, axis 0": lambda: torch.cumsum(x, 0),
        "cumsum f32, flat": lambda: torch.cumsum(x.view(-1), 0),
        "cumprod f32, axis 1": lambda: torch.cumprod(x, 1),
        "logcumsumexp f32, axis 1": lambda: torch.logcumsumexp(x, 1),
    }
    for name, body in problems.items():
        body()
        print(f"{name:<44} {milliseconds(body):9.3f} ms")


if __name__ == "__main__":
    main()
