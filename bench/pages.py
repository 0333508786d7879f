"""Writes the generated parts of the documentation: a page of results, and the README's plot, five rows and summary."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from pathlib import Path
from typing import Any

from bench.plots import write_plots
from bench.report import PARTS, busy_lines, part_table, short_table, summarise, summary_lines

RESULTS = "docs/benchmark-results.md"
PLOTS = "docs/plots"
BEGIN, END = "<!-- scripts/bench writes this part -->", "<!-- end of what scripts/bench writes -->"
CAPTIONS = {
    "copy": "Time ÷ time of a copy of the same bytes, at 16 M elements",
    "peers": "Time of each peer ÷ time of Planck",
    "latency": "Microseconds a call, small arrays",
    "scaling": "GB/s over size",
}


def machine() -> str:
    """The processor's name, and how many cores there are to use."""
    names = re.findall(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) or [platform.machine()]
    return f"{len(os.sched_getaffinity(0))} cores of {names[0]}"


def between_markers(text: str, new: str) -> str:
    """The text with what stands between the markers replaced."""
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"no {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n{new}\n{END}{after}"


def how(document: dict[str, Any], more: str = "") -> str:
    """In lines as long as the pages' own."""
    versions = ", ".join(f"{name} {version}" for name, version in document["versions"].items())
    command = f"scripts/bench {document['options']}".strip()
    # What decides over the peers' memory and over the copy's stores belongs to the numbers.
    tunables = f" and `GLIBC_TUNABLES={document['tunables']}`" if document["tunables"] else ""
    text = f"Written by `{command}` on {document['machine']}, with {versions}{tunables}.{more}"
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def results_page(document: dict[str, Any], plots: list[str]) -> str:
    """The whole page. Every row is in it: nothing is left out for being slow."""
    results = document["rows"]
    summary = summarise(results)
    text = ["# Benchmark results", "", how(document, " [How to read them](benchmarks.md).")]
    text += ["", *(f"- {line}" for line in [*summary_lines(summary), *busy_lines(summary, len(results))])]
    text += [f"- {name} from C++: **{ns:.0f} ns**." for name, ns in document["calls"].items()]
    text += [
        "",
        "Bold ratios are beyond their goal. Columns of peers are their time ÷ Planck's: above 1 Planck is ahead.",
    ]
    for name in plots:
        text += ["", f"![{CAPTIONS[name]}](plots/{name}.svg)"]
    if summary.slower:
        text += ["", "## Where a peer is faster", "", "From 64 Ki elements on, the peer's time being 1:", ""]
        text += [f"- {factor:.2f} `{result['name']}`, {name}" for result, name, factor in summary.slower]
    for part, title in PARTS.items():
        rows = [result for result in results if result["part"] == part]
        if rows:
            text += ["", f"## {title}", "", part_table(rows)]
    return "\n".join(text) + "\n"


def readme_part(document: dict[str, Any], plots: list[str]) -> str:
    text = [f"![{CAPTIONS['peers']}]({PLOTS}/peers.svg)", ""] if "peers" in plots else []
    text += [short_table(document["rows"]), "", *(f"- {line}" for line in summary_lines(summarise(document["rows"])))]
    text += ["", how(document, f" [Every row]({RESULTS}).")]
    return "\n".join(text)


def write_pages(document: dict[str, Any], root: Path) -> list[Path]:
    plots = write_plots(document["rows"], root / PLOTS)
    names = [path.stem for path in plots]
    (root / RESULTS).write_text(results_page(document, names))
    readme = root / "README.md"
    readme.write_text(between_markers(readme.read_text(), readme_part(document, names)))
    return [*plots, root / RESULTS, readme]
