"""planck quantize and dequantize: values, formats, the same bits everywhere."""

import json
import os
import pty
import re
import subprocess

import numpy as np
import pytest
from program import PROGRAM, load, matrix, planck, planck_json, small_model, tree
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

LINEAR = ["model.layers.0.up_proj.weight", "model.layers.0.down_proj.weight"]


def expected_codes(x, axis=1):
    """Symmetric, one scale for all elements along `axis`."""
    wide = x.astype(np.float32)
    scale = (np.max(np.abs(wide), axis=axis, keepdims=True) / np.float32(127)).astype(x.dtype)
    return np.clip(np.rint(wide / scale.astype(np.float32)), -127, 127).astype(np.int8), scale


def test_channels_of_a_folder(tmp_path):
    before = small_model(tmp_path / "in")
    run = planck_json("quantize", tmp_path / "in", "-o", tmp_path / "out", "--report", tmp_path / "page.html")
    after = load(tmp_path / "out")
    for name in LINEAR:
        codes, scale = expected_codes(before[name])
        assert after[name].dtype == np.int8
        np.testing.assert_array_equal(after[name + "_scale"], scale)
        np.testing.assert_array_equal(after[name], codes)
    for name in set(before) - set(LINEAR):
        np.testing.assert_array_equal(after[name], before[name])
    assert set(after) == set(before) | {name + "_scale" for name in LINEAR}
    with safe_open(tmp_path / "out" / "model.safetensors", "numpy") as opened:
        assert opened.metadata() == {"format": "pt"}
    assert tree(tmp_path / "in" / "sub") == tree(tmp_path / "out" / "sub")
    assert (tmp_path / "out" / "tokenizer.json").read_bytes() == (tmp_path / "in" / "tokenizer.json").read_bytes()
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert config["quantization_status"] == "compressed" and config["format"] == "int-quantized"
    assert config["config_groups"]["group_0"]["weights"]["strategy"] == "channel"
    assert config["ignore"][:2] == ["lm_head", "model.embed_tokens"] and config["ignore"] == run["ignore"]
    assert all(entry.startswith("re:") for entry in config["ignore"][2:])
    assert "up_proj" in (tmp_path / "page.html").read_text()
    by_name = {each["name"]: each for each in run["tensors"]}
    restored = after[LINEAR[0]].astype(np.float32) * after[LINEAR[0] + "_scale"]
    error = restored.astype(np.float64) - before[LINEAR[0]]
    assert by_name[LINEAR[0]]["max_error"] == np.max(np.abs(error))
    snr = 10 * np.log10(np.sum(before[LINEAR[0]].astype(np.float64) ** 2) / np.sum(error**2))
    assert abs(by_name[LINEAR[0]]["snr_db"] - snr) < 1e-9

    planck("dequantize", tmp_path / "out", "-o", tmp_path / "back")
    back = load(tmp_path / "back")
    np.testing.assert_array_equal(back[LINEAR[0]], restored)
    assert set(back) == set(before) and back[LINEAR[1]].dtype == np.float16
    assert (tmp_path / "back" / "config.json").read_bytes() == (tmp_path / "in" / "config.json").read_bytes()
    planck("compare", tmp_path / "back", tmp_path / "out", "--max-error", 0)


def spread(part, shape):
    """A scale or zero point for every element; a single one stays as it is."""
    if part.ndim == 1:
        return part
    return np.kron(part, np.ones([whole // own for whole, own in zip(shape, part.shape, strict=True)], part.dtype))


@pytest.mark.parametrize(
    "options",
    [
        ["--scope", "tensor"],
        ["--scope", "token"],
        ["--scope", "group", "--group-size", 64],
        ["--scope", "group", "--group-size", 32, "--mode", "asymmetric"],
        ["--scope", "group", "--group-size", 4, "--axis", 0, "--format", "plain"],
        ["--scope", "channel", "--axis", -1, "--format", "plain", "--mode", "asymmetric"],
        ["--mode", "asymmetric", "--dtype", "uint8", "--format", "plain"],
    ],
)
def test_every_scope_comes_back_close(tmp_path, options):
    before = small_model(tmp_path / "in", config=False)
    planck("quantize", tmp_path / "in", "-o", tmp_path / "out", *options)
    planck("compare", tmp_path / "in", tmp_path / "out", "--min-snr", 28)
    planck("dequantize", tmp_path / "out", "-o", tmp_path / "back")
    after, back = load(tmp_path / "out"), load(tmp_path / "back")
    for name in LINEAR:
        scale = after[name + "_scale"]
        codes = after[name].astype(np.int32)
        zero = after.get(name + "_zero_point", np.zeros(1, np.int8)).astype(np.int32)
        exact = spread(scale, codes.shape).astype(np.float32) * (codes - spread(zero, codes.shape)).astype(np.float32)
        np.testing.assert_array_equal(back[name], exact.astype(before[name].dtype))
        assert codes.max() == (255 if after[name].dtype == np.uint8 else 127)


def test_large_tensors_take_two_passes_with_the_same_result(tmp_path):
    """Segments larger than a piece: one scale for a tensor, rows of 2 MiB, and columns across many pieces."""
    tensors = {"a.weight": matrix(1500, 700, 5), "b.weight": matrix(3, 600000, 6)}
    save_file(tensors, tmp_path / "x.safetensors")
    planck("quantize", tmp_path / "x.safetensors", "-o", tmp_path / "t.safetensors", "--scope", "tensor")
    for name, x in tensors.items():
        codes, scale = expected_codes(x, axis=(0, 1))
        out = load_file(tmp_path / "t.safetensors")
        np.testing.assert_array_equal(out[name + "_scale"], scale.reshape(1))
        np.testing.assert_array_equal(out[name], codes)
    planck("quantize", tmp_path / "x.safetensors", "-o", tmp_path / "c.safetensors")
    out = load_file(tmp_path / "c.safetensors")
    codes, scale = expected_codes(tensors["b.weight"])
    np.testing.assert_array_equal(out["b.weight_scale"], scale)
    np.testing.assert_array_equal(out["b.weight"], codes)
    planck(
        "quantize",
        tmp_path / "x.safetensors",
        "-o",
        tmp_path / "k.safetensors",
        "--axis",
        1,
        "--include",
        "^a",
        "--format",
        "plain",
    )
    out = load_file(tmp_path / "k.safetensors")
    codes, scale = expected_codes(tensors["a.weight"], axis=0)
    np.testing.assert_array_equal(out["a.weight_scale"], scale)
    np.testing.assert_array_equal(out["a.weight"], codes)
    planck("compare", tmp_path / "x.safetensors", tmp_path / "k.safetensors", "--min-snr", 35)


def test_same_bits_for_any_threads_and_instruction_set(tmp_path):
    small_model(tmp_path / "in", big=matrix(700, 900, 7), **{"big.weight": matrix(1100, 900, 8)})
    sets = planck_json("info")["instruction_sets"]
    assert "scalar" in sets and len(sets) >= 2
    for options in (["--scope", "channel", "--mode", "asymmetric"], ["--scope", "tensor"]):
        runs = [(["--threads", n], {}) for n in (1, 2, 3, 7)] + [([], {"PLANCK_ISA": name}) for name in sets]
        outputs = []
        numbers = []
        for more, env in runs:
            run = planck_json("quantize", tmp_path / "in", "-o", tmp_path / "out", "--force", *options, *more, env=env)
            outputs.append(tree(tmp_path / "out"))
            numbers.append(run["tensors"])
        assert all(each == outputs[0] for each in outputs)
        assert all(each == numbers[0] for each in numbers)


def test_extents_of_one(tmp_path):
    tensors = {f"{m}x{n}.weight": matrix(m, n, m + n) for m in (1, 5) for n in (1, 4)}
    save_file(tensors, tmp_path / "x.safetensors")
    for scope in (["channel"], ["tensor"], ["token"], ["group", "--group-size", 1], ["channel", "--axis", 1]):
        planck(
            "quantize",
            tmp_path / "x.safetensors",
            "-o",
            tmp_path / "q.safetensors",
            "--force",
            "--format",
            "plain",
            "--scope",
            *scope,
        )
        planck("dequantize", tmp_path / "q.safetensors", "-o", tmp_path / "d.safetensors", "--force")
        back = load_file(tmp_path / "d.safetensors")
        for name, x in tensors.items():
            np.testing.assert_allclose(back[name], x, atol=np.abs(x).max() / 127)


def test_shards_and_their_index(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    shards = {
        "one.safetensors": {"a.weight": matrix(8, 128)},
        "two.safetensors": {"b.weight": matrix(8, 128), "b.bias": np.ones(8, np.float32)},
    }
    for file, tensors in shards.items():
        save_file(tensors, folder / file)
    weight_map = {name: file for file, tensors in shards.items() for name in tensors}
    index = {"metadata": {"total_size": 1, "total_parameters": 2056}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for given in (folder, folder / "model.safetensors.index.json"):
        planck("quantize", given, "-o", tmp_path / "out", "--force", "--mode", "asymmetric")
        after = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())
        found = {name: file for file in shards for name in load_file(tmp_path / "out" / file)}
        assert after["weight_map"] == found and len(found) == 7
        assert after["metadata"]["total_parameters"] == 2056
        assert after["metadata"]["total_size"] == 2 * (8 * 128 + 8 * 5) + 32
    planck("dequantize", tmp_path / "out", "-o", tmp_path / "back")
    assert json.loads((tmp_path / "back" / "model.safetensors.index.json").read_text())["weight_map"] == weight_map
    planck("quantize", folder / "one.safetensors", folder / "two.safetensors", "-o", tmp_path / "files")
    assert sorted(tree(tmp_path / "files")) == ["one.safetensors", "two.safetensors"]


@pytest.mark.parametrize("present", [False, True])
def test_tied_heads_are_ignored_and_cannot_be_quantised(tmp_path, present):
    small_model(tmp_path / "in")
    config = json.loads((tmp_path / "in" / "config.json").read_text())
    if not present:
        tensors = load(tmp_path / "in")
        tensors.pop("lm_head.weight")
        save_file(tensors, tmp_path / "in" / "model.safetensors")
    for said in (True, None) if not present else (True,):
        config["tie_word_embeddings"] = said
        if said is None:
            config.pop("tie_word_embeddings")
        (tmp_path / "in" / "config.json").write_text(json.dumps(config))
        planck("quantize", tmp_path / "in", "-o", tmp_path / "out", "--force")
        after = json.loads((tmp_path / "out" / "config.json").read_text())
        assert after["quantization_config"]["ignore"][:2] == ["lm_head", "model.embed_tokens"]
        assert "shares its weight" in planck("quantize", tmp_path / "in", "-o", tmp_path / "no", "--embeddings", code=4)


def test_embeddings_are_a_target_of_their_own(tmp_path):
    small_model(tmp_path / "in")
    planck("quantize", tmp_path / "in", "-o", tmp_path / "out", "--embeddings")
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert config["config_groups"]["group_0"]["targets"] == ["Linear", "Embedding"]
    assert [entry for entry in config["ignore"] if not entry.startswith("re:")] == ["lm_head"]
    assert load(tmp_path / "out")["model.embed_tokens.weight"].dtype == np.int8


def test_choosing_tensors(tmp_path):
    small_model(tmp_path / "in")

    def chosen(*options):
        run = planck_json("quantize", tmp_path / "in", "--dry-run", *options)
        return {each["name"] for each in run["tensors"] if each["quantized"]}

    assert chosen() == set(LINEAR)
    assert chosen("--exclude", "down") == {LINEAR[0]}
    assert chosen("--include", "down", "--include", "^lm_head") == {LINEAR[1], "lm_head.weight"}
    assert chosen("--min-size", 300 * 256) == set(LINEAR)
    assert chosen("--min-size", 300 * 256 + 1) == {LINEAR[1]}
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--group-size", 7, "--scope", "group"], 4, "up_proj"),
        (["--group-size", 0, "--scope", "group"], 2, "at least 1"),
        (["--dtype", "uint8"], 2, "asymmetric"),
        (["--dtype", "uint8", "--mode", "asymmetric"], 2, "no uint8"),
        (["--axis", 1], 2, "axis 1"),
        (["--axis", 0, "--scope", "group"], 2, "axis 0"),
        (["--axis", 0, "--scope", "tensor"], 2, "says nothing"),
        (["--axis", 2], 2, "axes 0"),
        (["--include", "["], 2, "regular expression"),
        (["--exclude", "."], 4, "nothing to quantise"),
        (["--scope", "rows"], 2, "rows"),
        (["--threads", 0], 2, "0"),
        (["--min-size", -1], 2, "negative"),
    ],
)
def test_what_cannot_be_expressed_is_refused(tmp_path, options, code, message):
    small_model(tmp_path / "in")
    assert message in planck("quantize", tmp_path / "in", "-o", tmp_path / "out", *options, code=code)
    assert not (tmp_path / "out").exists()


def test_conv1d_and_quantised_checkpoints_are_left_alone(tmp_path):
    small_model(tmp_path / "in", **{"h.0.attn.c_attn.weight": matrix(64, 32)})
    (tmp_path / "in" / "config.json").write_text('{"model_type": "gpt2"}')
    run = planck_json("quantize", tmp_path / "in", "-o", tmp_path / "out")
    assert "h.0.attn.c_attn" in run["ignore"]
    assert "Conv1D" in planck("quantize", tmp_path / "in", "-o", tmp_path / "no", "--include", "c_attn", code=4)
    assert "already" in planck("quantize", tmp_path / "out", "-o", tmp_path / "no", code=4)
    assert "already" in planck("quantize", tmp_path / "out" / "model.safetensors", "-o", tmp_path / "no", code=4)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("scope", ["channel", "tensor"])
def test_nan_and_infinities_are_not_lost(tmp_path, bad, scope):
    x = matrix(700, 600)
    x[650, 311] = bad
    save_file({"fine.weight": matrix(4, 4), "bad.weight": x}, tmp_path / "x.safetensors")
    message = planck("quantize", tmp_path / "x.safetensors", "-o", tmp_path / "q.safetensors", "--scope", scope, code=4)
    assert '"bad.weight"' in message and "1" in message
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


def test_a_bar_on_a_terminal_and_nothing_in_a_pipe(tmp_path):
    small_model(tmp_path / "in")
    terminal, end = pty.openpty()
    for out, target in (("a", end), ("b", subprocess.PIPE)):
        command = [PROGRAM, "quantize", tmp_path / "in", "-o", tmp_path / out]
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=target, check=True)
        assert b"quantised 2 tensors" in ran.stdout and b"\r" not in ran.stdout
    assert ran.stderr == b""
    os.close(end)
    shown = os.read(terminal, 1 << 16).decode()
    os.close(terminal)
    assert re.search(r"quantising [█░]{30} +\d+ %  \S+ .?B/s  \d+ s to go", shown)
    assert shown.endswith("\r\x1b[K")  # and it is gone afterwards


@pytest.mark.parametrize("scope", ["channel", "tensor"])
def test_plans_are_kept(tmp_path, scope):
    """One for each shape of a piece, a whole one and the last, of which two tensors have 48."""
    save_file({f"layers.{i}.weight": matrix(3000, 2048, i) for i in range(2)}, tmp_path / "in.safetensors")

    def selected(command, *arguments):
        words = [PROGRAM, command, *(tmp_path / each for each in arguments)]
        if command != "compare":
            words.insert(-1, "-o")
        words += ["--scope", scope, "--format", "plain"] if command == "quantize" else []
        ran = subprocess.run(
            words, capture_output=True, text=True, check=True, env={**os.environ, "PLANCK_VERBOSE": "1"}
        )
        return re.findall(r"^planck: \w+Plan ", ran.stderr, re.MULTILINE)

    # To and back, the scales of a long segment from its range, and one whose instruction set is named in the report.
    assert len(selected("quantize", "in.safetensors", "codes.safetensors")) == {"channel": 5, "tensor": 6}[scope]
    assert len(selected("dequantize", "codes.safetensors", "back.safetensors")) == 2
    assert len(selected("compare", "codes.safetensors", "back.safetensors")) == 2
