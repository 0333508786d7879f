"""Puts the stand-in in PyTorch's place. Where PLANCK_CORE names a compiled half that was built with CUDA, planck gets that
one, with the CUDA library that PLANCK_CUDA_LIBRARY names; else planck is an installed package that was built so."""

import ctypes
import importlib.metadata
import importlib.util
import os
import sys

import pytest
import torch_stand_in

torch_stand_in.install()
if "PLANCK_CORE" in os.environ:
    _spec = importlib.util.spec_from_file_location("planck._core", os.environ["PLANCK_CORE"])
    sys.modules["planck._core"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(sys.modules["planck._core"])
    # The package is not installed, so nobody knows its version.
    importlib.metadata.version = lambda name: "0"
    # Loading is enough: the library makes itself known.
    _library = ctypes.CDLL(os.environ["PLANCK_CUDA_LIBRARY"])


@pytest.fixture
def last_stream():
    """Asks the harness for the stream of the last launch."""
    _library.cuda_on_cpu_last_stream.restype = ctypes.c_void_p
    return _library.cuda_on_cpu_last_stream
