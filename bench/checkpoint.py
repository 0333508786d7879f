#!/usr/bin/env python3
"""How fast `planck quantize` goes through a checkpoint, beside `cp` of the same files, and how much memory it takes.

    bench/checkpoint.py PLANCK SYNTHETIC_CHECKPOINT [--megabytes 4000] [--rounds 3] [--work-dir build/bench]

Makes a checkpoint, then takes turns: cp, cp and sync, quantize (which syncs what it writes), dequantize. Prints the best time of
each, GB/s of the f32 checkpoint, and the most memory that planck had in use. `scripts/bench --checkpoint` builds and runs it.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Run:
    seconds: float
    peak_bytes: int = 0


def run(*command: str) -> float:
    """Seconds."""
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start


def run_planck(*command: str) -> Run:
    """With what the program says of its memory: the system's number for a child would hold that of this program, too."""
    start = time.perf_counter()
    done = subprocess.run([*command, "--json"], stdout=subprocess.PIPE, check=True)
    return Run(time.perf_counter() - start, json.loads(done.stdout)["peak_memory_bytes"])


def measure(planck: str, model: Path, work: Path, rounds: int) -> dict[str, Run]:
    """The best of all rounds for each kind of run. Outputs are removed before each: new files cost more than old ones."""
    copied, int8, restored = work / "copied", work / "int8", work / "restored"
    best: dict[str, Run] = {}
    for _ in range(rounds):
        for folder in (copied, int8, restored):
            shutil.rmtree(folder, ignore_errors=True)
        os.sync()
        runs = {"cp": Run(run("cp", "-r", str(model), str(copied)))}
        runs["cp, sync"] = Run(runs["cp"].seconds + run("sync", *(str(file) for file in copied.iterdir())))
        shutil.rmtree(copied)
        runs["planck quantize"] = run_planck(planck, "quantize", str(model), "-o", str(int8))
        runs["planck dequantize"] = run_planck(planck, "dequantize", str(int8), "-o", str(restored))
        for name, one in runs.items():
            before = best.get(name, one)
            best[name] = Run(min(before.seconds, one.seconds), max(before.peak_bytes, one.peak_bytes))
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("planck", help="the program")
    parser.add_argument("synthetic", help="the program that makes a checkpoint up")
    parser.add_argument("--megabytes", type=int, default=4000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work-dir", type=Path, default=Path("build/bench/checkpoint"))
    parser.add_argument("--keep", action="store_true", help="leave the files there")
    options = parser.parse_args()
    model = options.work_dir / "model"
    shutil.rmtree(options.work_dir, ignore_errors=True)
    run(options.synthetic, str(model), str(options.megabytes))
    size = sum(file.stat().st_size for file in model.iterdir())
    print(f"{size / 1e9:.2f} GB of f32, best of {options.rounds}; GB/s of the f32 checkpoint, read or restored")
    best = measure(options.planck, model, options.work_dir, options.rounds)
    for name, one in best.items():
        ratio = best["cp"].seconds / one.seconds
        print(
            f"  {name:18} {one.seconds:7.2f} s  {size / one.seconds / 1e9:6.2f} GB/s  {ratio:5.2f} x cp"
            + (f"  {one.peak_bytes / 1e6:4.0f} MB memory" if one.peak_bytes else "")
        )
    if not options.keep:
        shutil.rmtree(options.work_dir)
    return 0


if __name__ == "__main__":
    sys.exit(main())
