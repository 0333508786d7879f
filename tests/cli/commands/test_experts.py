"""planck quantize with weights of three to five dimensions: experts and convolutions (issue 20, 13)."""

import numpy as np
import pytest
from program import matrix, planck, planck_json, tree
from safetensors.numpy import load_file, save_file

SHAPES = {
    "layers.0.experts.gate_up": (3, 8, 12),
    "layers.0.conv1d.weight": (6, 4, 3),
    "patch.weight": (6, 4, 3, 2),
    "video.weight": (6, 4, 2, 3, 2),
}


@pytest.mark.parametrize(
    ("options", "experts", "kernel"),
    [
        ([], (3, 8, 1), (6, 1)),
        (["--mode", "asymmetric", "--dtype", "uint8"], (3, 8, 1), (6, 1)),
        (["--scope", "tensor"], (1,), (1,)),
        (["--scope", "group", "--group-size", 2], (3, 8, 6), (6, 2)),
        (["--scope", "group", "--group-size", 2, "--axis", 0, "--mode", "asymmetric"], (3, 4, 12), None),
        (["--scope", "token"], (3, 8, 1), None),
        (["--axis", 1, "--include", "experts", "--exclude", "conv|patch|video"], (3, 1, 12), None),
    ],
)
def test_experts_and_convolutions(tmp_path, options, experts, kernel):
    """Weights of three to five dimensions: the documented scales, codes that are right, and back."""
    random_numbers = np.random.default_rng(13)
    before = {name: random_numbers.standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}
    save_file(before, tmp_path / "in.safetensors")
    include = [] if "--include" in options else ["--include", "."]
    quantize = ["quantize", tmp_path / "in.safetensors", "-o", tmp_path / "q.safetensors", "--format", "plain"]
    said = planck_json(*quantize, *include, *options, "--report", tmp_path / "page.html")
    planck("dequantize", tmp_path / "q.safetensors", "-o", tmp_path / "back.safetensors")
    planck("compare", tmp_path / "in.safetensors", tmp_path / "q.safetensors", "--min-snr", 25)
    planck("compare", tmp_path / "back.safetensors", tmp_path / "q.safetensors", "--max-error", 0)
    after, back = load_file(tmp_path / "q.safetensors"), load_file(tmp_path / "back.safetensors")
    assert "experts.gate_up" in (tmp_path / "page.html").read_text()
    for tensor in said["tensors"]:
        name, shape = tensor["name"], SHAPES[tensor["name"]]
        if not tensor["quantized"]:
            continue
        scale, codes = after[name + "_scale"], after[name].astype(np.int32)
        if "experts" in name:
            assert scale.shape == experts
        elif kernel is not None:
            assert scale.shape == kernel + (1,) * (len(shape) - len(kernel) if len(kernel) > 1 else 0)
        zero = after.get(name + "_zero_point", np.zeros_like(scale, np.int8)).astype(np.int32)
        assert zero.shape == scale.shape and codes.shape == shape

        def spread(part, shape=shape):
            if part.ndim == 1:
                return part
            return np.kron(
                part, np.ones([whole // own for whole, own in zip(shape, part.shape, strict=True)], part.dtype)
            )

        exact = spread(scale) * (codes - spread(zero)).astype(np.float32)
        np.testing.assert_array_equal(back[name], exact)
        # Half a step, and the rounding of the scale; a zero point rounds by half a step more.
        assert np.all(np.abs(exact - before[name]) <= spread(scale) * (1.01 if "asymmetric" in options else 0.51))
        assert tensor["max_error"] == pytest.approx(np.abs(exact.astype(np.float64) - before[name]).max())
    assert sum(tensor["quantized"] for tensor in said["tensors"]) == (1 if "--axis" in options and not include else 4)


def test_large_experts_and_kernels(tmp_path):
    """Segments that do not fit one piece, and pieces that end inside an expert."""
    random_numbers = np.random.default_rng(14)
    shapes = {"experts.down": (3, 500, 700), "conv.weight": (3, 300, 40, 30)}
    before = {name: random_numbers.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    save_file(before, tmp_path / "in.safetensors")
    common = ["quantize", tmp_path / "in.safetensors", "-o", tmp_path / "q.safetensors", "--format", "plain", "--force"]
    for options in ([], ["--axis", 1, "--exclude", "conv"], ["--scope", "tensor"]):
        planck(*common, "--include", ".", *options)
        planck("dequantize", tmp_path / "q.safetensors", "-o", tmp_path / "back.safetensors", "--force")
        codes, back = load_file(tmp_path / "q.safetensors"), load_file(tmp_path / "back.safetensors")
        for name in before:
            if name + "_scale" in codes:
                np.testing.assert_array_equal(back[name], codes[name + "_scale"] * codes[name].astype(np.float32))
        planck("compare", tmp_path / "in.safetensors", tmp_path / "q.safetensors", "--min-snr", 30)


def test_experts_and_convolutions_are_plain_only(tmp_path):
    weight = np.ones((2, 4, 8), np.float32)
    folder = tmp_path / "in"
    folder.mkdir()
    save_file({"experts.up": weight, "conv.weight": weight, "fc.weight": matrix(4, 4)}, folder / "model.safetensors")
    (folder / "config.json").write_text('{"model_type": "llama"}')
    for name in ("experts", "conv"):
        message = planck("quantize", folder, "-o", tmp_path / "no", "--include", name, code=4)
        assert "two dimensions" in message and name in message and "--format plain" in message
    assert "--axis 1" in planck(
        "quantize", folder, "-o", tmp_path / "no", "--include", "conv", "--format", "plain", "--axis", 1, code=4
    )
    # Not asked for, they stay as they are in either format.
    for options in ([], ["--format", "plain"], ["--include", "fc"]):
        run = planck_json("quantize", folder, "--dry-run", *options)
        assert [tensor["name"] for tensor in run["tensors"] if tensor["quantized"]] == ["fc.weight"]


def test_scales_of_more_axes_that_do_not_fit_are_refused(tmp_path):
    for codes, shape in (
        ((2, 4, 6), (2, 1, 4)),
        ((2, 4, 6), (2, 3, 1)),
        ((2, 4, 6), (2, 4, 6, 1)),
        ((2, 4, 6, 3), (1, 4, 1, 3)),
        ((2, 4, 6, 3), (2, 4, 0, 3)),
    ):
        save_file({"w": np.ones(codes, np.int8), "w_scale": np.ones(shape, np.float32)}, tmp_path / "x.safetensors")
        message = planck("dequantize", tmp_path / "x.safetensors", "-o", tmp_path / "y.safetensors", code=3)
        assert "do not fit" in message
    assert "y.safetensors" not in tree(tmp_path)
