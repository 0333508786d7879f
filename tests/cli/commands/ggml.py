"""ggml's own decoding, from the library that the package pywhispercpp carries; the package itself is not imported."""

import ctypes
from importlib.util import find_spec
from pathlib import Path

import numpy as np


def _library():
    folder = Path(find_spec("pywhispercpp").submodule_search_locations[0]).with_name("pywhispercpp.libs")
    (openmp,) = folder.glob("libgomp-*")
    ctypes.CDLL(str(openmp), mode=ctypes.RTLD_GLOBAL)
    (base,) = folder.glob("libggml-base-*")
    return ctypes.CDLL(str(base))


_GGML = _library()


def dequantize(blocks, type_name, elements):
    """Blocks of bytes, as dequantize_row_* of ggml-quants.c gives them."""
    decode = getattr(_GGML, "dequantize_row_" + type_name.lower().replace("_k", "_K"))
    decode.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64]
    decode.restype = None
    blocks = np.ascontiguousarray(blocks)
    out = np.empty(elements, np.float32)
    decode(blocks.ctypes.data, out.ctypes.data, elements)
    return out
