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
from planck import _program, _spelling
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
    (folder / "config.json").write_text('{"model_type": "llama"}')
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
        said = planck.checkpoint.quantize(folder, dry_run=True, **options)
        return [row["name"] for row in said["tensors"] if row["quantized"]]

    assert len(chosen()) == 2 and len(chosen(embeddings=True)) == 3
    assert chosen(include="layers.1", format="plain") == ["layers.1.linear.weight"]
    assert chosen(include=["embed", r"1\.lin"], format="plain") == ["embed_tokens.weight", "layers.1.linear.weight"]
    assert chosen(exclude=["layers.1"]) == chosen(min_size=100) == ["layers.0.linear.weight"]
    assert list(tmp_path.iterdir()) == [folder], "a dry run needs no output and writes nothing"
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


@pytest.mark.parametrize("function", planck.checkpoint.__all__)
def test_arguments_are_the_options(function):
    """Every option of a command is an argument of its function, and the other way round."""
    arguments = set(python_inspect.signature(getattr(planck.checkpoint, function)).parameters) - {"inputs", "a", "b"}
    assert {"--" + name.replace("_", "-") for name in arguments} == options_of(function) - {"--help", "--json"}


def test_errors(model, tmp_path):
    folder, _ = model
    with pytest.raises(OSError, match="nowhere"):
        planck.checkpoint.inspect(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="group_size"):
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


def test_limits_of_compare(model, tmp_path):
    """min_snr and max_error hold for each tensor; those beyond them are named, with the limit, and counted."""
    folder, _ = model
    planck.checkpoint.quantize(folder, tmp_path / "int8")
    said = planck.checkpoint.compare(folder, tmp_path / "int8")
    rows = {row["name"]: row for row in said["tensors"] if not row["exact"]}
    assert said["ok"] and len(rows) == 2
    first, second = sorted(rows.values(), key=lambda row: row["snr_db"])
    between = (first["snr_db"] + second["snr_db"]) / 2

    def problems(**limits):
        result = planck.checkpoint.compare(folder, tmp_path / "int8", **limits)
        found = {row["name"]: row["problem"] for row in result["tensors"] if not row["ok"]}
        assert result["ok"] == (not found) and result["problems"] == len(found)
        return found

    assert problems(min_snr=first["snr_db"] - 1, max_error=1.0) == {}
    assert problems(min_snr=np.float32(between)) == {first["name"]: f"SNR below {between:.4g} dB"}
    assert problems(min_snr=200) == {name: "SNR below 200 dB" for name in rows}
    assert problems(max_error=0) == {name: "error above 0" for name in rows}
    assert problems(max_error=1e-6, min_snr=0) == {name: "error above 1e-06" for name in rows}
    for limit in ("min_snr", "max_error"):
        with pytest.raises(ValueError, match=rf"^{limit} is NaN"):
            problems(**{limit: float("nan")})
    with pytest.raises(ValueError, match=r"^Could not convert: min_snr = much"):
        planck.checkpoint.compare(folder, folder, min_snr="much")


def options_of(command):
    text = subprocess.run([_program._program(), command, "--help"], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"^  (?:-[a-z],)?(--[a-z-]+)", text, re.M))


# What is wrong, and what the message must say; {model} is the checkpoint.
MISTAKES = [
    (dict(output=None), "output is missing (or dry_run=True)"),
    (dict(output="{model}/../there"), "it exists (force=True replaces it)"),
    (
        dict(output="x.safetensors", report="x.safetensors", inputs="{model}/model.safetensors"),
        "report and output name",
    ),
    (dict(scope="row"), "scope: row not in {channel,group,tensor,token}"),
    (dict(scope="group", group_size=0), "group_size must be at least 1"),
    (dict(scope="group", group_size=5), "leave it out with exclude"),
    (dict(axis=5), "axis=5: a weight has the axes"),
    (dict(axis=-3), "axis=-3: a weight has the axes"),
    (dict(scope="tensor", axis=0), 'axis says nothing for scope="tensor"'),
    (dict(axis=1), 'the format compressed-tensors has no scope="channel" along axis 1: use format="plain"'),
    (dict(dtype="uint8"), 'dtype="uint8" needs mode="asymmetric"'),
    (dict(dtype="uint8", mode="asymmetric"), 'use format="plain"'),
    (dict(min_size=-1), "min_size must not be negative"),
    (dict(min_size="many"), "Could not convert: min_size = many"),
    (dict(threads=0), "threads: Value 0 not in range"),
    (dict(include="("), 'include="("'),
    (dict(exclude=["layers", "["]), 'exclude="["'),
    (dict(exclude="."), "no tensor was chosen (dry_run=True says why, include chooses)"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_messages_speak_of_arguments(model, tmp_path, monkeypatch, arguments, message):
    """No message has an option of the program, which the caller has never seen."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "model.safetensors").touch()
    place = {"model": str(model[0])}
    arguments = {k: v.format(**place) if k in ("inputs", "output") and v else v for k, v in arguments.items()}
    with pytest.raises(ValueError, match=re.escape(message)) as raised:
        planck.checkpoint.quantize(**{"inputs": model[0], "output": "out", **arguments})
    assert not re.search(r"(^|[^\w])--?[a-z]|planck [a-z]+", str(raised.value)), raised.value


def test_every_option_and_message_has_pythons_words():
    """Of the program's sources every text that names an option, and every option of every command."""
    root = Path(__file__).parents[3]
    texts = [
        literal
        for file in sorted((root / "apps" / "planck").rglob("*.cpp"))
        if file.name != "main.cpp"  # the texts of --help
        for literal in re.findall(r'"((?:[^"\\]|\\.)*)"', file.read_text())
        if re.search(r"--[a-z]", literal)
    ]
    assert len(texts) > 10 and "it exists (--force replaces it)" in texts
    texts += [f"{option} is wrong" for function in planck.checkpoint.__all__ for option in options_of(function)]
    for text in texts:
        assert "--" not in _spelling._in_python(text.replace('\\"', '"')), text
    assert (
        _spelling._in_python("see planck inspect and planck bench") == "see planck.checkpoint.inspect and planck bench"
    )
    assert _spelling._in_python("--force, --dry-run; --copy-files 3") == "force=True, dry_run=True; copy_files=3"
    assert (
        _spelling._in_python("-o,--output: 1 required\nRun with --help for more information.") == "output: 1 required"
    )


def test_names_stay_as_they_are(model, tmp_path):
    """A name that holds an option, and quotation marks to hide it, is no option."""
    out = tmp_path / 'a" --force "b'
    planck.checkpoint.quantize(model[0], out)
    with pytest.raises(ValueError, match=r"a\\x22 --force \\x22b\": it exists \(force=True replaces it\)$"):
        planck.checkpoint.quantize(model[0], out)


def test_warnings_and_texts_of_results(tmp_path, monkeypatch):
    """What the program warns of is a warning here; reasons and problems speak of arguments, names stay."""
    said = {"tensors": [{"name": "--force", "reason": "3-D (--include with --format plain)"}, {"problem": "no --axis"}]}
    program = tmp_path / "planck"
    program.write_text(
        f"#!/bin/sh\necho 'planck: warning: no config.json, see --format plain' >&2\necho '{json.dumps(said)}'"
    )
    program.chmod(0o755)
    monkeypatch.setattr(_program, "_PROGRAM", program)
    with pytest.warns(UserWarning, match='^no config.json, see format="plain"$') as caught:
        result = planck.checkpoint.inspect(tmp_path)
    assert caught[0].filename == __file__
    assert result["tensors"] == [
        {"name": "--force", "reason": '3-D (include with format="plain")'},
        {"problem": "no axis"},
    ]


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
