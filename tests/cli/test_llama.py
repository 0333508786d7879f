"""A random tiny Llama that transformers saved in two shards: quantised, loaded back, and as wrong as the report says."""

import json

import numpy as np
import pytest
import torch
from conftest import load
from transformers import LlamaConfig, LlamaForCausalLM

LAYERS = 2
LINEAR = 7 * LAYERS


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(9)
    config = LlamaConfig(
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=512,
        tie_word_embeddings=False,
    )
    model = LlamaForCausalLM(config).eval()
    model.save_pretrained(folder, max_shard_size="1400KB")
    assert len(list(folder.glob("model-*.safetensors"))) == 2
    return folder, model


def logits(model):
    torch.manual_seed(1)
    with torch.no_grad():
        return model(torch.randint(0, 512, (8, 32))).logits.double().numpy()


def noisy(model, said, seed):
    """The model with noise instead of rounding: as much in each weight as the report measured."""
    torch.manual_seed(seed)
    twin = LlamaForCausalLM(model.config).eval()
    twin.load_state_dict(model.state_dict())
    weights = dict(twin.named_parameters())
    with torch.no_grad():
        for row in said["tensors"]:
            if row["quantized"]:
                weight = weights[row["name"]]
                deviation = weight.norm() / weight.numel() ** 0.5 * 10 ** (-row["snr_db"] / 20)
                weight += torch.randn_like(weight) * deviation
    return twin


@pytest.mark.parametrize("options", [[], ["--scope", "group", "--group-size", "32"], ["--mode", "asymmetric"]])
def test_logits_are_as_wrong_as_the_report_says(planck, llama, tmp_path, options):
    folder, model = llama
    said = planck("quantize", folder, "-o", tmp_path / "int8", *options)
    assert sum(row["quantized"] for row in said["tensors"]) == LINEAR
    config = json.loads((tmp_path / "int8" / "config.json").read_text())["quantization_config"]
    assert "lm_head" in config["ignore"]
    quantised, info = load(LlamaForCausalLM, tmp_path / "int8")
    assert not any(info.values()), info
    before = logits(model)
    error = np.sqrt(((logits(quantised) - before) ** 2).mean())
    expected = np.mean([np.sqrt(((logits(noisy(model, said, seed)) - before) ** 2).mean()) for seed in range(5)])
    print(
        f"{options}: error of the logits {error:.3g}, predicted {expected:.3g}, size of the logits {before.std():.3g}"
    )
    assert 0.6 * expected < error < 1.5 * expected
    assert error < 0.02 * before.std()


def test_weights_are_those_of_dequantize(planck, llama, tmp_path):
    folder, model = llama
    planck("quantize", folder, "-o", tmp_path / "int8")
    planck("dequantize", tmp_path / "int8", "-o", tmp_path / "restored")
    quantised, _ = load(LlamaForCausalLM, tmp_path / "int8")
    restored, info = load(LlamaForCausalLM, tmp_path / "restored")
    assert not any(info.values()), info
    names = dict(restored.named_parameters())
    assert names.keys() == dict(model.named_parameters()).keys()
    for name, weight in names.items():
        assert weight.detach().numpy().tobytes() == quantised.get_parameter(name).detach().numpy().tobytes(), name
    index = json.loads((tmp_path / "int8" / "model.safetensors.index.json").read_text())
    assert set(index["weight_map"].values()) == {file.name for file in (tmp_path / "int8").glob("*.safetensors")}


def test_bits_do_not_depend_on_threads_or_instruction_set(planck, llama, tmp_path):
    """Every instruction set of this machine, and more threads than processors."""
    folder, _ = llama
    sets = planck("info")["instruction_sets"]
    assert "scalar" in sets
    variants = [("1", {}), ("2", {}), ("7", {}), *(("2", {"PLANCK_ISA": isa}) for isa in sets)]
    outputs = []
    for number, (threads, environment) in enumerate(variants):
        out = tmp_path / str(number)
        planck("quantize", folder, "-o", out, "--threads", threads, **environment)
        outputs.append({file.name: file.read_bytes() for file in out.iterdir()})
    assert len(outputs[0]) >= 4 and all(output == outputs[0] for output in outputs)
