"""The grid is complete, its names tell rows apart, and goals are those of docs/benchmarks.md."""

import itertools

import pytest

from bench.goals import goal_of, reads_twice
from bench.peers import COMPILED, EAGER, JAX, NUMPY, wanted
from bench.rows import (
    DTYPES,
    HOSTILE,
    LLM,
    M16,
    OPS,
    RAGGED_LENGTHS,
    SCAN_LAYOUTS,
    SCANS,
    SCOPES,
    SMALL,
    Row,
    directions,
    rows,
)

SQUARE = (4096, 4096)


@pytest.mark.parametrize("mode", ["default", "full"])
def test_every_operation_direction_and_dtype_at_16m(mode):
    found = {(row.op, row.direction, row.dtype) for row in rows(mode) if row.part == "16M"}
    wanted_rows = {(op, d, dtype) for op in OPS for d in directions(op) for dtype in DTYPES}
    assert found == wanted_rows


@pytest.mark.parametrize("mode", ["default", "full"])
def test_shapes_scopes_threads_and_data(mode):
    found = rows(mode)
    for op, (shape, axis) in itertools.product(set(SCANS) - {"cummin"}, SCAN_LAYOUTS):
        assert any((row.op, row.shape, row.axis) == (op, shape, axis) for row in found)
    for op, scope in itertools.product(("quantize", "dequantize", "fake_quantize", "dynamic_quantize"), SCOPES):
        assert any((row.op, row.scope, row.shape) == (op, scope, SQUARE) for row in found)
    assert {row.shape for row in found if row.part == "llm"} == set(LLM)
    assert {row.elements for row in found if row.part == "small"} == set(SMALL)
    assert {row.data for row in found} == {"normal", "±1000", *HOSTILE}
    assert {row.threads for row in found} == {1, 2}
    assert {row.codes for row in found} == {"", "s8", "u8"}


def test_full_has_all_of_default():
    assert set(rows("default")) <= set(rows("full"))


@pytest.mark.parametrize("mode", ["quick", "default", "full"])
def test_names_are_unique(mode):
    names = [row.name for row in rows(mode)]
    assert len(names) == len(set(names))


def test_quick_is_short():
    assert 20 <= len(rows("quick")) <= 60


def test_threads_follow_the_machine():
    assert {row.threads for row in rows("default", threads=8)} == {1, 8}
    assert {row.threads for row in rows("default", threads=1)} == {1}


def test_filter_searches_names():
    found = rows("default", r"^16M/cumsum/forward/f32/.*axis=0")
    assert [(row.op, row.shape, row.axis) for row in found] == [("cumsum", SQUARE, 0)]
    assert rows("default", "no such row") == []


@pytest.mark.parametrize(
    ("row", "goal"),
    [
        (Row("16M", "fake_quantize", "forward", "f32", SQUARE, scope="tensor"), 1.25),
        (Row("16M", "fake_quantize", "forward", "bf16", SQUARE, scope="tensor"), 1.5),
        (Row("16M", "fake_quantize", "forward", "bf16", SQUARE, scope="tensor", variant="reciprocal"), 1.25),
        (Row("16M", "dequantize", "forward", "f16", SQUARE, scope="tensor", codes="s8"), 1.25),
        (Row("16M", "lerp", "backward", "bf16", SQUARE, variant="scalar weight"), 1.25),
        (Row("16M", "dynamic_quantize", "forward", "f32", SQUARE, scope="token", codes="s8"), 1.25),
        (Row("16M", "dynamic_quantize", "forward", "f32", SQUARE, scope="tensor", codes="s8"), 1.5),
        (Row("16M", "dynamic_quantize", "forward", "f32", (1, M16), scope="token", codes="s8"), 1.5),
        (Row("16M", "cumsum", "forward", "f32", SQUARE, 0), 1.5),
        (Row("16M", "cumprod", "backward", "f64", (32, 1024, 512), 1), 1.5),
        (Row("16M", "cumsum", "backward", "f32", (1, M16), 1), 2.0),
        (Row("16M", "linear_recurrence", "forward", "bf16", SQUARE, 1), 2.5),
        (Row("16M", "cummax", "backward", "f16", SQUARE, 1), 2.5),
        (Row("16M", "cumsum", "forward", "bf16", (1, M16), 1), 2.5),
        (Row("16M", "logcumsumexp", "forward", "f32", SQUARE, 0), 3.0),
        (Row("16M", "logcumsumexp", "backward", "f32", (1, M16), 1), 3.0),
        (Row("16M", "logcumsumexp", "backward", "bf16", SQUARE, 1), 6.0),
        (Row("16M", "logcumsumexp", "forward", "f16", SQUARE, 1), 6.0),
        (Row("16M", "logcumsumexp", "forward", "f64", SQUARE, 1), 4.0),
        (Row("64Ki", "cumsum", "forward", "f32", (256, 256), 1), None),
    ],
)
def test_goals(row, goal):
    assert goal_of(row) == goal


def test_long_or_scattered_ranges_read_twice():
    def dynamic(scope, shape=SQUARE):
        return reads_twice(Row("16M", "dynamic_quantize", "forward", "f32", shape, scope=scope, codes="s8"))

    assert [dynamic(scope) for scope in SCOPES] == [True, False, False, True, True]
    assert dynamic("token", (1, M16)) and not dynamic("token", (131072, 128))


def test_peers_by_mode():
    plain = Row("16M", "cumsum", "forward", "f32", SQUARE, 1)
    elsewhere = Row("16M", "cumsum", "forward", "f32", (1, M16), 1)
    assert [wanted(name, plain, "quick") for name in (EAGER, COMPILED, NUMPY, JAX)] == [True, False, False, False]
    assert [wanted(name, plain, "default") for name in (EAGER, COMPILED, NUMPY, JAX)] == [True, True, True, False]
    assert [wanted(name, elsewhere, "default") for name in (EAGER, COMPILED, NUMPY, JAX)] == [True, False, False, False]
    assert all(wanted(name, elsewhere, "full") for name in (EAGER, COMPILED, NUMPY, JAX))


@pytest.mark.parametrize("mode", ["default", "full"])
def test_ragged_batches_of_every_scan(mode):
    """512 segments, the shortest and the longest among them, which only a loop does too."""
    found = [row for row in rows(mode) if row.part == "ragged"]
    assert {(row.op, row.direction) for row in found} == {(op, d) for op in SCANS for d in directions(op)}
    assert (len(RAGGED_LENGTHS), min(RAGGED_LENGTHS), max(RAGGED_LENGTHS)) == (512, 1, 8192)
    for row in found:
        assert row.shape == (sum(RAGGED_LENGTHS),) and goal_of(row) is None
        assert [name for name in (EAGER, COMPILED, NUMPY, JAX) if wanted(name, row, mode)] == [EAGER]
