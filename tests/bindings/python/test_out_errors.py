"""Outputs that cannot be written, and calls that fail: every output is as it was before."""

import numpy as np
import planck
import pytest
import torch
from arrays import NewDlpack

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def readonly(array):
    array = array.copy()
    array.flags.writeable = False
    return array


OUTS = {
    "read-only": (lambda: readonly(X), ValueError, "out is read-only"),
    "read-only through DLPack": (lambda: NewDlpack(readonly(X)), ValueError, "out is read-only"),
    "another dtype": (lambda: np.zeros((3, 4)), ValueError, "out has dtype float64, but must have float32"),
    "another shape": (lambda: np.zeros((4, 3), np.float32), ValueError, "out has shape [4, 3], but must have [3, 4]"),
    "another rank": (lambda: np.zeros(12, np.float32), ValueError, "out has shape [12], but must have [3, 4]"),
    "repeated": (
        lambda: np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (3, 4), (0, 4)),
        ValueError,
        "share memory",
    ),
    "misaligned": (
        lambda: np.frombuffer(bytearray(49), np.float32, offset=1).reshape(3, 4),
        ValueError,
        "not aligned to 4 bytes",
    ),
    "a list": (lambda: [0.0] * 12, TypeError, "out is a list, not an array"),
    "a number": (lambda: 1.0, TypeError, "out is a float, not an array"),
    "a NumPy number": (lambda: np.float32(1), TypeError, "out is a float32, not an array"),
    "a tuple": (lambda: (np.zeros((3, 4), np.float32),), TypeError, "out is a tuple, not an array"),
    "masked": (lambda: np.ma.zeros((3, 4), np.float32), TypeError, "out is a masked array"),
}


@pytest.mark.parametrize("name", OUTS)
def test_outs(name):
    make, exception, message = OUTS[name]
    out = make()
    before = np.array(getattr(out, "array", out))
    with pytest.raises(exception) as caught:
        planck.cumsum(X + 1, out=out)
    assert message in str(caught.value)
    assert np.array_equal(np.array(getattr(out, "array", out)), before)


# Views of one array of 13 numbers that share some of them, or all in another order.
OVERLAPS = {
    "later": lambda wide: (wide[:-1], wide[1:]),
    "reversed": lambda wide: (wide[:12], wide[11::-1]),
    "transposed": lambda wide: (wide[:9].reshape(3, 3), wide[:9].reshape(3, 3).T),
    "steps": lambda wide: (wide[:5], wide[:9:2]),
}


@pytest.mark.parametrize("name", OVERLAPS)
@pytest.mark.parametrize(
    "function",
    [
        planck.cumsum,
        planck.cummax,
        lambda x, out: planck.fake_quantize(x, 0.5, out=out),
        lambda x, out: planck.lerp(x, x, 0.5, out=out),
    ],
)
def test_out_that_overlaps_an_input(name, function):
    wide = np.arange(13, dtype=np.float32)
    x, out = OVERLAPS[name](wide)
    with pytest.raises(ValueError, match="overlaps"):
        function(x, out=(out, None) if function is planck.cummax else out)
    assert wide.tolist() == list(range(13))


def test_neighbours_that_do_not_overlap():
    """Even and odd elements of the same memory."""
    wide = np.arange(12, dtype=np.float32)
    planck.cumsum(wide[::2], out=wide[1::2])
    assert wide.tolist() == [0, 0, 2, 2, 4, 6, 6, 12, 8, 20, 10, 30]


def test_two_outputs_that_overlap():
    memory = np.zeros(24, np.int64)
    with pytest.raises(ValueError, match="overlap"):
        planck.cummax(X[0], out=(memory[:2].view(np.float32), memory[1:5]))
    assert not memory.any()


@pytest.mark.parametrize("out", [np.zeros((3, 4), np.float32), [None, None], (None,), (None, None, None)], ids=repr)
def test_out_of_a_function_with_two_results(out):
    with pytest.raises(TypeError, match="out is not a tuple of 2 arrays"):
        planck.cummax(X, out=out)


def test_the_message_names_the_output():
    outs = [None, np.zeros((3, 4), np.int64)]
    outs[1].flags.writeable = False
    with pytest.raises(ValueError, match=r"out\[1\] is read-only"):
        planck.cummax(X, out=tuple(outs))


UNWANTED = {
    "indices": (planck.cummax, (X,), {"index_dtype": None}, 1, np.zeros((3, 4), np.int64)),
    "codes": (planck.dynamic_quantize, (X,), {"qparams_only": True}, 0, np.zeros((3, 4), np.int8)),
    "row sums": (planck.dynamic_quantize, (X,), {}, 3, np.zeros(3, np.int32)),
    "state": (planck.linear_recurrence_backward, (X, X, X), {}, 2, np.zeros(3, np.float32)),
    "weight": (planck.lerp_backward, (X, X, X, 0.5), {}, 2, np.zeros((), np.float32)),
}


@pytest.mark.parametrize("name", UNWANTED)
def test_out_for_a_result_that_there_is_not(name):
    """Better refused than left unwritten."""
    function, arguments, options, at, out = UNWANTED[name]
    outs = [None] * {planck.cummax: 2, planck.dynamic_quantize: 4}.get(function, 3)
    outs[at] = out
    with pytest.raises(ValueError, match="out"):
        function(*arguments, **options, out=tuple(outs))


FAILURES = {
    "a scale": lambda out: planck.fake_quantize(X, [1.0, 1.0, 0.0], axis=0, out=out[0]),
    "a zero point": lambda out: planck.fake_quantize(X, [1.0] * 3, [0, 0, 2**30], axis=0, out=out[0]),
    "an infinity": lambda out: planck.dynamic_quantize(
        X + np.float32(np.inf), nonfinite="error", out=(out[1], out[2], None, None)
    ),
    "a shape": lambda out: planck.cummax_backward(X, indices=np.zeros((3, 3), np.int64), out=out[0]),
    "an axis": lambda out: planck.cumsum(X, axis=7, out=out[0]),
    "a dtype": lambda out: planck.lerp(X, X.astype(np.float64), 0.5, out=out[0]),
    "another output": lambda out: planck.cummax(X, out=(out[0], np.zeros((3, 4), np.int32))),
}


@pytest.mark.parametrize("name", FAILURES)
def test_failed_calls_leave_outputs_as_they_were(name):
    outs = [np.full((3, 4), 7, np.float32), np.full((3, 4), 7, np.int8), np.full(3, 7, np.float32)]
    with pytest.raises(ValueError):
        FAILURES[name](outs)
    assert all((out == 7).all() for out in outs)


def test_failed_calls_write_no_tensor():
    """autograd is told of writes, and of nothing else."""
    out = torch.zeros(4)
    with pytest.raises(ValueError):
        planck.cumsum(torch.ones(5), out=out)
    assert out._version == 0 and not out.any()
    assert planck.plan_info(planck.cumsum, torch.ones(4), out=out)
    assert out._version == 0 and not out.any()


def test_calls_work_after_failed_ones():
    for _ in range(3):
        with pytest.raises(ValueError):
            planck.cumsum(X, axis=3)
        with pytest.raises(ValueError):
            planck.plan_info(planck.cumsum, X, axis=3)
        assert planck.cumsum(X, axis=0)[2].tolist() == [12, 15, 18, 21]
