"""What the rows say, as text: a line while measuring, the summary at the end, and the tables of the pages.

Works on the JSON rows alone, so that a report can be made again from a file.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from bench.goals import PEER_ELEMENTS
from bench.peers import EAGER, PEERS
from bench.rows import M16, SQUARE, Row, kind_of_row, plainest

Result = dict[str, Any]
# A peer counts as faster beyond this: medians of one run differ by a few per cent.
NOISE = 1.05
# What most readers come for, on 4096 × 4096 elements.
README_ROWS = [
    plainest(op, "forward", SQUARE, "16M", dtype)
    for op, dtype in (
        ("cumsum", "f32"),
        ("logcumsumexp", "f32"),
        ("linear_recurrence", "bf16"),
        ("fake_quantize", "f32"),
        ("dynamic_quantize", "bf16"),
    )
]
PARTS = {
    "16M": "16 M elements",
    "hostile": "16 M elements, data that might be slow",
    "64Ki": "256 × 256 elements",
    "llm": "Activations of language models",
    "ragged": "Ragged batches",
    "scaling": "From 1 KiB to 1 GiB",
    "small": "Small arrays",
}


def row_of(result: Result) -> Row:
    fields = {name: result[name] for name in Row.__dataclass_fields__}
    return Row(**{**fields, "shape": tuple(result["shape"])})


def elements(result: Result) -> int:
    return math.prod(result["shape"])


def milliseconds(value: float) -> str:
    """Three significant digits; below a hundredth of a millisecond in microseconds."""
    if value < 0.01:
        return f"{value * 1e3:.2f} µs"
    return f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def shape_text(result: Result) -> str:
    names = {M16: "16 M", 131072: "131072"}
    text = " × ".join(names.get(extent, str(extent)) for extent in result["shape"])
    return text if result["axis"] is None else f"{text}, axis {result['axis']}"


def geometric_mean(values: Sequence[float]) -> float | None:
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


@dataclass(frozen=True)
class Summary:
    """What the goals ask for, over all rows of a run."""

    with_goal: int  # rows of 16 M elements
    within: int
    speed_up: float | None  # over PyTorch eager, the geometric mean at 16 M elements
    compared: int
    beyond: list[Result]  # any size that has a goal, the farthest first
    slower: list[tuple[Result, str, float]]  # 64 Ki elements and more: the row, the peer, how many times as fast it is
    repeated: int  # rows that were measured again because the machine was busy
    busy: int  # those during which it stayed so


def summarise(results: Sequence[Result]) -> Summary:
    large = [result for result in results if elements(result) == M16]
    goals = [result for result in large if result["goal"] is not None]
    ratios = [result["peers"][EAGER] / result["planck_ms"] for result in large if EAGER in result["peers"]]
    beyond = [result for result in results if result["goal"] is not None and result["ratio_copy"] > result["goal"]]
    beyond.sort(key=lambda result: result["goal"] / result["ratio_copy"])
    slower = [
        (result, name, result["planck_ms"] / peer)
        for result in results
        if elements(result) >= PEER_ELEMENTS
        for name, peer in result["peers"].items()
        if result["planck_ms"] > NOISE * peer
    ]
    slower.sort(key=lambda entry: -entry[2])
    return Summary(
        with_goal=len(goals),
        within=sum(result["ratio_copy"] <= result["goal"] for result in goals),
        speed_up=geometric_mean(ratios),
        compared=len(ratios),
        beyond=beyond,
        slower=slower,
        repeated=sum(result.get("measured", 1) > 1 for result in results),
        busy=sum(bool(result["busy"]) for result in results),
    )


def line(result: Result, number: int, count: int) -> str:
    """One row while measuring. Factors of peers are their time ÷ Planck's: above 1 Planck is ahead."""
    own = result["planck_ms"]
    peers = "  ".join(f"{name} {peer / own:.2f}×" for name, peer in result["peers"].items())
    goal = f" of {result['goal']}" if result["goal"] is not None else ""
    mark = " beyond" if result["goal"] is not None and result["ratio_copy"] > result["goal"] else ""
    off = "" if result["max_abs_diff"] is None else f"  off {result['max_abs_diff']:.2g}"
    return (
        f"[{number}/{count}] {result['name']}\n"
        f"    {milliseconds(own)} (least {milliseconds(result['planck_min_ms'])})  copy × {result['ratio_copy']:.2f}{goal}{mark}"
        f"  {result['gb_per_s']:.1f} GB/s  {result['rounds']} rounds{off}{'  BUSY' if result['busy'] else ''}"
        + (f"\n    {peers}" if peers else "")
    )


def conclusion(document: dict[str, Any]) -> str:
    """The end of the terminal's output."""
    results = document["rows"]
    summary = summarise(results)
    lines = [f"\n== {len(results)} rows"]
    lines += [f"{name} is missing: {why}" for name, why in document["missing"].items()]
    lines += [f"absent from {count} rows: {why}" for why, count in document["absent"].items()]
    lines += [f"{name} from C++: {ns:.0f} ns" for name, ns in document["calls"].items()]
    if summary.beyond:
        lines.append(f"\nBeyond their goal ({len(summary.beyond)}), the farthest first:")
        lines += [
            f"  {result['ratio_copy']:6.2f} of {result['goal']:<4}  {result['name']}" for result in summary.beyond
        ]
    if summary.slower:
        lines.append(f"\nSlower than a peer, from 64 Ki elements on ({len(summary.slower)}):")
        lines += [f"  {factor:6.2f} × the time of {name}  {result['name']}" for result, name, factor in summary.slower]
    lines.append("")
    lines += [text.replace("**", "") for text in summary_lines(summary)]
    lines += [text.replace("**", "") for text in busy_lines(summary, len(results))]
    if summary.busy:
        lines.append("WARNING: measure those rows again (BUSY above) when the machine has less to do.")
    return "\n".join(lines)


def summary_lines(summary: Summary) -> list[str]:
    lines = []
    if summary.with_goal:
        share = summary.within / summary.with_goal
        lines.append(
            f"**{share:.0%}** of the rows at 16 M elements are within their goal ({summary.within} of {summary.with_goal})."
        )
    if summary.speed_up is not None:
        lines.append(
            f"**{summary.speed_up:.1f} ×** PyTorch eager at 16 M elements, the geometric mean of {summary.compared} rows."
        )
    lines.append(
        f"**{len(summary.slower)}** times a peer is faster at 64 Ki elements or more, by over {NOISE - 1:.0%}."
    )
    return lines


def busy_lines(summary: Summary, count: int) -> list[str]:
    if not summary.repeated and not summary.busy:
        return []
    return [
        f"**{summary.repeated}** of {count} rows were measured again because the machine was busy; "
        f"during **{summary.busy}** it stayed so."
    ]


def markdown(header: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [header, ["---"] * len(header), *body]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def part_table(results: Sequence[Result]) -> str:
    """Every row of a part. Columns of peers only where one took part."""
    peers = [name for name in PEERS if any(name in result["peers"] for result in results)]
    varied = len({result["data"] for result in results}) > 1
    header = ["operation", "dtype", "shape", *(["data"] if varied else []), "threads", "ms", "least", "÷ copy", "goal"]
    header += ["GB/s", *peers, "difference", "rounds"]
    body = []
    for result in results:
        own, goal = result["planck_ms"], result["goal"]
        ratio = f"{result['ratio_copy']:.2f}"
        cells = [kind_of_row(row_of(result)), result["dtype"], shape_text(result)]
        cells += [result["data"]] if varied else []
        cells += [str(result["threads"]), milliseconds(own), milliseconds(result["planck_min_ms"])]
        cells += [f"**{ratio}**" if goal is not None and result["ratio_copy"] > goal else ratio]
        cells += ["–" if goal is None else str(goal), f"{result['gb_per_s']:.1f}"]
        cells += [f"{result['peers'][name] / own:.2f} ×" if name in result["peers"] else "–" for name in peers]
        off = result["max_abs_diff"]
        cells += ["–" if off is None else "0" if off == 0 else f"{off:.1g}", str(result["rounds"])]
        body.append(cells)
    return markdown(header, body)


def short_table(results: Sequence[Result]) -> str:
    """The README's: the rows of README_ROWS."""
    found = {replace(row_of(result), threads=2): result for result in results if result["threads"] > 1}
    body = []
    for row in README_ROWS:
        if row not in found:
            continue
        result = found[row]
        own, peer = result["planck_ms"], result["peers"].get(EAGER)
        cells = [row.op.replace("_", " "), row.dtype, milliseconds(own), f"{result['ratio_copy']:.2f}"]
        body.append([*cells, str(result["goal"]), f"{peer / own:.1f} ×" if peer else "–"])
    return markdown(["operation", "elements", "ms", "÷ copy", "goal", "PyTorch ÷ Planck"], body)
