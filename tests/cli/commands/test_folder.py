"""Folders: what goes along into the output and what stays behind, shards in subfolders, and what --force may replace."""

import json
import os

import pytest
from program import matrix, planck, planck_json, small_model, tree
from safetensors.numpy import load_file, save_file

WEIGHTS = (
    "pytorch_model.bin pytorch_model-00001-of-00002.bin tf_model.h5 flax_model.msgpack rust_model.ot model.onnx "
    "model.onnx_data model.onnx.data model.Q4_K_M.gguf consolidated.safetensors consolidated.00.pth model.fp16.safetensors "
    "model.pt last.ckpt bert_model.ckpt.meta training_args.bin optimizer.pt model.tflite MODEL.GGUF"
).split()
INDICES = "pytorch_model.bin.index.json flax_model.msgpack.index.json model.fp16.safetensors.index.json".split()
KEPT = (
    "README.md generation_config.json tokenizer.model spiece.model merges.txt vocab.pt.txt model_head.pkl chat_template.jinja "
    "modeling_custom.py preprocessor_config.json"
).split()


def add(folder, names, size=3):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(b"x" * size)


def folder_bytes(folder):
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("command", ["quantize", "dequantize"])
def test_other_weights_and_dot_files_stay_behind_and_are_listed(tmp_path, command):
    small_model(tmp_path / "in")
    if command == "dequantize":
        planck("quantize", tmp_path / "in", "-o", tmp_path / "codes")
    folder = tmp_path / ("in" if command == "quantize" else "codes")
    plain = set(tree(folder))
    nested = ["onnx/model.onnx", "onnx/config.json", "original/consolidated.00.pth", "original/params.json"]
    nested += ["checkpoint-500/model.safetensors", "deep/er/saved_model.pb"]
    dots = [
        ".gitattributes",
        ".DS_Store",
        ".hidden/x.txt",
        "sub/.keep",
        ".git/objects/pack",
        ".cache/huggingface/x.lock",
    ]
    add(folder, [*WEIGHTS, *INDICES, *KEPT, *nested, *dots, "deep/notes.txt"])

    run = planck_json(command, folder, "-o", tmp_path / "out")
    assert set(tree(tmp_path / "out")) == plain | set(KEPT) | {"deep/notes.txt"}
    left = {each["path"]: each for each in run["left_out"]}
    whole = {"onnx", "original", "checkpoint-500", "deep/er", ".hidden", ".git", ".cache"}
    assert set(left) == set(WEIGHTS) | set(INDICES) | {".gitattributes", ".DS_Store", "sub/.keep"} | whole
    assert left["onnx"]["files"] == 2 and left["onnx"]["bytes"] == 6 and "of its own" in left["onnx"]["reason"]
    assert left["tf_model.h5"]["bytes"] == 3 and left["tf_model.h5"]["reason"] == "other weights"
    copied = {each["path"]: each["bytes"] for each in run["copied_files"]}
    assert set(copied) == set(KEPT) | {"tokenizer.json", "sub/more.txt", "deep/notes.txt"} and copied["merges.txt"] == 3
    assert run["folder_bytes_before"] == folder_bytes(folder)
    assert run["folder_bytes_after"] == folder_bytes(tmp_path / "out")
    shown = planck(command, folder, "-o", tmp_path / "again")
    assert "left out: onnx/, 2 files, 6 B (a checkpoint of its own)\n" in shown
    assert (
        "left out: pytorch_model.bin, 3 B (other weights)\n" in shown and ": .gitattributes, 3 B (dot file)\n" in shown
    )
    assert "copied: 13 other files, " in shown and "\nfolder: " in shown

    run = planck_json(command, folder, "-o", tmp_path / "all", "--copy-all")
    assert set(tree(tmp_path / "all")) == {path for path in tree(folder) if not path.startswith((".git/", ".cache/"))}
    assert [each["path"] for each in run["left_out"]] == [".cache", ".git"]
    assert run["folder_bytes_after"] == folder_bytes(tmp_path / "all")


def test_a_dry_run_lists_what_would_stay_behind(tmp_path):
    small_model(tmp_path / "in")
    add(tmp_path / "in", ["pytorch_model.bin"])
    run = planck_json("quantize", tmp_path / "in", "--dry-run")
    assert [each["path"] for each in run["left_out"]] == ["pytorch_model.bin"]
    assert run["folder_bytes_before"] == folder_bytes(tmp_path / "in") and run["folder_bytes_after"] is None
    run = planck_json("quantize", tmp_path / "in" / "model.safetensors", "--dry-run")
    assert run["left_out"] == run["copied_files"] == [] and run["folder_bytes_before"] is None


def test_modules_of_sentence_transformers_belong_to_the_model(tmp_path):
    small_model(tmp_path / "in")
    modules = [{"path": "", "idx": 0}, {"path": "1_Pooling"}, {"path": "./2_Dense/"}]
    (tmp_path / "in" / "modules.json").write_text(json.dumps(modules))
    add(
        tmp_path / "in",
        ["1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/config.json", "3_Dense/model.pt"],
    )
    planck("quantize", tmp_path / "in", "-o", tmp_path / "out")
    out = set(tree(tmp_path / "out"))
    assert {"1_Pooling/config.json", "2_Dense/model.safetensors", "2_Dense/config.json"} <= out
    assert "3_Dense/model.pt" not in out


def test_what_models_are_loaded_with_is_copied(tmp_path):
    """Weights by their extension alone, which loaders ask for beside the model's own; and folders without a model in them."""
    small_model(tmp_path / "in")
    kept = ["spk_dict.pt", "adapter.deu.safetensors", "processor/preprocessor_config.json"]
    left = ["processor/cache.pt", "model.safetensors.index.fp16.json"]
    add(tmp_path / "in", [*kept, *left])
    result = planck_json("quantize", tmp_path / "in", "-o", tmp_path / "out")
    assert set(kept) <= set(tree(tmp_path / "out")) and not set(left) & set(tree(tmp_path / "out"))
    assert {each["path"] for each in result["left_out"]} == set(left)


def test_an_index_of_another_name_is_the_models(tmp_path):
    """diffusers' own: the codes are listed where the floats were."""
    name = "diffusion_pytorch_model"
    (tmp_path / "in").mkdir()
    tensors = {"blocks.0.fc.weight": matrix(8, 8), "blocks.1.fc.weight": matrix(8, 8)}
    files = [f"{name}-0000{i}-of-00002.safetensors" for i in (1, 2)]
    for file, (tensor, value) in zip(files, tensors.items(), strict=True):
        save_file({tensor: value}, tmp_path / "in" / file)
    index = tmp_path / "in" / f"{name}.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": dict(zip(tensors, files, strict=True))}))
    planck("quantize", tmp_path / "in", "-o", tmp_path / "out", "--format", "plain")
    written = json.loads((tmp_path / "out" / index.name).read_text())["weight_map"]
    assert written["blocks.1.fc.weight_scale"] == written["blocks.1.fc.weight"] == files[1]
    planck("dequantize", tmp_path / "out", "-o", tmp_path / "back")
    assert json.loads((tmp_path / "back" / index.name).read_text())["weight_map"] == dict(
        zip(tensors, files, strict=True)
    )
    add(tmp_path / "in", ["other.safetensors.index.json"])
    assert "several indices" in planck("quantize", tmp_path / "in", "-o", tmp_path / "no", code=3)


def test_links_that_lead_nowhere_and_pipes_do_not_stop_the_run(tmp_path):
    small_model(tmp_path / "in")
    folder = tmp_path / "in"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "vocab.txt").write_text("words")
    (folder / "vocab.txt").symlink_to(tmp_path / "elsewhere" / "vocab.txt")
    (folder / "gone.json").symlink_to("nowhere")
    (folder / "loop.json").symlink_to("loop.json")
    (folder / "linked").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe")
    for more in ([], ["--copy-all"]):
        run = planck_json("quantize", folder, "-o", tmp_path / "out", "--force", *more)
        assert (tmp_path / "out" / "vocab.txt").read_text() == "words" and not (
            tmp_path / "out" / "vocab.txt"
        ).is_symlink()
        assert {each["path"]: each["reason"] for each in run["left_out"]} == {
            "gone.json": "a link that leads nowhere",
            "loop.json": "a link that leads nowhere",
            "linked": "a link to a folder",
            "pipe": "no regular file",
        }
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to("nowhere")  # not as if there were none: it says what the model is
    assert "config.json" in planck("quantize", folder, "-o", tmp_path / "out", "--force", code=1)


def test_the_checkpoint_of_a_folder_is_the_one_that_loaders_take(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()

    def names():
        return {each["name"] for each in planck_json("inspect", folder, "--header-only")["tensors"]}

    save_file({"c.weight": matrix(4, 4)}, folder / "consolidated.safetensors")
    assert names() == {"c.weight"}
    save_file({"b.weight": matrix(4, 4)}, folder / "model-00002-of-00002.safetensors")
    save_file({"a.weight": matrix(4, 4)}, folder / "model-00001-of-00002.safetensors")
    assert names() == {"a.weight", "b.weight"}
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a.weight": "model-00001-of-00002.safetensors"}}))
    assert names() == {"a.weight"}
    save_file({"m.weight": matrix(4, 4)}, folder / "model.safetensors")
    assert "does not list it" in planck("inspect", folder, code=3)  # transformers takes the file, vLLM the index
    index.write_text(json.dumps({"weight_map": {"m.weight": "model.safetensors"}}))
    assert names() == {"m.weight"}
    index.unlink()
    assert names() == {"m.weight"}


def test_shards_in_subfolders(tmp_path):
    folder = tmp_path / "in"
    (folder / "parts" / "two").mkdir(parents=True)
    shards = {"one.safetensors": "a.weight", "parts/one.safetensors": "b.weight", "parts/two/x.safetensors": "c.weight"}
    for file, name in shards.items():
        save_file({name: matrix(8, 128)}, folder / file)
    add(folder, ["parts/notes.txt", "parts/other.bin"])
    index = {"weight_map": {name: file for file, name in shards.items()}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    for given in (folder, folder / "model.safetensors.index.json"):
        run = planck_json("quantize", given, "-o", tmp_path / "out", "--force", "--format", "plain")
        for file, name in shards.items():
            assert set(load_file(tmp_path / "out" / file)) == {name, name + "_scale"}
        after = json.loads((tmp_path / "out" / "model.safetensors.index.json").read_text())["weight_map"]
        assert after == {name + end: file for file, name in shards.items() for end in ("", "_scale")}
        if given == folder:
            assert [each["path"] for each in run["left_out"]] == ["parts/other.bin"]
            assert (tmp_path / "out" / "parts" / "notes.txt").exists()
            planck("compare", folder, tmp_path / "out", "--min-snr", 30)
            (tmp_path / "out" / "parts" / "notes.txt").unlink()


@pytest.mark.parametrize(
    ("index", "reason"),
    [
        ({"weight_map": {}}, "weight_map is empty"),
        ({"metadata": {}}, "no object weight_map"),
        ({"weight_map": None}, "no object weight_map"),
        ({"weight_map": ["a.safetensors"]}, "weight_map is a list"),
        ({"weight_map": {"a.weight": "../a.safetensors"}}, "outside the index's folder"),
        ({"weight_map": {"a.weight": "/a.safetensors"}}, "outside the index's folder"),
        ({"weight_map": {"a.weight": "sub/../a.safetensors"}}, "no plain path"),
        ({"weight_map": {"a.weight": "./a.safetensors"}}, "no plain path"),
        ({"weight_map": {"a.weight": ".git/a.safetensors"}}, "hidden"),
        ({"weight_map": {"a.weight": "sub/a.safetensors"}}, "does not exist"),
        ({"weight_map": {"a.weight": "a.bin"}}, "no safetensors file"),
    ],
)
def test_an_index_is_refused_for_the_true_reason(tmp_path, index, reason):
    save_file({"a.weight": matrix(4, 4)}, tmp_path / "a.safetensors")
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert reason in planck("inspect", tmp_path, code=3)


def test_force_never_deletes_what_it_would_not_write(tmp_path):
    small_model(tmp_path / "in")
    out = tmp_path / "out"
    page = ["--report", out / "page.html"]
    planck("quantize", tmp_path / "in", "-o", out, *page)
    planck("quantize", tmp_path / "in", "-o", out, "--force", *page)  # all of it is its own
    assert "page.html" in planck("quantize", tmp_path / "in", "-o", out, "--force", code=2)
    (out / "page.html").unlink()
    for name in ("notes.txt", "eval/results.json", "model-00001-of-00002.safetensors", ".gitignore"):
        add(out, [name])
        before = tree(out)
        message = planck("quantize", tmp_path / "in", "-o", out, "--force", code=2)
        assert f'"{name}"' in message and "would delete them" in message
        assert tree(out) == before
        (out / name).unlink()
    (out / "empty").mkdir()
    (out / "link").symlink_to(tmp_path / "in")
    assert '"link"' in planck("quantize", tmp_path / "in", "-o", out, "--force", code=2)
    (out / "link").unlink()
    add(out, [f"{i}.log" for i in range(8)])
    assert "and 3 more" in planck("quantize", tmp_path / "in", "-o", out, "--force", code=2)
    for i in range(8):
        (out / f"{i}.log").unlink()
    planck("quantize", tmp_path / "in", "-o", f"{out}/", "--force", "--report", out / "page.html")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]
    assert "would replace" in planck(
        "quantize", tmp_path / "in", "-o", tmp_path / "new", "--report", tmp_path / "new" / "config.json", code=2
    )
