"""Quantise in the divide form and dequantise against onnxruntime's QuantizeLinear and DequantizeLinear, bit for bit.

Opset 21, s8 and u8, f32 and f16: per tensor, per axis (PerChannel) and blocked (PerGroup, also with a shorter last
block). ONNX says nothing of NaN, where planck gives the zero point. Where onnxruntime or ONNX's own reference evaluator
leave ONNX's text, a test of its own shows all sides.
"""

import functools

import numpy as np
import onnx
import onnx.reference
import onnxruntime
import planck_c as planck
import pytest
from oracle import assert_same_bits, rng

FLOATS = [np.float32, np.float16]
CODES = [np.int8, np.uint8]
PARAMETERS = [0.1, 0.5, 1.0 / 3.0, 1.0e-3, 37.7]
every_type = [pytest.mark.parametrize("codes", CODES), pytest.mark.parametrize("dtype", FLOATS)]


def typed(test):
    return functools.reduce(lambda t, mark: mark(t), every_type, test)


@functools.cache
def _model(op, dtypes, ranks, opset, attributes):
    element = [onnx.helper.np_dtype_to_tensor_dtype(np.dtype(d)) for d in dtypes]
    names = ["x", "scale", "zero_point"]
    inputs = [onnx.helper.make_tensor_value_info(name, e, [None] * rank)
              for name, e, rank in zip(names, element, ranks, strict=True)]
    output = onnx.helper.make_tensor_value_info("y", element[2 if op == "QuantizeLinear" else 1], None)
    node = onnx.helper.make_node(op, names, ["y"], **dict(attributes))
    graph = onnx.helper.make_graph([node], op, inputs, [output])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    model.ir_version = 10
    return model


@functools.cache
def _session(*key):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(_model(*key).SerializeToString(), options, providers=["CPUExecutionProvider"])


def run(op, x, scale, zero_point, reference=False, opset=21, **attributes):
    tensors = [np.asarray(t) for t in (x, scale, zero_point)]
    key = (op, tuple(t.dtype.name for t in tensors), tuple(t.ndim for t in tensors), opset, tuple(attributes.items()))
    feed = dict(zip(("x", "scale", "zero_point"), tensors, strict=True))
    with np.errstate(all="ignore"):
        runner = onnx.reference.ReferenceEvaluator(_model(*key)) if reference else _session(*key)
        return runner.run(None, feed)[0]


def limits(codes):
    return np.iinfo(codes).min, np.iinfo(codes).max


def inputs(scale, dtype, shape, seed, wraps=False):
    """Around the code range, on and beside half steps, and over all magnitudes, or those below 2^30 steps."""
    random = rng(seed)
    near = random.standard_normal(shape) * 150
    half = random.integers(-300, 300, shape) + 0.5
    with np.errstate(over="ignore", under="ignore"):
        x = (np.where(random.uniform(size=shape) < 0.5, near, half) * scale).astype(dtype)
        x = np.where(random.uniform(size=shape) < 0.2, np.nextafter(x, dtype(np.inf)), x)
    bits = random.integers(0, 2 ** (8 * x.itemsize), shape, np.uint64).astype(f"u{x.itemsize}").view(dtype)
    wide = np.where(np.isnan(bits), dtype(np.inf), bits)
    x = np.where(random.uniform(size=shape) < 0.3, wide, x)
    if wraps or dtype == np.float16:
        # test_onnxruntime_wraps_…
        x = np.where(np.abs(x.astype(np.float64)) < scale * 2.0**30, x, dtype(0))
    return x


def qparams(dtype, codes, shape, seed):
    random = rng(seed)
    scale = (10.0 ** random.uniform(-3, 1, shape)).astype(dtype)
    return scale, random.integers(*limits(codes), shape, codes, endpoint=True)


def agree(x, scale, zero_point, granularity, **attributes):
    """Both directions: the codes of x, and the floats of random codes."""
    dtype, codes = x.dtype.type, zero_point.dtype.type
    own = zero_point.astype(np.int32)
    q = planck.quantize(x, scale, own, *limits(codes), codes, granularity=granularity)
    assert np.array_equal(q, run("QuantizeLinear", x, scale, zero_point, **attributes))
    q = rng(92).integers(*limits(codes), x.shape, codes, endpoint=True)
    y = planck.dequantize(q, scale, own, dtype, granularity)
    assert_same_bits(y, run("DequantizeLinear", q, scale, zero_point, **attributes))


@typed
@pytest.mark.parametrize("scale", PARAMETERS)
def test_per_tensor(dtype, codes, scale):
    scale = np.array(scale, dtype)
    for zero_point in (*limits(codes), 3, 77):
        x = inputs(scale.astype(np.float64), dtype, 200_000, 90)
        agree(x, scale, np.array(zero_point, codes), planck.PER_TENSOR)


@typed
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_per_axis(dtype, codes, axis):
    shape = (12, 40, 50)
    scale, zero_point = qparams(dtype, codes, shape[axis], 91)
    spread = scale.astype(np.float64).reshape([-1 if d == axis % 3 else 1 for d in range(3)])
    agree(inputs(spread, dtype, shape, 93), scale, zero_point, planck.per_channel(axis), axis=axis)


@typed
@pytest.mark.parametrize("axis", [0, 1, 2, -2])
@pytest.mark.parametrize("block", [1, 3, 16, 50, 64])
def test_blocked(dtype, codes, axis, block):
    shape = [12, 40, 50]
    blocks = [*shape]
    blocks[axis] = -(-shape[axis] // block)
    scale, zero_point = qparams(dtype, codes, blocks, 94)
    spread = np.repeat(scale.astype(np.float64), block, axis).take(range(shape[axis]), axis)
    x = inputs(spread, dtype, shape, 95, wraps=axis != 2)
    agree(x, scale, zero_point, planck.per_group(axis, block), axis=axis, block_size=block)


@pytest.mark.parametrize("codes", CODES)
def test_infinities_and_large_values_saturate(codes):
    """f32: the ends of the range at every zero point, per tensor, per axis and blocked."""
    lowest, highest = limits(codes)
    row = np.array([np.inf, -np.inf, 3.4e38, -3.4e38, 3.0e9, -3.0e9, 2.0**31, -(2.0**31)] * 4, np.float32)
    x = np.stack([row, row])
    expected = np.where(x > 0, highest, lowest)
    for zero_point in (lowest, -5 if lowest else 5, 127, highest):
        for shape, granularity, attributes in (((), planck.PER_TENSOR, {}), ((2,), planck.per_channel(0), {"axis": 0}),
                                               ((2, 4), planck.per_group(1, 8), {"axis": 1, "block_size": 8})):
            scale, zero_points = np.full(shape, np.float32(0.5)), np.full(shape, zero_point, codes)
            assert np.array_equal(run("QuantizeLinear", x, scale, zero_points, **attributes), expected)
            got = planck.quantize(x, scale, zero_points.astype(np.int32), lowest, highest, codes,
                                  granularity=granularity)
            assert np.array_equal(got, expected)


@pytest.mark.parametrize("codes", CODES)
def test_rounding_comes_before_the_zero_point(codes):
    """ONNX: x / y_scale is rounded to nearest even, then y_zero_point is added; so ties do not depend on it."""
    x = np.arange(-20, 21, dtype=np.float32) + np.float32(0.5)
    for zero_point in (60, 61):
        for reference in (False, True):
            got = run("QuantizeLinear", x, np.float32(1), np.array(zero_point, codes), reference)
            assert np.array_equal(got, np.rint(x) + zero_point)
        assert np.array_equal(planck.quantize(x, 1.0, zero_point, *limits(codes), codes), np.rint(x) + zero_point)


def test_the_reciprocal_form_is_not_onnx():
    x = inputs(0.3, np.float32, 200_000, 96)
    expected = run("QuantizeLinear", x, np.float32(0.3), np.int8(0))
    assert np.any(planck.quantize(x, 0.3, 0, -128, 127, np.int8, planck.RECIPROCAL) != expected)


# ---- where onnxruntime or the reference evaluator leave the text ----


def test_onnxruntime_wraps_in_f16():
    """ONNX saturates. onnxruntime's f16 kernel converts x / scale to int32 first, which is -2^31 from 2^31 on, and then
    adds the zero point, which wraps if it is negative; its f32 kernel saturates. planck saturates in both."""
    x = np.array([np.inf, -np.inf, 65504.0, -65504.0] * 8, np.float16)
    ends = np.array([127, -128, 127, -128] * 8)
    scale = np.array(1.0e-6, np.float16)  # 65504 is 6.9e10 steps
    for zero_point, wrapped in ((3, -128), (-5, 127)):
        assert np.all(run("QuantizeLinear", x, scale, np.int8(zero_point)) == wrapped)
        assert np.array_equal(planck.quantize(x, scale, zero_point, -128, 127, np.int8), ends)
        wide = x.astype(np.float32), scale.astype(np.float32)
        assert np.array_equal(run("QuantizeLinear", *wide, np.int8(zero_point)), ends)


def test_onnxruntime_wraps_in_blocks_along_other_axes():
    """The same in f32, where the blocks do not lie along the last axis; along the last it saturates."""
    row = np.array([np.inf, -np.inf, 3.0e9, -3.0e9, 1.0e6, -1.0e6] * 8, np.float32)
    ends = np.array([127, -128] * 24)
    x, scale, zero_points = np.stack([row, row]), np.full((2, 6), np.float32(0.5)), np.full((2, 6), 3, np.int8)
    along_last = run("QuantizeLinear", x, scale, zero_points, axis=1, block_size=8)
    assert np.array_equal(along_last, [ends, ends])
    along_first = run("QuantizeLinear", x.T, scale.T, zero_points.T, axis=0, block_size=8)
    assert np.array_equal(along_first[:, 0], [-128, -128, -128, -128, 127, -128] * 8)
    for axis, views in ((1, (x, scale, zero_points)), (0, (x.T, scale.T, zero_points.T))):
        own = views[0], views[1], views[2].astype(np.int32)
        got = planck.quantize(*own, -128, 127, np.int8, granularity=planck.per_group(axis, 8))
        assert np.array_equal(got if axis == 1 else got.T, [ends, ends])


def test_the_reference_evaluator_wraps():
    """The same conversion to int32, in f32 too, in ONNX's own Python: it is no oracle for what saturates far out."""
    x = np.array([np.inf, 3.0e9, 1.0e6], np.float32)
    got = run("QuantizeLinear", x, np.float32(0.5), np.int8(3), reference=True)
    assert np.array_equal(got, [-128, -128, 127])
    assert np.array_equal(planck.quantize(x, 0.5, 3, -128, 127, np.int8), [127, 127, 127])


@pytest.mark.parametrize("opset", [21, 23])
def test_f16_is_divided_in_f32(opset):
    """17.25 / f16(0.3) is 57.49 in f32 and 57.5, a tie, in f16. Opset 21 does not say which; opset 23 says the type of
    the scale, unless an attribute names another, and ONNX's reference evaluator does so in both. onnxruntime divides in
    f32 all the same, and planck's f16 is computed in f32 too."""
    x, scale, zero_point = np.array([17.25], np.float16), np.array(0.3, np.float16), np.int8(0)
    assert float(x[0] / scale) == 57.5 and 57.49 < float(np.float32(x[0]) / np.float32(scale)) < 57.492
    assert planck.quantize(x, scale, 0, -128, 127, np.int8)[0] == 57
    assert run("QuantizeLinear", x, scale, zero_point, opset=opset)[0] == 57
    assert run("QuantizeLinear", x, scale, zero_point, reference=True, opset=opset)[0] == 58


@typed
def test_onnxruntime_gives_nan_the_lowest_code(dtype, codes):
    """ONNX does not define it. planck: the zero point."""
    x = np.full(40, np.nan, dtype)
    assert np.all(run("QuantizeLinear", x, dtype(0.5), codes(3)) == limits(codes)[0])
    assert np.all(planck.quantize(x, 0.5, 3, *limits(codes), codes) == 3)
