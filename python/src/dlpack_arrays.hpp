// Arrays that speak DLPack. Part of array.cpp.
#pragma once

#include <cstddef>
#include <span>

#include "array.hpp"
#include "call_device.hpp"
#include "dlpack.hpp"

namespace planck::python {

inline std::optional<ElementKind> element_of_dlpack(dlpack::DataType dtype) {
  for (const ElementInfo& element : kElements) {
    if (element.dlpack_code == dtype.code && element.bits == dtype.bits && dtype.lanes == 1) return element.kind;
  }
  return std::nullopt;
}

[[noreturn]] inline void raise_device(const char* name, const std::string& device) {
  raise(PyExc_NotImplementedError,
        std::string(name) + " is on device " + device + "; the Python package runs on the CPU: move it there first");
}

/// Notes the device of an array, if there are kernels for it.
inline void see_device(const char* name, dlpack::Device device, Maker maker, nb::handle object) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost) return CallDevice::see(CallDevice::kCpu, name);
  if (device.type == dlpack::kCuda || device.type == dlpack::kCudaManaged) {
    const std::string where = std::string(name) + " is on device cuda:" + std::to_string(device.id);
    if (!kBuiltWithCuda) {
      raise(PyExc_NotImplementedError,
            where +
                ", and this package was built without CUDA: build it with -C cmake.define.PLANCK_CUDA=ON, or move "
                "the array to the CPU first");
    }
    if (maker == Maker::Torch) return CallDevice::see(device.id, name);
    raise(PyExc_NotImplementedError, where + "; of arrays on CUDA devices only PyTorch's tensors are known here");
  }
  raise_device(name, nb::hasattr(object, "device") ? text_of(object.attr("device")) : std::to_string(device.type));
}

inline AnyTensorMut view_of(const dlpack::Tensor& tensor, const char* name, Maker maker, nb::handle object) {
  see_device(name, tensor.device, maker, object);
  const std::optional<ElementKind> element = element_of_dlpack(tensor.dtype);
  if (!element) {
    raise_dtype(name, nb::hasattr(object, "dtype") ? text_of(object.attr("dtype"))
                                                   : "of " + std::to_string(tensor.dtype.bits) + " bits");
  }
  void* const first = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  const Shape shape(std::span<const std::int64_t>(tensor.shape, static_cast<std::size_t>(tensor.rank)));
  return AnyTensorMut::strided(first, *element, shape, tensor.strides);
}

/// Any object with `__dlpack__`. The capsule is never emptied, and so frees what it holds.
inline Array see_dlpack(nb::handle object, const char* name, Maker maker = Maker::Numpy) {
  const nb::tuple device = nb::tuple(object.attr("__dlpack_device__")());
  see_device(name, {nb::cast<std::int32_t>(nb::int_(device[0])), nb::cast<std::int32_t>(nb::int_(device[1]))}, maker,
             object);
  nb::object capsule;
  try {
    capsule = object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 3));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = object.attr("__dlpack__")();
  }
  Array array{nb::borrow(object), {}, maker, true, capsule};
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed =
        static_cast<const dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      raise(PyExc_NotImplementedError, std::string(name) + " speaks DLPack " + std::to_string(managed->version.major) +
                                           ", of which only versions 0 and 1 are known here");
    }
    array.writable = (managed->flags & (dlpack::kReadOnly | dlpack::kIsCopied)) == 0;
    array.view = view_of(managed->tensor, name, maker, object);
    return array;
  }
  const auto* managed = static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) nb::raise_python_error();
  array.view = view_of(managed->tensor, name, maker, object);
  return array;
}

}  // namespace planck::python
