"""Checkpoints of models, quantised and restored: what the program `planck` does, as functions.

Files are safetensors: one file, a sharded checkpoint's index, or a folder of them. Each function runs the program that
lies in the package, waits for it, and gives what it says as a dictionary, the same that `planck … --json` prints.
Texts speak of the arguments (`force=True`), not of the program's options.

They raise ValueError for arguments that make no sense and for files that are broken or cannot be quantised as asked,
OSError where reading or writing failed, and NotImplementedError in a package built without the program. Outputs are
written whole or not at all.

>>> import json, pathlib, struct, tempfile, planck.checkpoint
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> header = json.dumps({"layer.weight": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]}}).encode()
>>> weights = struct.pack("<4f", 127, -2, 3.03, 12.7)
>>> model = folder / "model.safetensors"
>>> _ = model.write_bytes(struct.pack("<Q", len(header)) + header + weights)
>>> result = planck.checkpoint.quantize(model, folder / "int8", format="plain")
>>> [(tensor["name"], tensor["quantized"], tensor["max_error"] < 0.05) for tensor in result["tensors"]]
[('layer.weight', True, True)]
>>> result = planck.checkpoint.dequantize(folder / "int8", folder / "restored")
>>> [(tensor["min"], tensor["max"]) for tensor in planck.checkpoint.inspect(folder / "restored")["tensors"]]
[(-2, 127)]
>>> 60 < planck.checkpoint.compare(model, folder / "int8")["snr_db"] < 80
True
>>> planck.checkpoint.compare(model, folder / "int8", min_snr=90)["ok"]
False
"""

import os
from collections.abc import Iterable, Sequence
from typing import Any, Literal, TypeAlias, Union

from planck._program import _run

__all__ = ["compare", "dequantize", "inspect", "quantize"]

_Path: TypeAlias = Union[str, os.PathLike[str]]
_Paths: TypeAlias = Union[_Path, Sequence[_Path]]


def _paths(paths: _Paths) -> list[str]:
    """The paths as arguments; none is taken for an option."""
    several = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    texts = [os.fspath(path) for path in several]
    return [os.path.join(os.curdir, text) if text.startswith("-") else text for text in texts]


def _options(**values: Any) -> list[str]:
    """The options that were given: flags alone, lists once for each of their texts."""
    arguments = []
    for name, value in values.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            arguments.append(option)
            continue
        for text in value if isinstance(value, Iterable) and not isinstance(value, str) else [value]:
            arguments.append(f"{option}={os.fspath(text) if isinstance(text, os.PathLike) else text}")
    return arguments


def quantize(
    inputs: _Paths,
    output: _Path | None = None,
    *,
    scope: Literal["channel", "group", "tensor", "token"] = "channel",
    group_size: int | None = None,
    axis: int | None = None,
    mode: Literal["symmetric", "asymmetric"] = "symmetric",
    dtype: Literal["int8", "uint8"] = "int8",
    embeddings: bool = False,
    include: str | Sequence[str] | None = None,
    exclude: str | Sequence[str] | None = None,
    min_size: int | None = None,
    format: Literal["compressed-tensors", "plain"] = "compressed-tensors",
    report: _Path | None = None,
    threads: int | None = None,
    dry_run: bool = False,
    force: bool = False,
    copy_all: bool = False,
) -> dict[str, Any]:
    """Quantises the linear layers of a checkpoint and copies everything else byte for byte.

    `output` is a folder, or for one file a name that ends in .safetensors; only with `dry_run` it may be left out.
    `include` and `exclude` are regular expressions (RE2's) on names, `embeddings` adds the embeddings, `min_size` leaves
    smaller tensors alone, `report` is an HTML page to write, `dry_run` writes nothing, `force` overwrites, `copy_all`
    also copies other weights and dot files of a folder (the result lists what is left out). None means the
    program's default. docs/cli.md has the rest.
    """
    options = _options(
        output=output,
        scope=scope,
        group_size=group_size,
        axis=axis,
        mode=mode,
        dtype=dtype,
        embeddings=embeddings,
        include=include,
        exclude=exclude,
        min_size=min_size,
        format=format,
        report=report,
        threads=threads,
        dry_run=dry_run,
        force=force,
        copy_all=copy_all,
    )
    return _run("quantize", [*_paths(inputs), *options])


def dequantize(
    inputs: _Paths,
    output: _Path,
    *,
    names: Literal["gguf", "hf"] | None = None,
    threads: int | None = None,
    force: bool = False,
    copy_all: bool = False,
) -> dict[str, Any]:
    """Restores a checkpoint that `quantize` wrote: codes become floats again, everything else is copied.

    Of a GGUF file too: its blocks become f32. `names="hf"` gives its tensors Hugging Face's names and writes the
    config.json, for the architectures llama, qwen2 and qwen3. `force` overwrites, `copy_all` also copies other weights
    and dot files of a folder.
    """
    options = _options(output=output, names=names, threads=threads, force=force, copy_all=copy_all)
    return _run("dequantize", [*_paths(inputs), *options])


def inspect(inputs: _Paths, *, header_only: bool = False, threads: int | None = None) -> dict[str, Any]:
    """The tensors of a checkpoint: dtype, shape, size and, unless `header_only`, the range of their elements."""
    return _run("inspect", [*_paths(inputs), *_options(header_only=header_only, threads=threads)])


def compare(
    a: _Path,
    b: _Path,
    *,
    min_snr: float | None = None,
    max_error: float | None = None,
    threads: int | None = None,
) -> dict[str, Any]:
    """How far the tensors of `b` are from those of `a`: largest and mean error, signal-to-noise ratio, cosine.

    Codes are restored first, so that a checkpoint can be compared with its quantised form. Totals are those of tensors
    that both have in floats.

    A difference is a result, not an exception: `result["ok"]` is False if there is any tensor that one side lacks, that
    differs in shape or kind, whose NaN and infinities differ, or whose signal-to-noise ratio is below `min_snr` dB or
    largest error above `max_error`. `result["problems"]` counts them, and each has its `"problem"` as a text:

        result = planck.checkpoint.compare("model", "int8", min_snr=35)
        assert result["ok"], [tensor for tensor in result["tensors"] if not tensor["ok"]]
    """
    options = _options(min_snr=min_snr, max_error=max_error, threads=threads)
    return _run("compare", [*_paths([a, b]), *options])
