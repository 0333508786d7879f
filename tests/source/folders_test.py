#!/usr/bin/env python3
"""Folders include downwards only: reads the include lines of a source tree and compares them with a table of layers.

    folders_test.py src | apps/planck     a tree of the repository
    folders_test.py --self-test           planted mistakes must be found

A folder may include itself, the folders that its row names, and whatever those may include. So the table has no cycle, and
neither has a tree that passes; cycles of a tree that fails are printed beside the lines that make them. Some folders must
not reach an instruction set, not even through other folders' headers.
"""

import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUFFIXES = {".c", ".cpp", ".cu", ".cuh", ".def", ".h", ".hpp", ".inl"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')
INSTRUCTION_SETS = re.compile(r"^(hwy/|(.*/)?cuda_runtime\.h$|[a-z]*intrin\.h$|arm_(neon|sve)\.h$)")


@dataclass(frozen=True)
class Tree:
    """Rows from the bottom to the top; `.` is the tree's own folder. Folders deeper than the rows belong to the nearest."""

    below: dict[str, tuple[str, ...]]
    plain: tuple[str, ...] = ()  # folders that reach no instruction set
    roots: tuple[str, ...] = ()  # other trees on the include path, each a folder at the bottom


TREES = {
    "src": Tree(
        {
            "numerics": (),
            "core": ("numerics",),
            "backend": ("core",),
            "cpu": ("backend",),
            "cuda": ("backend",),
            "binary": ("backend",),
            "binary/cpu": ("binary", "cpu"),
            "binary/cuda": ("binary", "cuda"),
            "quantize": ("backend",),
            "quantize/cpu": ("quantize", "cpu"),
            "quantize/cuda": ("quantize", "cuda"),
            "dynamic_range": ("quantize",),
            "dynamic_range/cpu": ("dynamic_range", "quantize/cpu"),
            "dynamic_range/cuda": ("dynamic_range", "quantize/cuda"),
            "scan": ("backend",),
            "scan/cpu": ("scan", "cpu"),
            "scan/cuda": ("scan", "cuda"),
            "c_api": ("binary", "quantize", "dynamic_range", "scan"),
        },
        plain=("core",),
        roots=("include",),
    ),
    "apps/planck": Tree(
        {
            "terminal": (),
            "gguf": ("terminal",),
            "checkpoint": ("gguf",),
            "report": ("terminal",),
            "quantize": ("checkpoint",),
            "commands": ("quantize", "report"),
            ".": ("commands",),
        },
        roots=("include",),
    ),
}


@dataclass(frozen=True)
class Line:
    """An include line, with the file that it names if that is one of ours."""

    file: Path
    number: int
    text: str
    name: str
    target: Path | None = field(compare=False)


def lines_of(file: Path, include_path: list[Path]) -> Iterator[Line]:
    for number, text in enumerate(file.read_text().splitlines(), 1):
        if match := INCLUDE.match(text):
            places = [*([file.parent] if match[1] == '"' else []), *include_path]
            found = (place / match[2] for place in places)
            yield Line(
                file,
                number,
                match[0].strip(),
                match[2],
                next((path.resolve() for path in found if path.is_file()), None),
            )


class Checker:
    def __init__(self, root: Path, name: str, tree: Tree) -> None:
        self.root, self.base, self.tree = root.resolve(), root.resolve() / name, tree
        include_path = [self.base, *(self.root / each for each in tree.roots)]
        folders = [self.base, *(self.root / each for each in tree.roots)]
        files = sorted(path for folder in folders for path in folder.rglob("*") if path.suffix in SUFFIXES)
        self.lines = {file: list(lines_of(file, include_path)) for file in files}
        self.allowed = {folder: self.closure(folder, ()) for folder in tree.below}

    def closure(self, folder: str, above: tuple[str, ...]) -> set[str]:
        """All that a folder may include; the table itself must have no cycle."""
        if folder in above:
            raise SystemExit(f"the table has a cycle: {' -> '.join((*above, folder))}")
        below = (self.closure(each, (*above, folder)) for each in self.tree.below[folder])
        return {folder, *self.tree.roots}.union(*below)

    def folder_of(self, file: Path) -> str:
        """The deepest row that holds the file; for a folder without a row its own name."""
        for root in self.tree.roots:
            if file.is_relative_to(self.root / root):
                return root
        if not file.is_relative_to(self.base):
            return str(file.relative_to(self.root).parent if file.is_relative_to(self.root) else file.parent)
        parent = file.relative_to(self.base).parent
        for folder in (parent, *parent.parents[:-1]):
            if str(folder) in self.tree.below:
                return str(folder)
        return str(parent)

    def where(self, line: Line) -> str:
        return f"{line.file.relative_to(self.root)}:{line.number}: {line.text}"

    def upward_lines(self) -> Iterator[str]:
        unknown: set[str] = set()
        for file, lines in self.lines.items():
            folder = self.folder_of(file)
            if folder in self.tree.roots:
                continue
            if folder not in self.allowed:
                if folder not in unknown:
                    yield f"{file.relative_to(self.root)}: the folder {folder} is not in the table of layers"
                unknown.add(folder)
                continue
            for line in lines:
                if line.target is not None and (seen := self.folder_of(line.target)) not in self.allowed[folder]:
                    yield f"{self.where(line)}: {folder} may not see {seen}"

    def cycles(self) -> Iterator[str]:
        """Every cycle that a walk through the folders closes, with a line for each of its steps."""
        edges: dict[str, dict[str, Line]] = {}
        for file, lines in self.lines.items():
            for line in lines:
                ends = self.folder_of(file), self.folder_of(line.target) if line.target is not None else ""
                if ends[1] and ends[0] != ends[1]:
                    edges.setdefault(ends[0], {}).setdefault(ends[1], line)
        done: set[str] = set()

        def walk(folder: str, path: list[str]) -> Iterator[str]:
            if folder in path:
                steps = [*path[path.index(folder) :], folder]
                shown = (self.where(edges[a][b]) for a, b in pairwise(steps))
                yield f"cycle: {' -> '.join(steps)}\n    " + "\n    ".join(shown)
            elif folder not in done:
                for seen in edges.get(folder, {}):
                    yield from walk(seen, [*path, folder])
                done.add(folder)

        for folder in sorted(edges):
            yield from walk(folder, [])

    def instruction_sets(self) -> Iterator[str]:
        """The chains of include lines from a plain folder to an instruction set's header."""
        for file in self.lines:
            if self.folder_of(file) not in self.tree.plain:
                continue
            reached, waiting = {file}, [(file, "")]
            while waiting:
                at, chain = waiting.pop()
                for line in self.lines.get(at, []):
                    here = f"{chain}\n    {self.where(line)}"
                    if INSTRUCTION_SETS.match(line.name):
                        yield f"{file.relative_to(self.root)} sees an instruction set:{here}"
                    elif line.target is not None and line.target not in reached:
                        reached.add(line.target)
                        waiting.append((line.target, here))

    def violations(self) -> list[str]:
        return [*self.upward_lines(), *self.cycles(), *self.instruction_sets()]


def planted(files: dict[str, str]) -> list[str]:
    """What is wrong in a tree `src` of these files."""
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            path = Path(folder) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return Checker(Path(folder), "src", TREES["src"]).violations()


def self_test() -> None:
    sound = {
        "include/planck/plan.hpp": "#pragma once\n",
        "src/core/a.hpp": '#include "planck/plan.hpp"\n#include <vector>\n',
        "src/numerics/n.hpp": '#include "planck/plan.hpp"\n',
        "src/cpu/simd/c.hpp": '#include "core/a.hpp"\n#include <hwy/highway.h>\n',
        "src/cuda/g.cuh": "#include <cuda_runtime.h>\n",
        "src/scan/s.hpp": '#include "core/a.hpp"\n',
        "src/scan/cpu/c.cpp": '#include "cpu/simd/c.hpp"\n#include "scan/s.hpp"\n#include "d.hpp"\n',
        "src/scan/cpu/d.hpp": "#include <xmmintrin.h>\n",
    }
    assert planted(sound) == [], planted(sound)
    mistakes = {
        "a cycle": ("src/core/b.hpp", '#include "scan/s.hpp"\n', ["core may not see scan", "core -> scan -> core"]),
        "core with Highway": (
            "src/core/b.hpp",
            "\n#include <hwy/highway.h>\n",
            ["src/core/b.hpp:2", "instruction set"],
        ),
        "core with intrinsics": (
            "src/core/b.hpp",
            "# include <immintrin.h>\n",
            ["src/core/b.hpp:1", "instruction set"],
        ),
        "core with src/cpu": (
            "src/core/b.hpp",
            '#include "cpu/simd/c.hpp"\n',
            ["not see cpu", "simd/c.hpp:2: #include"],
        ),
        "core with src/cuda": ("src/core/b.hpp", '#include "cuda/g.cuh"\n', ["not see cuda", "instruction set"]),
        "a family's own kernels": ("src/scan/p.cpp", '#include "scan/cpu/d.hpp"\n', ["scan may not see scan/cpu"]),
        "CPU with CUDA": ("src/scan/cpu/p.cpp", '#include "cuda/g.cuh"\n', ["src/scan/cpu/p.cpp:1", "not see cuda"]),
        "another family": ("src/binary/p.cpp", '#include "scan/s.hpp"\n', ["binary may not see scan"]),
        "a way out": ("src/numerics/p.hpp", '#include "../core/a.hpp"\n', ["numerics may not see core"]),
        "an unknown folder": ("src/other/p.hpp", "\n", ["other is not in the table"]),
    }
    for what, (file, text, words) in mistakes.items():
        found = planted({**sound, file: text})
        assert all(any(word in each for each in found) for word in words), f"{what}: {found}"
    through = {**sound, "src/numerics/e.hpp": "#include <xmmintrin.h>\n"}
    assert planted(through) == [], planted(through)
    assert planted({**through, "src/core/b.hpp": '#include "numerics/e.hpp"\n'}), (
        "core with intrinsics through numerics"
    )
    print(f"{len(mistakes) + 1} planted mistakes were found")


def main() -> None:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or sys.argv[1] not in TREES:
        sys.exit(__doc__)
    checker = Checker(ROOT, sys.argv[1], TREES[sys.argv[1]])
    if found := checker.violations():
        sys.exit("\n".join(found) + f"\n{len(found)} violations of the layers in {Path(__file__).name}")
    print(f"{sys.argv[1]}: {sum(map(len, checker.lines.values()))} include lines, none of them upwards")


if __name__ == "__main__":
    main()
