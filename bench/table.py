#!/usr/bin/env python3
"""Runs kernels_bench and prints its ratios as the tables that README and docs quote.

Usage: bench/table.py build/release/bench/kernels_bench [regular expression of rows]
"""
import json
import subprocess
import sys

GROUPS = [
    ("16M", "apart"),
    ("16M_in_place", "in place"),
    ("16M_transposed", "transposed input"),
    ("16M_per_tensor", "per tensor"),
    ("16M_per_token", "per token"),
    ("16M_per_group", "per group of 128"),
    ("16M_per_first_channel", "per channel, axis 0"),
    ("16M_per_last_channel", "per channel, axis 1"),
    ("16M_short_tokens", "131072 tokens of 128"),
    ("16M_one_token", "one token of 16 M"),
    ("16M_axis_1", "4096 × 4096, axis 1"),
    ("16M_axis_1_ascending", "4096 × 4096, axis 1, ascending"),
    ("16M_axis_1_constant", "4096 × 4096, axis 1, constant"),
    ("16M_axis_1_denormal", "4096 × 4096, axis 1, denormal"),
    ("16M_axis_0", "4096 × 4096, axis 0, reverse"),
    ("16M_short_rows", "131072 × 128, axis 1"),
    ("16M_middle_axis", "32 × 1024 × 512, axis 1"),
    ("16M_one_row", "1 × 16 M, axis 1"),
    ("16M_to_scalar", "summed to a scalar"),
    ("16M_to_rows", "summed along rows"),
    ("16M_to_columns", "summed along columns"),
]
KINDS = ["f32", "f64", "bf16", "f16"]


def main() -> int:
    bench = sys.argv[1]
    rows = f"--benchmark_filter={sys.argv[2]}" if len(sys.argv) > 2 else "--benchmark_filter=."
    out = subprocess.run([bench, "--benchmark_format=json", "--benchmark_min_time=0.1", rows], check=True,
                         stdout=subprocess.PIPE, text=True).stdout
    ratios: dict[tuple[str, str], dict[str, float]] = {}
    for row in json.loads(out)["benchmarks"]:
        group, name = row["name"].split("/")[:2]
        if group == "64":
            print(f"One `run` of FakeQuantizePlan on 64 f32 elements: {row['real_time']:.0f} ns\n")
            continue
        words = name.split("_")
        kind = next(word for word in words if word in KINDS)
        # In the groups of broadcast operands every row is summed; with segments only the learnable gradients are.
        rest = [word for word in words if word != kind and (word != "summed" or "segments" in words)]
        ratios.setdefault((" ".join(rest), group), {})[kind] = row["x_copy"]
    print("| operation | tensors | " + " | ".join(KINDS) + " |")
    print("|---|---|" + "---|" * len(KINDS))
    for group, label in GROUPS:
        for (name, of), by_kind in ratios.items():
            if of == group:
                cells = [f"{by_kind[k]:.2f}" if k in by_kind else "–" for k in KINDS]
                print(f"| {name} | {label} | " + " | ".join(cells) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
