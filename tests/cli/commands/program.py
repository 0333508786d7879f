"""The program under test, and checkpoints made for it."""

import json
import os
import struct
import subprocess
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

ROOT = Path(__file__).parents[3]
PROGRAM = os.environ.get("PLANCK_PROGRAM", str(ROOT / "build" / "release" / "apps" / "planck"))


def planck(*arguments, code=0, env=None, cwd=None):
    """Runs the program, which must end with `code`; what it printed."""
    ran = subprocess.run(
        [PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, env={**os.environ, **(env or {})}
    )
    assert ran.returncode == code, f"{arguments}: {ran.returncode}\n{ran.stdout}\n{ran.stderr}"
    return ran.stderr if code else ran.stdout


def planck_json(*arguments, **keywords):
    return json.loads(planck(*arguments, "--json", **keywords))


def matrix(rows, columns, seed=0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal((rows, columns)) * 0.02).astype(dtype)


def small_model(folder, config=True, **more):
    """A folder as transformers saves one, with layers of every kind."""
    folder.mkdir()
    tensors = {
        "model.embed_tokens.weight": matrix(50, 256, 1),
        "model.layers.0.up_proj.weight": matrix(300, 256, 2),
        "model.layers.0.down_proj.weight": matrix(256, 384, 3, np.float16),
        "model.layers.0.input_layernorm.weight": np.ones(256, np.float32),
        "model.layers.0.up_proj.bias": np.arange(300, dtype=np.float32),
        "lm_head.weight": matrix(50, 256, 4),
        "ids": np.arange(7, dtype=np.int64),
    }
    tensors.update(more)
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    if config:
        text = '{\n  "architectures": ["LlamaForCausalLM"],\n  "model_type": "llama",\n  "rms_norm_eps": 1e-05,\n'
        (folder / "config.json").write_text(text + '  "tie_word_embeddings": false,\n  "vocab_size": 50\n}\n')
    (folder / "tokenizer.json").write_bytes(b"{\x00\xff}")
    (folder / "sub").mkdir()
    (folder / "sub" / "more.txt").write_text("more")
    return tensors


def raw_file(path, header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tree(path):
    """Every file of a folder and its bytes, or the bytes of a file."""
    if not path.is_dir():
        return path.read_bytes()
    return {str(p.relative_to(path)): p.read_bytes() for p in sorted(path.rglob("*")) if p.is_file()}


def load(path):
    return load_file(path / "model.safetensors" if path.is_dir() else path)
