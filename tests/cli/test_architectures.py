"""Checkpoints of many architectures load in transformers and compute what their dequantised form does (issue 20, 1).

transformers renames layers when it loads; one in float that `quantization_config.ignore` then misses gets a scale that
nobody has set, and computes NaN, zeros or noise. So the numbers are compared, not only the names that loading reports.
"""

import inspect
import json
import re
import subprocess

import pytest
import torch
import transformers
from architectures import LOADED, REFUSED
from conftest import ROOT
from safetensors.torch import save_file

MATRIX = torch.linspace(-1, 1, 32 * 32).reshape(32, 32)


@pytest.fixture(autouse=True, scope="module")
def quiet():
    transformers.logging.set_verbosity_error()


def saved(row, folder):
    """A model whose weights are large enough for every layer to show in the outputs."""
    torch.manual_seed(1)
    model = row[0](row[1]()).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim >= 2:
                parameter.normal_(0, 0.1)
    model.save_pretrained(folder)
    return model


def tensors_of(output, name=""):
    """The float tensors of an output, by name; caches are no result."""
    if isinstance(output, torch.Tensor):
        return {name: output} if output.is_floating_point() else {}
    items = enumerate(output) if isinstance(output, (tuple, list)) else getattr(output, "items", dict)()
    found = {}
    for key, value in items:
        if key != "past_key_values":
            found.update(tensors_of(value, f"{name}.{key}"))
    return found


def outputs(model, inputs):
    with torch.no_grad():
        model(**inputs)  # the first pass restores the weights
        # How matrix products add depends on where their operands lie: weights that were restored are moved, and so are
        # those that were read from the file.
        for parameter in model.parameters():
            parameter.data = parameter.data.clone()
        return tensors_of(model(**inputs))


def check(planck, folder, row, options=()):
    """Quantises, loads, and compares with the dequantised model bit for bit; what quantize said."""
    kind, _, inputs = row
    said = planck("quantize", folder / "float", "-o", folder / "int8", *options)
    planck("dequantize", folder / "int8", "-o", folder / "restored")
    quantised, info = kind.from_pretrained(folder / "int8", output_loading_info=True)
    assert not any(info.values()), info
    restored, info = kind.from_pretrained(folder / "restored", output_loading_info=True)
    assert not any(info.values()), info
    computed, expected = outputs(quantised.eval(), inputs()), outputs(restored.eval(), inputs())
    assert computed.keys() == expected.keys() and computed
    for name, values in expected.items():
        assert torch.isfinite(values).all() and values.abs().max() > 0, name
        assert torch.equal(computed[name], values), name
    for name, weight in restored.named_parameters():
        assert torch.equal(quantised.get_parameter(name), weight), name
    return said


@pytest.mark.parametrize("name", LOADED)
def test_outputs_are_those_of_the_dequantised_model(planck, tmp_path, name):
    original = saved(LOADED[name], tmp_path / "float")
    said = check(planck, tmp_path, LOADED[name])
    assert sum(tensor["quantized"] for tensor in said["tensors"]) >= 4
    linear = [layer for layer in original.modules() if isinstance(layer, torch.nn.Linear)]
    assert 2 * sum(tensor["quantized"] for tensor in said["tensors"]) > len(linear)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("llama", ["--exclude", r"layers\.0\."]),
        ("llama", ["--include", "mlp", "--mode", "asymmetric"]),
        ("llama", ["--include", "lm_head", "--include", "up_proj"]),
        ("gpt-neox", ["--include", "attention", "--scope", "tensor"]),
        ("llava", ["--exclude", "vision_tower"]),
        ("llava", ["--exclude", "vision_tower.*(q|k|v)_proj", "--scope", "group", "--group-size", "8"]),
        ("llava", ["--exclude", r"language_model\.model\.layers\.0\.self_attn"]),
        ("qwen2-vl", ["--exclude", "^visual"]),
        ("paligemma", ["--exclude", "vision_tower"]),
        ("clip", ["--exclude", "^vision_model"]),
        ("t5", ["--exclude", "^decoder"]),
        ("bert", ["--exclude", "output"]),
    ],
)
def test_layers_that_the_user_leaves_out(planck, tmp_path, name, options):
    """Layers in float inside the blocks too keep their weights, whatever loading calls them."""
    saved(LOADED[name], tmp_path / "float")
    check(planck, tmp_path, LOADED[name], options)


@pytest.mark.parametrize("name", ["gpt-neox", "llava", "paligemma"])
def test_names_alone_would_miss_renamed_layers(planck, tmp_path, name):
    """Without its patterns the same checkpoint lacks scales: the tests above would fail."""
    saved(LOADED[name], tmp_path / "float")
    planck("quantize", tmp_path / "float", "-o", tmp_path / "int8")
    path = tmp_path / "int8" / "config.json"
    config = json.loads(path.read_text())
    ignored = config["quantization_config"]["ignore"]
    config["quantization_config"]["ignore"] = [entry for entry in ignored if not entry.startswith("re:")]
    path.write_text(json.dumps(config))
    _, info = LOADED[name][0].from_pretrained(tmp_path / "int8", output_loading_info=True)
    assert any(key.endswith("weight_scale") for key in info["missing_keys"])


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("bert, base", transformers.BertForSequenceClassification),
        ("llama, base", transformers.LlamaForCausalLM),
        ("llama", transformers.LlamaModel),
        ("gpt-neox, base", transformers.GPTNeoXForCausalLM),
        ("roberta", transformers.RobertaForSequenceClassification),
    ],
)
def test_another_class_of_the_same_model(planck, tmp_path, name, kind):
    """A head that the file does not have is a new one in float, as without codes, and the rest has its weights."""
    saved(LOADED[name], tmp_path / "float")
    planck("quantize", tmp_path / "float", "-o", tmp_path / "int8")
    planck("dequantize", tmp_path / "int8", "-o", tmp_path / "restored")
    quantised, info = kind.from_pretrained(tmp_path / "int8", output_loading_info=True)
    restored, expected = kind.from_pretrained(tmp_path / "restored", output_loading_info=True)
    assert info == expected
    assert outputs(quantised.eval(), LOADED[name][2]()).keys()
    for parameter, weight in restored.named_parameters():
        if parameter not in expected["missing_keys"]:
            assert torch.equal(quantised.get_parameter(parameter), weight), parameter


def refused(program, folder, *options):
    """The message of a run that must end with code 4, and that must work with --format plain."""
    command = [program, "quantize", folder, "-o", folder.with_name("int8"), *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 4, (folder, ran.stderr)
    assert "--format plain" in ran.stderr and not folder.with_name("int8").exists()
    subprocess.run([*command, "--format", "plain", "--dry-run"], capture_output=True, check=True)
    return ran.stderr


@pytest.fixture(scope="module")
def program(build_dir):
    return build_dir / "apps" / "planck"


@pytest.mark.parametrize("name", REFUSED)
def test_what_transformers_cannot_load_is_refused_by_name(program, tmp_path, name):
    saved(REFUSED[name], tmp_path / "float")
    assert f'"{name}"' in refused(program, tmp_path / "float")


def test_layers_that_get_other_names_cannot_stay_in_float(program, tmp_path):
    saved(LOADED["vit"], tmp_path / "float")
    message = refused(program, tmp_path / "float", "--exclude", r"layer\.0\.")
    assert '"vit"' in message and "layer.0." in message


def test_one_scale_cannot_be_split(program, tmp_path):
    saved(LOADED["nomic-bert"], tmp_path / "float")
    assert '"nomic_bert"' in refused(program, tmp_path / "float", "--scope", "tensor")


def model_types(key):
    """The model types that an entry of the mapping is for: it is one, or the name of a class."""
    found = getattr(transformers, key, None)
    return [found.config_class.model_type] if inspect.isclass(found) and found.config_class else [key]


def test_every_rearranged_weight_of_this_transformers_is_refused(program, tmp_path):
    """All model types for which the installed transformers splits, joins or transposes weights, but those that load."""
    mapping = pytest.importorskip(
        "transformers.conversion_mapping", reason="no conversion mapping before transformers 5"
    )
    loads = {"nomic_bert"}
    checked = set()
    for key, transforms in mapping._build_checkpoint_conversion_mapping().items():
        for transform in transforms:
            if not hasattr(transform, "operations"):
                continue
            sources = [source for source in transform.source_patterns if not source.endswith("bias")]
            for model_type in set(model_types(key)) - loads if sources else ():
                if not model_type.islower() or model_type in checked:  # classes that transformers does not export
                    continue
                checked.add(model_type)
                tensors = {"model.layers.0.fc.weight": MATRIX}
                for source in sources:
                    name = re.sub(r"\.?\*\.?", ".0.", source.replace("\\", "")).strip(".")
                    tensors[f"model.layers.0.{name}{'' if name.endswith('weight') else '.weight'}"] = MATRIX.clone()
                folder = tmp_path / model_type / "float"
                folder.mkdir(parents=True)
                save_file(tensors, folder / "model.safetensors")
                (folder / "config.json").write_text(json.dumps({"model_type": model_type}))
                assert f'"{model_type}"' in refused(program, folder)
    assert {"mixtral", "qwen2_moe", "deepseek_v3", "jamba", "dinov2"} <= checked
    print(f"{len(checked)} model types")


def test_page_lists_what_is_tested():
    """The table of docs/cli.md has every class that is loaded here and every model type that is refused, and no other."""
    page = (ROOT / "docs" / "cli.md").read_text()
    section = page[page.index("## Models") : page.index("## ", page.index("## Models") + 3)]
    listed = set(re.findall(r"`(\w+)`", "\n".join(line for line in section.splitlines() if line.startswith("|"))))
    assert listed == {row[0].__name__ for row in (*LOADED.values(), *REFUSED.values())}
