"""The command line: what it refuses, lists, and reports from a file."""

import json

import pytest
from results import document, result

from bench.__main__ import available_memory, main, needed_memory
from bench.rows import Row


def test_a_filter_that_finds_nothing(capsys):
    assert main(["--quick", "--filter", "no such row"]) == 2
    assert "'no such row' finds no row" in capsys.readouterr().err


def test_a_filter_that_is_no_expression(capsys):
    assert main(["--filter", "("]) == 2
    assert "not a regular expression" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--write", "--quick"], ["--write", "--filter", "cumsum"]])
def test_pages_show_the_whole_grid(arguments, capsys):
    assert main(arguments) == 2
    assert "--write takes the whole grid" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--quick", "--full"], ["--fast"], ["--seconds", "many"]])
def test_wrong_options(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: scripts/bench" in capsys.readouterr().err


def test_list(capsys):
    assert main(["--list", "--filter", "^small/lerp"]) == 0
    names = capsys.readouterr().out.splitlines()
    assert len(names) == 7 and all(name.startswith("small/lerp/forward/f32/") for name in names)


def test_report_from_a_file(tmp_path, capsys):
    row = Row("16M", "cumsum", "forward", "f32", (4096, 4096), 1)
    source, copy = tmp_path / "in.json", tmp_path / "out.json"
    source.write_text(json.dumps(document([result(row, 10.0, 5.0, torch=50.0)])))
    assert main(["--from", str(source), "--json", str(copy)]) == 0
    assert "5.0 × PyTorch eager" in capsys.readouterr().out
    assert json.loads(copy.read_text()) == json.loads(source.read_text())


def test_an_interrupted_run_writes_no_pages(tmp_path, capsys):
    source = tmp_path / "in.json"
    row = Row("16M", "cumsum", "forward", "f32", (4096, 4096), 1)
    source.write_text(json.dumps({**document([result(row, 10.0, 5.0)]), "complete": False}))
    assert main(["--from", str(source), "--write"]) == 1
    assert "interrupted, so nothing is written" in capsys.readouterr().err


def test_rows_have_the_fields_that_readers_rely_on():
    fields = {"op", "direction", "dtype", "shape", "axis", "threads"}
    measured = {"planck_ms", "copy_ms", "peers", "ratio_copy", "max_abs_diff", "rounds", "gb_per_s", "goal"}
    row = Row("16M", "cumsum", "forward", "f32", (4096, 4096), 1)
    assert fields | measured <= set(result(row, 1.0, 1.0))


def test_memory_of_large_rows():
    large = Row("scaling", "cumsum", "forward", "f32", (65536, 4096), 1)
    assert needed_memory(large) == 11 << 30
    assert available_memory() > 1 << 28
