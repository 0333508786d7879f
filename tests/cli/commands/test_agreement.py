"""Agreement with others: headers with the safetensors library, ranges with ml_dtypes, names with Unicode's tables."""

import json
import random
import struct
import subprocess
import unicodedata

import ml_dtypes
import numpy as np
import pytest
from program import PROGRAM, planck, planck_json, raw_file
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save_file

ENTRY = '{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def entry(dtype="F32", shape="[2]", offsets="[0,8]", more=""):
    return f'{{"a":{{"dtype":{json.dumps(dtype)},"shape":{shape},"data_offsets":{offsets}{more}}}}}'


# Headers that go with eight bytes of data.
BOTH_TAKE = [
    f'{{"a":{ENTRY}}}',
    f'{{"__metadata__":null,"a":{ENTRY}}}',
    f'{{"__metadata__":{{}},"a":{ENTRY}}}',
    f'{{"a":{ENTRY},"__metadata__":{{"x":"\\u0000"}}}}',
    *(
        entry(more=f',"more":{value}')
        for value in ('"x"', "null", "true", "-1", "1.5", "[]", '[[{"y":[1]}]]', '{"dtype":[]}')
    ),
    entry(more=',"x":1,"x":2'),
    entry(more=',"x":{"x":1},"y":99999999999999999999999999'),
    entry(more=',"x":' + "[" * 125 + "]" * 125),
    f'{{"a":{ENTRY}}} \n\t\r',
    f' \n{{"a":{ENTRY}}}',
    f'{{"":{ENTRY}}}',
    f'{{"\\u202e\x7f\\u0000":{ENTRY}}}',
    f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[0],"data_offsets":[8,8]}}}}',
    '{"a":{"dt\\u0079pe":"F32","shape":[2],"data_offsets":[0,8]}}',
    *(
        entry(dtype, f"[{64 // bits}]")
        for dtype, bits in [("F4", 4), ("F8_E4M3FNUZ", 8), ("F8_E5M2FNUZ", 8), ("C64", 64)]
    ),
    *(entry(dtype, "[8]") for dtype in ("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0")),
    *(entry(dtype, "[4]") for dtype in ("I16", "U16", "F16", "BF16")),
    *(entry(dtype) for dtype in ("I32", "U32", "F32")),
    *(entry(dtype, "[1]") for dtype in ("I64", "U64", "F64")),
]
BOTH_REFUSE = [
    f'{{"a":{ENTRY}}}\0\0\0',
    f'{{"a":{ENTRY}}}\0rest',
    f'{{"a":{ENTRY}}}x',
    f'{{"a":{ENTRY},}}',
    f'\ufeff{{"a":{ENTRY}}}',
    f'{{"__metadata__":[],"a":{ENTRY}}}',
    f'{{"__metadata__":5,"a":{ENTRY}}}',
    f'{{"__metadata__":{{"x":null}},"a":{ENTRY}}}',
    f'{{"__metadata__":{{}},"__metadata__":{{}},"a":{ENTRY}}}',
    f'{{"\\ud800":{ENTRY}}}',
    f'{{"\x01":{ENTRY}}}',
    '{"a":null}',
    '{"a":{}}',
    "[]",
    "",
    entry(more=',"x":1e999'),
    entry(more=',"x":' + "[" * 126 + "]" * 126),
    entry(more=',"dtype":"F32"'),
    entry(more=',"shape":[2]'),
    entry("F31"),
    entry("f32"),
    entry("F4", "[15]"),
    entry(shape="[2.0]"),
    entry(shape="[-2]"),
    entry(shape="null"),
    entry(shape="[[2]]"),
    entry(offsets="[-0,8]"),
    entry(offsets="[0]"),
    entry(offsets="[0,8,8]"),
    entry(offsets="[8,0]"),
    entry(offsets="[0,16]"),
    entry(shape="[4611686018427387904]"),
    f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[0],"data_offsets":[4,4]}}}}',
]
# What the library takes and nobody can mean: which of two tensors is it, how many elements are there?
ONLY_THE_LIBRARY_TAKES = {
    f'{{"a":{ENTRY},"a":{ENTRY}}}': "the name occurs twice",
    f'{{"__metadata__":{{"k":"a","k":"b"}},"a":{ENTRY}}}': "two members",
    '{"a":["F32",[2],[0,8]]}': "a list where none belongs",
    '{"a":{"dtype":{"F32":null},"shape":[2],"data_offsets":[0,8]}}': "an object where none belongs",
    f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[0,18446744073709551615],"data_offsets":[8,8]}}}}': "the number",
    f'{{"a":{ENTRY},"b":{{"dtype":"F32","shape":[0,9223372036854775807,2],"data_offsets":[8,8]}}}}': "too many elements",
}


def library_takes(header, data):
    try:
        deserialize(struct.pack("<Q", len(header)) + header + data)
    except (SafetensorError, ValueError):
        return False
    return True


def planck_says(path, header, data):
    """None if the file is taken, otherwise why not."""
    raw_file(path, header, data)
    ran = subprocess.run([PROGRAM, "inspect", "--header-only", path], capture_output=True, text=True, errors="replace")
    assert ran.returncode in (0, 3), ran.stderr
    return ran.stderr if ran.returncode else None


def test_headers_are_taken_and_refused_as_by_the_library(tmp_path):
    data = b"\0" * 8
    for header in BOTH_TAKE:
        assert library_takes(header.encode(), data), header
        assert planck_says(tmp_path / "x.safetensors", header.encode(), data) is None, header
    for header in BOTH_REFUSE:
        assert not library_takes(header.encode(), data), header
        assert planck_says(tmp_path / "x.safetensors", header.encode(), data) is not None, header
    for header, why in ONLY_THE_LIBRARY_TAKES.items():
        assert library_takes(header.encode(), data), header
        assert why in (planck_says(tmp_path / "x.safetensors", header.encode(), data) or ""), header


def test_mutated_headers_are_judged_as_by_the_library(tmp_path):
    """Never laxer than the library, and stricter only in what the test above lists."""
    draw = random.Random(20)
    words = [text.encode() for text in '" { } [ ] , : 0 8 - . null \0 "a" "x": ,"x":1 ,"x":[{}] 1e5 [] \\n'.split(" ")]
    words += [b"\xff", b"\xc2\xa0", *[b" ", b"\n"] * 4]
    strict = [*ONLY_THE_LIBRARY_TAKES.values(), "a text where none belongs"]
    taken = 0
    for _ in range(400):
        header = bytearray(draw.choice(BOTH_TAKE).encode())
        for _ in range(draw.choice([1, 1, 1, 2])):
            at = draw.randrange(len(header))
            header[at : at + draw.choice([0, 0, 0, 1, 2])] = draw.choice(words)
        expected = library_takes(bytes(header), b"\0" * 8)
        said = planck_says(tmp_path / "x.safetensors", bytes(header), b"\0" * 8)
        taken += said is None
        if expected != (said is None):
            assert expected and any(why in said for why in strict), (bytes(header), said)
    assert 40 < taken < 360  # both kinds were seen


def one_by_one(path, dtype, codes, size):
    """Every code in a tensor of its own; what inspect says of each."""
    header = {
        str(i): {"dtype": dtype, "shape": [1], "data_offsets": [i * size, (i + 1) * size]} for i in range(len(codes))
    }
    raw_file(path, header, codes.tobytes())
    tensors = {each["name"]: each for each in planck_json("inspect", path)["tensors"]}
    return [tensors[str(i)] for i in range(len(codes))]


@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        ("F8_E4M3", ml_dtypes.float8_e4m3fn),
        ("F8_E5M2", ml_dtypes.float8_e5m2),
        ("F8_E4M3FNUZ", ml_dtypes.float8_e4m3fnuz),
        ("F8_E5M2FNUZ", ml_dtypes.float8_e5m2fnuz),
        ("F8_E8M0", ml_dtypes.float8_e8m0fnu),
    ],
)
def test_every_8_bit_float_is_what_ml_dtypes_says(tmp_path, dtype, kind):
    codes = np.arange(256, dtype=np.uint8)
    for value, found in zip(
        codes.view(kind).astype(np.float64), one_by_one(tmp_path / "x.safetensors", dtype, codes, 1), strict=True
    ):
        if np.isfinite(value):
            assert (found["min"], found["max"], found["nan"], found["inf"]) == (value, value, 0, 0)
        else:
            assert (found["min"], found["nan"], found["inf"]) == (None, np.isnan(value), np.isinf(value))


@pytest.mark.parametrize("dtype", ["I8", "I16", "I32", "I64", "U8", "U16", "U32", "U64"])
def test_ranges_of_integers_are_exact(tmp_path, dtype):
    kind = np.dtype(("int" if dtype[0] == "I" else "uint") + dtype[1:])
    least, most = int(np.iinfo(kind).min), int(np.iinfo(kind).max)
    ends = np.array([least, least + 1, most - 1, most], kind)
    found = one_by_one(tmp_path / "x.safetensors", dtype, ends, kind.itemsize)
    assert [(each["min"], each["max"]) for each in found] == [(int(x), int(x)) for x in ends]
    long = np.random.default_rng(3).integers(least + 2, most - 1, 300_000, kind)
    long[[123_456, 200_001]] = least + 1, most - 1
    save_file({"a": long}, tmp_path / "y.safetensors")
    each = planck_json("inspect", tmp_path / "y.safetensors")["tensors"][0]
    assert (each["min"], each["max"]) == (least + 1, most - 1)
    assert str(most - 1) in planck("inspect", tmp_path / "y.safetensors")


def test_ranges_of_truth_values(tmp_path):
    save_file({"both": np.array([True, False]), "none": np.zeros(9, bool)}, tmp_path / "x.safetensors")
    found = {
        each["name"]: (each["min"], each["max"])
        for each in planck_json("inspect", tmp_path / "x.safetensors")["tensors"]
    }
    assert found == {"both": (0, 1), "none": (0, 0)}


def test_compare_sees_integers_that_are_the_same_as_floats(tmp_path):
    for name, value in (("a", 2**60), ("b", 2**60 + 1)):
        save_file({"x": np.array([value])}, tmp_path / f"{name}.safetensors")
    planck("compare", tmp_path / "a.safetensors", tmp_path / "a.safetensors")
    planck("compare", tmp_path / "a.safetensors", tmp_path / "b.safetensors", code=5)


def test_what_cannot_be_seen_is_escaped(tmp_path):
    """Controls, marks that turn the direction of writing, and everything else without a shape of its own."""
    hidden = [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) in ("Cc", "Cf", "Zl", "Zp")]
    hidden += map(chr, [0x34F, 0x115F, 0x1160, 0x17B4, 0x180B, 0x2065, 0x3164, 0xFE0F, 0xFFA0, 0xE0100, 0xE01EF])
    assert "\u202e" in hidden and "\u2066" in hidden and "\u200b" in hidden and len(hidden) > 200
    names = [f"a{c}b" for c in hidden]
    header = {n: {"dtype": "U8", "shape": [0], "data_offsets": [0, 0]} for n in [*names, "käse 漢字 🙂"]}
    raw_file(tmp_path / "x.safetensors", {**header, "__metadata__": {"\u202e": "\u2067"}})
    shown = planck("inspect", tmp_path / "x.safetensors")
    assert not {c for c in shown if c in hidden} - {"\n"}
    assert r"a\u202eb" in shown and r"a\x1bb" in shown and r"a\U000e0001b" in shown and "käse 漢字 🙂" in shown
    raw = planck("inspect", tmp_path / "x.safetensors", "--json")
    assert not {c for c in raw if c in hidden} - {"\n"}
    assert {each["name"] for each in json.loads(raw)["tensors"]} == set(header)  # and JSON loses nothing
    raw_file(tmp_path / "y.safetensors", {"\u202e": 5})
    assert r"\u202e" in planck("inspect", tmp_path / "y.safetensors", code=3)
    assert r"\u202e" in planck("inspect", tmp_path / "\u202e.safetensors", code=1)


def test_one_tensor_is_no_tensors(tmp_path):
    save_file({"a.weight": np.ones((1, 1), np.float32)}, tmp_path / "a.safetensors")
    for shown in (
        planck("inspect", tmp_path / "a.safetensors"),
        planck("quantize", tmp_path / "a.safetensors", "--dry-run"),
        planck("quantize", tmp_path / "a.safetensors", "-o", tmp_path / "q.safetensors"),
        planck("dequantize", tmp_path / "q.safetensors", "-o", tmp_path / "d.safetensors"),
    ):
        assert "1 tensor" in shown and "1 tensors" not in shown and "1 elements" not in shown
