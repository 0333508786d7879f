"""The plots of the pages, as SVG: the same results give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter, NullFormatter

from bench.peers import COMPILED, EAGER, JAX, NUMPY, ONNX, TORCHAO
from bench.report import Result, row_of
from bench.rows import BINARY, OPS, SCANS, directions, plainest

# Okabe and Ito's colours, which differ for colour-blind readers too; Planck is always the strong blue.
PLANCK = "#0072B2"
COLOURS = {
    EAGER: "#D55E00",
    COMPILED: "#E69F00",
    ONNX: "#009E73",
    TORCHAO: "#CC79A7",
    NUMPY: "#56B4E9",
    JAX: "#555555",
    "copy": "#999999",
}
MARKERS = {EAGER: "o", COMPILED: "s", ONNX: "^", TORCHAO: "D", NUMPY: "v", JAX: "P"}
DTYPE_COLOURS = {"f32": "#0072B2", "bf16": "#D55E00", "f16": "#E69F00", "f64": "#009E73"}
STYLE: Any = {
    "svg.hashsalt": "planck",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


def write_plots(results: Sequence[Result], folder: Path) -> list[Path]:
    """Writes every plot for which there are rows."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    draw: dict[str, Callable[[Sequence[Result]], Any]] = {
        "copy": ratio_to_copy,
        "peers": speed_up,
        "latency": latency,
        "scaling": scaling,
    }
    with matplotlib.rc_context(STYLE):
        for name, function in draw.items():
            figure = function(results)
            if figure is None:
                continue
            path = folder / f"{name}.svg"
            figure.savefig(path, metadata={"Date": None, "Creator": None}, bbox_inches="tight")
            plt.close(figure)
            written.append(path)
    return written


def label(op: str, direction: str) -> str:
    return op.replace("_", " ") + (" backward" if direction == "backward" and op != "fake_quantize_learnable" else "")


def _number(value: float, _: object = None) -> str:
    return f"{value:g}"


def _rows_of_ops(found: Sequence[tuple[str, str]], width: float = 8.0) -> tuple[Any, Any, dict[tuple[str, str], int]]:
    """A figure with one line for each operation and direction, the first on top."""
    present = [(op, direction) for op in OPS for direction in directions(op) if (op, direction) in found]
    figure, axes = plt.subplots(figsize=(width, 0.27 * len(present) + 1.1))
    at = {key: len(present) - 1 - i for i, key in enumerate(present)}
    axes.set_yticks(list(at.values()), [label(*key) for key in at])
    axes.set_ylim(-0.7, len(present) - 0.3)
    axes.grid(axis="y", color="#f2f2f2")
    axes.tick_params(axis="y", length=0)
    scans = sum(op in SCANS for op, _ in present)
    for edge in (scans, scans + sum(op in BINARY for op, _ in present)):
        if 0 < edge < len(present):
            axes.axhline(edge - 0.5, color="#cccccc", linewidth=0.8)
    axes.set_xscale("log")
    return figure, axes, at


def _log_ticks(axes: Any, candidates: Sequence[float], values: Sequence[float]) -> None:
    low, high = min([*values, 0.9]), max([*values, 1.1])
    axes.set_xlim(low / 1.25, high * 1.25)
    axes.set_xticks([tick for tick in candidates if low / 1.25 <= tick <= high * 1.25])
    axes.xaxis.set_major_formatter(FuncFormatter(_number))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.minorticks_off()


def ratio_to_copy(results: Sequence[Result]) -> Any:
    """Every row at 16 M elements as a dot, by operation; its goal is a mark on the same height."""
    rows = [result for result in results if result["part"] == "16M" and result["threads"] > 1]
    if not rows:
        return None
    figure, axes, at = _rows_of_ops([(result["op"], result["direction"]) for result in rows])
    shift = {dtype: 0.27 - 0.18 * i for i, dtype in enumerate(DTYPE_COLOURS)}
    for dtype, colour in DTYPE_COLOURS.items():
        own = [result for result in rows if result["dtype"] == dtype]
        x = [result["ratio_copy"] for result in own]
        y = [at[result["op"], result["direction"]] + shift[dtype] for result in own]
        axes.scatter(x, y, s=15, color=colour, alpha=0.75, linewidths=0, label=dtype, zorder=3)
        goals = {(result["goal"], height) for result, height in zip(own, y, strict=True)}
        for goal, height in goals:
            axes.plot([goal, goal], [height - 0.1, height + 0.1], color=colour, linewidth=1.6, zorder=2)
    axes.plot([], [], color="#444444", linewidth=1.6, label="goal of that element")
    axes.axvline(1.0, color="#bbbbbb", linewidth=1.0, zorder=1)
    _log_ticks(axes, (0.25, 0.5, 1, 1.5, 2, 4, 8, 16, 32), [result["ratio_copy"] for result in rows])
    axes.set_xlabel("time ÷ time of a copy of the same bytes (left is better; a dot is a shape, axis or scope)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=5, handletextpad=0.3, columnspacing=1.4)
    return figure


def speed_up(results: Sequence[Result]) -> Any:
    """Peers' time ÷ Planck's on 4096 × 4096 f32, each operation as most people would call it."""
    rows = {}
    for result in results:
        row = row_of(result)
        plain = plainest(row.op, row.direction, (4096, 4096), "16M")
        if row.threads > 1 and row == replace(plain, threads=row.threads) and result["peers"]:
            rows[row.op, row.direction] = result
    if not rows:
        return None
    figure, axes, at = _rows_of_ops(list(rows))
    every = []
    for name, marker in MARKERS.items():
        points = [
            (result["peers"][name] / result["planck_ms"], at[key])
            for key, result in rows.items()
            if name in result["peers"]
        ]
        every += [x for x, _ in points]
        if points:
            x, y = zip(*points, strict=True)
            axes.scatter(x, y, s=34, marker=marker, color=COLOURS[name], label=name, zorder=3, linewidths=0, alpha=0.9)
    axes.axvspan(1e-3, 1.0, color="#f4f4f4", zorder=0)
    axes.axvline(1.0, color="#888888", linewidth=1.0, zorder=1)
    _log_ticks(axes, (0.25, 0.5, 1, 2, 5, 10, 20, 50, 100, 200), every)
    axes.set_xlabel("time of the peer ÷ time of Planck, 4096 × 4096 f32 (right of 1 Planck is ahead)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=6, handletextpad=0.2, columnspacing=1.1)
    return figure


def _panels(count: int, columns: int, height: float) -> tuple[Any, Any]:
    lines = -(-count // columns)
    return plt.subplots(
        lines,
        columns,
        figsize=(3.1 * columns, height * lines),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )


def _series(rows: Sequence[Result], value: Callable[[Result, float], float]) -> dict[str, list[tuple[int, float]]]:
    """Points over bytes of x for Planck and each peer."""
    series: dict[str, list[tuple[int, float]]] = {}
    for result in rows:
        size = 4
        for extent in result["shape"]:
            size *= extent
        for name, ms in {"Planck": result["planck_ms"], **result["peers"]}.items():
            series.setdefault(name, []).append((size, value(result, ms)))
    return series


def _plot_series(axes: Any, series: dict[str, list[tuple[int, float]]]) -> None:
    for name, points in series.items():
        x, y = zip(*sorted(points), strict=True)
        own = name == "Planck"
        axes.plot(
            x,
            y,
            marker="o",
            markersize=4 if own else 3,
            linewidth=2.2 if own else 1.3,
            label=name,
            color=PLANCK if own else COLOURS[name],
            zorder=4 if own else 3,
        )


def _size(value: float, _: object = None) -> str:
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if value >= unit:
            return f"{value / unit:g} {name}"
    return f"{value:g} B"


def _legend(figure: Any, grid: Any) -> None:
    found: dict[str, Any] = {}
    for axes in grid.flat:
        handles, names = axes.get_legend_handles_labels()
        found |= dict(zip(names, handles, strict=True))
    figure.legend(found.values(), found.keys(), loc="outside upper center", ncol=7, columnspacing=1.3)


def _panels_of_ops(
    rows: Sequence[Result],
    shape: tuple[int, float],
    series_of: Callable[[Sequence[Result]], dict[str, list[tuple[int, float]]]],
    ticks: Sequence[int],
    format_size: Callable[[float, object], str],
    labels: tuple[str, str],
) -> Any:
    """A panel for each operation, with values over sizes; `shape` is the most columns and a panel's height."""
    ops = [op for op in OPS if any(result["op"] == op for result in rows)]
    if not ops:
        return None
    columns, height = shape
    figure, grid = _panels(len(ops), min(columns, len(ops)), height)
    for axes, op in zip(grid.flat, ops, strict=False):
        own = [result for result in rows if result["op"] == op]
        _plot_series(axes, series_of(own))
        axes.set(xscale="log", yscale="log", title=label(op, own[0]["direction"]), xticks=ticks)
        axes.xaxis.set_major_formatter(FuncFormatter(format_size))
        axes.yaxis.set_major_formatter(FuncFormatter(_number))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.minorticks_off()
    for axes in grid.flat[len(ops) :]:
        axes.set_visible(False)
    figure.supxlabel(labels[0], fontsize=10)
    figure.supylabel(labels[1], fontsize=10)
    _legend(figure, grid)
    return figure


def latency(results: Sequence[Result]) -> Any:
    def microseconds(own: Sequence[Result]) -> dict[str, list[tuple[int, float]]]:
        series = _series(own, lambda _, ms: ms * 1e3)
        return {name: [(size // 4, y) for size, y in points] for name, points in series.items()}

    rows = [result for result in results if result["part"] == "small" and result["direction"] == "forward"]
    labels = ("f32 elements", "µs a call, from Python")
    return _panels_of_ops(rows, (4, 2.2), microseconds, [1, 16, 256, 4096], _number, labels)


def scaling(results: Sequence[Result]) -> Any:
    def gigabytes(own: Sequence[Result]) -> dict[str, list[tuple[int, float]]]:
        series = _series(own, lambda result, ms: result["bytes"] / ms * 1e-6)
        series["copy"] = [
            (size, result["bytes"] / result["copy_ms"] * 1e-6)
            for (size, _), result in zip(series["Planck"], own, strict=True)
        ]
        return series

    rows = [result for result in results if result["part"] == "scaling"]
    labels = ("size of x, f32", "GB/s read and written")
    return _panels_of_ops(rows, (3, 2.9), gigabytes, [1 << 10, 1 << 20, 1 << 30], _size, labels)
