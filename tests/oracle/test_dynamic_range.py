"""Dynamic-range quantisation against onnxruntime's DynamicQuantizeLinear and against its page in NumPy, bit for
bit: codes, scales, zero points and row sums."""

import ctypes
import itertools

import numpy as np
import planck_c as planck
import pytest
import torch
from oracle import assert_same_bits, rng, to_numpy

SYMMETRIC, ASYMMETRIC = 0, 1
TENSOR, CHANNEL, TOKEN, GROUP = range(4)
S32 = 6

_i32, _i64 = ctypes.c_int32, ctypes.c_int64
_tensor_p = ctypes.POINTER(planck.Tensor)


class Scope(ctypes.Structure):
    _fields_ = [("kind", _i32), ("axis", _i32), ("group_size", _i64)]


class Descriptor(ctypes.Structure):
    _fields_ = [("shape", planck.Shape), ("q_min", _i64), ("q_max", _i64), ("mode", _i32), ("scope", Scope),
                ("input_element", _i32), ("output_element", _i32), ("zero_in_range", _i32), ("nonfinite", _i32),
                ("qparams_only", _i32)]


class Args(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("input", "scale_out", "output", "zero_point_out", "row_sum")]


def pointer(x):
    """planck_c's view of a tensor, which need not know s32."""
    if x.dtype != np.int32:
        return ctypes.pointer(planck.tensor_struct(x))
    rank = x.ndim
    return ctypes.pointer(planck.Tensor(x.ctypes.data, S32, rank, (_i64 * rank)(*x.shape),
                                        (_i64 * rank)(*(s // 4 for s in x.strides)), 0, planck.CAPACITY_UNKNOWN))


def segments_of(shape, scope):
    """The shape of the scales, and for each element of a tensor the number of its segment in row-major order."""
    kind, axis, group_size = scope
    index = np.indices(shape) if shape else np.zeros((0,), int)
    if kind == TENSOR:
        return (), np.zeros(shape, int)
    if kind == CHANNEL:
        return (shape[axis],), index[axis]
    if kind == TOKEN:
        axis, group_size = -1, max(1, shape[-1])
    groups = list(shape)
    groups[axis] = -(-shape[axis] // group_size)
    index[axis] //= group_size
    numbers = np.ravel_multi_index(tuple(index), groups) if index.size else np.zeros(shape, int)
    return tuple(groups[:-1] if kind == TOKEN else groups), numbers


def run(x, codes, q_min, q_max, mode, scope, scale_dtype, zero_in_range=True):
    """(scale, zero point, codes, row sums); NumPy arrays, bf16 as uint16."""
    segments, _ = segments_of(x.shape, scope)
    scale, output = np.empty(segments, scale_dtype), np.empty(x.shape, codes)
    zero_point, row_sum = np.empty(segments, np.int32), np.empty(segments, np.int32)
    descriptor = Descriptor(planck.shape_struct(x.shape), q_min, q_max, mode, Scope(*scope), planck.element_of(x),
                            planck.element_of(output), int(zero_in_range), 0, 0)
    planck._run("dynamic_range_quantize", descriptor,
                Args(pointer(x), pointer(scale), pointer(output), pointer(zero_point), pointer(row_sum)))
    return scale, zero_point, output, row_sum


def widened(x):
    """The compute type's values of an array; uint16 is bf16."""
    if x.dtype == np.uint16:
        return (x.astype(np.uint32) << 16).view(np.float32).reshape(x.shape)
    return x.astype(np.float64 if x.dtype == np.float64 else np.float32)


def narrowed(value, dtype):
    """One number of the compute type, stored as dtype."""
    if dtype == np.uint16:
        return to_numpy(torch.tensor([float(value)], dtype=torch.float32).to(torch.bfloat16))[0]
    return np.dtype(dtype).type(value)


def stored(scale, dtype):
    """The scale as stored, widened again: a normal, finite number of its dtype."""
    limits = {np.float16: (2.0**-14, 65504.0), np.uint16: (2.0**-126, (2 - 2.0**-7) * 2.0**127)}
    compute = np.finfo(scale.dtype)
    least, most = limits.get(dtype, (compute.tiny, compute.max))
    rounded = widened(np.array([narrowed(scale, dtype)]))[0]
    return scale.dtype.type(min(max(rounded, least), most))


def qparams(finite, q_min, q_max, mode, zero_in_range, dtype, compute):
    """The page's formulas for the finite elements of one segment: (the scale as stored, zero point)."""
    zero = compute(0)
    if finite.size == 0 or not finite.any():
        return compute(1), 0 if mode == SYMMETRIC else q_min
    lo, hi = finite.min(), finite.max()
    if mode == SYMMETRIC:
        return stored(max(-lo, hi) / compute(q_max), dtype), 0
    steps = compute(q_max - q_min)

    def parameters(lo, hi):
        width = hi - lo
        scale = stored(width / steps if np.isfinite(width) else hi / steps - lo / steps, dtype)
        return scale, compute(q_min) - np.rint(lo / scale)

    if not zero_in_range and lo != hi:
        scale, zero_point = parameters(lo, hi)
        if abs(zero_point) <= 2**20:
            return scale, int(zero_point)
    scale, zero_point = parameters(min(lo, zero), max(hi, zero))
    return scale, int(min(max(zero_point, q_min), q_max))


@np.errstate(over="ignore", invalid="ignore")
def expected(x, codes, q_min, q_max, mode, scope, scale_dtype, zero_in_range=True):
    values = widened(x)
    compute = values.dtype.type
    segments, numbers = segments_of(x.shape, scope)
    count = int(np.prod(segments))
    scale, zero_point = np.ones(count, compute), np.zeros(count, np.int32)
    for i in range(count):
        mine = values[numbers == i]
        scale[i], zero_point[i] = qparams(mine[np.isfinite(mine)], q_min, q_max, mode, zero_in_range, scale_dtype,
                                          compute)
    zp = zero_point[numbers].astype(compute)
    q = np.clip(np.rint(values / scale[numbers]), q_min - zp, q_max - zp) + zp
    q = np.where(np.isnan(values), np.clip(zp, q_min, q_max), q).astype(np.int64)
    row_sum = np.bincount(numbers.ravel(), weights=q.ravel(), minlength=count)[:count].astype(np.int32)
    scale = np.array([narrowed(s, scale_dtype) for s in scale], scale_dtype)
    return scale.reshape(segments), zero_point.reshape(segments), q.astype(codes), row_sum.reshape(segments)


def bits(x):
    return x.view({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[x.itemsize])


def assert_agrees(x, *arguments, **options):
    for name, got, wanted in zip(("scale", "zero point", "codes", "row sum"), run(x, *arguments, **options),
                                 expected(x, *arguments, **options)):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        wrong = np.atleast_1d(bits(got) != bits(wanted))
        assert not wrong.any(), (f"{name}: {np.count_nonzero(wrong)} differ; got {np.atleast_1d(got)[wrong][:5]}, "
                                 f"expected {np.atleast_1d(wanted)[wrong][:5]}")


def as_dtype(x, dtype):
    """An f64 array rounded to a dtype; uint16 is bf16."""
    if dtype == np.uint16:
        return to_numpy(torch.from_numpy(np.ascontiguousarray(x)).to(torch.bfloat16)).reshape(x.shape)
    with np.errstate(over="ignore"):
        return x.astype(dtype)


DTYPES = [np.float32, np.float64, np.float16, np.uint16]
COMPUTE = {np.float32: np.float32, np.float64: np.float64, np.float16: np.float32, np.uint16: np.float32}
CODES = {np.int8: [(-127, 127), (-128, 127), (-8, 7), (-3, 100)], np.uint8: [(0, 255), (0, 15), (0, 1), (7, 200)]}
SCOPES = [(TENSOR, 0, 0), (CHANNEL, 0, 0), (CHANNEL, 1, 0), (CHANNEL, -1, 0), (TOKEN, 0, 0), (GROUP, -1, 4),
          (GROUP, 0, 2), (GROUP, 1, 3), (GROUP, -2, 1000)]
LARGEST = {np.float32: 3.4e38, np.float64: 1.7e308, np.float16: 65504.0, np.uint16: 3.3e38}


def draws(random, shape, dtype):
    """Tensors from harmless to hard."""
    normal = random.standard_normal(shape)
    yield normal
    yield normal * 1e-3 + 5.0
    yield -np.abs(normal)
    yield np.round(normal * 4) / 2
    yield np.where(random.random(shape) < 0.7, 0.0, normal)
    special = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
    yield np.where(random.random(shape) < 0.4, special, normal * 100)
    yield random.uniform(-1, 1, shape) * LARGEST[dtype]
    yield np.ldexp(normal, random.integers(-1070 if dtype == np.float64 else -150, 15, shape))
    yield normal * np.finfo(COMPUTE[dtype]).tiny * 50
    yield normal * 1e-5
    yield np.full(shape, 3.7)
    yield 1e4 + 0.01 * normal


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("mode", [SYMMETRIC, ASYMMETRIC])
def test_the_formulas_in_numpy(dtype, scope, mode):
    random = rng(40)
    for codes, narrow in itertools.product(CODES, [False, True]):
        for q_min, q_max in CODES[codes]:
            for x in draws(random, (3, 5, 9), dtype):
                for zero_in_range in [True, False] if mode == ASYMMETRIC else [True]:
                    assert_agrees(as_dtype(x, dtype), codes, q_min, q_max, mode, scope,
                                  dtype if narrow else COMPUTE[dtype], zero_in_range=zero_in_range)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, scope", [((0,), (TENSOR, 0, 0)), ((3, 0), (TOKEN, 0, 0)), ((0, 4), (CHANNEL, 1, 0)),
                                          ((2, 0), (GROUP, 1, 4)), ((), (TENSOR, 0, 0)), ((7,), (TOKEN, 0, 0)),
                                          ((2, 1, 3, 1, 2, 1, 2, 3), (GROUP, 2, 2)), ((6, 3001), (CHANNEL, 1, 0)),
                                          ((2, 70_001), (TOKEN, 0, 0))])
def test_shapes(dtype, shape, scope):
    x = as_dtype(rng(41).standard_normal(shape), dtype)
    for mode in (SYMMETRIC, ASYMMETRIC):
        assert_agrees(x, np.int8, -127, 127, mode, scope, COMPUTE[dtype])


def test_strides():
    x = rng(42).standard_normal((8, 6, 10)).astype(np.float32)
    for view in (x.T, x[::-1, ::2], x[:, :, ::-3], np.broadcast_to(x[:, :1], x.shape)):
        for scope in SCOPES:
            assert_agrees(view, np.int8, -128, 127, ASYMMETRIC, scope, np.float32)


# ---- onnxruntime ----

@pytest.fixture(scope="module")
def onnx_dynamic_quantize():
    onnxruntime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    helper, f32, u8 = onnx.helper, onnx.TensorProto.FLOAT, onnx.TensorProto.UINT8
    graph = helper.make_graph(
        [helper.make_node("DynamicQuantizeLinear", ["x"], ["y", "scale", "zero_point"])], "graph",
        [helper.make_tensor_value_info("x", f32, None)],
        [helper.make_tensor_value_info("y", u8, None), helper.make_tensor_value_info("scale", f32, []),
         helper.make_tensor_value_info("zero_point", u8, [])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return lambda x: session.run(None, {"x": x})


def assert_agrees_with_onnx(x, onnx_dynamic_quantize):
    codes, scale, zero_point = onnx_dynamic_quantize(x)
    got = run(x, np.uint8, 0, 255, ASYMMETRIC, (TENSOR, 0, 0), np.float32)
    assert_same_bits(got[0], np.float32(scale).reshape(()))
    assert got[1] == zero_point
    assert np.array_equal(got[2], codes)


@pytest.mark.parametrize("seed", range(200))
def test_onnx(onnx_dynamic_quantize, seed):
    random = rng(1000 + seed)
    shape = tuple(random.integers(1, 40, random.integers(1, 4)))
    x = random.standard_normal(shape) * 2.0 ** random.uniform(-30, 30) + random.choice([0, 0, 1, -3]) * random.random()
    assert_agrees_with_onnx(x.astype(np.float32), onnx_dynamic_quantize)


@pytest.mark.parametrize("x", [
    [0.0, 2, -3, -2.5, 1.34, 0.5],  # the three examples of the operator's own page
    [-1.0, -2.1, -1.3, -2.5, -3.34, -4.0],
    [1, 2.1, 1.3, 2.5, 3.34, 4.0, 1.5, 2.6, 3.9, 4.0, 3.0, 2.345],
    [255.0, 0.5, 1.5, 2.5, 100.5],  # ties
    [-127.5, 127.5, 0.5, -0.5, 1.5, -1.5],
    [-0.5, 254.5, 0.0], [-1.5, 253.5, 0.0], [-2.5, 252.5, 0.0],
    [1e-30, 3e-30], [1e30, -3e30], [5.0], [-5.0], [1.7e38, -1.6e38],
])
def test_onnx_hard_cases(onnx_dynamic_quantize, x):
    assert_agrees_with_onnx(np.array(x, np.float32), onnx_dynamic_quantize)


def test_onnx_near_ties(onnx_dynamic_quantize):
    random = rng(43)
    for _ in range(50):
        scale = np.float32(2.0 ** random.uniform(-5, 5))
        x = (np.arange(-100, 155) + random.choice([0.0, 0.5, -0.5], 255)).astype(np.float32) * scale
        assert_agrees_with_onnx(np.nextafter(x, random.choice([-np.inf, np.inf], 255).astype(np.float32)),
                                onnx_dynamic_quantize)
        assert_agrees_with_onnx(x, onnx_dynamic_quantize)
