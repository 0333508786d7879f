"""planck quantize: which tensors, why not the others, and what is said or refused before anything is written."""

import json
import random
import re
import subprocess

import numpy as np
import pytest
from program import PROGRAM, load, matrix, planck, planck_json, raw_file, small_model
from safetensors.numpy import save_file

LLAMA = '{"model_type": "llama"}'


def model_of(folder, tensors, config=LLAMA):
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    if config:
        (folder / "config.json").write_text(config)
    return folder


def matched(layer, ignore):
    """As compressed-tensors matches a layer."""
    return any(re.match(entry[3:], layer) if entry.startswith("re:") else entry == layer for entry in ignore)


def ignore_of(folder):
    return json.loads((folder / "config.json").read_text())["quantization_config"]["ignore"]


def test_patterns_catch_every_layer_in_float_and_no_other(tmp_path):
    """Random names that end alike, a random half excluded: layers in float are found under new prefixes too, and no
    pattern of quantization_config.ignore fits a layer that has codes (issue 20, 1)."""
    draw = random.Random(20)
    refused = written = 0
    for number in range(150):
        parts = ["model", "a.b+c", "vision_model", "0", "1", "x_y", "lm_head" if number % 3 == 0 else "fc", "Ω"]
        names = {".".join(draw.choice(parts) for _ in range(draw.randint(1, 5))) for _ in range(14)}
        names = sorted(names - {"model", "vision_model"})
        tensors = {f"{name}.weight": matrix(4, 4) for name in names}
        folder = model_of(tmp_path / f"in{number}", tensors)
        excluded = [name for name in names if draw.random() < 0.4]
        options = [option for name in excluded for option in ("--exclude", f"^{re.escape(name)}[.]weight$")]
        out = tmp_path / f"out{number}"
        command = [PROGRAM, "quantize", folder, "-o", out, *options]
        ran = subprocess.run(command, capture_output=True, text=True)
        if ran.returncode == 4:
            assert "--format plain" in ran.stderr or "nothing to quantise" in ran.stderr
            refused += 1
            continue
        assert ran.returncode == 0, ran.stderr
        written += 1
        ignore = ignore_of(out)
        for name in names:
            quantised = load(out)[f"{name}.weight"].dtype == np.int8
            assert matched(name, ignore) != quantised, (name, ignore)
            assert quantised or (matched("model." + name, ignore) and matched("language_model.model." + name, ignore))
    assert written >= 30 and refused >= 10


def test_names_that_cannot_be_told_apart_are_refused(tmp_path):
    """A prefix without a number might be a new one; one of a block is none."""
    model_of(tmp_path / "block", {"fc.weight": matrix(4, 4), "blocks.0.fc.weight": matrix(4, 4)})
    planck("quantize", tmp_path / "block", "-o", tmp_path / "out", "--include", "blocks")
    assert matched("model.fc", ignore_of(tmp_path / "out")) and not matched("blocks.0.fc", ignore_of(tmp_path / "out"))
    model_of(tmp_path / "prefix", {"fc.weight": matrix(4, 4), "encoder.fc.weight": matrix(4, 4)})
    message = planck("quantize", tmp_path / "prefix", "-o", tmp_path / "no", "--include", "encoder", code=4)
    assert '"fc"' in message and '"encoder.fc"' in message and "--format plain" in message
    planck("quantize", tmp_path / "prefix", "-o", tmp_path / "plain", "--include", "encoder", "--format", "plain")


def test_a_name_of_a_million_parts_costs_little(tmp_path):
    names = ["a." * 500_000 + "fc.weight", "b." * 500_000 + "fc.weight"]
    header = {
        name: {"dtype": "F32", "shape": [1, 1], "data_offsets": [4 * i, 4 * i + 4]} for i, name in enumerate(names)
    }
    (tmp_path / "in").mkdir()
    raw_file(tmp_path / "in" / "model.safetensors", header, bytes(8))
    (tmp_path / "in" / "config.json").write_text(LLAMA)
    options = ["--min-size", 1, "--dry-run", "--json"]
    ran = subprocess.run(
        [PROGRAM, "quantize", tmp_path / "in", *map(str, options)], capture_output=True, text=True, timeout=20
    )
    assert ran.returncode == 0, ran.stderr[:300]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("embeddings.token_type_embeddings_3.weight", "embedding"),
        ("xpath.tag_embeddings.7.weight", "embedding"),
        ("HashBucketCodepointEmbedder_0.weight", "embedding"),
        ("position_embedding_table.weight", "embedding"),
        ("mask_decoder.iou_token.weight", "embedding"),
        ("mask_decoder.mask_tokens.weight", "embedding"),
        ("input_embeds_layers.3.weight", "embedding"),
        ("quantizer.quantizers.0.codebook.weight", "embedding"),
        ("visual_embeddings_table.weight", "embedding"),
        ("relative_attention_bias_layer.bias_values.weight", "embedding"),
        ("transformer_module.queries_features.weight", "embedding"),
        ("objective.weight", "output head"),
        ("moe.router.layer.weight", "router"),
        ("decoder.weight", "output head"),
        ("layers.0.decoder.weight", None),
        ("layers.0.embedding_projection.weight", None),
    ],
)
def test_what_a_name_says(tmp_path, name, reason):
    """Embeddings and routers that are no linear layers in memory, whose codes would be taken for weights."""
    model_of(tmp_path / "in", {name: matrix(4, 4)})
    (tensor,) = planck_json("quantize", tmp_path / "in", "--dry-run")["tensors"]
    assert tensor.get("reason") == reason and tensor["quantized"] == (reason is None)


def test_shared_embeddings_are_refused(tmp_path):
    """Two stacks of a model look one embedding up under two names, of which the file has one."""
    for config, name in ((LLAMA, "shared.weight"), ('{"is_encoder_decoder": true}', "encoder.embed_tokens.weight")):
        folder = tmp_path / name
        model_of(folder, {name: matrix(8, 4), "layers.0.fc.weight": matrix(4, 4)}, config)
        assert "share" in planck("quantize", folder, "-o", tmp_path / "no", "--embeddings", code=4)


def test_codes_without_a_description_are_said(tmp_path):
    """Without config.json no loader knows of the codes: a warning, on standard error alone (issue 20, 8)."""
    small_model(tmp_path / "in", config=False)
    small_model(tmp_path / "with")
    file = tmp_path / "with" / "model.safetensors"
    for given, out, options, warns in (
        (tmp_path / "in", "a", [], "there is no config.json"),
        (tmp_path / "in", "b", ["--json"], "there is no config.json"),
        (tmp_path / "in", "c", ["--format", "plain"], None),
        (tmp_path / "with", "d", [], None),
        (file, "e.safetensors", [], "no config.json beside it"),
        (file, "f", [], None),
        (model_of(tmp_path / "timm", {"fc.weight": matrix(4, 4)}, "{}"), "g", [], "config.json has no model_type"),
    ):
        command = [PROGRAM, "quantize", given, "-o", tmp_path / out, *options]
        ran = subprocess.run(command, capture_output=True, text=True, check=True)
        assert ("planck: warning: " in ran.stderr) == bool(warns) and (warns or "") in ran.stderr, (out, ran.stderr)
        assert "warning" not in ran.stdout
        if "--json" in options:
            json.loads(ran.stdout)


def test_adapters_are_refused(tmp_path):
    """A LoRA's loader adds its weights to another model's (issue 20, 8)."""
    tensors = {"base_model.model.layers.0.q_proj.lora_A.weight": matrix(4, 64)}
    folder = model_of(tmp_path / "in", tensors, config=None)
    (folder / "adapter_config.json").write_text('{"peft_type": "LORA"}')
    for given in (folder, folder / "model.safetensors"):
        message = planck("quantize", given, "-o", tmp_path / "no", code=4)
        assert "adapter_config.json" in message and "--format plain" in message
    assert not (tmp_path / "no").exists()
    planck("quantize", folder, "-o", tmp_path / "out", "--format", "plain")
    planck("compare", folder, tmp_path / "out", "--min-snr", 30)


def test_dry_run_gives_every_reason_even_if_nothing_is_chosen(tmp_path):
    """GPT-2's layers and experts in three dimensions; the real run is refused (issue 20, 9)."""
    tensors = {
        "h.0.attn.c_attn.weight": matrix(64, 32),
        "h.0.experts.up": np.ones((2, 4, 8), np.float32),
        "conv.weight": np.ones((2, 4, 3, 3), np.float32),
        "wte.weight": matrix(8, 4),
        "ln_f.weight": np.ones(4, np.float32),
        "ids": np.arange(3),
    }
    folder = model_of(tmp_path / "in", tensors, '{"model_type": "gpt2"}')
    expected = {
        "h.0.attn.c_attn.weight": "Conv1D",
        "h.0.experts.up": "3-D",
        "conv.weight": "4-D",
        "wte.weight": "embedding",
        "ln_f.weight": "1-D",
        "ids": "no float",
    }
    said = planck_json("quantize", folder, "--dry-run")
    assert {tensor["name"]: tensor["reason"] for tensor in said["tensors"]} == expected
    assert not any(tensor["quantized"] for tensor in said["tensors"])
    table = planck("quantize", folder, "--dry-run")
    for name, reason in expected.items():
        assert re.search(rf"^{re.escape(name)} .* copied, {reason} ", table, re.MULTILINE), (name, table)
    assert "would quantise 0 tensors" in table and "exit code 4" in table
    assert "--dry-run" in planck("quantize", folder, "-o", tmp_path / "out", code=4)
    assert not (tmp_path / "out").exists()


def test_dry_run_lists_copied_tensors_beside_chosen_ones(tmp_path):
    small_model(tmp_path / "in")
    table = planck("quantize", tmp_path / "in", "--dry-run")
    assert re.search(r"^lm_head\.weight .* copied, output head ", table, re.MULTILINE)
    assert re.search(r"^model\.layers\.0\.up_proj\.weight .* int8, channel ", table, re.MULTILINE)
