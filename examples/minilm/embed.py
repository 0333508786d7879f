"""Embeds the sentences beside this file with a BERT checkpoint and its quantised form, and compares the embeddings.

    python embed.py MODEL_FOLDER QUANTISED_FOLDER [--at-least 0.9995]

Plain NumPy, so that it runs wherever `planck quantize` does: the reader takes safetensors apart, the tokenizer splits
words into the pieces of vocab.txt, the model is BERT's encoder, and a sentence's embedding is the mean over its tokens, as
the sentence-embedding model all-MiniLM-L6-v2 wants it. tests/cli compares all of it with transformers.
"""

import argparse
import json
import math
import sys
import unicodedata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]
SENTENCES = Path(__file__).with_name("sentences.txt").read_text(encoding="utf-8").splitlines()
DTYPES = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "i1", "I32": "<i4", "I64": "<i8"}


def read_safetensors(file: Path) -> dict[str, npt.NDArray[Any]]:
    """The tensors of a file: 8 bytes with the header's length, the header as JSON, the tensors."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    tensors = {}
    for name, about in header.items():
        begin, end = about["data_offsets"]
        elements = np.frombuffer(data[8 + length + begin : 8 + length + end], DTYPES[about["dtype"]])
        tensors[name] = elements.reshape(about["shape"])
    return tensors


def read_weights(folder: Path) -> dict[str, Array]:
    """The weights as floats: codes are dequantised with the scales beside them."""
    tensors = read_safetensors(folder / "model.safetensors")
    weights = {}
    for name, tensor in tensors.items():
        if tensor.dtype == np.int8 and name + "_scale" in tensors:
            # One scale for all, for each row, or for each of several groups in each row.
            scale = tensors[name + "_scale"].astype(np.float32)
            scale = scale.reshape(*(scale.shape if scale.ndim == 2 else (1, 1)), 1)
            zero_point = tensors.get(name + "_zero_point", np.zeros(1, np.int8)).astype(np.float32)
            codes = tensor.astype(np.float32).reshape(*scale.shape[:2], -1)
            zero_point = zero_point.reshape(scale.shape if zero_point.size > 1 else (1, 1, 1))
            weights[name] = ((codes - zero_point) * scale).reshape(tensor.shape)
        elif tensor.dtype.kind == "f":
            weights[name] = tensor.astype(np.float32)
    return weights


class Tokenizer:
    """WordPiece, lower case: the longest known piece first, pieces within a word marked with ##."""

    def __init__(self, folder: Path):
        words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
        self.numbers = {word: number for number, word in enumerate(words)}

    def __call__(self, sentence: str) -> list[int]:
        plain = unicodedata.normalize("NFD", sentence.lower())
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
        split = "".join(c if c.isalnum() or c.isspace() else f" {c} " for c in plain)
        pieces = ["[CLS]", *(piece for word in split.split() for piece in self._pieces(word)), "[SEP]"]
        return [self.numbers[piece] for piece in pieces]

    def _pieces(self, word: str) -> list[str]:
        pieces: list[str] = []
        while word:
            mark = "##" if pieces else ""
            length = next((n for n in range(len(word), 0, -1) if mark + word[:n] in self.numbers), 0)
            if length == 0:
                return ["[UNK]"]
            pieces.append(mark + word[:length])
            word = word[length:]
        return pieces


def gelu(x: Array) -> Array:
    """x times the normal distribution's share below x; the error function by Abramowitz and Stegun's formula 7.1.26."""
    t = np.float32(1) / (np.float32(1) + np.float32(0.3275911 / math.sqrt(2)) * np.abs(x))
    series: Array = np.zeros_like(x)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + np.float32(factor)) * t
    tail = np.float32(0.5) * series * np.exp(-x * x / 2)
    return x * np.where(x < 0, tail, 1 - tail)


class Bert:
    """The encoder, for sentences of one length at a time, which need no padding."""

    def __init__(self, folder: Path, config: dict[str, Any]):
        self.weights = read_weights(folder)
        self.heads: int = config["num_attention_heads"]
        self.layers: int = config["num_hidden_layers"]
        self.epsilon: float = config["layer_norm_eps"]

    def embed(self, tokens: npt.NDArray[np.int64]) -> Array:
        """The mean of the last layer's states, of length 1, for each row of tokens."""
        at = "embeddings."
        x = self.weights[at + "word_embeddings.weight"][tokens]
        x = x + self.weights[at + "position_embeddings.weight"][: tokens.shape[1]]
        x = self._norm(at + "LayerNorm", x + self.weights[at + "token_type_embeddings.weight"][0])
        for layer in range(self.layers):
            at = f"encoder.layer.{layer}."
            x = self._norm(at + "attention.output.LayerNorm", x + self._attention(at + "attention.", x))
            inner = self._linear(at + "intermediate.dense", x)
            x = self._norm(at + "output.LayerNorm", x + self._linear(at + "output.dense", gelu(inner)))
        mean: Array = x.mean(axis=1)
        return mean / np.sqrt((mean * mean).sum(axis=1, keepdims=True))

    def _attention(self, at: str, x: Array) -> Array:
        def heads(part: str) -> Array:
            return self._linear(at + "self." + part, x).reshape(*x.shape[:2], self.heads, -1).transpose(0, 2, 1, 3)

        query, key, value = heads("query"), heads("key"), heads("value")
        scores = query @ key.transpose(0, 1, 3, 2) / np.float32(math.sqrt(query.shape[-1]))
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = scores / scores.sum(axis=-1, keepdims=True) @ value
        return self._linear(at + "output.dense", mixed.transpose(0, 2, 1, 3).reshape(x.shape))

    def _linear(self, name: str, x: Array) -> Array:
        weight, bias = self.weights[name + ".weight"], self.weights[name + ".bias"]
        return (x.reshape(-1, x.shape[-1]) @ weight.T + bias).reshape(*x.shape[:-1], -1)

    def _norm(self, name: str, x: Array) -> Array:
        centred: Array = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(self.epsilon))
        return centred / deviation * self.weights[name + ".weight"] + self.weights[name + ".bias"]


def embeddings(model: Path, weights: Path, sentences: list[str]) -> Array:
    """One row for each sentence; the tokenizer and the configuration are the model's."""
    tokenizer = Tokenizer(model)
    bert = Bert(weights, json.loads((model / "config.json").read_text(encoding="utf-8")))
    tokens = [tokenizer(sentence) for sentence in sentences]
    result = np.empty((len(tokens), bert.weights["embeddings.word_embeddings.weight"].shape[1]), np.float32)
    for length in {len(row) for row in tokens}:
        same = [i for i, row in enumerate(tokens) if len(row) == length]
        result[same] = bert.embed(np.array([tokens[i] for i in same]))
    return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path, help="the folder of the original")
    parser.add_argument("quantised", type=Path, help="the folder that planck quantize wrote")
    parser.add_argument("--at-least", type=float, default=0.0, help="the mean cosine below which this fails")
    options = parser.parse_args()
    before = embeddings(options.model, options.model, SENTENCES)
    after = embeddings(options.model, options.quantised, SENTENCES)
    cosines = (before * after).sum(axis=1)
    # Does a search still find the same sentence? The nearest other one of each, before and after.
    nearest = [(e @ e.T - 2 * np.eye(len(e))).argmax(axis=1) for e in (before, after)]
    print(f"embeddings of {len(SENTENCES)} sentences, quantised against original:")
    print(f"  cosine similarity  mean {cosines.mean():.5f}, lowest {cosines.min():.5f}")
    print(f"  nearest other sentence the same for {(nearest[0] == nearest[1]).sum()} of {len(SENTENCES)}")
    if cosines.mean() < options.at_least:
        print(f"the mean is below {options.at_least}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
