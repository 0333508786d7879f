"""Turns are fair and counted right, on a clock that the contestants themselves move."""

import pytest

from bench.measure import LEAST_ROUNDS, MOST_ROUNDS, SLOW_TURNS, OtherWork, Times, apart, disturbance, round_robin


class Clock:
    """Time goes by only while a contestant works."""

    def __init__(self):
        self.now = 0.0
        self.calls = []

    def __call__(self):
        return self.now

    def contestant(self, name, seconds):
        def call():
            self.now += seconds
            self.calls.append(name)

        return call


def test_medians_and_least():
    times = Times([3.0, 1.0, 2.0])
    assert (times.median, times.least) == (2.0, 1.0)


def test_every_contestant_gets_its_own_time():
    clock = Clock()
    calls = {
        name: clock.contestant(name, seconds) for name, seconds in (("copy", 0.001), ("peer", 0.003), ("planck", 0.002))
    }
    times = round_robin(calls, budget=0.06, clock=clock)
    assert {name: pytest.approx(taken.median) for name, taken in times.items()} == {
        "copy": 0.001,
        "peer": 0.003,
        "planck": 0.002,
    }
    assert {len(taken.turns) for taken in times.values()} == {10}  # 6 ms a round


def test_rounds_begin_with_another_contestant_each():
    clock = Clock()
    calls = {name: clock.contestant(name, 0.01) for name in "abc"}
    round_robin(calls, budget=0.0, clock=clock)
    turns = "".join(clock.calls[6:])  # each was called twice before, to see how long it takes
    assert turns == "abc" + "bca" + "cab" + "abc" + "bca"


def test_slow_peers_take_fewer_turns_and_others_do_not():
    clock = Clock()
    calls = {"slow": clock.contestant("slow", 0.5), "planck": clock.contestant("planck", 0.001)}
    times = round_robin(calls, budget=0.1005, clock=clock)
    assert len(times["slow"].turns) == SLOW_TURNS
    assert len(times["planck"].turns) == 100
    assert clock.calls.count("slow") == SLOW_TURNS + 1


def test_planck_and_the_copy_take_all_turns_however_slow():
    clock = Clock()
    calls = {name: clock.contestant(name, 0.5) for name in ("copy", "peer", "planck")}
    times = round_robin(calls, budget=0.1, clock=clock)
    assert {name: len(taken.turns) for name, taken in times.items()} == {
        "copy": LEAST_ROUNDS,
        "peer": SLOW_TURNS,
        "planck": LEAST_ROUNDS,
    }


@pytest.mark.parametrize("distance", [0, 64, 2048, 2112, 4095, (1 << 30) + 64])
def test_the_copys_places_lie_half_a_page_apart(distance):
    source = 3 << 30
    target = apart(source, source + distance)
    assert (target - source) % 4096 == 2048
    assert 0 <= target - (source + distance) < 4096


def test_quick_calls_are_repeated_within_a_turn():
    clock = Clock()
    times = round_robin({"planck": clock.contestant("planck", 4e-6)}, budget=10.0, clock=clock)
    assert len(times["planck"].turns) == MOST_ROUNDS
    assert len(clock.calls) == 2 + 13 * MOST_ROUNDS  # 50 µs a turn
    assert times["planck"].median == pytest.approx(4e-6)


def test_long_calls_still_get_their_rounds():
    clock = Clock()
    times = round_robin({"planck": clock.contestant("planck", 0.09)}, budget=0.01, clock=clock)
    assert len(times["planck"].turns) == LEAST_ROUNDS


def test_other_work_is_a_share(monkeypatch):
    readings = iter([(0.0, 0.0, 0.0), (10.0, 6.0, 4.0), (10.2, 6.2, 4.0)])
    monkeypatch.setattr(OtherWork, "_read", staticmethod(lambda: next(readings)))
    others = OtherWork()
    assert others.share() == pytest.approx(0.2)
    assert others.share() == 0.0  # too short to say


@pytest.mark.parametrize(
    ("others", "turns", "expected"),
    [
        (0.0, [0.002, 0.002, 0.002], 0.0),
        (0.2, [0.002, 0.002, 0.002], 2.0),
        (0.05, [0.002, 0.002, 0.002], 0.5),
        (0.05, [0.002, 0.0032, 0.004], 2.0),  # the copy's median is 1.6 times its least
        (0.05, [0.0002, 0.0004, 0.0004], 0.5),  # a copy this short always varies
    ],
)
def test_a_machine_is_busy_above_1(others, turns, expected):
    assert disturbance(others, Times(turns)) == pytest.approx(expected)
