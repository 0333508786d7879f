"""Reports from results made by hand: what they count, what they list, and what they write."""

from dataclasses import replace

import pytest
from results import document, result

from bench.pages import BEGIN, END, between_markers, results_page, write_pages
from bench.report import (
    README_ROWS,
    conclusion,
    geometric_mean,
    line,
    milliseconds,
    part_table,
    short_table,
    summarise,
)
from bench.rows import Row, rows

SQUARE = (4096, 4096)
FAKE = Row("16M", "fake_quantize", "forward", "f32", SQUARE, scope="tensor")
SUM = Row("16M", "cumsum", "forward", "f32", SQUARE, 1)
SMALL = Row("small", "cumsum", "forward", "f32", (64,), 0)
MIDDLE = Row("64Ki", "cumsum", "forward", "f32", (256, 256), 1)
SCALING = [Row("scaling", "cumsum", "forward", "f32", (rows, 4096), 1) for rows in (1, 4, 16)]


@pytest.fixture
def results():
    return [
        result(FAKE, 5.0, 5.0, torch=50.0, numpy=100.0),
        {**result(SUM, 10.0, 5.0, torch=9.0, disturbance=1.5), "measured": 4},
        {**result(MIDDLE, 0.1, 0.01, torch=0.05), "measured": 2},
        result(SMALL, 0.002, 0.0001, torch=0.001, numpy=0.004),
        *(result(row, 0.01 * row.shape[0], 0.005 * row.shape[0], torch=0.2) for row in SCALING),
    ]


def test_summary(results):
    summary = summarise(results)
    assert (summary.with_goal, summary.within) == (2, 1)
    assert summary.speed_up == pytest.approx((10.0 * 0.9) ** 0.5)
    assert [found["name"] for found in summary.beyond] == [SUM.name]
    assert [(found["name"], peer) for found, peer, _ in summary.slower] == [
        (MIDDLE.name, "PyTorch"),
        (SUM.name, "PyTorch"),
    ]
    assert (summary.repeated, summary.busy) == (2, 1)


def test_peers_within_the_noise_are_not_faster():
    assert summarise([result(SUM, 10.0, 10.0, torch=9.9)]).slower == []


def test_nothing_to_compare():
    summary = summarise([result(SMALL, 0.002, 0.001)])
    assert (summary.with_goal, summary.speed_up, summary.compared) == (0, None, 0)
    assert geometric_mean([]) is None


def test_line_says_what_matters(results):
    text = line(results[1], 2, 3)
    for word in ("[2/3]", SUM.name, "copy × 2.00 of 1.5 beyond", "5 rounds", "PyTorch 0.90×", "BUSY"):
        assert word in text


def test_conclusion(results):
    text = conclusion(document(results))
    assert "50% of the rows at 16 M elements are within their goal (1 of 2)" in text
    assert "torchao is missing: cannot be imported" in text
    assert "90 ns" in text
    assert "2 of 7 rows were measured again because the machine was busy; during 1 it stayed so." in text


@pytest.mark.parametrize(
    ("value", "text"), [(0.00123, "1.23 µs"), (0.0123, "0.012"), (1.234, "1.23"), (123.4, "123.4")]
)
def test_times_are_readable(value, text):
    assert milliseconds(value) == text


def test_tables_have_a_cell_for_every_column(results):
    for table in (part_table(results), short_table(results)):
        lines = table.splitlines()
        assert len({text.count("|") for text in lines}) == 1
    assert "**2.00**" in part_table(results)


def test_the_readme_has_five_rows_that_are_in_the_grid(results):
    assert len(README_ROWS) == 5 and set(README_ROWS) <= set(rows("default"))
    all_cores = [result(replace(row, threads=8), 5.0, 4.0, torch=50.0) for row in README_ROWS]
    table = short_table([*results[2:], *all_cores, result(replace(FAKE, threads=1), 1.0, 1.0)]).splitlines()
    assert len(table) == 2 + 5
    assert "| fake quantize | f32 | 5.00 | 1.25 | 1.25 | 10.0 × |" in table
    assert "| logcumsumexp | f32 | 5.00 | 1.25 | 3.0 | 10.0 × |" in table
    without = short_table([result(README_ROWS[2], 5.0, 2.0)]).splitlines()
    assert without[2:] == ["| linear recurrence | bf16 | 5.00 | 2.50 | 2.5 | – |"]


def test_page_has_every_part(results):
    page = results_page(document(results), ["copy"])
    for title in ("## 16 M elements", "## 256 × 256 elements", "## Small arrays", "## Where a peer is faster"):
        assert title in page
    assert "with torch 1.0 and `GLIBC_TUNABLES=glibc.malloc.mmap_max=0`." in page
    assert "plots/copy.svg" in page and "during **1** it stayed so" in page


def test_nothing_is_said_of_a_machine_that_was_not_busy():
    quiet = document([result(FAKE, 5.0, 5.0, torch=50.0)])
    assert "busy" not in results_page(quiet, []) + conclusion(quiet)


def test_markers():
    text = f"a\n{BEGIN}\nold\n{END}\nb"
    assert between_markers(text, "new") == f"a\n{BEGIN}\nnew\n{END}\nb"
    with pytest.raises(ValueError, match="no "):
        between_markers("nothing here", "new")


def test_pages_and_plots_are_the_same_every_time(results, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "README.md").write_text(f"# Title\n{BEGIN}\n{END}\n")
    first = {path.name: path.read_bytes() for path in write_pages(document(results), tmp_path)}
    second = {path.name: path.read_bytes() for path in write_pages(document(results), tmp_path)}
    assert first == second
    assert set(first) == {"copy.svg", "peers.svg", "latency.svg", "scaling.svg", "benchmark-results.md", "README.md"}
    for words in (
        b"docs/plots/peers.svg",
        b"within their goal",
        b"PyTorch eager",
        b"[Every row](docs/benchmark-results.md)",
    ):
        assert words in first["README.md"]
