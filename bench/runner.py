"""Measures one row: sets up Planck, the copy and the peers, checks that all compute the same, and times them in turns."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import planck
import planck.torch  # puts Planck on PyTorch's threads, as PyTorch's users have it
import torch

from bench.goals import goal_of
from bench.measure import Copy, OtherWork, disturbance, round_robin
from bench.peers import EAGER, PEERS, Peers, first_line, wanted
from bench.problems import Buffers, Problem, make_problem
from bench.rows import Row

BUDGET = {"quick": 0.3, "default": 0.3, "full": 1.0}
_PIECE = 1 << 21

# torchao and torch.compile remark on CUDA and on each other's versions, in the middle of the rows.
logging.getLogger("torch").setLevel(logging.ERROR)


def as_tensor(array: Any) -> torch.Tensor:
    if isinstance(array, torch.Tensor):
        return array
    return array.tensor() if hasattr(array, "tensor") else torch.from_numpy(array)


def difference(results: tuple[Any, ...], outputs: tuple[torch.Tensor, ...]) -> tuple[float, float]:
    """The largest difference of finite elements over all outputs; and that, relative to the output's largest element."""
    largest = relative = 0.0
    for result, output in zip(results, outputs, strict=False):
        theirs, own = as_tensor(result).reshape(-1), output.reshape(-1)
        worst = size = 0.0
        # In pieces that a cache holds: whole tensors in f64 would take longer than the row.
        for a, b in zip(theirs.split(_PIECE), own.split(_PIECE), strict=True):
            a, b = a.to(torch.float64), b.to(torch.float64)
            finite = torch.isfinite(a) & torch.isfinite(b)
            off = torch.where(finite, (a - b).abs(), 0.0)
            worst = max(worst, float(off.max()))
            size = max(size, float(torch.where(finite, a.abs(), 0.0).max()))
        largest = max(largest, worst)
        relative = max(relative, worst / size if size else worst)
    return largest, relative


class Runner:
    """Keeps what rows share: buffers, the copy, and what became of the peers."""

    def __init__(self, mode: str, copy_library: Path, seconds: float | None = None) -> None:
        self._mode = mode
        self._seconds = seconds or BUDGET[mode]
        self._buffers = Buffers()
        self._copy = Copy(copy_library)
        self._peers = Peers()
        self.absent: dict[str, set[str]] = {}

    @property
    def missing(self) -> dict[str, str]:
        return self._peers.missing

    def run(self, row: Row) -> dict[str, Any]:
        torch.set_num_threads(row.threads)
        planck.set_num_threads(row.threads)
        problem = make_problem(row, self._buffers)
        problem.planck()
        calls, differences = self._contestants(problem)
        others = OtherWork()
        times = round_robin(calls, self._seconds)
        share = others.share()
        self._buffers.trim()
        planck_times, copy_times = times.pop("planck"), times.pop("copy")
        disturbed = disturbance(share, copy_times)
        first = EAGER if EAGER in differences else next(iter(differences), None)
        off, relative = differences[first] if first is not None else (None, None)
        return {
            **row.as_json(),
            "planck_ms": planck_times.median * 1e3,
            "planck_min_ms": planck_times.least * 1e3,
            "copy_ms": copy_times.median * 1e3,
            "copy_min_ms": copy_times.least * 1e3,
            "peers": {name: peer.median * 1e3 for name, peer in times.items()},
            "peers_min": {name: peer.least * 1e3 for name, peer in times.items()},
            "ratio_copy": planck_times.median / copy_times.median,
            "goal": goal_of(row),
            "gb_per_s": problem.bytes / planck_times.median * 1e-9,
            "bytes": problem.bytes,
            "rounds": len(planck_times.turns),
            "max_abs_diff": off,
            "max_rel_diff": relative,
            "diffs": {name: both[0] for name, both in differences.items()},
            "others": share,
            "disturbance": disturbed,
            "busy": disturbed > 1,
        }

    def _contestants(self, problem: Problem) -> tuple[dict[str, Any], dict[str, tuple[float, float]]]:
        row = problem.row
        calls: dict[str, Any] = {"copy": self._copy.call(problem.bytes, row.threads)}
        differences = {}
        for name in PEERS:
            if not wanted(name, row, self._mode):
                continue
            try:
                call = self._peers.make(name, problem)
                if call is None:
                    continue
                differences[name] = difference(call(), problem.outputs)
                calls[name] = call
            except Exception as error:  # a dtype or shape that the peer does not take
                why = f"{name}, {row.op} {row.direction} {row.dtype}: {first_line(error)}"
                self.absent.setdefault(why, set()).add(row.name)
        calls["planck"] = problem.planck
        return calls, differences
