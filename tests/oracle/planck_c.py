"""planck's C ABI through ctypes, as thin as it gets: structs, one call per operation, errors as exceptions.

Tensors are NumPy arrays or torch tensors and never copied: strides travel as they are, also negative ones. A
uint16 array is bf16, which NumPy has no name for. The library is the one that PLANCK_LIBRARY names.
"""

import ctypes
import os

import numpy as np
import torch

F16, BF16, F32, F64, S8, U8, S32, S64, F8E4M3, F8E5M2 = range(10)
DIVIDE, RECIPROCAL = 0, 1
CUMSUM, CUMPROD, CUMMAX, CUMMIN, LOG_CUMSUM_EXP = range(5)
TIES_FIRST, TIES_LAST = 0, 1
LERP, ADD_SCALED = 31, 1000
CAPACITY_UNKNOWN = 2**63 - 1

_i32, _i64, _f64, _ptr = ctypes.c_int32, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
_i64s = ctypes.POINTER(ctypes.c_int64)


class Tensor(ctypes.Structure):
    _fields_ = [("data", _ptr), ("element", _i32), ("rank", _i32), ("shape", _i64s), ("strides", _i64s),
                ("offset", _i64), ("capacity", _i64)]


class Shape(ctypes.Structure):
    _fields_ = [("rank", _i32), ("extents", _i64s)]


_tensor_p, _shape_p = ctypes.POINTER(Tensor), ctypes.POINTER(Shape)


class Granularity(ctypes.Structure):
    """Which elements share a scale: PER_TENSOR, per_channel(axis), PER_TOKEN or per_group(axis, group_size)."""

    _fields_ = [("kind", _i32), ("axis", _i32), ("group_size", _i64)]

    def __repr__(self):
        name = ("tensor", "channel", "token", "group")[self.kind]
        return name + {1: f"-{self.axis}", 3: f"-{self.axis}-{self.group_size}"}.get(self.kind, "")


PER_TENSOR, PER_TOKEN = Granularity(0), Granularity(2)


def per_channel(axis):
    return Granularity(1, axis)


def per_group(axis, group_size):
    return Granularity(3, axis, group_size)


class QuantizeDescriptor(ctypes.Structure):
    _fields_ = [("shape", Shape), ("q_min", _i64), ("q_max", _i64), ("input_element", _i32),
                ("output_element", _i32), ("scope", Granularity), ("scale_form", _i32), ("trust_qparams", _i32),
                ("unsaturated", _i32)]


class DequantizeDescriptor(ctypes.Structure):
    _fields_ = [("shape", Shape), ("input_element", _i32), ("output_element", _i32), ("scope", Granularity),
                ("trust_qparams", _i32)]


class FakeQuantizeDescriptor(ctypes.Structure):
    _fields_ = [("shape", Shape), ("q_min", _i64), ("q_max", _i64), ("input_element", _i32),
                ("scope", Granularity), ("scale_form", _i32), ("trust_qparams", _i32), ("learnable", _i32)]


_QPARAMS = [("scale", _f64), ("zero_point", _i64), ("scale_tensor", _tensor_p), ("zero_point_tensor", _tensor_p)]


class ForwardArgs(ctypes.Structure):
    """Of quantize, dequantize and fake_quantize alike."""

    _fields_ = [("input", _tensor_p), *_QPARAMS, ("output", _tensor_p)]


class QuantizeBackwardArgs(ctypes.Structure):
    _fields_ = [("input", _tensor_p), *_QPARAMS, ("d_output", _tensor_p), ("d_input", _tensor_p)]


class DequantizeBackwardArgs(ctypes.Structure):
    _fields_ = [("scale", _f64), ("scale_tensor", _tensor_p), ("d_output", _tensor_p), ("d_input", _tensor_p)]


class FakeQuantizeBackwardArgs(ctypes.Structure):
    _fields_ = [("input", _tensor_p), *_QPARAMS, ("d_output", _tensor_p), ("d_input", _tensor_p),
                ("d_scale", _tensor_p), ("d_zero_point", _tensor_p), ("grad_factor", _f64)]


class ScanDescriptor(ctypes.Structure):
    _fields_ = [("kind", _i32), ("input_shape", Shape), ("scan_axis", _i32), ("reverse", _i32), ("element", _i32),
                ("exclusive", _i32), ("ties", _i32), ("segments", _i64)]


class ScanArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("x", "y", "indices", "carry_in", "carry_out", "offsets")]


class ScanBackwardArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("dy", "dx", "x", "y", "indices", "offsets")]


class LinearRecurrenceDescriptor(ctypes.Structure):
    _fields_ = [("input_shape", Shape), ("scan_axis", _i32), ("reverse", _i32), ("element", _i32), ("segments", _i64)]


class LinearRecurrenceArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("a", "b", "initial", "h", "carry_in", "carry_out", "offsets")]


class LinearRecurrenceBackwardArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("dh", "a", "h", "initial", "da", "db", "d_initial", "offsets")]


class BinaryParamDescriptor(ctypes.Structure):
    _fields_ = [("kind", _i32), ("shape", Shape), ("element", _i32), ("param", _f64), ("weight_shape", _shape_p),
                ("a_shape", _shape_p), ("b_shape", _shape_p)]


class BinaryParamArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("a", "b", "weight", "y")]


class BinaryParamBackwardArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("dy", "a", "b", "weight", "da", "db", "d_weight")]


class PlanckError(RuntimeError):
    def __init__(self, status, message):
        super().__init__(f"status {status}: {message}")
        self.status = status


_library = ctypes.CDLL(os.environ["PLANCK_LIBRARY"])
_library.planck_last_error_message.restype = ctypes.c_char_p

_NUMPY_ELEMENTS = {"float16": F16, "uint16": BF16, "float32": F32, "float64": F64, "int8": S8, "uint8": U8,
                   "int32": S32, "int64": S64}
_TORCH_ELEMENTS = {torch.float16: F16, torch.bfloat16: BF16, torch.float32: F32, torch.float64: F64,
                   torch.int8: S8, torch.uint8: U8, torch.int32: S32, torch.int64: S64,
                   torch.float8_e4m3fn: F8E4M3, torch.float8_e5m2: F8E5M2}


def element_of(x):
    return _TORCH_ELEMENTS[x.dtype] if isinstance(x, torch.Tensor) else _NUMPY_ELEMENTS[x.dtype.name]


def shape_struct(shape):
    return Shape(len(shape), (_i64 * len(shape))(*shape))


def tensor_struct(x):
    """A view of x's memory, valid while x lives: data points at the first element, strides count elements."""
    if isinstance(x, torch.Tensor):
        data, strides = x.data_ptr(), x.stride()
    else:
        data, strides = x.ctypes.data, [s // x.itemsize for s in x.strides]
    rank = len(x.shape)
    return Tensor(data, element_of(x), rank, (_i64 * rank)(*x.shape), (_i64 * rank)(*strides), 0, CAPACITY_UNKNOWN)


def _pointer(struct):
    return None if struct is None else ctypes.pointer(struct)


def _tensor(x):
    return None if x is None else ctypes.pointer(tensor_struct(x))


def empty(shape, like, dtype=None):
    if isinstance(like, torch.Tensor):
        return torch.empty(tuple(shape), dtype=dtype or like.dtype)
    return np.empty(tuple(shape), dtype or like.dtype)


def _run(operation, descriptor, args):
    bytes_needed = ctypes.c_size_t()
    status = getattr(_library, f"planck_{operation}_workspace_size")(
        ctypes.byref(descriptor), None, ctypes.byref(bytes_needed))
    if status == 0:
        workspace = ctypes.create_string_buffer(bytes_needed.value) if bytes_needed.value else None
        status = getattr(_library, f"planck_{operation}_run")(
            ctypes.byref(descriptor), ctypes.byref(args), workspace, bytes_needed, None)
    if status != 0:
        raise PlanckError(status, _library.planck_last_error_message().decode())


def _number_or_tensor(value, absent):
    """(number, tensor) as the structs take them: one of the two."""
    return (absent, _tensor(value)) if hasattr(value, "shape") else (value, None)


def _qparams(scale, zero_point):
    scale, scale_tensor = _number_or_tensor(scale, 0.0)
    zero_point, zero_point_tensor = _number_or_tensor(zero_point, 0)
    return scale, zero_point, scale_tensor, zero_point_tensor


def _quantize_descriptor(x, codes, q_min, q_max, form, granularity, saturate=True):
    return QuantizeDescriptor(shape_struct(x.shape), q_min, q_max, element_of(x), codes, granularity, form, 0,
                              not saturate)


def _fake_quantize_descriptor(x, q_min, q_max, form, granularity, learnable=0):
    return FakeQuantizeDescriptor(shape_struct(x.shape), q_min, q_max, element_of(x), granularity, form, 0, learnable)


# Below, scale and zero_point are Python numbers or tensors with one element per segment.


def quantize(x, scale, zero_point, q_min, q_max, dtype, form=DIVIDE, granularity=PER_TENSOR, out=None, saturate=True):
    q = empty(x.shape, x, dtype) if out is None else out
    _run("quantize", _quantize_descriptor(x, element_of(q), q_min, q_max, form, granularity, saturate),
         ForwardArgs(_tensor(x), *_qparams(scale, zero_point), _tensor(q)))
    return q


def quantize_backward(x, dy, scale, zero_point, q_min, q_max, codes=S8, form=DIVIDE, granularity=PER_TENSOR):
    dx = empty(x.shape, x)
    _run("quantize_backward", _quantize_descriptor(x, codes, q_min, q_max, form, granularity),
         QuantizeBackwardArgs(_tensor(x), *_qparams(scale, zero_point), _tensor(dy), _tensor(dx)))
    return dx


def fake_quantize(x, scale, zero_point, q_min, q_max, form=DIVIDE, out=None, granularity=PER_TENSOR):
    y = empty(x.shape, x) if out is None else out
    _run("fake_quantize", _fake_quantize_descriptor(x, q_min, q_max, form, granularity),
         ForwardArgs(_tensor(x), *_qparams(scale, zero_point), _tensor(y)))
    return y


def fake_quantize_backward(x, dy, scale, zero_point, q_min, q_max, form=DIVIDE, granularity=PER_TENSOR):
    dx = empty(x.shape, x)
    _run("fake_quantize_backward", _fake_quantize_descriptor(x, q_min, q_max, form, granularity),
         FakeQuantizeBackwardArgs(_tensor(x), *_qparams(scale, zero_point), _tensor(dy), _tensor(dx), None, None, 1.0))
    return dx


def learn_quantize(x, dy, scale, zero_point, q_min, q_max, form=DIVIDE, granularity=PER_TENSOR, grad_factor=1.0,
                   dtype=None, outs=None):
    """(dx, d_scale, d_zero_point) of fake-quantise; a scale that is a number has gradients of the given dtype."""
    shape, dtype = (scale.shape, scale.dtype) if hasattr(scale, "shape") else ((), dtype)
    dx, d_scale, d_zero_point = outs or (empty(x.shape, x), empty(shape, x, dtype), empty(shape, x, dtype))
    _run("fake_quantize_backward", _fake_quantize_descriptor(x, q_min, q_max, form, granularity, learnable=1),
         FakeQuantizeBackwardArgs(_tensor(x), *_qparams(scale, zero_point), _tensor(dy), _tensor(dx),
                                  _tensor(d_scale), _tensor(d_zero_point), grad_factor))
    return dx, d_scale, d_zero_point


def dequantize(q, scale, zero_point, dtype, granularity=PER_TENSOR, out=None):
    x = empty(q.shape, q, dtype) if out is None else out
    descriptor = DequantizeDescriptor(shape_struct(q.shape), element_of(q), element_of(x), granularity, 0)
    _run("dequantize", descriptor, ForwardArgs(_tensor(q), *_qparams(scale, zero_point), _tensor(x)))
    return x


def dequantize_backward(dy, scale, codes=S8, granularity=PER_TENSOR):
    dq = empty(dy.shape, dy)
    descriptor = DequantizeDescriptor(shape_struct(dy.shape), codes, element_of(dy), granularity, 0)
    _run("dequantize_backward", descriptor,
         DequantizeBackwardArgs(*_number_or_tensor(scale, 0.0), _tensor(dy), _tensor(dq)))
    return dq


def scan(kind, x, axis=-1, reverse=False, exclusive=False, ties=TIES_FIRST, indices=None, out=None):
    """y; with indices, an s32 or s64 tensor that is written, for running maxima and minima."""
    y = empty(x.shape, x) if out is None else out
    _run("scan", ScanDescriptor(kind, shape_struct(x.shape), axis, reverse, element_of(x), exclusive, ties),
         ScanArgs(_tensor(x), _tensor(y), _tensor(indices)))
    return y


def scan_backward(kind, dy, x=None, y=None, axis=-1, reverse=False, exclusive=False, ties=TIES_FIRST, indices=None,
                  out=None):
    """dx; x, y and indices as far as the kind needs them."""
    dx = empty(dy.shape, dy) if out is None else out
    _run("scan_backward", ScanDescriptor(kind, shape_struct(dy.shape), axis, reverse, element_of(dy), exclusive, ties),
         ScanBackwardArgs(_tensor(dy), _tensor(dx), _tensor(x), _tensor(y), _tensor(indices)))
    return dx


def linear_recurrence(a, b, initial=None, axis=-1, reverse=False, out=None):
    h = empty(a.shape, a) if out is None else out
    _run("linear_recurrence", LinearRecurrenceDescriptor(shape_struct(a.shape), axis, reverse, element_of(a)),
         LinearRecurrenceArgs(_tensor(a), _tensor(b), _tensor(initial), _tensor(h)))
    return h


def linear_recurrence_backward(dh, a, h, initial=None, axis=-1, reverse=False, outs=None):
    """(da, db, d_initial); the last is None without an initial state."""
    d_initial = None if initial is None else empty(initial.shape, initial)
    da, db, d_initial = outs or (empty(a.shape, a), empty(a.shape, a), d_initial)
    _run("linear_recurrence_backward",
         LinearRecurrenceDescriptor(shape_struct(a.shape), axis, reverse, element_of(a)),
         LinearRecurrenceBackwardArgs(_tensor(dh), _tensor(a), _tensor(h), _tensor(initial), _tensor(da), _tensor(db),
                                      _tensor(d_initial)))
    return da, db, d_initial


def _binary_descriptor(kind, shape, element, a_shape, b_shape, weight):
    scalar = not hasattr(weight, "shape")
    return BinaryParamDescriptor(
        kind, shape_struct(shape), element, weight if scalar else 0.0,
        None if scalar else _pointer(shape_struct(weight.shape)),
        _pointer(shape_struct(a_shape)), _pointer(shape_struct(b_shape)))


def binary_param(kind, a, b, weight):
    """weight is a Python number or a tensor; a, b and weight broadcast against each other."""
    weight_tensor = weight if hasattr(weight, "shape") else None
    shape = np.broadcast_shapes(a.shape, b.shape, () if weight_tensor is None else weight.shape)
    y = empty(shape, a)
    _run("binary_param", _binary_descriptor(kind, shape, element_of(a), a.shape, b.shape, weight),
         BinaryParamArgs(_tensor(a), _tensor(b), _tensor(weight_tensor), _tensor(y)))
    return y


def binary_param_backward(kind, dy, a, b, weight):
    """(da, db, dw) in the shapes of a, b and weight; dw is None for a number."""
    weight_tensor = weight if hasattr(weight, "shape") else None
    da, db = empty(a.shape, a), empty(b.shape, b)
    dw = None if weight_tensor is None else empty(weight.shape, weight)
    _run("binary_param_backward", _binary_descriptor(kind, dy.shape, element_of(dy), a.shape, b.shape, weight),
         BinaryParamBackwardArgs(_tensor(dy), _tensor(a), _tensor(b), _tensor(weight_tensor), _tensor(da),
                                 _tensor(db), _tensor(dw)))
    return da, db, dw
