#!/usr/bin/env python3
"""Counts the instructions of a fixed set of kernels with callgrind and compares them with those stored beside this file.

Usage: bench/instructions.py build/release/bench/instruction_counts [--update]

Fails, naming the kernel, where a count has grown by more than the tolerance. Counts depend on the compiler and the
instruction set: with others than the stored ones nothing is compared, and a line says so.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

STORED = Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.03
ISA = "avx2"


def compiler() -> str:
    """What the counts hold for: the compiler that made the kernels, and the instruction set that they are counted in."""
    version = subprocess.run(["g++", "-dumpfullversion"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return f"g++ {version}, {ISA}"


def parse_dump(text: str) -> tuple[str, int] | None:
    """The label and the count of one callgrind dump, or nothing if no label stands in it."""
    label = re.search(r"^desc: Trigger: Client Request: (.+)$", text, re.MULTILINE)
    count = re.search(r"^(?:totals|summary): (\d+)", text, re.MULTILINE)
    return (label.group(1), int(count.group(1))) if label and count else None


def count_instructions(program: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    with tempfile.TemporaryDirectory() as folder:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--instr-atstart=no",
            "--quiet",
            f"--callgrind-out-file={folder}/dump",
            program,
        ]
        subprocess.run(command, check=True, env={**os.environ, "PLANCK_ISA": ISA})
        for dump in sorted(Path(folder).iterdir(), key=lambda file: (len(file.name), file.name)):
            found = parse_dump(dump.read_text())
            if found:
                counts[found[0]] = found[1]
    return counts


def compare(counts: dict[str, int], stored: dict[str, int]) -> list[str]:
    """Prints both counts of every kernel; returns what is wrong."""
    wrong = []
    width = max(map(len, [*counts, "kernel"]))
    print(f"{'kernel':{width}} {'instructions':>13} {'stored':>10} {'change':>8}")
    for name, count in counts.items():
        if name not in stored:
            wrong.append(f"{name} has no stored count")
            continue
        change = count / stored[name] - 1
        print(f"{name:{width}} {count:13} {stored[name]:10} {change:+8.1%}")
        if change > TOLERANCE:
            wrong.append(f"{name} takes {change:.1%} more instructions than stored")
    wrong += [f"{name} is stored, but was not counted" for name in stored if name not in counts]
    return wrong


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="the built instruction_counts")
    parser.add_argument("--update", action="store_true", help="store the counts instead of comparing them")
    options = parser.parse_args(arguments)
    if ISA not in Path("/proc/cpuinfo").read_text():
        print(f"instruction counts are not compared: this machine has no {ISA}")
        return 0
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    if not options.update and stored.get("for") != compiler():
        print(f"instruction counts are not compared: they are stored for {stored.get('for')}, this is {compiler()}")
        return 0
    counts = count_instructions(options.program)
    if options.update:
        STORED.write_text(json.dumps({"for": compiler(), "counts": counts}, indent=2) + "\n")
        print(f"stored {len(counts)} counts")
        return 0
    wrong = compare(counts, stored["counts"])
    for line in wrong:
        print(line, file=sys.stderr)
    if wrong:
        print("if that is meant, store the new counts: bench/instructions.py PROGRAM --update", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
