"""Times contestants in turns, so that a busy machine is busy for all of them, beside a copy of as many bytes."""

from __future__ import annotations

import ctypes
import math
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch

Call = Callable[[], object]
# One turn of a quick call repeats it for about this long, which is well above the clock's own cost.
TURN_SECONDS = 50e-6
# A peer slower than this takes fewer turns than the others.
SLOW_SECONDS = 0.1
SLOW_TURNS = 3
# Never these two: every ratio is made of them.
ALWAYS = ("copy", "planck")
LEAST_ROUNDS = 5
MOST_ROUNDS = 300
# Busy: others took this share of the cores' time, or a copy that takes a while varied this much (median ÷ least).
BUSY_SHARE = 0.1
BUSY_SPREAD = 1.3
BUSY_COPY_SECONDS = 1e-3
# From and to lie this far apart modulo a page: at 0 or 64, copies of 1 GiB ran at 14 to 19 GB/s instead of 40.
_PAGE, _APART = 4096, 2048


@dataclass(frozen=True)
class Times:
    """Seconds of one call in every turn."""

    turns: list[float]

    @property
    def median(self) -> float:
        return statistics.median(self.turns)

    @property
    def least(self) -> float:
        return min(self.turns)


def _turn(call: Call, repeats: int, clock: Callable[[], float]) -> float:
    begin = clock()
    for _ in range(repeats):
        call()
    return (clock() - begin) / repeats


def round_robin(
    calls: dict[str, Call], budget: float, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Times]:
    """Lets every contestant take turns until about `budget` seconds have gone, in at least LEAST_ROUNDS rounds.

    Each is called once before, for warmth and to see how long it takes. Every round begins with the next contestant, so
    that none always follows the same one.
    """
    once = {name: _turn(call, 1, clock) for name, call in calls.items()}
    once = {
        name: min(seconds, _turn(calls[name], 1, clock)) if seconds < SLOW_SECONDS else seconds
        for name, seconds in once.items()
    }
    repeats = {name: max(1, math.ceil(TURN_SECONDS / max(seconds, 1e-9))) for name, seconds in once.items()}
    repeats = {name: min(count, 1000) for name, count in repeats.items()}
    slow = {name for name, seconds in once.items() if seconds > SLOW_SECONDS} - set(ALWAYS)
    one_round = sum(seconds * repeats[name] for name, seconds in once.items() if name not in slow)
    rounds = min(MOST_ROUNDS, max(LEAST_ROUNDS, int(budget / max(one_round, 1e-9))))
    slow_rounds = {round(i * (rounds - 1) / (SLOW_TURNS - 1)) for i in range(SLOW_TURNS)}
    turns: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if name not in slow or number in slow_rounds:
                turns[name].append(_turn(calls[name], repeats[name], clock))
    return {name: Times(taken) for name, taken in turns.items()}


def apart(source: int, target: int) -> int:
    """The first address from `target` on that lies half a page from `source`, modulo a page."""
    return target + (source + _APART - target) % _PAGE


class Copy:
    """Copies half of the bytes to another place, with the threads that Planck uses: as much traffic as the operation."""

    def __init__(self, library: Path) -> None:
        self._copy = ctypes.CDLL(str(library)).planck_bench_copy
        self._copy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int]
        self._copy.restype = None
        self._from = self._to = torch.empty(0, dtype=torch.uint8)

    def call(self, total_bytes: int, threads: int) -> Call:
        half = max(1, total_bytes // 2)
        if self._from.numel() < half + _PAGE:
            self._from = self._to = torch.empty(0, dtype=torch.uint8)  # free the old ones first
            self._from, self._to = (torch.ones(half + _PAGE, dtype=torch.uint8) for _ in range(2))
        source, target = self._from.data_ptr(), apart(self._from.data_ptr(), self._to.data_ptr())
        return lambda: self._copy(target, source, half, threads)


def disturbance(others: float, copy: Times) -> float:
    """How busy the machine was while a row was measured: above 1 the row is marked."""
    spread = copy.median / copy.least if copy.median > BUSY_COPY_SECONDS else 1.0
    return max(others / BUSY_SHARE, (spread - 1) / (BUSY_SPREAD - 1))


class OtherWork:
    """How much of the machine others used since the last look: a share of its cores' time, stolen time included."""

    def __init__(self) -> None:
        self._last = self._read()

    def share(self) -> float:
        before, self._last = self._last, self._read()
        total, busy, own = (after - then for after, then in zip(self._last, before, strict=True))
        # The kernel counts in hundredths of a second: too coarse for a short while.
        return max(0.0, busy - own) / total if total > 0.5 else 0.0

    @staticmethod
    def _read() -> tuple[float, float, float]:
        """Seconds of all cores, those in which they were busy, and this process's own."""
        words = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
        user, nice, system, idle, iowait, irq, softirq, steal = (int(word) for word in words[:8])
        busy = user + nice + system + irq + softirq + steal
        own = os.times()
        ticks = os.sysconf("SC_CLK_TCK")
        return (busy + idle + iowait) / ticks, busy / ticks, own.user + own.system
