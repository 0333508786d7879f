"""GGUF files: every type of blocks against the packages gguf and ggml, hostile files, and what may be done with them."""

import hashlib
import os
import struct

import ggml
import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Type
from program import planck, planck_json, tree
from safetensors.numpy import load_file, save_file

# Where a block's f16 scales lie.
SCALES = {
    Type.Q4_0: (0,),
    Type.Q4_1: (0, 2),
    Type.Q5_0: (0,),
    Type.Q5_1: (0, 2),
    Type.Q8_0: (0,),
    Type.Q2_K: (80, 82),
    Type.Q3_K: (108,),
    Type.Q4_K: (0, 2),
    Type.Q5_K: (0, 2),
    Type.Q6_K: (208,),
    Type.IQ4_NL: (0,),
    Type.IQ4_XS: (0,),
    Type.MXFP4: (),
}
PLAIN = {
    Type.F32: "F32",
    Type.F16: "F16",
    Type.BF16: "BF16",
    Type.F64: "F64",
    Type.I8: "I8",
    Type.I16: "I16",
    Type.I32: "I32",
    Type.I64: "I64",
}
GIVEN_UP = {4: "Q4_2", 5: "Q4_3", 31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8"}
GIVEN_UP |= {36: "IQ4_NL_4_4", 37: "IQ4_NL_4_8", 38: "IQ4_NL_8_8"}
# Zeros, the least and the largest numbers, infinities, and NaN of either kind and sign.
PATTERNS = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0xFFFF, 0xFD55]


def write(path, tensors, metadata=(), architecture="test", alignment=None):
    """tensors: name -> (bytes, type, shape), the slowest axis first."""
    writer = gguf.GGUFWriter(path, architecture)
    if alignment:
        writer.add_custom_alignment(alignment)
    for add, *arguments in metadata:
        getattr(writer, "add_" + add)(*arguments)
    for name, (data, kind, shape) in tensors.items():
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        rows = np.frombuffer(bytes(data), np.uint8).reshape(*shape[:-1], shape[-1] // elements * size)
        writer.add_tensor(name, rows, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def blocks(kind, count, seed=0):
    """Random bytes, with every pattern among the scales, and all pairs of them where a block has two."""
    _, size = gguf.GGML_QUANT_SIZES[kind]
    random = np.random.default_rng(seed)
    data = random.integers(0, 256, (count, size), np.uint8)
    for place, pattern in enumerate((a, b) for a in PATTERNS for b in PATTERNS):
        for offset, value in zip(SCALES.get(kind, ()), pattern, strict=False):
            data[place, offset : offset + 2] = np.frombuffer(struct.pack("<H", value), np.uint8)
    if kind == Type.MXFP4:
        data[:256, 0] = np.arange(256)
    return data


def same(ours, theirs):
    """Every bit, but those of NaN, of which ours are all alike."""
    ours, theirs = ours.reshape(-1), theirs.reshape(-1)
    assert ours.dtype == theirs.dtype == np.float32
    nan = np.isnan(theirs)
    assert (np.isnan(ours) == nan).all()
    assert (ours.view(np.uint32)[nan] == 0x7FC00000).all()
    assert ours[~nan].tobytes() == theirs[~nan].tobytes()
    return int(nan.sum())


@pytest.mark.parametrize("kind", SCALES, ids=lambda kind: kind.name)
def test_blocks_are_decoded_as_gguf_and_ggml_decode_them(tmp_path, kind):
    elements, _ = gguf.GGML_QUANT_SIZES[kind]
    data = blocks(kind, 2100)
    write(tmp_path / "x.gguf", {"x": (data.tobytes(), kind, (7, 300 * elements))})
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "x.safetensors")
    ours = load_file(tmp_path / "x.safetensors")["x"]
    assert ours.shape == (7, 300 * elements)
    with np.errstate(all="ignore"):
        nans = same(ours, gguf.dequantize(data, kind))
        same(ours, ggml.dequantize(data, kind.name, ours.size))
    assert (nans > 0) == bool(SCALES[kind])
    shown = planck_json("inspect", tmp_path / "x.gguf")["tensors"][0]
    finite = ours[np.isfinite(ours)]
    assert (shown["min"], shown["max"], shown["nan"]) == (finite.min(), finite.max(), nans)
    assert (shown["dtype"], shown["shape"], shown["bytes"]) == (kind.name, list(ours.shape), data.size)
    assert planck_json("compare", tmp_path / "x.gguf", tmp_path / "x.safetensors")["tensors"][0]["exact"]


def test_plain_elements_are_copied(tmp_path):
    kinds = dict(zip("abcdefgh", PLAIN, strict=True))
    random = np.random.default_rng(1)
    data = {name: random.bytes(6 * gguf.GGML_QUANT_SIZES[kind][1]) for name, kind in kinds.items()}
    write(tmp_path / "x.gguf", {name: (data[name], kinds[name], (2, 3)) for name in data})
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["model.safetensors"]
    raw = (tmp_path / "out" / "model.safetensors").read_bytes()
    shown = planck_json("inspect", tmp_path / "out")["tensors"]
    assert {each["name"]: each["dtype"] for each in shown} == {name: PLAIN[kinds[name]] for name in data}
    assert all(each["shape"] == [2, 3] for each in shown)
    assert all(value in raw for value in data.values())


def test_types_that_are_not_decoded_are_refused_by_name(tmp_path):
    others = [kind for kind in Type if kind not in SCALES and kind not in PLAIN]
    assert {"IQ2_XXS", "TQ1_0", "NVFP4", "Q8_K"} <= {kind.name for kind in others}
    for kind in others:
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        path = tmp_path / "x.gguf"
        write(path, {"some.weight": (bytes(2 * size), kind, (2, elements))})
        message = planck("dequantize", path, "-o", tmp_path / "out", code=4)
        assert f'"some.weight": blocks of {kind.name} are not decoded; Q4_0, Q4_1' in message
        assert planck_json("inspect", path)["tensors"][0]["dtype"] == kind.name
    assert not (tmp_path / "out").exists()
    for number, name in GIVEN_UP.items():
        path.write_bytes(header([entry(b"a", [32], number, 0)]))
        assert f"the type {name}, which ggml has given up" in planck("inspect", path, code=3)


def test_bytes_do_not_depend_on_threads_or_instruction_set(tmp_path):
    tensors = {}
    for number, kind in enumerate(SCALES):
        elements, _ = gguf.GGML_QUANT_SIZES[kind]
        rows = 3 + 400_000 // (5 * elements)
        tensors[kind.name] = (blocks(kind, rows * 5, number).tobytes(), kind, (rows, 5 * elements))
    write(tmp_path / "x.gguf", tensors)
    hashes = set()
    for threads, isa in [(1, ""), (2, ""), (3, ""), (7, ""), (16, ""), (2, "scalar")]:
        out = tmp_path / f"{threads}{isa}.safetensors"
        env = {"PLANCK_ISA": isa} if isa else {}
        planck("dequantize", tmp_path / "x.gguf", "-o", out, "--threads", str(threads), env=env)
        hashes.add(hashlib.sha256(out.read_bytes()).hexdigest())
    assert len(hashes) == 1


def test_memory_does_not_grow_with_a_tensor(tmp_path):
    rows = 400
    write(tmp_path / "x.gguf", {"x": (bytes(18 * 4096 * rows), Type.Q4_0, (rows, 32 * 4096))})
    said = planck_json("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "x.safetensors", "--threads", "2")
    assert (tmp_path / "x.safetensors").stat().st_size > 200e6
    assert said["peak_memory_bytes"] < 40e6


def text(value):
    return struct.pack("<Q", len(value)) + value


def pair(key, kind, value):
    return text(key) + struct.pack("<I", kind) + value


def entry(name, extents, kind, offset, axes=None):
    axes = len(extents) if axes is None else axes
    return text(name) + struct.pack(f"<I{len(extents)}QIQ", axes, *extents, kind, offset)


def header(entries=(), pairs=(), version=3, tensors=None, keys=None, magic=b"GGUF"):
    counts = (len(entries) if tensors is None else tensors, len(pairs) if keys is None else keys)
    return magic + struct.pack("<IQQ", version, *counts) + b"".join(pairs) + b"".join(entries)


@pytest.mark.parametrize("command", ["quantize", "dequantize", "inspect", "compare"])
@pytest.mark.parametrize(
    ("file", "message"),
    [
        (b"", "no GGUF file"),
        (header([entry(b"a", [2**62, 2**62], 0, 0)]), '"a": too many elements'),
        (header([entry(b"a", [4], 0, 0)]) + bytes(20), '"a": its 16 bytes from 0 on leave the file'),
        (header(tensors=2**40), "1099511627776 tensors"),
    ],
    ids=["empty", "huge", "short", "counts"],
)
def test_broken_files(tmp_path, command, file, message):
    path = tmp_path / "x.gguf"
    path.write_bytes(file)
    more = {"compare": [path], "inspect": []}.get(command, ["-o", tmp_path / "out"])
    said = planck(command, path, *more, code=3)
    assert "x.gguf" in said and message in said
    assert [p.name for p in tmp_path.iterdir()] == ["x.gguf"]


def test_a_file_is_known_by_its_first_bytes_too(tmp_path):
    write(tmp_path / "x.gguf", {"x": (bytes(18), Type.Q4_0, (1, 32))})
    (tmp_path / "x.gguf").rename(tmp_path / "blob")
    assert planck_json("inspect", tmp_path / "blob")["tensors"][0]["dtype"] == "Q4_0"


def test_metadata_is_shown(tmp_path):
    write(
        tmp_path / "x.gguf",
        {"x": (bytes(36), Type.Q4_0, (2, 32))},
        [("uint32", "test.n", 7), ("float32", "test.eps", 1e-5), ("bool", "test.flag", True)]
        + [("array", "test.tokens", ["a", "b\x1b", "c", "d", "e"]), ("int64", "test.less", -5)],
        alignment=64,
    )
    shown = planck_json("inspect", tmp_path / "x.gguf")["metadata"]["x.gguf"]
    assert shown["general.architecture"] == "test" and shown["test.n"] == "7" and shown["test.eps"] == "1e-05"
    assert shown["test.flag"] == "true" and shown["test.less"] == "-5"
    assert shown["test.tokens"] == "5 items: a, b\x1b, c, d, …"
    printed = planck("inspect", tmp_path / "x.gguf")
    assert "format of x.gguf: GGUF, version 3, alignment 64" in printed
    assert r"metadata of x.gguf: test.tokens = 5 items: a, b\x1b, c" in printed


def test_outputs_are_safe_and_complete(tmp_path):
    write(tmp_path / "x.gguf", {"x": (bytes(18), Type.Q4_0, (1, 32))})
    before = (tmp_path / "x.gguf").read_bytes()
    (tmp_path / "config.json").write_text("{}")
    os.link(tmp_path / "x.gguf", tmp_path / "x.safetensors")
    assert "input" in planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "x.safetensors", "--force", code=2)
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out")
    assert list(tree(tmp_path / "out")) == ["model.safetensors"]  # no config.json of another model
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out", code=2)
    planck("dequantize", tmp_path / "x.gguf", "-o", tmp_path / "out", "--force")
    assert (tmp_path / "x.gguf").read_bytes() == before
    assert "planck dequantize makes" in planck("quantize", tmp_path / "x.gguf", "-o", tmp_path / "q", code=4)


def test_several_files(tmp_path):
    write(tmp_path / "a.gguf", {"a": (bytes(18), Type.Q4_0, (1, 32))}, [("uint16", "split.count", 2)])
    write(tmp_path / "b.gguf", {"b": (bytes(18), Type.Q4_0, (1, 32))}, [("uint16", "split.count", 2)])
    both = [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    assert "one of 2 parts" in planck("dequantize", both[0], "-o", tmp_path / "out", code=4)
    assert "needs one GGUF file" in planck("dequantize", *both, "-o", tmp_path / "out", "--names", "hf", code=2)
    pair = {"x": (bytes(4), Type.I8, (4,)), "x_scale": (bytes(4), Type.F32, (1,))}
    write(tmp_path / "pair.gguf", pair)
    assert "would be read as codes" in planck("dequantize", tmp_path / "pair.gguf", "-o", tmp_path / "pair", code=4)
    write(tmp_path / "c.gguf", {"c": (bytes(18), Type.Q4_0, (1, 32))})
    alone = planck("dequantize", tmp_path / "c.gguf", "-o", tmp_path / "c.safetensors", "--names", "hf", code=2)
    assert "its output must be a folder" in alone
    planck("dequantize", *both, "-o", tmp_path / "out")
    assert sorted(tree(tmp_path / "out")) == ["a.safetensors", "b.safetensors"]
    save_file({"c": np.zeros(3, np.float32)}, tmp_path / "a.safetensors")
    assert "two inputs" in planck("inspect", tmp_path / "a.gguf", tmp_path / "a.safetensors", code=2)
