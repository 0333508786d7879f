#include "array.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "arguments.hpp"
#include "dlpack_arrays.hpp"
#include "messages.hpp"
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

[[noreturn]] void raise_dtypes(const char* name, std::string_view dtype, Dtypes dtypes) {
  raise(PyExc_NotImplementedError,
        std::string(name).append(" has dtype ").append(dtype).append("; it can be ").append(text_of(dtypes)));
}

[[noreturn]] void raise_other_dtype(const char* name, std::string_view dtype, ElementKind wanted) {
  raise(PyExc_ValueError,
        std::string(name).append(" has dtype ").append(dtype).append(", but must have ").append(python_name(wanted)));
}

/// Not int4 and its kin, whose bits may lie in any way, nor codes of quantised tensors.
bool is_torch_integer(std::string_view dtype) {
  for (const std::string_view width : {"8", "16", "32", "64"}) {
    for (const std::string_view kind : {"torch.int", "torch.uint"}) {
      if (dtype.starts_with(kind) && dtype.substr(kind.size()) == width) return true;
    }
  }
  return false;
}

/// An output that the caller brought.
Array callers_output(nb::handle out, const char* name, ElementKind element) {
  std::optional<Array> array;
  try {
    array = see(out, name);
  } catch (const UnknownDtype& unknown) {
    raise_other_dtype(name, unknown.what(), element);
  }
  if (!array) {
    raise(PyExc_TypeError, std::string(name) + " is a " + text_of(out.type().attr("__name__")) + ", not an array");
  }
  check_rank(name, array->shape());
  if (array->element() != element) raise_other_dtype(name, python_name(array->element()), element);
  if (!array->writable) raise(PyExc_ValueError, std::string(name) + " is read-only");
  array->callers_tensor = array->maker == Maker::Torch;
  return *std::move(array);
}

}  // namespace

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  nb::raise_python_error();
}

void raise_dtype(const char*, const std::string& dtype) { throw UnknownDtype(dtype); }

std::string text_of(Dtypes dtypes) {
  std::vector<std::string_view> names;
  for (const ElementKind element : dtypes) names.push_back(python_name(element));
  return one_of(names);
}

std::string text_of(const Shape& shape) {
  std::string text;
  for (const std::int64_t extent : shape) text.append(text.empty() ? "[" : ", ").append(std::to_string(extent));
  return (text.empty() ? "[" : text) + "]";
}

bool contains(Dtypes dtypes, ElementKind element) {
  return std::find(dtypes.begin(), dtypes.end(), element) != dtypes.end();
}

void check_rank(const char* name, const Shape& shape) {
  if (shape.rank() <= kMaxRank) return;
  raise(PyExc_NotImplementedError,
        std::string(name) + " has rank " + std::to_string(shape.rank()) + "; ranks 0 to 8 are supported");
}

bool is_number(nb::handle object) {
  return PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr()) || Numpy::get().is_scalar(object);
}

Array read_array(nb::handle object, const char* name, Dtypes dtypes) {
  try {
    std::optional<Array> array = see(object, name);
    if (!array) {
      if (object.is_none()) raise(PyExc_TypeError, std::string(name) + " is None, not an array");
      nb::object made = Numpy::get().as_array(object);
      const char kind = text_of(made.attr("dtype").attr("kind"))[0];
      if (kind == 'O' || kind == 'U' || kind == 'S') {
        raise(PyExc_TypeError, std::string(name) + " is a " + text_of(object.type().attr("__name__")) +
                                   ", neither an array nor numbers");
      }
      array = Numpy::get().see(made, name);
    }
    check_rank(name, array->shape());
    if (!contains(dtypes, array->element())) raise_dtypes(name, python_name(array->element()), dtypes);
    return *std::move(array);
  } catch (const UnknownDtype& unknown) {
    raise_dtypes(name, unknown.what(), dtypes);
  }
}

std::optional<Array> read_optional(nb::handle object, const char* name, Dtypes dtypes) {
  if (object.is_none()) return std::nullopt;
  return read_array(object, name, dtypes);
}

std::vector<std::optional<Array>> read_operands(std::initializer_list<Operand> operands, Dtypes dtypes) {
  // Python's own numbers; numpy.float64 is a subclass of float.
  const auto takes_dtype = [](nb::handle object) {
    return (PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr())) && !Numpy::get().is_scalar(object);
  };
  std::vector<std::optional<Array>> arrays(operands.size());
  const Array* first = nullptr;
  const char* first_name = nullptr;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto& [object, name, may_be_none] = operands.begin()[i];
    if (takes_dtype(object) || (may_be_none && object.is_none())) continue;
    arrays[i] = read_array(object, name, dtypes);
    if (first == nullptr) {
      first = &*arrays[i];
      first_name = name;
    } else if (arrays[i]->element() != first->element()) {
      const bool scalar = Numpy::get().is_scalar(object);
      raise(PyExc_ValueError, std::string(name)
                                  .append(" has dtype ")
                                  .append(python_name(arrays[i]->element()))
                                  .append(", and ")
                                  .append(first_name)
                                  .append(" ")
                                  .append(python_name(first->element()))
                                  .append(": convert one of them")
                                  .append(scalar ? " (a Python number takes the dtype of the arrays)" : ""));
    }
  }
  std::optional<Array> lonely;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const auto& [object, name, may_be_none] = operands.begin()[i];
    if (!takes_dtype(object)) continue;
    if (first == nullptr) {
      lonely = Numpy::get().make(nullptr, Shape(), ElementKind::F64);
      first = &*lonely;
    }
    arrays[i] = number_like(object, name, *first);
  }
  return arrays;
}

Array output_like(nb::handle out, const char* name, const Array& like, ElementKind element) {
  if (!out.is_none()) return callers_output(out, name, element);
  return like.maker == Maker::Torch ? Torch::get()->make_like(like, element)
                                    : Numpy::get().make(&like, like.shape(), element);
}

Array output_array(nb::handle out, const char* name, Maker maker, const Shape& shape, ElementKind element) {
  if (!out.is_none()) return callers_output(out, name, element);
  return maker == Maker::Torch ? Torch::get()->make(shape, element) : Numpy::get().make(nullptr, shape, element);
}

void refuse_kind(nb::handle tensor, const char* name) { Torch::refuse_kind(tensor, name); }

int torch_way(nb::handle tensors) { return static_cast<int>(Torch::get()->way_of(tensors)); }

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

Array number_like(nb::handle value, const char* name, const Array& like) {
  const double number_ = number(value, name);
  if (std::isfinite(number_) && std::abs(number_) > info_of(like.element()).largest) {
    raise(PyExc_ValueError, std::string(name)
                                .append(" = ")
                                .append(text_of(nb::repr(value)))
                                .append(" is beyond ")
                                .append(python_name(like.element())));
  }
  if (like.maker == Maker::Torch) return Torch::get()->full(number_, like.element());
  return Numpy::get().convert(Numpy::get().as_array(nb::float_(number_)), like.element());
}

Array read_zero_points(nb::handle object) {
  const Torch* torch = Torch::get();
  const bool tensor = torch != nullptr && torch->is_tensor(object);
  if (tensor) Torch::refuse_kind(object, "zero_point");
  nb::object source = tensor ? nb::borrow(object) : numpy_array(object);
  const std::string dtype = text_of(source.attr("dtype"));
  if (dtype == "int32" || dtype == "torch.int32") return read_array(source, "zero_point", kIndices);
  const bool integers =
      nb::hasattr(source, "__array_interface__")
          ? std::string_view("iu").find(text_of(source.attr("dtype").attr("kind"))) != std::string::npos
          : is_torch_integer(dtype);
  if (!integers) {
    raise(PyExc_TypeError, "zero_point has dtype " + dtype + "; zero points are integers of 8 to 64 bits");
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
