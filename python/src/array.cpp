#include "array.hpp"

#include <string_view>

#include "dlpack_arrays.hpp"
#include "numpy_arrays.hpp"
#include "torch_tensors.hpp"

namespace planck::python {
namespace {

/// The array behind an object that is one.
std::optional<Array> see(nb::handle object, const char* name) {
  const Numpy& numpy = Numpy::get();
  if (numpy.is_array(object)) return numpy.see(object, name);
  if (const Torch* torch = Torch::get(); torch != nullptr && torch->is_tensor(object)) return torch->see(object, name);
  if (!numpy.is_scalar(object) && nb::hasattr(object, "__dlpack__")) return see_dlpack(object, name);
  return std::nullopt;
}

/// A NumPy array of what is none of PyTorch's.
nb::object numpy_array(nb::handle object) {
  const Numpy& numpy = Numpy::get();
  if (numpy.is_array(object)) return nb::borrow(object);
  if (!numpy.is_scalar(object) && nb::hasattr(object, "__dlpack__")) {
    return nb::module_::import_("numpy").attr("from_dlpack")(object);
  }
  return numpy.as_array(object);
}

/// An output that the caller brought.
Array callers_output(nb::handle out, const char* name) {
  std::optional<Array> array = see(out, name);
  if (!array) {
    raise(PyExc_TypeError, std::string(name) + " is a " + text_of(out.type().attr("__name__")) + ", not an array");
  }
  if (!array->writable) raise(PyExc_ValueError, std::string(name) + " is read-only");
  array->callers_tensor = array->maker == Maker::Torch;
  return *std::move(array);
}

}  // namespace

std::string_view python_name(ElementKind element) {
  switch (element) {
    case ElementKind::F16:
      return "float16";
    case ElementKind::Bf16:
      return "bfloat16";
    case ElementKind::F32:
      return "float32";
    case ElementKind::F64:
      return "float64";
    case ElementKind::S8:
      return "int8";
    case ElementKind::U8:
      return "uint8";
    case ElementKind::S32:
      return "int32";
    case ElementKind::S64:
      return "int64";
  }
  return "unknown";
}

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  nb::raise_python_error();
}

void raise_dtype(const char* name, const std::string& dtype) {
  raise(PyExc_NotImplementedError, std::string(name) + " has dtype " + dtype + "; there are " + kKnownDtypes);
}

bool is_number(nb::handle object) {
  return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr()) || Numpy::get().is_scalar(object);
}

Array read_array(nb::handle object, const char* name) {
  if (std::optional<Array> array = see(object, name)) return *std::move(array);
  if (object.is_none()) raise(PyExc_TypeError, std::string(name) + " is None, not an array");
  nb::object array = Numpy::get().as_array(object);
  const char kind = text_of(array.attr("dtype").attr("kind"))[0];
  if (kind == 'O' || kind == 'U' || kind == 'S') {
    raise(PyExc_TypeError,
          std::string(name) + " is a " + text_of(object.type().attr("__name__")) + ", neither an array nor numbers");
  }
  return Numpy::get().see(array, name);
}

std::optional<Array> read_optional(nb::handle object, const char* name) {
  if (object.is_none()) return std::nullopt;
  return read_array(object, name);
}

Array output_like(nb::handle out, const char* name, const Array& like, ElementKind element) {
  if (!out.is_none()) return callers_output(out, name);
  return like.maker == Maker::Torch ? Torch::get()->make_like(like, element)
                                    : Numpy::get().make(&like, like.shape(), element);
}

Array output_array(nb::handle out, const char* name, Maker maker, const Shape& shape, ElementKind element) {
  if (!out.is_none()) return callers_output(out, name);
  return maker == Maker::Torch ? Torch::get()->make(shape, element) : Numpy::get().make(nullptr, shape, element);
}

void* cuda_stream(int device) { return Torch::get()->cuda_stream(device); }
nb::object cuda_memory(int device, std::size_t bytes, void*& data) {
  return Torch::get()->cuda_memory(device, bytes, data);
}

void mark_written(const Array& array) {
  if (array.callers_tensor) Torch::get()->touch(array.object);
}

Array converted(const Array& array, ElementKind element) {
  if (array.maker == Maker::Torch) return Torch::get()->convert(array.object, element);
  return Numpy::get().convert(numpy_array(array.object), element);
}

Array read_zero_points(nb::handle object) {
  const Torch* torch = Torch::get();
  nb::object source = torch != nullptr && torch->is_tensor(object) ? nb::borrow(object) : numpy_array(object);
  const std::string dtype = text_of(source.attr("dtype"));
  if (dtype == "int32" || dtype == "torch.int32") return read_array(source, "zero_point");
  const bool integers =
      nb::hasattr(source, "__array_interface__")
          ? std::string_view("iu").find(text_of(source.attr("dtype").attr("kind"))) != std::string::npos
          : dtype.find("int") != std::string::npos;
  if (!integers) {
    raise(PyExc_TypeError, "zero_point has dtype " + dtype + "; zero points are integers");
  }
  // Nobody waits for a device to see whether they fit.
  if (CallDevice::get() != CallDevice::kCpu && torch != nullptr && torch->is_tensor(source)) {
    return torch->convert(source, ElementKind::S32);
  }
  // PyTorch cannot compare all of its own integers.
  source = numpy_array(source);
  Array narrow = Numpy::get().convert(source, ElementKind::S32);
  if (!nb::cast<bool>(nb::bool_(narrow.object.attr("__eq__")(source).attr("all")()))) {
    raise(PyExc_ValueError, "zero_point has values that int32 cannot hold");
  }
  return narrow;
}

}  // namespace planck::python
