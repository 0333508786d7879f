"""Ragged batches of NumPy's arrays: every segment has the bits of a call of its own."""

import numpy as np
import planck
import pytest
from arrays import FLOATS, INTEGERS, is_float
from hypothesis import given
from hypothesis import strategies as st

SUMS = ("cumsum", "cumprod", "logcumsumexp")
EXTREMA = ("cummax", "cummin")


@st.composite
def batches(draw):
    """(lengths, axis, an array, offsets in some layout)."""
    lengths = draw(st.lists(st.sampled_from([0, 0, 1, 2, 7, 8, 9, 64, 65, 513]), min_size=1, max_size=8))
    others = draw(st.lists(st.integers(1, 3), max_size=2))
    axis = draw(st.integers(0, len(others)))
    shape = (*others[:axis], sum(lengths), *others[axis:])
    x = np.random.default_rng(draw(st.integers(0, 2**32))).uniform(0.5, 1.5, shape)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(draw(st.sampled_from(["int32", "int64"])))
    layout = draw(st.sampled_from(["packed", "strided", "backwards", "list"]))
    if layout == "strided":
        offsets = np.repeat(offsets, 3)[::3]
    elif layout == "backwards":
        offsets = offsets[::-1].copy()[::-1]
    elif layout == "list":
        offsets = offsets.tolist()
    return lengths, axis, x, offsets


def parts_of(array, lengths, axis):
    return np.split(array, np.cumsum(lengths)[:-1], axis)


def joined(results, axis):
    """Results of calls for each segment, one behind the other; a tuple if they are tuples."""
    if isinstance(results[0], tuple):
        columns = zip(*results, strict=True)
        return [None if c[0] is None else np.concatenate(c, axis) for c in columns]
    return [np.concatenate(results, axis)]


def assert_same(got, want):
    got = list(got) if isinstance(got, tuple) else [got]
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert (g is None and w is None) or (g.dtype == w.dtype and g.shape == w.shape and g.tobytes() == w.tobytes())


@given(st.sampled_from(SUMS + EXTREMA), batches(), st.data())
def test_scans(name, batch, data):
    lengths, axis, x, offsets = batch
    dtype = data.draw(st.sampled_from(FLOATS if name == "logcumsumexp" else FLOATS + INTEGERS))
    options = {"axis": axis, "reverse": data.draw(st.booleans())}
    options |= (
        {"exclusive": data.draw(st.booleans())}
        if name in SUMS
        else {"ties": data.draw(st.sampled_from(["first", "last"]))}
    )
    if name in EXTREMA:
        options["index_dtype"] = data.draw(st.sampled_from(["int32", "int64", None]))
    x = (x * 8).astype(dtype)
    function = getattr(planck, name)
    apart = joined([function(part, **options) for part in parts_of(x, lengths, axis)], axis)
    assert_same(function(x, **options, offsets=offsets), apart)
    if not is_float(np.dtype(dtype)):
        return
    gradient = getattr(planck, name + "_backward")
    options.pop("index_dtype", None)
    arrays = {"dy": x}
    if name != "cumsum":
        arrays["x"] = x
    if name == "logcumsumexp":
        arrays["y"] = function(x, **options, offsets=offsets)
    if name in EXTREMA and apart[1] is not None:
        arrays = {"dy": x, "indices": apart[1]}
    split = [
        dict(zip(arrays, values, strict=True))
        for values in zip(*(parts_of(a, lengths, axis) for a in arrays.values()), strict=True)
    ]
    assert_same(
        gradient(**arrays, **options, offsets=offsets), joined([gradient(**part, **options) for part in split], axis)
    )


@given(batches(), st.sampled_from(FLOATS), st.booleans(), st.booleans())
def test_recurrences(batch, dtype, reverse, with_state):
    lengths, axis, x, offsets = batch
    a, b, dh = (v.astype(dtype) for v in (x - 0.6, x, x * 2))
    shape = (*x.shape[:axis], len(lengths), *x.shape[axis + 1 :])
    state = np.linspace(-1, 1, int(np.prod(shape))).reshape(shape).astype(dtype) if with_state else None
    states = np.split(state, len(lengths), axis) if with_state else [None] * len(lengths)
    options = {"axis": axis, "reverse": reverse}
    h = planck.linear_recurrence(a, b, **options, initial=state, offsets=offsets)
    cut = [parts_of(v, lengths, axis) for v in (a, b, h, dh)]
    apart = [
        planck.linear_recurrence(p, q, **options, initial=s) for p, q, s in zip(cut[0], cut[1], states, strict=True)
    ]
    assert_same(h, joined(apart, axis))
    gradients = [
        planck.linear_recurrence_backward(d, p, q, **options, initial=s)
        for d, p, q, s in zip(cut[3], cut[0], cut[2], states, strict=True)
    ]
    assert_same(
        planck.linear_recurrence_backward(dh, a, h, **options, initial=state, offsets=offsets),
        joined([tuple(g) for g in gradients], axis),
    )


def test_a_factor_of_all_segments():
    """Its gradient is the sum of those that the segments have, without what crosses their borders."""
    b, offsets = np.array([1.0, 2.0, 4.0, 8.0]), [0, 2, 4]
    h = planck.linear_recurrence(0.5, b, offsets=offsets)
    np.testing.assert_array_equal(h, [1, 2.5, 4, 10])
    gradients = planck.linear_recurrence_backward(np.ones(4), 0.5, h, offsets=offsets)
    np.testing.assert_array_equal(gradients.db, [1.5, 1, 1.5, 1])
    assert gradients.da == 1 * 1 + 4 * 1


def test_results_in_given_arrays():
    x, out = np.arange(6.0), np.zeros(6)
    assert planck.cumsum(x, offsets=[0, 2, 6], out=out) is out
    np.testing.assert_array_equal(out, [0, 1, 2, 5, 9, 14])
    planck.cumsum(x, offsets=[0, 2, 6], out=x)
    np.testing.assert_array_equal(x, out)


@pytest.mark.parametrize(
    ("offsets", "text"),
    [
        ([0, 5], r"offsets\[1\] = 5 must lie in \[6, 6\], as offsets rise from 0 to the 6 elements along axis"),
        ([2, 6], r"offsets\[0\] = 2 must lie in \[0, 0\]"),
        ([0, 4, 3, 6], r"offsets\[2\] = 3 must lie in \[4, 6\]"),
        ([0, 2**40, 6], rf"offsets\[1\] = {2**40} must lie in \[0, 6\]"),
        ([0], "offsets stand for 0 segments, but 6 elements along axis have at least 1"),
        (6, r"offsets has shape \[\], but must have one dimension, and one element more than there are segments"),
        ([[0, 6]], r"offsets has shape \[1, 2\]"),
        ([0.0, 6.0], "offsets has dtype float64; it can be int32 or int64"),
    ],
)
def test_wrong_offsets(offsets, text):
    with pytest.raises((ValueError, NotImplementedError), match=f"^{text}"):
        planck.cumsum(np.arange(6.0), offsets=offsets)
    with pytest.raises((ValueError, NotImplementedError), match=f"^{text}"):
        planck.linear_recurrence_backward(np.ones(6), 0.5, np.ones(6), offsets=offsets)


def test_no_elements():
    assert planck.cumsum(np.ones((3, 0)), offsets=[0]).shape == (3, 0)
    h = planck.linear_recurrence(np.ones((0, 2)), np.ones((0, 2)), 0, initial=np.ones((3, 2)), offsets=[0, 0, 0, 0])
    found = planck.linear_recurrence_backward(h, h, h, 0, initial=np.ones((3, 2)), offsets=[0, 0, 0, 0])
    np.testing.assert_array_equal(found.d_initial, np.zeros((3, 2)))


def test_offsets_are_no_place_for_results():
    offsets = np.array([0, 1, 3])
    with pytest.raises(ValueError, match=r"^out is made of many elements and must not share memory with offsets$"):
        planck.cumsum(np.ones(3, np.int64), offsets=offsets, out=offsets)


@pytest.mark.parametrize("which", [0, 1, 2])
def test_offsets_are_no_place_for_a_gradient_that_is_a_sum(which):
    """Sums are made after the recurrence, which would then find other segments, or nobody's memory."""
    memory = np.zeros(32)
    offsets = memory[:3].view(np.int64)
    offsets[:] = [0, 2, 4]
    before = offsets.copy()
    a, b, initial = np.float64(0.5), np.ones(4), np.array(1.0)
    h = planck.linear_recurrence(a, b, initial=initial, offsets=offsets)
    out = [memory[10:11].reshape(()), memory[12:13].reshape(()), memory[14:15].reshape(())]
    expected = planck.linear_recurrence_backward(b, a, h, b=1.0, initial=initial, offsets=before)
    got = planck.linear_recurrence_backward(b, a, h, b=1.0, initial=initial, offsets=offsets, out=tuple(out))
    np.testing.assert_array_equal(np.stack(got), np.stack(expected))
    out[which] = memory[1:2].reshape(())
    with pytest.raises(
        ValueError, match=rf"^out\[{which}\] must not share memory with offsets, since a gradient is a sum$"
    ):
        planck.linear_recurrence_backward(b, a, h, b=1.0, initial=initial, offsets=offsets, out=tuple(out))
    np.testing.assert_array_equal(offsets, before)
