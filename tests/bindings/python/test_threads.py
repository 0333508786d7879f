"""Threads, signals and processes: the interpreter goes on while the library works, and children work as parents do."""

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import planck
import pytest
import torch
from arrays import assert_same_bits, rng

LONG = 1 << 24


def test_other_threads_run_meanwhile():
    """A thread counts during one long call; it could not if the call kept the interpreter's lock."""
    planck.set_num_threads(1)
    x = np.zeros(LONG, np.float32)
    count, done = 0, threading.Event()

    def counting():
        nonlocal count
        while not done.is_set():
            count += 1
            time.sleep(0)  # gives the lock back, for which Python would not ask

    thread = threading.Thread(target=counting)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # Python itself takes the lock from nobody; it must be given away
    try:
        thread.start()
        before = count
        planck.logcumsumexp(x, out=x)
        during = count - before
    finally:
        sys.setswitchinterval(interval)
        done.set()
        thread.join()
    assert during > 10


def test_calls_from_many_threads():
    """Plans and workspaces of many shapes and functions, each used by several threads at once."""
    random = rng(9)
    problems = [
        random.standard_normal(shape).astype(dtype)
        for shape in [(7,), (300, 40), (3, 9000), (64, 64, 8)]
        for dtype in ["float32", "float64", "float16"]
    ]
    functions = [
        lambda x: planck.cumsum(x, axis=0),
        lambda x: planck.logcumsumexp(x),
        lambda x: planck.cummax(x).indices,
        lambda x: planck.dynamic_quantize(x).q,
        lambda x: planck.fake_quantize_learnable_backward(x, x, np.ones(x.shape[-1]), axis=-1).d_scale,
    ]
    work = [(f, x) for x in problems for f in functions]
    expected = [f(x) for f, x in work]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for got, right in zip(pool.map(lambda item: item[0](item[1]), work), expected, strict=True):
                assert_same_bits(got, right)


def test_threads_change_their_number_while_others_work():
    x = rng(10).standard_normal((64, 4096)).astype(np.float32)
    expected, done = planck.cumsum(x, axis=0), threading.Event()

    def change():
        while not done.is_set():
            for threads in (1, 2, 3):
                planck.set_num_threads(threads)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            assert_same_bits(planck.cumsum(x, axis=0), expected)
    finally:
        done.set()
        thread.join()


@pytest.mark.parametrize(
    "function", [planck.cumsum, planck.logcumsumexp, planck.dynamic_quantize], ids=lambda f: f.__name__
)
def test_number_of_threads_changes_no_bit(function):
    x = rng(11).standard_normal((5, 400_000)).astype(np.float32)
    found = []
    for threads in (1, 2, 7):
        planck.set_num_threads(threads)
        assert 1 <= planck.get_num_threads() <= threads
        result = function(x)
        found.append(result if isinstance(result, tuple) else (result,))
    for other in found[1:]:
        for got, right in zip(other, found[0], strict=True):
            if right is None:
                assert got is None
            else:
                assert_same_bits(got, right)


def run_python(code, **options):
    site = str(Path(planck.__file__).parents[1])
    return subprocess.run(
        [sys.executable, "-B", "-c", code],
        env={**os.environ, "PYTHONPATH": site},
        capture_output=True,
        text=True,
        timeout=120,
        **options,
    )


def test_interrupt_is_not_swallowed():
    """A signal in the middle of a call is a KeyboardInterrupt after it; the work is done and the package goes on."""
    done = run_python(f"""
import os, signal, sys, threading, numpy as np, planck
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts its background jobs without
planck.set_num_threads(1)
sys.setswitchinterval(1000)  # the other thread runs only when the call gives the lock away
x = np.zeros({LONG}, np.float32)
inside = threading.Event()
def interrupt():
    inside.wait()
    os.kill(os.getpid(), signal.SIGINT)
thread = threading.Thread(target=interrupt)
thread.start()
try:
    inside.set()
    planck.logcumsumexp(x, out=x)
    print("not interrupted")
except KeyboardInterrupt:
    print("interrupted", x[-1] > 16, planck.cumsum([1, 2]).tolist())
thread.join()
""")
    assert done.stdout.strip() == "interrupted True [1, 3]", done.stdout + done.stderr


def scan_in_child(x, pipe):
    pipe.send(planck.cumsum(x, axis=0))


def forked(x):
    """cumsum of x by a forked child; fails rather than hangs if the child does."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=scan_in_child, args=(x, there))
    child.start()
    try:
        assert here.poll(60), "the child gives no answer"
        return here.recv()
    finally:
        child.kill()
        child.join()


# Large enough for several threads, whose pool does not survive a fork.
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_fork_after_first_use():
    x = rng(12).standard_normal((2000, 500)).astype(np.float32)
    expected = planck.cumsum(x, axis=0)
    for _ in range(3):
        assert_same_bits(forked(x), expected)
    assert_same_bits(planck.cumsum(x, axis=0), expected)


def test_fork_before_first_use():
    """In a fresh process: the child's call is the first one, then the parent's, then a child's again."""
    done = run_python("""
import os, numpy as np, planck
x = np.arange(1_000_000, dtype=np.float64).reshape(1000, 1000)
def child():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if (planck.cumsum(x, axis=0) == np.cumsum(x, axis=0)).all() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print(child(), (planck.cumsum(x, axis=0) == np.cumsum(x, axis=0)).all(), child())
""")
    assert done.stdout.split() == ["0", "True", "0"], done.stdout + done.stderr


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, i):
        return planck.cumsum(torch.full((300_000,), float(i)))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_data_loader_workers():
    planck.cumsum(np.ones(300_000, np.float32))
    loader = torch.utils.data.DataLoader(
        Rows(), batch_size=2, num_workers=2, timeout=60, multiprocessing_context="fork"
    )
    batches = list(loader)
    assert len(batches) == 4
    for i, row in enumerate(torch.cat(batches)):
        assert_same_bits(row, planck.cumsum(np.full(300_000, i, np.float32)))


def test_threads_may_end_and_begin():
    """Plans and workspaces belong to threads; many short ones leave nothing behind that breaks later ones."""
    x = np.ones((40, 9000), np.float32)
    expected, found = planck.cumsum(x), []
    for _ in range(50):
        thread = threading.Thread(target=lambda: found.append(planck.cumsum(x)))
        thread.start()
        thread.join()
    assert len(found) == 50
    for got in found:
        assert_same_bits(got, expected)


def test_first_calls_of_many_threads():
    """The first call imports NumPy, which other threads' first calls must not wait for with Python's lock in hand."""
    done = run_python("""
import sys, threading, planck
assert "numpy" not in sys.modules
results = []
threads = [threading.Thread(target=lambda: results.append(planck.cumsum([1.0, 2.0]).tolist())) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(results == [[1.0, 3.0]] * 8)
""")
    assert done.stdout.strip() == "True", done.stdout + done.stderr


def test_a_blocked_import_of_torch():
    done = run_python("""
import sys
sys.modules["torch"] = None
import planck
print(planck.cumsum([1.0, 2.0]).tolist())
""")
    assert done.stdout.strip() == "[1.0, 3.0]", done.stdout + done.stderr


def test_planck_isa_is_read_once_for_each_plan():
    """A change reaches new problems and new threads, and no plan that a thread has kept; as docs/python.md says."""
    done = run_python("""
import os, threading, numpy as np, planck

def kernel(extent):
    return planck.plan_info(planck.cumsum, np.ones((4, extent), np.float32)).split()[2]

os.environ.pop("PLANCK_ISA", None)
best = kernel(8)
os.environ["PLANCK_ISA"] = "scalar"
found = []
thread = threading.Thread(target=lambda: found.append(kernel(8)))
thread.start()
thread.join()
print(kernel(8) == best, kernel(9), *found)
for extent in range(100, 164):
    kernel(extent)
print(kernel(8))
os.environ["PLANCK_ISA"] = "none"
try:
    kernel(10)
except NotImplementedError as error:
    print(error)
""")
    lines = done.stdout.splitlines()
    assert lines[:2] == ["True cpu/scalar cpu/scalar", "cpu/scalar"], done.stdout + done.stderr
    assert lines[2].startswith('PLANCK_ISA = "none" names no instruction set; this machine has ')
