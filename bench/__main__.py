"""`python -m bench`: measures the rows of a mode and prints tables. scripts/bench builds what it needs and calls it."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from pathlib import Path

from bench.rows import rows

ROOT = Path(__file__).resolve().parent.parent


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Planck beside a copy of the same bytes and its peers.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--quick", dest="mode", action="store_const", const="quick", default="default", help="under a minute")
    mode.add_argument("--full", dest="mode", action="store_const", const="full", help="the whole product, with JAX: over an hour")
    parser.add_argument("--filter", default="", metavar="REGEX", help="only rows whose name it finds; --list shows names")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results here")
    parser.add_argument("--write", action="store_true", help="write the tables and plots of README and docs")
    parser.add_argument("--list", action="store_true", help="print the rows' names and measure nothing")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release", help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    import os

    threads = len(os.sched_getaffinity(0))
    try:
        chosen = rows(options.mode, options.filter, threads)
    except re.error as error:
        print(f"--filter {options.filter!r} is not a regular expression: {error}", file=sys.stderr)
        return 2
    if not chosen:
        print(f"--filter {options.filter!r} finds no row; --list shows them", file=sys.stderr)
        return 2
    if options.list:
        print("\n".join(row.name for row in chosen))
        return 0
    from bench.runner import Runner

    runner = Runner(options.mode, options.build / "bench" / "libplanck_bench_copy.so")
    results = []
    begin = time.perf_counter()
    for number, row in enumerate(chosen):
        t = time.perf_counter()
        result = runner.run(row)
        results.append(result)
        peers = " ".join(f"{n}={v/result['planck_ms']:.2f}" for n, v in result["peers"].items())
        print(f"{number}/{len(chosen)} {time.perf_counter()-begin:.0f}s +{time.perf_counter()-t:.2f} {row.name} {result['planck_ms']:.3f} x{result['ratio_copy']:.2f} goal {result['goal']} rel {result['max_rel_diff']} {result['diffs']} {peers} {'busy' if result['busy'] else ''}", flush=True)
    for text, names in runner.absent.items():
        print("absent", text, len(names))
    print(runner.missing)
    if options.json:
        options.json.write_text(json.dumps({"rows": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
