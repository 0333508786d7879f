"""The table of element kinds against those whose names it has: NumPy, PyTorch, DLPack, safetensors, planck.h."""

import json
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import planck
import pytest
import torch
from planck import _core

safetensors_torch = pytest.importorskip("safetensors.torch")

KINDS = {row[1]: row for row in _core.element_kinds()}
HEADER = Path(__file__).parents[3] / "include" / "planck" / "planck_types.h"


def numpy_dtype(name):
    return np.dtype(getattr(ml_dtypes, name, None) or name)


def test_numbers_are_those_of_the_c_header():
    enum = re.search(r"typedef enum planck_element \{(.*?)\}", HEADER.read_text(), re.S)[1]
    in_c = {name.lower(): int(number) for name, number in re.findall(r"PLANCK_(\w+) = (\d+)", enum)}
    assert in_c == {name: row[0] for name, row in KINDS.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_dtypes_have_the_size(kind):
    _, _, name, bits, _, _ = KINDS[kind]
    assert numpy_dtype(name).itemsize * 8 == bits
    assert getattr(torch, name).itemsize * 8 == bits


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_seen_by_their_dtype(kind):
    """Whatever an array's kind is, a refusal names it."""
    name = KINDS[kind][2]
    for array in (np.zeros(3, numpy_dtype(name)), torch.zeros(3, dtype=getattr(torch, name))):
        if name in ("float16", "bfloat16", "float32", "float64"):
            assert str(planck.cumsum(array).dtype).removeprefix("torch.") == name
        else:
            with pytest.raises(NotImplementedError, match=f"x has dtype {name}; it can be float16"):
                planck.logcumsumexp(array)


@pytest.mark.parametrize("kind", KINDS)
def test_safetensors_has_the_name(kind):
    _, _, name, _, stored, _ = KINDS[kind]
    file = safetensors_torch.save({"x": torch.zeros(2, dtype=getattr(torch, name))})
    length = int.from_bytes(file[:8], "little")
    assert json.loads(file[8 : 8 + length])["x"]["dtype"] == stored


def test_dlpack_codes():
    """kDLInt, kDLUInt, kDLFloat, kDLBfloat, kDLFloat8_e4m3fn and kDLFloat8_e5m2 of dlpack.h."""
    codes = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "float8_e4m3fn": 10, "float8_e5m2": 12}
    for _, _, name, bits, _, code in KINDS.values():
        assert codes[name.removesuffix(str(bits))] == code
