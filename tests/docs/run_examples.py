#!/usr/bin/env python3
"""Compiles and runs the examples of the Markdown pages, so that what they show is what the library does.

A block tagged cpp or c that is followed by a text block is a program: it must compile without a warning,
exit with 0 and print that text. Without a text block it must at least compile as a translation unit with a
main. A block tagged "cpp fragment" (or "c fragment") is the body of a function.
A block tagged python is a program too. Examples are run in the languages for which a compiler or interpreter is given.
"""
import argparse
import pathlib
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import List, Optional

FENCE = re.compile(r"^(`{3,})\s*(.*)$")
WARNINGS = ["-Wall", "-Wextra", "-Werror"]
STANDARD = {"cpp": "-std=c++20", "c": "-std=c11"}
FRAGMENT = {
    "cpp": "#include <planck/planck.hpp>\n\n#include <cstdio>\n#include <vector>\n\n"
           "using namespace planck;\n\nvoid fragment();\nvoid fragment() {\n%s}\n",
    "c": "#include <planck/planck.h>\n#include <stdio.h>\n\nvoid fragment(void);\nvoid fragment(void) {\n%s}\n",
}


@dataclass
class Block:
    tag: str
    text: str
    line: int  # of the opening fence, from 1
    end: int   # of the closing fence


@dataclass
class Example:
    where: str  # file:line
    language: str
    fragment: bool
    source: str
    output: Optional[str]


def blocks_of(page: pathlib.Path) -> List[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks = []
    i = 0
    while i < len(lines):
        opening = FENCE.match(lines[i])
        i += 1
        if not opening:
            continue
        first = i
        while i < len(lines) and lines[i].rstrip() != opening.group(1):
            i += 1
        if i == len(lines):
            sys.exit(f"{page}:{first}: this code block is never closed")
        text = "".join(line + "\n" for line in lines[first:i])
        blocks.append(Block(opening.group(2).strip(), text, first, i + 1))
        i += 1
    return blocks


def examples_of(page: pathlib.Path) -> List[Example]:
    lines = page.read_text(encoding="utf-8").splitlines()
    blocks = blocks_of(page)
    examples = []
    for i, block in enumerate(blocks):
        language, _, kind = block.tag.partition(" ")
        if language not in STANDARD and language != "python":
            continue
        following = blocks[i + 1] if i + 1 < len(blocks) else None
        adjacent = (following is not None and following.tag == "text"
                    and not "".join(lines[block.end:following.line - 1]).strip())
        examples.append(Example(f"{page}:{block.line}", language, kind == "fragment", block.text,
                                following.text if adjacent else None))
    return examples


def trimmed(text: str) -> List[str]:
    lines = [line.rstrip() for line in text.splitlines()]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def problem_of(example: Example, name: str, options: argparse.Namespace) -> Optional[str]:
    """Nothing if the example does what its page says, otherwise what is wrong with it."""
    if example.language == "python":
        source = pathlib.Path(options.work_dir) / f"{name}.py"
        source.write_text(example.source, encoding="utf-8")
        return problem_of_run([options.python, str(source)], example, seconds=300)  # torch.compile takes long
    if not example.fragment and "main(" not in example.source:
        return f"neither a program nor tagged '{example.language} fragment'"
    source = pathlib.Path(options.work_dir) / f"{name}.{example.language}"
    program = source.with_suffix("")
    source.write_text(FRAGMENT[example.language] % example.source if example.fragment else example.source,
                      encoding="utf-8")
    command = [options.compiler if example.language == "cpp" else options.c_compiler, STANDARD[example.language],
               *WARNINGS, *options.flag, f"-I{options.include}", str(source)]
    if example.fragment:
        command.append("-Wno-unused")
    if example.fragment or example.output is None:
        command += ["-fsyntax-only"]
    else:
        command += ["-o", str(program), f"-L{options.lib_dir}", f"-Wl,-rpath,{options.lib_dir}", "-lplanck",
                    *options.lib]
    compiled = subprocess.run(command, capture_output=True, text=True, check=False)
    if compiled.returncode != 0:
        return "does not compile\n" + compiled.stderr
    if example.fragment or example.output is None:
        return None
    return problem_of_run([str(program)], example, seconds=60)


def problem_of_run(command: List[str], example: Example, seconds: int) -> Optional[str]:
    """Nothing if the program exits with 0 and prints what the page says."""
    try:
        ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return f"ran for more than {seconds} seconds"
    if ran.returncode != 0:
        return f"exit code {ran.returncode}\n{ran.stdout}{ran.stderr}"
    if trimmed(ran.stdout) != trimmed(example.output or ""):
        return f"prints\n{ran.stdout}but the page says\n{example.output}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--compiler", help="the C++ compiler")
    parser.add_argument("--c-compiler")
    parser.add_argument("--python", help="a Python that has the package")
    parser.add_argument("--include", help="the directory that holds planck/planck.hpp")
    parser.add_argument("--lib-dir", help="the directory that holds libplanck")
    parser.add_argument("--work-dir", required=True, help="for sources and programs; made if missing")
    parser.add_argument("--flag", action="append", default=[], help="one more flag for both compilers")
    parser.add_argument("--lib", action="append", default=[], help="one more argument after -lplanck")
    parser.add_argument("pages", nargs="+", type=pathlib.Path, help="Markdown files, or directories of them")
    options = parser.parse_args()
    pathlib.Path(options.work_dir).mkdir(parents=True, exist_ok=True)

    runs_in = {"cpp": options.compiler, "c": options.c_compiler, "python": options.python}
    passed = failed = 0
    for given in options.pages:
        for page in sorted(given.rglob("*.md")) if given.is_dir() else [given]:
            for example in examples_of(page):
                if runs_in[example.language] is None:
                    continue
                problem = problem_of(example, f"example_{passed + failed}", options)
                print(f"{example.where}: {'ok' if problem is None else 'FAILED: ' + problem}", flush=True)
                passed += problem is None
                failed += problem is not None
    print(f"{passed} passed, {failed} failed")
    if passed + failed == 0:
        print("no example found", file=sys.stderr)
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
