"""Broken and hostile inputs, compare's verdicts, outputs that may not be touched, and being killed."""

import json
import os
import random
import signal
import subprocess
import time

import numpy as np
import pytest
from program import PROGRAM, matrix, planck, planck_json, raw_file, small_model, tree
from safetensors.numpy import save_file

TENSOR = {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}


def coded(shape=(4, 6), scale=(4, 1), zero=None, data=None):
    """A file of codes and scales with any shapes."""
    parts = [("a.weight", "I8", shape, 1), ("a.weight_scale", "F32", scale, 4)]
    if zero is not None:
        parts.append(("a.weight_zero_point", "I8", zero, 1))
    header, end = {}, 0
    for name, dtype, extents, size in parts:
        count = int(np.prod(extents)) * size
        header[name] = {"dtype": dtype, "shape": list(extents), "data_offsets": [end, end + count]}
        end += count
    return header, (data if data is not None else b"\x01" * end)


@pytest.mark.parametrize("command", ["quantize", "dequantize", "inspect", "compare"])
@pytest.mark.parametrize(
    ("header", "data"),
    [
        (b"", b""),
        (b"{", b""),
        (b"[" * 100000, b""),
        ({"a.weight": {**TENSOR, "data_offsets": [0, 17]}}, b"\0" * 16),
        ({"a.weight": {**TENSOR, "shape": [2**62, 2**62]}}, b"\0" * 16),
        ({"a.weight": {**TENSOR, "shape": [-2, -2]}}, b"\0" * 16),
        ({"a.weight": TENSOR}, b"\0" * 15),
        ({"a.weight": TENSOR, "b.weight": TENSOR}, b"\0" * 16),
    ],
)
def test_broken_files(tmp_path, command, header, data):
    raw_file(tmp_path / "x.safetensors", header, data)
    more = {"compare": [tmp_path / "x.safetensors"], "inspect": []}.get(command, ["-o", tmp_path / "out"])
    message = planck(command, tmp_path / "x.safetensors", *more, code=3)
    assert "x.safetensors" in message
    if isinstance(header, dict):
        assert ".weight" in message or "the file has" in message
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize(
    "file",
    [
        coded(scale=(4, 4)),
        coded(scale=(3, 1)),
        coded(scale=(0, 1)),
        coded(scale=(4, 0)),
        coded(scale=(0,)),
        coded(scale=(4, 1, 1)),
        coded(zero=(4,)),
        coded(zero=(0, 1)),
        coded(data=b"\0" * 40),  # scales of 0
        coded(data=b"\xff" * 40),  # scales of NaN
    ],
)
def test_codes_whose_scales_do_not_fit(tmp_path, file):
    raw_file(tmp_path / "x.safetensors", *file)
    for command in (
        ["dequantize", tmp_path / "x.safetensors", "-o", tmp_path / "y"],
        ["compare", tmp_path / "x.safetensors", tmp_path / "x.safetensors"],
    ):
        assert '"a.weight"' in planck(*command, code=3)
    assert [p.name for p in tmp_path.iterdir()] == ["x.safetensors"]


@pytest.mark.parametrize(
    ("shape", "scale"),
    [((0, 6), (0, 1)), ((4, 0), (4, 1)), ((0, 0), (0, 0)), ((4, 0), (4, 0)), ((1, 1), (1, 1)), ((1,), (1,)), ((), ())],
)
def test_codes_with_extents_of_zero_and_one(tmp_path, shape, scale):
    header, _ = coded(shape, scale)
    codes, scales = int(np.prod(shape)), int(np.prod(scale))
    raw_file(tmp_path / "x.safetensors", header, b"\x05" * codes + np.full(scales, 0.5, np.float32).tobytes())
    planck("inspect", tmp_path / "x.safetensors")
    planck("compare", tmp_path / "x.safetensors", tmp_path / "x.safetensors")
    planck("dequantize", tmp_path / "x.safetensors", "-o", tmp_path / "y.safetensors")
    planck("compare", tmp_path / "x.safetensors", tmp_path / "y.safetensors", "--max-error", 0)


def test_hostile_indices(tmp_path):
    save_file({"a.weight": matrix(4, 4)}, tmp_path / "a.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    for file in ("../a.safetensors", "/etc/passwd", "sub/a.safetensors", "a.json", "", "..", "missing.safetensors"):
        index.write_text(json.dumps({"weight_map": {"a.weight": file}}))
        assert '"a.weight"' in planck("quantize", index, "-o", tmp_path / "out", code=3)
    for text in (
        "{}",
        "[]",
        '{"weight_map": {"b.weight": "a.safetensors"}}',
        '{"weight_map": {"a.weight": 5}}',
        '{"weight_map": {"a": ' + "[" * 1000,
    ):
        index.write_text(text)
        planck("quantize", index, "-o", tmp_path / "out", code=3)
    (tmp_path / "config.json").write_text("{")
    planck("quantize", tmp_path / "a.safetensors", "-o", tmp_path / "out", code=3)
    assert not (tmp_path / "out").exists()


def test_compare_sees_what_differs(tmp_path):
    x = matrix(40, 50)
    save_file({"a": x}, tmp_path / "a.safetensors")

    def verdict(tensors, *limits, code=5):
        save_file(tensors, tmp_path / "b.safetensors")
        return planck("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors", *limits, code=code)

    verdict({"a": x}, "--max-error", 0, "--min-snr", 200, code=0)
    verdict({"a": x + np.float32(0.25)}, code=0)
    verdict({"a": x + np.float32(0.25)}, "--max-error", 0.2)
    verdict({"a": x + np.float32(0.25)}, "--min-snr", 10)
    verdict({"a": x, "more": x})
    verdict({"b": x})
    verdict({"a": x.reshape(50, 40)})
    for bad in (np.nan, np.inf, -np.inf):
        y = x.copy()
        y[7, 7] = bad
        verdict({"a": y})
        save_file({"a": y}, tmp_path / "c.safetensors")
        run = subprocess.run(
            [PROGRAM, "compare", tmp_path / "c.safetensors", tmp_path / "b.safetensors", "--json"],
            capture_output=True,
            text=True,
        )
        found = json.loads(run.stdout)
        assert run.returncode == 0 and found["nonfinite_a"] == found["nonfinite_b"] == 1
        planck("compare", tmp_path / "c.safetensors", tmp_path / "a.safetensors", code=5)


def test_totals_of_compare_are_of_floats(tmp_path):
    x, positions = matrix(40, 50), np.arange(1000)
    save_file({"a": x, "b": positions}, tmp_path / "a.safetensors")
    save_file({"a": x + np.float32(0.25), "b": positions + 3}, tmp_path / "b.safetensors")
    found = planck_json("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors")
    of = {tensor["name"]: tensor for tensor in found["tensors"]}
    assert of["b"]["max_error"] == 3 and 0.24 < of["a"]["max_error"] < 0.26
    assert all(found[number] == of["a"][number] for number in ("max_error", "mean_error", "snr_db", "cosine"))


def test_force_never_touches_an_input(tmp_path):
    small_model(tmp_path / "in")
    before = tree(tmp_path / "in")
    file = tmp_path / "in" / "model.safetensors"
    (tmp_path / "link").symlink_to(tmp_path / "in")
    (tmp_path / "file.safetensors").symlink_to(file)
    os.link(file, tmp_path / "hard.safetensors")
    attempts = [
        (tmp_path / "in", tmp_path / "in"),
        (tmp_path / "in", str(tmp_path / "in") + "/"),
        (tmp_path / "in", tmp_path / "link"),
        (tmp_path / "link", tmp_path / "in"),
        (tmp_path / "in", tmp_path / "in" / "out"),
        (tmp_path / "in", tmp_path / "link" / "out"),
        (file, tmp_path / "in"),
        (file, file),
        (file, tmp_path / "file.safetensors"),
        (tmp_path / "file.safetensors", file),
        (file, tmp_path / "hard.safetensors"),
        (tmp_path / "hard.safetensors", file),
        (tmp_path / "file.safetensors", tmp_path / "link"),
        (tmp_path / "in", tmp_path),
    ]
    for source, place in attempts:
        assert "will not write" in planck("quantize", source, "-o", place, "--force", code=2), (source, place)
    for page in (file, tmp_path / "in" / "config.json", tmp_path / "hard.safetensors"):
        planck("quantize", tmp_path / "in", "-o", tmp_path / "out", "--force", "--report", page, code=2)
    assert tree(tmp_path / "in") == before and not (tmp_path / "out").exists()
    planck("quantize", tmp_path / "in", "-o", tmp_path / "out")
    planck("dequantize", tmp_path / "out", "-o", tmp_path / "out", "--force", code=2)


def test_existing_outputs_need_force_and_must_be_checkpoints(tmp_path):
    small_model(tmp_path / "in")
    (tmp_path / "empty").mkdir()
    planck("quantize", tmp_path / "in", "-o", tmp_path / "empty")
    planck("quantize", tmp_path / "in", "-o", tmp_path / "empty", code=2)
    planck("quantize", tmp_path / "in", "-o", tmp_path / "empty", "--force")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_text("dear")
    planck("quantize", tmp_path / "in", "-o", tmp_path / "photos", "--force", code=2)
    planck("quantize", tmp_path / "in", "-o", ".", "--force", cwd=tmp_path / "empty", code=2)
    planck("quantize", tmp_path / "in", "-o", tmp_path / "none" / "out", code=2)
    planck("quantize", tmp_path / "nothing", "-o", tmp_path / "out", code=1)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["empty", "in", "photos"]


@pytest.mark.parametrize("trap", ["- XFSZ", "'' XFSZ"])  # the limit's signal as usual, and ignored from the start
def test_a_limit_on_files_is_an_error_that_leaves_nothing(tmp_path, trap):
    save_file({"a.weight": matrix(2000, 1000)}, tmp_path / "a.safetensors")
    limited = (
        f"ulimit -f 100; trap {trap}; exec {PROGRAM} quantize {tmp_path}/a.safetensors -o {tmp_path}/q.safetensors"
    )
    ran = subprocess.run(["bash", "-c", limited], capture_output=True, text=True)
    assert ran.returncode == 1 and "cannot write" in ran.stderr and "File too large" in ran.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["a.safetensors"]


def test_killed_at_any_time_the_output_is_old_or_new(tmp_path):
    draw = random.Random(5)
    small_model(tmp_path / "in", **{"big.weight": matrix(3000, 1500)})
    planck("quantize", tmp_path / "in", "-o", tmp_path / "new")
    planck("quantize", tmp_path / "in", "-o", tmp_path / "old", "--scope", "tensor")
    new, old = tree(tmp_path / "new"), tree(tmp_path / "old")
    start = time.monotonic()
    planck("quantize", tmp_path / "in", "-o", tmp_path / "new", "--force")
    usual = time.monotonic() - start
    seen = {"old": 0, "new": 0}
    for round in range(40):
        stop = signal.SIGKILL if round % 4 else signal.SIGTERM
        run = subprocess.Popen(
            [PROGRAM, "quantize", tmp_path / "in", "-o", tmp_path / "old", "--force"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(draw.random() * usual * 1.2)
        run.send_signal(stop)
        code = run.wait()
        state = tree(tmp_path / "old")
        assert state in (old, new)
        seen["new" if state == new else "old"] += 1
        if stop == signal.SIGTERM and code != 0 and code != -signal.SIGTERM:
            assert code == 128 + signal.SIGTERM
        if state == new:
            planck("quantize", tmp_path / "in", "-o", tmp_path / "old", "--scope", "tensor", "--force")
    print(f"\nkilled 40 times: {seen}")
    assert seen["old"] > 0
    assert tree(tmp_path / "new") == new


def test_memory_is_bounded_and_time_beside_cp(tmp_path):
    """1 GB: one tensor of 512 MiB, one row of 256 MiB, and others; times are printed, not judged."""
    header, end = {}, 0
    shapes = [("one.weight", [16384, 8192]), ("row.weight", [1, 1 << 26])] + [
        (f"layers.{i}.weight", [4096, 2048]) for i in range(7)
    ]
    for name, shape in shapes:
        size = shape[0] * shape[1] * 4
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    raw_file(tmp_path / "big.safetensors", header)
    block = np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32).tobytes()
    with (tmp_path / "big.safetensors").open("ab") as file:
        for start in range(0, end, len(block)):
            file.write(block[: min(len(block), end - start)])
    start = time.monotonic()
    subprocess.run(["cp", tmp_path / "big.safetensors", tmp_path / "copy"], check=True)
    print(f"\n{end / 1e9:.2f} GB: cp {time.monotonic() - start:.2f} s")
    (tmp_path / "copy").unlink()
    for options in (
        ["--scope", "channel"],
        ["--scope", "tensor", "--mode", "asymmetric"],
        ["--scope", "channel", "--threads", 16],
    ):
        start = time.monotonic()
        run = planck_json(
            "quantize", tmp_path / "big.safetensors", "-o", tmp_path / "q.safetensors", "--force", *options
        )
        print(f"quantize {options}: {time.monotonic() - start:.2f} s, {run['peak_memory_bytes'] / 1e6:.0f} MB at most")
        assert run["peak_memory_bytes"] < 300e6
    start = time.monotonic()
    run = planck_json("dequantize", tmp_path / "q.safetensors", "-o", tmp_path / "d.safetensors")
    print(f"dequantize: {time.monotonic() - start:.2f} s, {run['peak_memory_bytes'] / 1e6:.0f} MB at most")
    assert run["peak_memory_bytes"] < 300e6


def test_help_names_exit_codes_and_examples():
    assert "Exit codes" in planck("--help")
    for command in ("quantize", "dequantize", "inspect", "compare", "bench", "info"):
        assert "Example" in planck(command, "--help")
    planck(code=2)
    planck("nonsense", code=2)
    assert planck_json("bench", "--size", 1, "--threads", 1)["kernels"]
