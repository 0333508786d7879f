"""Instruction counts: what a callgrind dump says, and what fails."""

import json

import pytest

from bench import instructions

DUMP = """# callgrind format
version: 1
desc: Trigger: Client Request: Cumsum_f32/65536
events: Ir
summary: 123456
totals: 123456
"""


def test_a_dump():
    assert instructions.parse_dump(DUMP) == ("Cumsum_f32/65536", 123456)


def test_the_dump_at_the_end_has_no_label():
    assert instructions.parse_dump(DUMP.replace("Client Request: Cumsum_f32/65536", "Program termination")) is None


@pytest.mark.parametrize(
    ("count", "wrong"),
    [
        (1000, []),
        (500, []),
        (1029, []),
        (1100, ["kernel takes 10.0% more instructions than stored"]),
    ],
)
def test_more_than_stored(count, wrong):
    assert instructions.compare({"kernel": int(count)}, {"kernel": 1000}) == wrong


def test_kernels_that_only_one_side_has():
    assert instructions.compare({"new": 1}, {"old": 1}) == [
        "new has no stored count",
        "old is stored, but was not counted",
    ]


@pytest.fixture
def stored(tmp_path, monkeypatch):
    file = tmp_path / "counts.json"
    monkeypatch.setattr(instructions, "STORED", file)
    monkeypatch.setattr(instructions, "ISA", "fpu")
    monkeypatch.setattr(instructions, "count_instructions", lambda program: {"kernel": 1000})
    return file


def test_stored_and_compared(stored, capsys):
    assert instructions.main(["program", "--update"]) == 0
    assert instructions.main(["program"]) == 0
    document = json.loads(stored.read_text())
    document["counts"]["kernel"] = 900
    stored.write_text(json.dumps(document))
    assert instructions.main(["program"]) == 1
    assert "kernel takes 11.1% more instructions than stored" in capsys.readouterr().err


def test_another_compiler_is_not_compared(stored, capsys):
    stored.write_text(json.dumps({"for": "g++ 1.0, fpu", "counts": {"kernel": 1}}))
    assert instructions.main(["program"]) == 0
    assert "they are stored for g++ 1.0, fpu" in capsys.readouterr().out


def test_a_machine_without_the_instruction_set(stored, monkeypatch, capsys):
    monkeypatch.setattr(instructions, "ISA", "no such set")
    assert instructions.main(["program"]) == 0
    assert "this machine has no no such set" in capsys.readouterr().out
