#!/usr/bin/env python3
"""Reads the stacks of five calls in their inner loops, and counts functions, files and changes of folder.

    walks.py BUILD_FOLDER [--stacks]     what scripts/walks has built

Lambdas belong to the functions that they are written in. A call into a folder that its caller may not include, by the table of folders_test.py, is one of a body that was handed
down: a kernel's function, a thread's work, a typed loop. Those are counted apart.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from itertools import groupby, pairwise
from pathlib import Path

from folders_test import TREES

ROOT = Path(__file__).resolve().parents[2]

# Stops gdb at the first call in the main thread, and prints the stack: function and file, the innermost first.
IN_GDB = """
import gdb, json
gdb.execute("set pagination off")
gdb.execute("set breakpoint pending on")
gdb.execute("set debuginfod enabled off")
gdb.Breakpoint("{place}")
gdb.execute("run", to_string=True)
while gdb.selected_thread() and gdb.selected_thread().num != 1:
    gdb.execute("continue", to_string=True)
stack = []
frame = gdb.newest_frame()
while frame is not None:
    place = frame.find_sal().symtab
    symbol = frame.function()
    stack.append([frame.name() or "?", place.fullname() if place else "", symbol.line if symbol else 0,
                  frame.type() == gdb.INLINE_FRAME])
    frame = frame.older()
open("{output}", "w").write(json.dumps(stack))
gdb.execute("kill")
"""

# Prints Python's frames where it calls the compiled half, the innermost first.
IN_PYTHON = """
import os, traceback, torch, planck.torch
from planck import _core
def scan(*arguments):
    for frame in reversed(traceback.extract_stack()[:-1]):
        print(frame.name, frame.filename, flush=True)
    os._exit(0)
_core.for_torch.scan = scan
planck.torch.cumsum(torch.ones(256, 4096), 0)
"""


def line_of(file: str, text: str) -> str:
    """The only line of a file in src that holds a text, as gdb wants it."""
    lines = (ROOT / "src" / file).read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines, 1) if text in line]
    return f"{file}:{number}"


def is_lambda(name: str, file: str, line: int, inlined: bool) -> bool:
    """Whether a frame is a lambda's: called by operator(), where no such function is declared; or its pointer's.

    Without optimisation only functions that say so are inlined, and lambdas do not.
    """
    if name == "_FUN":
        return True
    if inlined or not place_of(file):
        return False
    called = re.search(r"(^|::)operator\(\)(<|\(|$)", name) is not None
    declared = Path(file).read_text().splitlines()[line - 1 : line + 1]
    return called and not any("operator()" in text for text in declared)


def stack_in(place: str, *command: str) -> list[tuple[str, str]]:
    """The stack where a function or line is first reached, as pairs of function and file, the innermost first.

    A lambda belongs to the function that it is written in, and is no stop of its own.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "stack"
        script = Path(folder) / "script.py"
        script.write_text(IN_GDB.format(place=place, output=output))
        gdb = ["gdb", "-q", "-batch", "-x", str(script), "--args", *command]
        done = subprocess.run(gdb, env={**os.environ, "PLANCK_ISA": "avx2"}, capture_output=True, text=True)
        if not output.exists():
            raise SystemExit(f"{place} was not reached:\n{done.stdout}{done.stderr}")
        return [
            (name, file) for name, file, *rest in json.loads(output.read_text()) if not is_lambda(name, file, *rest)
        ]


def place_of(file: str) -> str | None:
    """A file of ours as a path from the root; of an installed package as it stands in the repository."""
    if "/site/planck/" in file:
        file = f"{ROOT}/python/planck/" + file.split("/site/planck/")[1]
    path = Path(file)
    if not path.is_relative_to(ROOT) or "build" in path.relative_to(ROOT).parts:
        return None
    relative = str(path.relative_to(ROOT))
    return None if relative.startswith("tests/") else relative


def may_include(above: str, below: str) -> bool:
    tree = TREES["src"].below
    if not above.startswith("src/"):
        return True
    if not below.startswith("src/"):
        return False
    seen, todo = set(), [above.removeprefix("src/")]
    while todo:
        folder = todo.pop()
        while folder not in tree and "/" in folder:
            folder = folder.rsplit("/", 1)[0]
        if folder not in seen:
            seen.add(folder)
            todo += tree.get(folder, ())
    target = below.removeprefix("src/")
    while target not in tree and "/" in target:
        target = target.rsplit("/", 1)[0]
    return target in seen


def count(stack: list[tuple[str, str]]) -> tuple[int, int, int, int]:
    """Functions, files, changes of folder, and how many of those are bodies that were handed down."""
    files = [file for _, file in stack]
    folders = [folder for folder, _ in groupby(str(Path(file).parent) for file in files)]
    handed = sum(not may_include(above, below) for above, below in pairwise(folders))
    return len(stack), len(set(files)), len(folders) - 1, handed


def ours(stack: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """The frames of the repository, the outermost first."""
    return [(name, place) for name, file in reversed(stack) if (place := place_of(file))]


def torch_stack() -> list[tuple[str, str]]:
    """Python's frames down to the compiled half, and those of that half."""
    done = subprocess.run([sys.executable, "-c", IN_PYTHON], capture_output=True, text=True, check=True)
    python = [(name, file) for name, file in (line.split(" ", 1) for line in done.stdout.splitlines())]
    code = "import torch, planck.torch\nplanck.torch.cumsum(torch.ones(256, 4096), 0)"
    return ours(python) + ours(
        stack_in(line_of("scan/math.inl", "{{a.part[0] + b.part[0]}}"), sys.executable, "-c", code)
    )


def main() -> int:
    build = Path(sys.argv[1]).resolve()
    program = str(build / "tests" / "walks")
    if "avx2" not in Path("/proc/cpuinfo").read_text():
        raise SystemExit("the walks are those of a machine with AVX2, and this one has none")
    with tempfile.TemporaryDirectory() as out:
        walks = {
            "`FakeQuantizePlan`, f32, one scale, a large tensor": ours(
                stack_in(line_of("quantize/math.inl", "V r = clamp_or_nan("), program, "fake_quantize")
            ),
            "`ScanBackwardPlan`, LogCumsumExp, f32, along rows": ours(
                stack_in(line_of("scan/math.inl", "return select(in[2] <= lowest"), program, "log_cumsum_exp_backward")
            ),
            "`DynamicRangeQuantizePlan`, bf16 to s8, per token": ours(
                stack_in(line_of("quantize/math.inl", "zero_if_nan("), program, "dynamic_range")
            ),
            "`planck.torch.cumsum(x, 0)`": torch_stack(),
            "`planck quantize`, down to the plan's `run`": ours(
                stack_in(
                    "planck::DynamicRangeQuantizeOp::run",
                    *[str(build / "apps" / "planck"), "quantize", str(build / "model"), "-o", f"{out}/model"],
                )
            ),
        }
    print("| walk | functions | files | changes of folder | of these, bodies handed down |\n|---|---|---|---|---|")
    for name, stack in walks.items():
        print(f"| {name} | " + " | ".join(map(str, count(stack))) + " |")
    if "--stacks" in sys.argv:
        for name, stack in walks.items():
            print(f"\n{name}")
            for function, file in stack:
                print(f"  {file:42} {function[:100]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
