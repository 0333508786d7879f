"""Measures all rows, and then those again that were measured while the machine was busy: one run, few times over.

Which measurement of a row is kept depends on the machine alone, never on Planck's time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bench.report import line
from bench.rows import Row

Result = dict[str, Any]
MOST_REPEATS = 3


def calmer(first: Result, second: Result) -> Result:
    """The measurement that others disturbed less."""
    return {**min(first, second, key=lambda result: result["disturbance"]), "measured": first["measured"] + 1}


def measure_rows(
    order: Sequence[Row],
    run: Callable[[Row], Result | None],
    found: dict[Row, Result],
    say: Callable[[str], None],
) -> None:
    """Fills `found`, which has what is there when Ctrl-C ends the run. `run` gives None for a row that is left out."""
    for attempt in range(MOST_REPEATS + 1):
        if attempt:
            order = [row for row in order if row in found and found[row]["busy"]]
            if not order:
                return
            rows = "1 row" if len(order) == 1 else f"{len(order)} rows"
            say(f"\n== again, {attempt} of at most {MOST_REPEATS}: {rows} during which the machine was busy")
        for number, row in enumerate(order, 1):
            result = run(row)
            if result is None:
                continue
            result = {**result, "measured": 1}
            say(line(result, number, len(order)))
            found[row] = calmer(found[row], result) if row in found else result
