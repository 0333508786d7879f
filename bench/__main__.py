"""`python -m bench`: measures the rows of a mode and prints what they say. scripts/bench builds what it needs and runs it."""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

from bench.rows import BYTES, M16, Row, rows

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("torch", "onnxruntime", "torchao", "numpy", "jax")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="scripts/bench", description="Measures Planck beside a copy of the same bytes and beside its peers."
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", help="under a minute, PyTorch alone")
    mode.add_argument(
        "--full", dest="mode", action="store_const", const="full", help="the product of everything, with JAX"
    )
    parser.add_argument("--filter", default="", metavar="REGEX", help="only rows whose name it finds")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here too")
    parser.add_argument("--write", action="store_true", help="write the tables and plots of the README and of docs")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="FILE", help="report from such a file; measure nothing"
    )
    parser.add_argument("--list", action="store_true", help="print the rows' names; measure nothing")
    parser.add_argument("--fresh", action="store_true", help="let the C library return memory after every call")
    parser.add_argument("--seconds", type=float, metavar="S", help="time for the turns of each row")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help=argparse.SUPPRESS)
    parser.set_defaults(mode="default")
    return parser.parse_args(arguments)


def calls_from_cpp(build: Path) -> dict[str, float]:
    """Nanoseconds of a plan's `run` on 64 elements, by kernels_bench."""
    command = [str(build / "bench" / "kernels_bench"), "--benchmark_filter=^64/", "--benchmark_format=json"]
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    return {
        f"`{entry['name'].removeprefix('64/')}` on 64 elements": entry["real_time"]
        for entry in json.loads(out)["benchmarks"]
    }


def needed_memory(row: Row) -> int:
    """Bytes: inputs and outputs of both sides, the copy's, and what peers allocate. 1 GiB of f32 took under 11 GiB."""
    return 11 * row.elements * BYTES[row.dtype]


def available_memory() -> int:
    """Bytes that can be had without swapping, and what this process has already."""
    kilobytes = re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text())
    own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
    return int(kilobytes[1]) * 1024 + own if kilobytes else sys.maxsize


def measure(chosen: list[Row], options: argparse.Namespace, arguments: list[str]) -> dict[str, Any]:
    # Imported late: torch alone takes seconds, and a wrong filter should not.
    from bench.pages import machine
    from bench.repeats import measure_rows
    from bench.runner import Runner

    runner = Runner(options.mode, options.build / "bench" / "libplanck_bench_copy.so", options.seconds)
    by_row: dict[Row, Any] = {}
    complete = True

    def run(row: Row) -> dict[str, Any] | None:
        if needed_memory(row) <= available_memory():
            return runner.run(row)
        print(f"{row.name}\n    left out: it needs {needed_memory(row) >> 30} GiB of memory")
        return None

    try:
        # The largest first: what they leave free is enough for all others, while fragments would not do for them.
        measure_rows(sorted(chosen, key=lambda row: -max(row.elements, M16)), run, by_row, partial(print, flush=True))
    except KeyboardInterrupt:
        complete = False
        print(f"\ninterrupted: {len(by_row)} of {len(chosen)} rows are there")
    results = [by_row[row] for row in chosen if row in by_row]
    found = {name for package in importlib.metadata.distributions() if (name := package.metadata["Name"]) in PACKAGES}
    return {
        "options": " ".join(
            argument for argument in arguments if argument in ("--quick", "--full", "--fresh", "--write")
        ),
        "machine": machine(),
        "tunables": os.environ.get("GLIBC_TUNABLES", ""),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES if name in found},
        "complete": complete,
        "missing": runner.missing,
        "absent": {why: len(names) for why, names in runner.absent.items()},
        "calls": calls_from_cpp(options.build) if complete and not options.filter else {},
        "rows": results,
    }


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.write and not options.source and (options.filter or options.mode == "quick"):
        print("--write takes the whole grid: leave out --filter and --quick", file=sys.stderr)
        return 2
    try:
        chosen = rows(options.mode, options.filter, len(os.sched_getaffinity(0)))
    except re.error as error:
        print(f"--filter {options.filter!r} is not a regular expression: {error}", file=sys.stderr)
        return 2
    if not chosen:
        print(f"--filter {options.filter!r} finds no row; --list prints their names", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(row.name for row in chosen))
        return 0
    from bench.report import conclusion

    if options.source:
        document = json.loads(options.source.read_text())
    else:
        document = measure(chosen, options, arguments)
    print(conclusion(document))
    if options.json:
        options.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    if options.write and not document["complete"]:
        print("--write: the run was interrupted, so nothing is written", file=sys.stderr)
        return 1
    if options.write:
        from bench.pages import write_pages

        for path in write_pages(document, ROOT):
            print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
