"""Instruction counts: what a callgrind dump says, what fails, and where the instructions are."""

import json
from collections import Counter

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
    assert instructions.compare({"kernel": int(count)}, {"kernel": 1000}, {}) == wrong


def test_kernels_that_only_one_side_has():
    assert instructions.compare({"new": 1}, {"old": 1}, {"marked": 1}) == [
        "new has no stored count",
        "old is stored, but was not counted",
        "marked has a mark, but was not counted",
    ]


def test_marks_are_of_an_element_or_of_a_small_run(capsys):
    counts = {"kernel/65536": 65536 * 5, "kernel/64": 700, "other/rows/65536": 65536 * 3 // 2}
    marks = {"kernel/65536": 4.5, "kernel/64": 700}
    assert instructions.compare(counts, counts, marks) == []
    printed = capsys.readouterr().out
    lines = {line.split()[0]: line.split()[4:] for line in printed.splitlines() if line.split()[0] in counts}
    assert lines == {"kernel/65536": ["5.00", "4.5"], "kernel/64": ["700", "700"], "other/rows/65536": ["1.50", "–"]}
    assert printed.endswith("marks missed: 1 of 2\n  kernel/65536: 5.00, mark 4.5\n")
    assert instructions.missed(counts, marks) == ["kernel/65536"]


def test_the_marks_are_those_of_counted_kernels():
    document = json.loads(instructions.STORED.read_text())
    assert document["marks"].keys() < document["counts"].keys()
    assert document["marks"]["Cumsum_f32/64"] == 700 and document["marks"]["Cumsum_f32/65536"] == 3.6


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
    document["marks"] = {"kernel": 500}
    stored.write_text(json.dumps(document))
    assert instructions.main(["program"]) == 1
    seen = capsys.readouterr()
    assert "kernel takes 11.1% more instructions than stored" in seen.err
    assert "kernel: 1000, mark 500" in seen.out
    assert instructions.main(["program", "--update"]) == 0  # a missed mark is none of its business, and stays
    assert json.loads(stored.read_text()) == {**document, "counts": {"kernel": 1000}}


def test_another_compiler_is_not_compared(stored, capsys):
    stored.write_text(json.dumps({"for": "g++ 1.0, fpu", "counts": {"kernel": 1}}))
    assert instructions.main(["program"]) == 0
    assert "they are stored for g++ 1.0, fpu" in capsys.readouterr().out


def test_a_machine_without_the_instruction_set(stored, monkeypatch, capsys):
    monkeypatch.setattr(instructions, "ISA", "no such set")
    assert instructions.main(["program"]) == 0
    assert "this machine has no no such set" in capsys.readouterr().out


# Ten instructions in the program's own lines, one call, and five in a library.
ADDRESSES = """# callgrind format
desc: Trigger: Client Request: kernel/1024
positions: instr line
events: Ir
summary: 15

ob=(1) /build/counts
fl=(1) /src/math.inl
fn=(1) run(double*, int)
0x13b0 4 1
+3 * 2
fi=(2) /usr/lib/avxintrin.h
+4 143 3
fe=(1)
-4 4 3
cob=(2) /lib/libc.so.6
cfn=(2) memcpy
calls=1 0x500 -2
* * 5
* * 1

ob=(2)
fl=(3)
fn=(2)
0x500 0 5

totals: 15
"""

STACKS = """0x00000000000013b0
/usr/lib/gcc/include/avxintrin.h:143
/clone/build/../src/cpu/simd/lanes-inl.h:10
/clone/src/scan/cpu/row_registers-inl.h:20 (discriminator 3)
/clone/src/scan/cpu/row_kernel-inl.h:20
0x00000000000013b3
/clone/src/cpu/simd/lanes-inl.h:10
0x00000000000013b7
??:?
"""


def test_addresses_of_a_dump():
    """Those of one line are added up; what a called function took is no line's own."""
    found = instructions.parse_addresses(ADDRESSES)
    assert found == {"/build/counts": {0x13B0: 1, 0x13B3: 2 + 3 + 1, 0x13B7: 3}, "/lib/libc.so.6": {0x500: 5}}
    assert sum(each.total() for each in found.values()) == instructions.parse_dump(ADDRESSES)[1]


def test_an_instruction_belongs_to_the_innermost_function_of_src():
    stacks = instructions.parse_stacks(STACKS)
    sources = {address: instructions.source_of(files) for address, files in stacks.items()}
    assert sources == {
        0x13B0: "scan/cpu/row_registers-inl.h",
        0x13B3: "cpu/simd/lanes-inl.h",
        0x13B7: instructions.ELSEWHERE,
    }


@pytest.mark.parametrize(
    ("source", "group"),
    [
        ("scan/cpu/row_registers-inl.h", "loads, transposes, stores"),
        ("scan/cpu/row_prefixes-inl.h", "prefixes"),
        ("numerics/canonical_order.hpp", "prefixes"),
        ("scan/cpu/row_kernel-inl.h", "steps, states"),
        ("scan/cpu/row_lanes-inl.h", "blocks, places"),
        ("scan/cpu/column_kernel-inl.h", "columns"),
        ("numerics/convert_math.inl", "widening, rounding"),
        ("scan/math.inl", "formula"),
        ("cpu/simd/lanes-inl.h", "formula"),
        ("scan/cpu/schedule.cpp", "calls"),
        ("backend/plan_run.hpp", "calls"),
        (instructions.ELSEWHERE, "calls"),
    ],
)
def test_groups(source, group):
    assert instructions.group_of(source) == group


def test_every_pattern_of_the_groups_finds_a_file():
    source = instructions.STORED.parents[1] / "src"
    files = [str(file.relative_to(source)) for file in source.rglob("*.*")]
    patterns = [pattern for _, group in instructions.GROUPS for pattern in group] + list(instructions.WRAPPERS)
    assert [each for each in patterns if not any(instructions.fnmatch(file, each) for file in files)] == []


@pytest.fixture
def dumped(stored, monkeypatch):
    stored.write_text(json.dumps({"for": "another", "marks": {"kernel/1024": 0.001}, "counts": {}}))
    monkeypatch.setattr(instructions, "dumps_of", lambda program, *options: {"kernel/1024": ADDRESSES})
    sources = Counter({"scan/cpu/row_registers-inl.h": 9, "scan/math.inl": 1024, instructions.ELSEWHERE: 5})
    monkeypatch.setattr(instructions, "sources_of", lambda program, text: sources)


@pytest.mark.parametrize("name", ["missed", "kernel", "kernel/1024"])
def test_where_prints_rows_of_markdown(dumped, name, capsys):
    assert instructions.main(["program", "--where", name]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "| kernel | each | mark | loads, transposes, stores | formula | calls |",
        "| --- | --- | --- | --- | --- | --- |",
        "| `kernel/1024` | 1.01 | 0.001 | 0.01 | 1.00 | 0.00 |",
    ]


def test_where_by_file(dumped, capsys):
    assert instructions.main(["program", "--where", "kernel", "--files"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == ["| `kernel/1024` | `scan/math.inl` | formula | 1.00 |"]


def test_where_of_an_unknown_kernel(dumped):
    with pytest.raises(SystemExit, match="there is no counted kernel other; there are kernel/1024"):
        instructions.main(["program", "--where", "other"])


def test_a_program_without_line_tables(stored, monkeypatch, tmp_path, capsys):
    program = tmp_path / "counts"
    dump = ADDRESSES.replace("/build/counts", str(program))
    monkeypatch.setattr(instructions, "dumps_of", lambda program, *options: {"kernel/1024": dump})
    unknown = "".join(f"{address:#x}\n??:0\n" for address in (0x13B0, 0x13B3, 0x13B7))
    answer = type("Answer", (), {"stdout": unknown})
    monkeypatch.setattr(instructions.subprocess, "run", lambda *arguments, **options: answer)
    assert instructions.main([str(program), "--where", "kernel"]) == 1
    assert f"{program} has no line tables" in capsys.readouterr().err
