"""Stands in for PyTorch where there is no GPU: tensors in the CPU's memory that say through DLPack that they lie on a CUDA
device, or that they do not. Only what the Python package asks of PyTorch is here, and names can be left out."""

import ctypes
import functools
import sys
from types import SimpleNamespace

import numpy as np

CPU, CUDA = 1, 2
NAMES = ["float16", "float32", "float64", "int8", "uint8", "int32", "int64"]


class DType(str):
    """PyTorch's name of a dtype."""

    @property
    def numpy(self):
        return np.dtype(self.removeprefix("torch."))


def _tell(capsule, device):
    """Writes the device into what a capsule of DLPack 1 holds: version, context, deleter, flags, then data and device."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    at = pointer(capsule, b"dltensor_versioned") + 40
    ctypes.c_int32.from_address(at).value = CUDA
    ctypes.c_int32.from_address(at + 4).value = device
    return capsule


class Tensor:
    """On a CUDA device, or with None on the CPU."""

    requires_grad = False
    layout = "torch.strided"

    def __init__(self, array, device=0):
        self.array, self.index = array, device
        self.version = 0

    @property
    def is_cpu(self):
        return self.index is None

    @property
    def dtype(self):
        return DType(f"torch.{self.array.dtype}")

    @property
    def device(self):
        return "cpu" if self.is_cpu else f"cuda:{self.index}"

    def is_neg(self):
        return False

    def detach(self):
        return self

    def to(self, dtype):
        return Tensor(self.array.astype(dtype.numpy), self.index)

    def copy_(self, other):
        self.array[...] = other.array
        self.version += 1

    def data_ptr(self):
        return self.array.ctypes.data

    def __dlpack_device__(self):
        return (CPU, 0) if self.is_cpu else (CUDA, self.index)

    def __dlpack__(self, max_version):
        capsule = self.array.__dlpack__(max_version=max_version)
        return capsule if self.is_cpu else _tell(capsule, self.index)


class Cuda:
    """The current device, and its stream."""

    def __init__(self):
        self.device, self.stream = 0, 0

    def current_device(self):
        return self.device

    def current_stream(self, device):
        assert device == self.device
        return SimpleNamespace(cuda_stream=self.stream)


cuda = Cuda()
allocated = []  # the bytes of everything made on a device


def empty(shape, *, dtype, device):
    # All ones: nobody may count on what is in fresh memory.
    array = np.frombuffer(bytearray(b"\xff") * (int(np.prod(shape)) * dtype.numpy.itemsize), dtype.numpy).reshape(shape)
    allocated.append(array.nbytes)
    return Tensor(array, None if device == "cpu" else int(device.removeprefix("cuda:")))


def empty_like(tensor, dtype=None):
    return empty(tensor.array.shape, dtype=dtype or tensor.dtype, device=tensor.device)


def _increment_version(tensor):
    tensor.version += 1


def install(missing=None):
    """With all names, or without one: "_C._get_tracing_state"."""
    module = SimpleNamespace(
        Tensor=Tensor,
        autograd=SimpleNamespace(
            graph=SimpleNamespace(increment_version=_increment_version),
            forward_ad=SimpleNamespace(_current_level=-1),
        ),
        nn=SimpleNamespace(Parameter=type("Parameter", (Tensor,), {})),
        _C=SimpleNamespace(
            _get_tracing_state=lambda: None,
            _are_functorch_transforms_active=lambda: False,
            _len_torch_dispatch_stack=lambda: 0,
            _len_torch_function_stack=lambda: 0,
        ),
        cuda=cuda,
        empty=empty,
        empty_like=empty_like,
        is_grad_enabled=lambda: True,
        **{name: DType(f"torch.{name}") for name in NAMES},
    )
    if missing is not None:
        *path, name = missing.split(".")
        delattr(functools.reduce(getattr, path, module), name)
    sys.modules["torch"] = module
