"""Rows during which the machine was busy are measured again, a few times, and the calmest measurement counts."""

import pytest
from results import result

from bench.repeats import MOST_REPEATS, calmer, measure_rows
from bench.rows import Row

A, B, C = (Row("16M", op, "forward", "f32", (4096, 4096), 1) for op in ("cumsum", "cumprod", "cummax"))


class Machine:
    """Measures rows; `disturbances` are those of a row's measurements, and the last one stays."""

    def __init__(self, **disturbances):
        self.disturbances = disturbances
        self.asked = []
        self.said = []

    def run(self, row):
        values = self.disturbances[row.op]
        if values is None:
            return None
        turn = self.asked.count(row.op)
        self.asked.append(row.op)
        # The later the faster: what is kept must not depend on it.
        return result(row, 10.0 - turn, 5.0, values[min(turn, len(values) - 1)])

    def measure(self, *rows):
        found = {}
        measure_rows(rows, self.run, found, self.said.append)
        return found


def test_a_quiet_machine_measures_once():
    machine = Machine(cumsum=[0.2], cumprod=[1.0])
    found = machine.measure(A, B)
    assert machine.asked == ["cumsum", "cumprod"]
    assert [found[row]["measured"] for row in (A, B)] == [1, 1]
    assert len(machine.said) == 2


def test_busy_rows_alone_are_measured_again_at_the_end():
    machine = Machine(cumsum=[3.0, 2.0, 0.5], cumprod=[0.0], cummax=[1.5, 0.0])
    found = machine.measure(A, B, C)
    assert machine.asked == ["cumsum", "cumprod", "cummax", "cumsum", "cummax", "cumsum"]
    assert [found[row]["measured"] for row in (A, B, C)] == [3, 1, 2]
    assert not any(kept["busy"] for kept in found.values())
    assert [text for text in machine.said if "again" in text] == [
        "\n== again, 1 of at most 3: 2 rows during which the machine was busy",
        "\n== again, 2 of at most 3: 1 row during which the machine was busy",
    ]


def test_repeats_end_and_the_calmest_is_kept():
    machine = Machine(cumsum=[5.0, 2.0, 3.0, 4.0, 0.0])
    kept = machine.measure(A)[A]
    assert len(machine.asked) == 1 + MOST_REPEATS
    assert (kept["disturbance"], kept["busy"], kept["measured"]) == (2.0, True, 1 + MOST_REPEATS)
    assert kept["planck_ms"] == 9.0  # of the second measurement, though later ones were faster


def test_a_row_that_is_left_out_stays_out():
    machine = Machine(cumsum=None, cumprod=[0.0])
    assert set(machine.measure(A, B)) == {B}


def test_a_repeat_without_memory_leaves_the_first_measurement():
    machine = Machine(cumsum=[2.0])
    found = {}

    def run(row):
        return machine.run(row) if not found else None

    measure_rows([A], run, found, machine.said.append)
    assert (found[A]["disturbance"], found[A]["measured"]) == (2.0, 1)


def test_ctrl_c_leaves_what_is_there():
    found = {}

    def run(row):
        if row == B:
            raise KeyboardInterrupt
        return result(row, 1.0, 1.0, 2.0)

    with pytest.raises(KeyboardInterrupt):
        measure_rows([A, B], run, found, lambda text: None)
    assert set(found) == {A}


def test_of_equals_the_first_is_kept():
    first, second = ({**result(A, ms, 1.0, 2.0), "measured": 1} for ms in (2.0, 1.0))
    assert calmer(first, second)["planck_ms"] == 2.0
