"""The package as a whole: its examples, documentation, names, version and types."""

import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import planck
import pytest

MODULES = ["planck", "planck._scan", "planck._quantize", "planck._binary", "planck._runtime"]
FUNCTIONS = [name for name in planck.__all__ if inspect.isfunction(getattr(planck, name))]
ROOT = Path(__file__).parents[3]
VERSION = ROOT / "include" / "planck" / "version.hpp"
PROJECT = ROOT / "pyproject.toml"
SITE = Path(planck.__file__).parents[1]
# What a user with a type checker writes; the last lines are mistakes, and must be found.
USAGE = """
from pathlib import Path
import numpy as np
import numpy.typing as npt
import planck
import planck.checkpoint
from typing_extensions import assert_type

x: npt.NDArray[np.float32] = np.zeros((2, 3), np.float32)
assert_type(planck.cumsum(x, 0, reverse=True), npt.NDArray[np.float32])
assert_type(planck.cumsum(x, out=x), npt.NDArray[np.float32])
assert_type(planck.lerp(x, x, 0.5), npt.NDArray[np.float32])
assert_type(planck.fake_quantize(x, [0.5, 0.5], axis=0), npt.NDArray[np.float32])
assert_type(planck.cummax(x), planck.Extrema)
assert_type(planck.dynamic_quantize(x, scope="group", group_size=2), planck.DynamicQuantized)
assert_type(planck.plan_info(planck.cumsum, x), str)
assert_type(planck.get_num_threads(), int)
assert_type(planck.__version__, str)
planck.quantize(x, 0.5, dtype=np.int8)
planck.quantize(x, [0.5, 0.5], dtype="s8", axis=0)
planck.set_num_threads(2)
planck.checkpoint.quantize("model", "int8", scope="group", group_size=32, exclude=["lm_head"], report=Path("a.html"))
planck.checkpoint.quantize("model", dry_run=True)
planck.checkpoint.compare("model", Path("int8"), min_snr=35, max_error=0.1)["snr_db"]
"""
MISTAKES = [
    'planck.cumsum(x, axis="0")',
    "planck.cumsum(x, dim=0)",
    'planck.quantize(x, 0.5, scope="row")',
    'planck.cummax(x, ties="any")',
    'planck.dynamic_quantize(x, mode="both")',
    "planck.set_num_threads(None)",
    'planck.checkpoint.dequantize("model")',
    'planck.checkpoint.compare("model", "int8", min_snr="35")',
    'planck.checkpoint.quantize("model", "int8", scope="row")',
    'planck.checkpoint.inspect("model", force=True)',
]


@pytest.mark.parametrize("name", [*MODULES, "planck.checkpoint"])
def test_examples(name):
    module = importlib.import_module(name)
    found = doctest.testmod(module, extraglobs={"np": np, "planck": planck})
    assert found.attempted > 0 and found.failed == 0


@pytest.mark.parametrize("name", FUNCTIONS)
def test_documentation(name):
    """Every function says what it does, and shows it with a call of its own."""
    text = inspect.getdoc(getattr(planck, name)) or ""
    examples = doctest.DocTestParser().get_examples(text)
    assert any(f"planck.{name}" in example.source for example in examples)
    assert text.split("\n")[0].strip() and not text.startswith(">>>")


def test_names():
    """Every name that stands in the package's own modules without an underscore, and nothing else."""
    modules = [importlib.import_module(name) for name in MODULES[1:]]
    own = {
        name
        for module in modules
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
    }
    assert len(planck.__all__) == len(set(planck.__all__))
    assert set(planck.__all__) == own
    for name in [
        "quantize",
        "dequantize",
        "fake_quantize",
        "cumsum",
        "cumprod",
        "logcumsumexp",
        "cummax",
        "cummin",
        "linear_recurrence",
        "lerp",
        "add_scaled",
    ]:
        assert {name, name + "_backward"} <= own


def test_star_import():
    names: dict = {}
    exec("from planck import *", names)
    assert set(planck.__all__) <= set(names) and "np" not in names and "version" not in names


def test_version():
    parts = re.findall(r"#define PLANCK_VERSION_(MAJOR|MINOR|PATCH) (\d+)", VERSION.read_text())
    assert [name for name, _ in parts] == ["MAJOR", "MINOR", "PATCH"]
    assert planck.__version__ == ".".join(number for _, number in parts)


def test_no_torch_is_imported():
    code = "import sys, numpy, planck; planck.cumsum(numpy.zeros(3)); print('torch' in sys.modules, 'ml_dtypes' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], env=environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["False", "False"]


def environment():
    return {**os.environ, "PYTHONPATH": str(SITE)}


def mypy(folder, *arguments):
    """Runs in a folder of its own, so that no configuration is found but one that is named."""
    return subprocess.run(
        [sys.executable, "-B", "-m", "mypy", "--cache-dir", str(folder / "cache"), *arguments],
        cwd=folder,
        env={**environment(), "MYPYPATH": str(SITE)},
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One cache for both runs: what they check of NumPy and PyTorch takes far longer than what is ours."""
    return tmp_path_factory.mktemp("mypy")


def test_types_of_the_package(folder):
    """Every module of the NumPy half, by the project's own rules, which are the strict ones but for results of Any.

    planck.torch is not here: mypy reads all of PyTorch for it, minutes long.
    """
    assert tomllib.loads(PROJECT.read_text())["tool"]["mypy"]["strict"] is True
    modules = sorted(path.stem for path in (SITE / "planck").glob("_*.py*") if path.suffix in (".py", ".pyi"))
    names = ["planck" if module == "__init__" else f"planck.{module}" for module in [*modules, "checkpoint"]]
    assert {*MODULES, "planck._core", "planck._types"} <= set(names)
    done = mypy(folder, "--config-file", str(PROJECT), *(argument for name in names for argument in ("-m", name)))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"no issues found in {len(names)} source files" in done.stdout
    assert (SITE / "planck" / "py.typed").exists()


def test_types_for_users(folder):
    """Right calls pass, with the types of their results; every wrong one is found."""
    right = USAGE.strip()
    (folder / "usage.py").write_text(right + "\n" + "\n".join(MISTAKES) + "\n")
    done = mypy(folder, "--strict", "usage.py")
    wrong_lines = sorted({int(line) for line in re.findall(r"usage.py:(\d+): error", done.stdout)})
    first = len(right.split("\n")) + 1
    assert wrong_lines == list(range(first, first + len(MISTAKES))), done.stdout + done.stderr
