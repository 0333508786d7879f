#!/usr/bin/env python3
"""Counts the instructions of a fixed set of kernels with callgrind and compares them with those stored beside this file.

Usage: bench/instructions.py build/release/bench/instruction_counts [--update]
       bench/instructions.py build/lines/bench/instruction_counts --where NAME[,NAME...] [--files]

Fails, naming the kernel, where a count has grown by more than the tolerance. Counts depend on the compiler and the
instruction set: with others than the stored ones nothing is compared, and a line says so. Beside the counts stand the
marks, which say what to work for: instructions per element, and of a small call those of the run. Missing one is no
failure.

--where prints what a kernel's instructions are as rows of a Markdown table, `missed` those of all kernels beyond their
mark. Its program needs line tables (cmake --preset lines). An instruction belongs to the innermost function that it was
inlined from and that stands in a file of src, past the lanes' wrappers of intrinsics; the groups are those of GROUPS.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path

STORED = Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.03
ISA = "avx2"
SMALL_CALL = 1024  # elements, below which a run counts, and not its elements

# Words for files below src; the first pattern that fits decides.
GROUPS = (
    (
        "loads, transposes, stores",
        (
            "scan/cpu/row_registers-inl.h",
            "scan/cpu/row_words-inl.h",
            "scan/cpu/row_quarters-inl.h",
            "cpu/simd/span-inl.h",
            "cpu/streaming.*",
        ),
    ),
    ("prefixes", ("scan/cpu/row_prefixes-inl.h", "numerics/canonical_order.hpp")),
    ("steps, states", ("scan/cpu/row_kernel-inl.h", "scan/cpu/row_plain_sums-inl.h", "scan/cpu/row_exponential*")),
    ("blocks, places", ("scan/cpu/row_*", "scan/cpu/rows.*", "scan/cpu/kernel-inl.h", "cpu/strided/*")),
    ("columns", ("scan/cpu/column*", "scan/cpu/cut_columns.cpp")),
    ("sums", ("cpu/sum_kernels.*", "cpu/canonical_sums.hpp", "cpu/reduce*", "core/sums.hpp")),
    ("widening, rounding", ("numerics/convert_math.inl", "numerics/storage.hpp", "core/storage_types.cpp")),
    ("formula", ("*/math.inl", "numerics/*", "cpu/simd/lanes-inl.h", "scan/cpu/*-inl.h", "*/cpu/kernels*")),
    ("calls", ("*",)),
)
WRAPPERS = ("cpu/simd/lanes-inl.h", "numerics/scalar_lanes.hpp")
ELSEWHERE = "elsewhere"  # the program's own frame around a run, and libraries
NO_LINES = (
    "{program} has no line tables, which say where an instruction comes from; a build that has them:\n"
    "  cmake --preset lines && cmake --build --preset lines"
)


class NoLineTablesError(Exception):
    pass


def compiler() -> str:
    """What the counts hold for: the compiler that made the kernels, and the instruction set that they are counted in."""
    version = subprocess.run(["g++", "-dumpfullversion"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"g++ {version}, {ISA}"


def parse_dump(text: str) -> tuple[str, int] | None:
    """The label and the count of one callgrind dump, or nothing if no label stands in it."""
    label = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
    count = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    return (label.group(1), int(count.group(1))) if label and count else None


def dumps_of(program: str, *options: str) -> dict[str, str]:
    """What callgrind writes for each counted kernel, by its label."""
    dumps: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as folder:
        out = f"--callgrind-out-file={folder}/dump"
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--quiet", out, *options, program]
        subprocess.run(command, check=True, env={**os.environ, "PLANCK_ISA": ISA})
        for dump in sorted(Path(folder).iterdir(), key=lambda file: (len(file.name), file.name)):
            text = dump.read_text()
            found = parse_dump(text)
            if found:
                dumps[found[0]] = text
    return dumps


def count_instructions(program: str) -> dict[str, int]:
    found = (parse_dump(text) for text in dumps_of(program).values())
    return dict(each for each in found if each)


def parse_addresses(text: str) -> dict[str, Counter[int]]:
    """Instructions at each address of each object file, from a dump with --dump-instr=yes.

    Positions are relative to the line before; names stand once, later their number alone; a line after `calls=` is what
    the called function took, which its own lines count.
    """
    names: dict[str, str] = {}
    objects: dict[str, Counter[int]] = {}
    current: Counter[int] = Counter()
    address = 0
    inclusive = False
    for line in text.splitlines():
        if named := re.match(r"c?ob=\((\d+)\)(?: (.*))?$", line):
            if named.group(2):
                names[named.group(1)] = named.group(2)
            if line.startswith("ob="):
                current = objects.setdefault(names[named.group(1)], Counter())
        elif line.startswith("calls="):
            inclusive = True
        elif cost := re.match(r"(\*|[+-]?(?:0x[0-9a-f]+|\d+)) \S+ (\d+)$", line):
            position = cost.group(1)
            if position != "*":
                address = (address if position[0] in "+-" else 0) + int(position, 0)
            if not inclusive:
                current[address] += int(cost.group(2))
            inclusive = False
    return objects


def parse_stacks(text: str) -> dict[int, list[str]]:
    """The files that each address was inlined from, innermost first, from addr2line -a -i."""
    stacks: dict[int, list[str]] = {}
    files: list[str] = []
    for line in text.splitlines():
        if line.startswith("0x"):
            files = stacks.setdefault(int(line, 16), [])
        else:
            files.append(line.rsplit(":", 1)[0])
    return stacks


def source_of(stack: list[str]) -> str:
    """The file below src that an instruction belongs to."""
    inside = [match.group(1) for file in stack if (match := re.match(r"(?!/usr/).*\bsrc/(.*)", file))]
    return next((file for file in inside if file not in WRAPPERS), inside[0] if inside else ELSEWHERE)


def group_of(source: str) -> str:
    return next(group for group, patterns in GROUPS if any(fnmatch(source, pattern) for pattern in patterns))


def sources_of(program: str, text: str) -> Counter[str]:
    """The instructions of one dump by the file below src."""
    counts: Counter[str] = Counter()
    for name, addresses in parse_addresses(text).items():
        if Path(name).resolve() != Path(program).resolve():
            counts[ELSEWHERE] += addresses.total()
            continue
        asked = "\n".join(f"{address:#x}" for address in addresses)
        command = ["addr2line", "-a", "-i", "-e", name]
        answer = subprocess.run(command, check=True, input=asked, stdout=subprocess.PIPE, text=True).stdout
        stacks = parse_stacks(answer)
        if sum(count for address, count in addresses.items() if stacks[address][0] == "??") * 2 > addresses.total():
            raise NoLineTablesError
        for address, count in addresses.items():
            counts[source_of(stacks[address])] += count
    return counts


def units_of(name: str) -> int:
    """What a kernel's instructions are divided by: its elements, or 1 for a small call."""
    elements = int(name.rsplit("/", 1)[1]) if re.search(r"/\d+$", name) else 1
    return 1 if elements < SMALL_CALL else elements


def figure(name: str, count: float) -> str:
    """Instructions per element, or of a run."""
    units = units_of(name)
    return f"{count:.0f}" if units == 1 else f"{count / units:.2f}"


def missed(counts: dict[str, int], marks: dict[str, float]) -> list[str]:
    """The kernels that take more than their mark, in the figures' precision."""
    return [name for name, count in counts.items() if name in marks and float(figure(name, count)) > marks[name]]


def compare(counts: dict[str, int], stored: dict[str, int], marks: dict[str, float]) -> list[str]:
    """Prints both counts and the mark of every kernel; returns what is wrong."""
    wrong = []
    width = max(map(len, [*counts, "kernel"]))
    print(f"{'kernel':{width}} {'instructions':>13} {'stored':>10} {'change':>8} {'each':>7} {'mark':>6}")
    for name, count in counts.items():
        if name not in stored:
            wrong.append(f"{name} has no stored count")
            continue
        change = count / stored[name] - 1
        mark = f"{marks[name]:g}" if name in marks else "–"
        print(f"{name:{width}} {count:13} {stored[name]:10} {change:+8.1%} {figure(name, count):>7} {mark:>6}")
        if change > TOLERANCE:
            wrong.append(f"{name} takes {change:.1%} more instructions than stored")
    print("each: instructions of an element; of a run, where it has few elements")
    beyond = missed(counts, marks)
    print(f"marks missed: {len(beyond)} of {sum(name in marks for name in counts)}")
    for name in beyond:
        print(f"  {name}: {figure(name, counts[name])}, mark {marks[name]:g}")
    wrong += [f"{name} is stored, but was not counted" for name in stored if name not in counts]
    return wrong + [f"{name} has a mark, but was not counted" for name in marks if name not in counts]


def wanted_names(wanted: str, counts: dict[str, int], marks: dict[str, float]) -> list[str]:
    """The kernels that --where names; a name stands for all counts of that kernel."""
    if wanted == "missed":
        return missed(counts, marks)
    names = []
    for word in wanted.split(","):
        found = [name for name in counts if name == word or name.split("/")[0] == word]
        if not found:
            raise SystemExit(f"there is no counted kernel {word}; there are {', '.join(counts)}")
        names += found
    return names


def print_table(titles: list[str], rows: list[list[str]]) -> None:
    for cells in [titles, ["---"] * len(titles), *rows]:
        print(f"| {' | '.join(cells)} |")


def print_groups(sources: dict[str, Counter[str]], marks: dict[str, float]) -> None:
    """A row for each kernel: what its instructions do."""
    grouped: dict[str, Counter[str]] = {}
    for name, counts in sources.items():
        grouped[name] = Counter()
        for source, count in counts.items():
            grouped[name][group_of(source)] += count
    columns = [group for group in dict(GROUPS) if any(group in groups for groups in grouped.values())]
    rows = []
    for name, groups in grouped.items():
        mark = f"{marks[name]:g}" if name in marks else "–"
        cells = [figure(name, groups[group]) if groups[group] else "–" for group in columns]
        rows.append([f"`{name}`", figure(name, groups.total()), mark, *cells])
    print_table(["kernel", "each", "mark", *columns], rows)


def print_files(sources: dict[str, Counter[str]]) -> None:
    """A row for each file of each kernel, as long as it has a hundredth of the kernel."""
    rows = []
    for name, counts in sources.items():
        for source, count in counts.most_common():
            if count * 100 >= counts.total():
                rows.append([f"`{name}`", f"`{source}`", group_of(source), figure(name, count)])
    print_table(["kernel", "file", "group", "each"], rows)


def print_where(program: str, wanted: str, marks: dict[str, float], files: bool) -> int:
    dumps = dumps_of(program, "--dump-instr=yes")
    counts = {name: found[1] for name, text in dumps.items() if (found := parse_dump(text))}
    names = wanted_names(wanted, counts, marks)
    try:
        sources = {name: sources_of(program, dumps[name]) for name in names}
    except NoLineTablesError:
        print(NO_LINES.format(program=program), file=sys.stderr)
        return 1
    if files:
        print_files(sources)
    else:
        print_groups(sources, marks)
    return 0


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built instruction_counts")
    parser.add_argument("--update", action="store_true", help="store the counts instead of comparing them; marks stay")
    parser.add_argument(
        "--where", metavar="NAME[,NAME...]", help="print where these kernels' instructions are, or `missed`"
    )
    parser.add_argument("--files", action="store_true", help="with --where: by file")
    options = parser.parse_args(arguments)
    if ISA not in Path("/proc/cpuinfo").read_text():
        print(f"instruction counts are not compared: this machine has no {ISA}")
        return 0
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    marks = stored.get("marks", {})
    if options.where:
        return print_where(options.program, options.where, marks, options.files)
    if not options.update and stored.get("for") != compiler():
        print(f"instruction counts are not compared: they are stored for {stored.get('for')}, this is {compiler()}")
        return 0
    counts = count_instructions(options.program)
    if options.update:
        STORED.write_text(json.dumps({"for": compiler(), "marks": marks, "counts": counts}, indent=2) + "\n")
        print(f"stored {len(counts)} counts")
        return 0
    wrong = compare(counts, stored["counts"], marks)
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("if that is meant, store the new counts: bench/instructions.py PROGRAM --update", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
