"""Memory: nothing is copied, nothing but the output's elements is written, nothing is kept."""

import gc
import resource
import sys
import weakref

import ml_dtypes
import numpy as np
import planck
import pytest
import torch
from arrays import FLOATS, NewDlpack, OldDlpack, assert_same_bits, rng

X = rng(5).standard_normal((6, 8)).astype(np.float32)
CALLS = 100_000


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_in_place_writes_the_same_memory(dtype):
    x = X.astype(dtype)
    expected, address = planck.cumsum(x), x.ctypes.data
    assert planck.cumsum(x, out=x) is x and x.ctypes.data == address
    assert_same_bits(x, expected)


def test_inputs_are_read_where_they_are():
    """One number repeated to what would be 1 GB if it were copied."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for x in (np.broadcast_to(np.float64(3), (1 << 27,)), torch.full((1,), 3.0, dtype=torch.float64).expand(1 << 27)):
        assert planck.dynamic_quantize(x, qparams_only=True).scale.item() == 3 / 127
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10  # KB


@pytest.mark.parametrize("view", [np.s_[1:4, 2:7], np.s_[::2, ::-3], np.s_[::-1, 1::2], np.s_[2], np.s_[:, 3]], ids=str)
def test_views_write_only_their_elements(view):
    memory = X.copy()
    part = memory[view]
    expected = memory.copy()
    expected[view] = planck.cumsum(part.copy())
    assert planck.cumsum(part, out=part) is part
    assert_same_bits(memory, expected)
    elsewhere = np.full_like(X, 7)
    planck.cumsum(X[view], out=elsewhere[view])
    untouched = np.ones(X.shape, bool)
    untouched[view] = False
    assert (elsewhere[untouched] == 7).all()
    assert_same_bits(elsewhere[view], planck.cumsum(X[view]))


def test_tensors_share_memory_too():
    memory = torch.from_numpy(X.copy())
    view, address = memory.t()[1:3, ::2], memory.data_ptr()
    expected = memory.clone()
    expected.t()[1:3, ::2] = planck.cumsum(view.clone())
    assert planck.cumsum(view, out=view) is view
    assert memory.data_ptr() == address and torch.equal(memory, expected)


def test_numpy_and_torch_on_the_same_memory():
    array = X.copy()
    tensor = torch.from_numpy(array)
    expected = planck.cumsum(X)
    assert planck.cumsum(array, out=tensor) is tensor
    assert_same_bits(array, expected)


@pytest.mark.parametrize("speaker", [OldDlpack, NewDlpack])
@pytest.mark.parametrize("view", [np.s_[:], np.s_[1:4, ::2], np.s_[::-1, ::-2]], ids=str)
def test_objects_that_only_speak_dlpack(speaker, view):
    """Results are NumPy's, and the memory is the object's own."""
    array = X.copy()[view]
    expected = planck.cumsum(array)
    y = planck.cumsum(speaker(array))
    assert type(y) is np.ndarray
    assert_same_bits(y, expected)
    out = speaker(np.zeros_like(array))
    assert planck.cumsum(speaker(array), out=out) is out
    assert_same_bits(out.array, expected)
    same = speaker(array)
    planck.cumsum(same, out=same)
    assert_same_bits(array, expected)


@pytest.mark.parametrize("speaker", [OldDlpack, NewDlpack])
def test_dlpack_lets_go_of_its_memory(speaker):
    array = X.copy()
    before, gone = sys.getrefcount(array), weakref.ref(array)
    source = speaker(array)
    for _ in range(10):
        planck.lerp(source, source, 0.5, out=source)
    del source
    assert sys.getrefcount(array) == before
    del array
    gc.collect()
    assert gone() is None


def test_results_live_longer_than_inputs():
    y = planck.cumsum(np.ones(1000, np.float32) * 2)
    gc.collect()
    other = np.zeros(1000, np.float32)
    assert y[-1] == 2000 and not other.any() and y.flags.owndata and y.base is None


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def calls_of_every_kind():
    """(name, a call, the objects whose references it could lose or keep)."""
    x, tensor, q = X[0].copy(), torch.from_numpy(X[0].copy()), np.zeros(8, np.int8)
    scale, zero_point, out = np.float32(0.5), np.int64(3), np.zeros(8, np.float32)
    scales, wide = np.full(8, 0.5), np.zeros(8, np.int64)
    outs, flags = (None, None), np.zeros(3, bool)
    old, new = OldDlpack(x), NewDlpack(x)
    half = x.astype(ml_dtypes.bfloat16)
    bf16 = ml_dtypes.bfloat16
    shared = [
        None,
        True,
        False,
        np.dtype(np.float32),
        np.dtype(np.int8),
        np.dtype(np.int64),
        half.dtype,
        bf16,
        np.ndarray,
        torch.float32,
        torch.int8,
        "token",
        "first",
        x,
        tensor,
        q,
        scale,
        zero_point,
        out,
        scales,
        wide,
        outs,
        old,
        new,
        flags,
    ]
    calls = {
        "cumsum": lambda: planck.cumsum(x),
        "cumsum out": lambda: planck.cumsum(x, out=out),
        "cumsum of a list": lambda: planck.cumsum([1.0, 2.0]),
        "cummax": lambda: planck.cummax(x, out=outs),
        "cumsum of a tensor": lambda: planck.cumsum(tensor),
        "in a tensor": lambda: planck.cumsum(tensor, out=tensor),
        "old DLPack": lambda: planck.cumsum(old),
        "new DLPack": lambda: planck.cumsum(new, out=new),
        "quantize": lambda: planck.quantize(x, scale, zero_point, dtype=np.int8),
        "quantize out": lambda: planck.quantize(x, scales, wide, axis=0, out=q),
        "quantize a tensor": lambda: planck.quantize(tensor, 0.5, dtype=torch.int8),
        "dequantize": lambda: planck.dequantize(q, 0.5, dtype=bf16),
        "dynamic": lambda: planck.dynamic_quantize(x, row_sum=True),
        "bfloat16": lambda: planck.cumprod(half),
        "lerp": lambda: planck.lerp_backward(x, x, x, x),
        "plan_info": lambda: planck.plan_info(planck.cumsum, x),
        "wrong axis": lambda: raises(ValueError, planck.cumsum, x, 5),
        "wrong out": lambda: raises(ValueError, planck.cumsum, x, out=wide),
        "wrong scale": lambda: raises(ValueError, planck.quantize, x, [0.0] * 8, axis=0),
        "wrong dtype": lambda: raises(NotImplementedError, planck.cumsum, flags),
    }
    return calls, shared


def raises(exception, function, *arguments, **options):
    try:
        function(*arguments, **options)
    except exception:
        return
    raise AssertionError("no exception")


def test_no_references_are_leaked():
    """Over 10^5 calls, a twentieth of them of each kind."""
    calls, shared = calls_of_every_kind()
    each = CALLS // len(calls)
    grown = {}
    for name, call in calls.items():
        for _ in range(50):
            call()
        gc.collect()
        before, blocks, memory = [sys.getrefcount(o) for o in shared], sys.getallocatedblocks(), resident()
        for _ in range(each):
            call()
        gc.collect()
        after = [sys.getrefcount(o) for o in shared]
        # What Python itself keeps for later is far less than one object for every ten calls.
        limit = each // 10
        kept = [repr(o)[:40] for o, a, b in zip(shared, before, after, strict=True) if abs(b - a) > limit]
        if kept or sys.getallocatedblocks() - blocks > limit or resident() - memory > 8 << 20:
            grown[name] = kept, sys.getallocatedblocks() - blocks, resident() - memory
    assert not grown


def test_large_results_are_freed():
    """A hundred results of 4 MB, one at a time."""
    x = np.ones(1 << 20, np.float32)
    planck.cumsum(x)
    before = resident()
    for _ in range(100):
        planck.cumsum(x)
    assert resident() - before < 64 << 20


def test_out_tells_autograd_of_the_write():
    x, out = torch.ones(3), torch.zeros(3)
    planck.cumsum(x, out=out)
    assert (x._version, out._version) == (0, 1)
    values, indices = torch.zeros(3), torch.zeros(3, dtype=torch.int64)
    planck.cummax(x, out=(values, indices))
    assert (values._version, indices._version) == (1, 1)
    weight = torch.ones(3, requires_grad=True)
    saved = torch.ones(3)
    product = (weight * saved).sum()
    planck.cumsum(x, out=saved)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()


def test_inference_mode():
    with torch.inference_mode():
        x = torch.ones(3)
        assert planck.cumsum(x, out=x) is x
    assert x.tolist() == [1.0, 2.0, 3.0]
