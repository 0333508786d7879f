"""A PyTorch that lacks one of the names that no version promises is worked with all the same. One that can lack them is the
stand-in of tests/bindings/cuda, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

STAND_IN = Path(__file__).parents[1] / "cuda"
CALLS = """
import sys
import torch_stand_in
torch_stand_in.install(*sys.argv[1:])
import numpy as np
import planck
from planck import _core
x, out = (torch_stand_in.Tensor(array, None) for array in (np.arange(4.0), np.zeros(4)))
assert planck.cumsum(x, out=out) is out
print(out.array.tolist(), planck.cumsum(x).array.tolist())
print(out.version, _core.torch_way((x, None)))
"""
DISPATCH, RUN = 0, 1
PRIVATE = [
    "_C",
    "_C._get_tracing_state",
    "_C._are_functorch_transforms_active",
    "_C._len_torch_dispatch_stack",
    "_C._len_torch_function_stack",
    "autograd.forward_ad",
    "autograd.forward_ad._current_level",
]


def outcome(*missing):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(STAND_IN), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-B", "-c", CALLS, *missing]
    result = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert result.returncode == 0, result.stderr
    values, numbers = result.stdout.splitlines()
    assert values == "[0.0, 1.0, 3.0, 6.0] [0.0, 1.0, 3.0, 6.0]"
    return tuple(map(int, numbers.split()))


def test_all_names():
    assert outcome() == (1, RUN)


@pytest.mark.parametrize("name", PRIVATE)
def test_where_nobody_says_who_must_know_of_a_call_the_registered_operation_is_called(name):
    assert outcome(name) == (1, DISPATCH)


def test_autograd_learns_of_a_result_all_the_same():
    assert outcome("autograd.graph.increment_version") == (1, RUN)
    assert outcome("autograd.graph") == (1, RUN)
