"""How far from a copy a row may be, and the bytes that the copy moves."""

from __future__ import annotations

from bench.rows import BACKWARD_ONLY, BYTES, M16, SCANS, Row

# A row that fits a cache is not bound by memory, and then a copy is no yardstick.
GOAL_ELEMENTS = M16
# Below this many elements a call's fixed cost is what counts.
PEER_ELEMENTS = 1 << 16
LONG_ROW_BYTES = 1 << 20
FEW_ROWS = 16
# 16-bit scans have half the bytes of f32 and the same arithmetic.
SCAN_GOALS = {"f32": 1.5, "f64": 1.5, "f16": 2.5, "bf16": 2.5}
# An exponential and a logarithm for each element: arithmetic, also in one long row.
LOG_SUM_EXP_GOALS = {"f32": 3.0, "f64": 4.0, "f16": 6.0, "bf16": 6.0}
# Threads share a single row by reading it twice.
LONG_ROW_GOAL = 2.0


def reads_twice(row: Row) -> bool:
    """Whether a range must be known before the first code is written, with more in it than a cache holds."""
    if row.op != "dynamic_quantize":
        return False
    long_row = row.length * BYTES[row.dtype] > LONG_ROW_BYTES
    return row.scope == "tensor" or row.scope.startswith("channel") or long_row


def goal_of(row: Row) -> float | None:
    """The largest time ÷ copy that counts as good; None for rows that may fit a cache."""
    if row.elements < GOAL_ELEMENTS:
        return None
    if row.op == "logcumsumexp":
        return LOG_SUM_EXP_GOALS[row.dtype]
    if row.op in SCANS:
        goal = SCAN_GOALS[row.dtype]
        return max(goal, LONG_ROW_GOAL) if row.elements // row.length < FEW_ROWS else goal
    if reads_twice(row):
        return 1.5
    divides = row.op in ("quantize", "fake_quantize", "dynamic_quantize", *BACKWARD_ONLY)
    sixteen_bit = BYTES[row.dtype] == 2
    return 1.5 if divides and sixteen_bit and row.variant != "reciprocal" else 1.25
