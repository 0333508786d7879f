"""planck.checkpoint: the functions give what the program says, and raise where it fails; the command is installed."""

import inspect as python_inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import planck
import planck.checkpoint
import pytest
from planck import _program
from safetensors.numpy import load_file, save_file

SITE = Path(planck.__file__).parents[1]


@pytest.fixture
def model(tmp_path):
    rng = np.random.default_rng(3)
    tensors = {
        "embed_tokens.weight": rng.normal(size=(20, 16)).astype(np.float32),
        "layers.0.linear.weight": rng.normal(size=(8, 16)).astype(np.float32),
        "layers.0.norm.weight": np.ones(16, np.float32),
        "layers.1.linear.weight": rng.normal(size=(4, 16)).astype(np.float16),
    }
    folder = tmp_path / "model"
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text("{}")
    return folder, tensors


def test_there_and_back(model, tmp_path):
    folder, tensors = model
    said = planck.checkpoint.quantize(folder, tmp_path / "int8", threads=1, report=tmp_path / "report.html")
    assert [row["name"] for row in said["tensors"] if row["quantized"]] == [
        "layers.0.linear.weight",
        "layers.1.linear.weight",
    ]
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")
    codes = load_file(tmp_path / "int8" / "model.safetensors")
    w = tensors["layers.0.linear.weight"]
    q, scale, _, _ = planck.dynamic_quantize(w)
    assert np.array_equal(codes["layers.0.linear.weight"], q), "the program's codes are those of dynamic_quantize"
    assert np.array_equal(codes["layers.0.linear.weight_scale"], scale[:, None])
    planck.checkpoint.dequantize(tmp_path / "int8", tmp_path / "restored", threads=2)
    restored = load_file(tmp_path / "restored" / "model.safetensors")
    assert np.array_equal(restored["layers.0.linear.weight"], planck.dequantize(q, scale, scope="token"))
    compared = planck.checkpoint.compare(folder, tmp_path / "restored", threads=2)
    rows = {row["name"]: row for row in compared["tensors"]}
    assert compared["ok"] and rows["embed_tokens.weight"]["exact"]
    found = {row["name"]: row for row in planck.checkpoint.inspect(folder)["tensors"]}
    assert found["layers.0.linear.weight"]["max"] == w.max() and found["layers.1.linear.weight"]["dtype"] == "F16"
    assert "max" not in planck.checkpoint.inspect(folder, header_only=True)["tensors"][0]


def test_warnings_of_the_program_are_warnings(model, tmp_path):
    """One file has no config.json that would say that it holds codes."""
    file = model[0] / "model.safetensors"
    with pytest.warns(UserWarning, match="quantization_config"):
        planck.checkpoint.quantize(file, tmp_path / "codes.safetensors")


def test_every_option(model, tmp_path):
    """Each reaches the program: the result is another, or the program complains about just that."""
    folder, _ = model
    file = folder / "model.safetensors"

    def chosen(**options):
        said = planck.checkpoint.quantize(folder, tmp_path / "unused", dry_run=True, **options)
        return [row["name"] for row in said["tensors"] if row["quantized"]]

    assert len(chosen()) == 2 and len(chosen(embeddings=True)) == 3
    assert chosen(include="layers.1", format="plain") == ["layers.1.linear.weight"]
    assert chosen(include=["embed", r"1\.lin"], format="plain") == ["embed_tokens.weight", "layers.1.linear.weight"]
    assert chosen(exclude=["layers.1"]) == chosen(min_size=100) == ["layers.0.linear.weight"]
    assert not (tmp_path / "unused").exists()
    out = tmp_path / "codes.safetensors"
    planck.checkpoint.quantize(
        [file], out, scope="group", group_size=4, format="plain", mode="asymmetric", dtype="uint8"
    )
    codes = load_file(out)
    assert codes["layers.0.linear.weight"].dtype == codes["layers.0.linear.weight_zero_point"].dtype == np.uint8
    assert codes["layers.0.linear.weight_scale"].shape == (8, 4)
    with pytest.raises(ValueError, match="exists"):
        planck.checkpoint.quantize(file, out)
    planck.checkpoint.quantize(file, out, force=True, scope="channel", axis=1, format="plain")
    assert load_file(out)["layers.0.linear.weight_scale"].size == 16
    (folder / "pytorch_model.bin").write_bytes(b"old")
    for function in (planck.checkpoint.quantize, planck.checkpoint.dequantize):
        few, everything = tmp_path / f"few_{function.__name__}", tmp_path / f"all_{function.__name__}"
        assert [left["path"] for left in function(folder, few)["left_out"]] == ["pytorch_model.bin"]
        assert function(folder, everything, copy_all=True)["left_out"] == []
        assert not (few / "pytorch_model.bin").exists() and (everything / "pytorch_model.bin").exists()
        folder = everything  # what quantize wrote, for dequantize
    options = set(python_inspect.signature(planck.checkpoint.quantize).parameters) - {"inputs"}
    text = subprocess.run(
        [_program._program(), "quantize", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert {"--" + name.replace("_", "-") for name in options} == set(
        re.findall(r"--[a-z-]+(?= |\n)", text.split("Linear layers")[0])
    ) - {
        "--help",
        "--json",
    }


def test_errors(model, tmp_path):
    folder, _ = model
    with pytest.raises(OSError, match="nowhere"):
        planck.checkpoint.inspect(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="group-size"):
        planck.checkpoint.quantize(folder, tmp_path / "out", scope="group", group_size=0)
    with pytest.raises(ValueError, match="scope"):
        planck.checkpoint.quantize(folder, tmp_path / "out", scope="row")
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes((folder / "model.safetensors").read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"broken\.safetensors"):
        planck.checkpoint.quantize(broken, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_name_that_looks_like_an_option(model, tmp_path, monkeypatch):
    folder, _ = model
    monkeypatch.chdir(tmp_path)
    folder.rename("-o")
    planck.checkpoint.quantize("-o", "--json")
    assert (tmp_path / "--json" / "model.safetensors").exists()


def test_difference_is_a_result(model, tmp_path):
    folder, tensors = model
    save_file({"layers.0.norm.weight": tensors["layers.0.norm.weight"]}, tmp_path / "other.safetensors")
    assert planck.checkpoint.compare(folder, tmp_path / "other.safetensors")["ok"] is False


def test_command(model):
    """pip installs the command, which is the program."""
    folder, _ = model
    command = (
        [SITE / "bin" / "planck"] if (SITE / "bin" / "planck").exists() else [Path(sys.executable).with_name("planck")]
    )
    environment = {**os.environ, "PYTHONPATH": str(SITE)}
    done = subprocess.run([*command, "--version"], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"planck {planck.__version__}"
    done = subprocess.run([*command, "inspect", folder, "--json"], env=environment, capture_output=True, check=True)
    assert len(json.loads(done.stdout)["tensors"]) == 4
    assert subprocess.run([*command, "inspect"], env=environment, capture_output=True).returncode == 2


def test_without_the_program(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(_program, "_PROGRAM", tmp_path / "none")
    with pytest.raises(NotImplementedError, match="libcli11-dev"):
        planck.checkpoint.inspect(model[0])
    with pytest.raises(SystemExit, match="libcli11-dev"):
        _program._main()
