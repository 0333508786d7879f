"""Planck on PyTorch's threads: the same bits as on its own, PyTorch's limits, children and other threads."""

import subprocess
import sys
import threading

import planck
import planck.torch
import pytest
import torch
from planck import _core


@pytest.fixture(autouse=True)
def restored():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)
    assert _core.set_executor("openmp")


def results():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(257, 4099, generator=generator)
    scale = torch.rand(257, generator=generator) + 0.1
    return [
        planck.cumsum(x, 0),
        planck.cumsum(x, 1),
        planck.logcumsumexp(x.reshape(-1)),
        planck.cumprod_backward(x, x, 0),
        planck.dynamic_quantize(x).q,
        *planck.fake_quantize_learnable_backward(x, x, scale, axis=0),
    ]


def run_python(program):
    command = [sys.executable, "-W", "ignore", "-c", program]
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=True).stdout


def test_both_pools_give_the_same_bits():
    assert _core.set_executor("openmp")
    ours = results()
    assert _core.set_executor("tbb")
    for got, expected in zip(results(), ours, strict=True):
        assert torch.equal(got, expected)


def test_importing_the_package_takes_pytorchs_threads():
    torch.set_num_threads(1)
    assert planck.get_num_threads() == 1
    torch.set_num_threads(2)
    assert planck.get_num_threads() == 2


def test_unknown_pool():
    with pytest.raises(ValueError, match="executor = 'cilk' is none of tbb, openmp"):
        _core.set_executor("cilk")


def test_from_other_threads():
    expected = results()
    found = []
    threads = [threading.Thread(target=lambda: found.append(results())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    for got in found:
        assert all(torch.equal(a, b) for a, b in zip(got, expected, strict=True))


def test_in_a_child_forked_after_use():
    """Where PyTorch's own operations on several threads would wait for ever."""
    program = """
import os, torch, planck.torch
torch.set_num_threads(2)
x = torch.ones(1 << 20).reshape(1024, 1024)
expected = planck.torch.cumsum(x, 0).numpy().tobytes()
pid = os.fork()
if pid == 0:
    os._exit(0 if planck.torch.cumsum(x, 0).numpy().tobytes() == expected else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run_python(program).strip() == "0"


def test_in_a_child_forked_after_pytorchs_use():
    program = """
import os, torch, planck.torch
torch.set_num_threads(2)
x = torch.ones(1 << 20).reshape(1024, 1024)
(x * 2).exp()
pid = os.fork()
if pid == 0:
    os._exit(0 if planck.torch.cumsum(x, 0)[-1, -1].item() == 1024 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    assert run_python(program).strip() == "0"
