"""planck's C ABI through ctypes, as thin as it gets: structs, one call per operation, errors as exceptions.

Tensors are NumPy arrays or torch tensors and never copied: strides travel as they are, also negative ones. A
uint16 array is bf16, which NumPy has no name for. The library is the one that PLANCK_LIBRARY names.
"""

import ctypes
import os

import numpy as np
import torch

F16, BF16, F32, F64, S8, U8 = range(6)
DIVIDE, RECIPROCAL = 0, 1
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


class FakeQuantizeDescriptor(ctypes.Structure):
    _fields_ = [("shape", Shape), ("q_min", _i64), ("q_max", _i64), ("input_element", _i32), ("scale_form", _i32),
                ("trust_qparams", _i32)]


class FakeQuantizeArgs(ctypes.Structure):
    _fields_ = [("input", _tensor_p), ("scale", _f64), ("zero_point", _i64), ("output", _tensor_p)]


class FakeQuantizeBackwardArgs(ctypes.Structure):
    _fields_ = [("input", _tensor_p), ("scale", _f64), ("zero_point", _i64), ("d_output", _tensor_p),
                ("d_input", _tensor_p)]


class DequantizeDescriptor(ctypes.Structure):
    _fields_ = [("shape", Shape), ("input_element", _i32), ("output_element", _i32), ("trust_qparams", _i32)]


class DequantizeArgs(ctypes.Structure):
    _fields_ = [("input", _tensor_p), ("scale", _f64), ("zero_point", _i64), ("output", _tensor_p)]


class DequantizeBackwardArgs(ctypes.Structure):
    _fields_ = [("scale", _f64), ("d_output", _tensor_p), ("d_input", _tensor_p)]


class BinaryParamDescriptor(ctypes.Structure):
    _fields_ = [("kind", _i32), ("shape", Shape), ("element", _i32), ("param", _f64), ("weight_shape", _shape_p),
                ("a_shape", _shape_p), ("b_shape", _shape_p)]


class BinaryParamArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("a", "b", "weight", "y")]


class BinaryParamBackwardArgs(ctypes.Structure):
    _fields_ = [(name, _tensor_p) for name in ("dy", "a", "b", "weight", "da", "db", "dw")]


class PlanckError(RuntimeError):
    def __init__(self, status, message):
        super().__init__(f"status {status}: {message}")
        self.status = status


_library = ctypes.CDLL(os.environ["PLANCK_LIBRARY"])
_library.planck_last_error_message.restype = ctypes.c_char_p

_NUMPY_ELEMENTS = {"float16": F16, "uint16": BF16, "float32": F32, "float64": F64, "int8": S8, "uint8": U8}
_TORCH_ELEMENTS = {torch.float16: F16, torch.bfloat16: BF16, torch.float32: F32, torch.float64: F64,
                   torch.int8: S8, torch.uint8: U8}


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


def fake_quantize(x, scale, zero_point, q_min, q_max, form=DIVIDE, out=None):
    y = empty(x.shape, x) if out is None else out
    descriptor = FakeQuantizeDescriptor(shape_struct(x.shape), q_min, q_max, element_of(x), form, 0)
    _run("fake_quantize", descriptor, FakeQuantizeArgs(_tensor(x), scale, zero_point, _tensor(y)))
    return y


def fake_quantize_backward(x, dy, scale, zero_point, q_min, q_max, form=DIVIDE):
    dx = empty(x.shape, x)
    descriptor = FakeQuantizeDescriptor(shape_struct(x.shape), q_min, q_max, element_of(x), form, 0)
    _run("fake_quantize_backward", descriptor,
         FakeQuantizeBackwardArgs(_tensor(x), scale, zero_point, _tensor(dy), _tensor(dx)))
    return dx


def dequantize(q, scale, zero_point, dtype):
    x = empty(q.shape, q, dtype)
    descriptor = DequantizeDescriptor(shape_struct(q.shape), element_of(q), element_of(x), 0)
    _run("dequantize_per_tensor", descriptor, DequantizeArgs(_tensor(q), scale, zero_point, _tensor(x)))
    return x


def dequantize_backward(dy, scale, codes=S8):
    dq = empty(dy.shape, dy)
    descriptor = DequantizeDescriptor(shape_struct(dy.shape), codes, element_of(dy), 0)
    _run("dequantize_per_tensor_backward", descriptor, DequantizeBackwardArgs(scale, _tensor(dy), _tensor(dq)))
    return dq


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
