#include "arguments.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace planck::python {
namespace {

std::string name_of_dtype(nb::handle dtype) {
  if (PyUnicode_Check(dtype.ptr())) return text_of(dtype);
  for (const char* attribute : {"name", "__name__"}) {
    if (nb::hasattr(dtype, attribute)) return text_of(dtype.attr(attribute));
  }
  std::string text = text_of(dtype);
  return text.starts_with("torch.") ? text.substr(6) : text;
}

/// Turns the conversion's own error into one that names the argument; other errors, such as Ctrl-C, stay.
[[noreturn]] void raise_conversion(nb::handle value, const char* name, const char* wanted) {
  const bool range = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
  if (!range && PyErr_ExceptionMatches(PyExc_TypeError) == 0) nb::raise_python_error();
  PyErr_Clear();
  if (range) raise(PyExc_ValueError, std::string(name) + " is out of range");
  raise(PyExc_TypeError, std::string(name) + " = " + text_of(nb::repr(value)) + " is not " + wanted);
}

}  // namespace

ElementKind element_named(nb::handle dtype, const char* name) {
  using enum ElementKind;
  const std::string text = name_of_dtype(dtype);
  for (const ElementKind element : {F16, Bf16, F32, F64, S8, U8, S32, S64}) {
    if (text == python_name(element) || text == to_string(element)) return element;
  }
  raise(PyExc_ValueError, std::string(name) + " = " + text + " is no dtype known here; there are " + kKnownDtypes);
}

int choice_named(nb::handle value, const char* name, std::initializer_list<std::string_view> names) {
  std::string known;
  int index = 0;
  if (PyUnicode_Check(value.ptr())) {
    Py_ssize_t size = 0;
    const char* text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
    if (text == nullptr) nb::raise_python_error();
    for (const std::string_view candidate : names) {
      if (candidate == std::string_view(text, static_cast<std::size_t>(size))) return index;
      ++index;
    }
  }
  for (const std::string_view candidate : names) known.append(known.empty() ? "" : ", ").append(candidate);
  raise(PyExc_ValueError, std::string(name) + " = " + text_of(nb::repr(value)) + " is none of " + known);
}

double number(nb::handle value, const char* name) {
  if (PyFloat_Check(value.ptr())) return PyFloat_AsDouble(value.ptr());
  // NumPy's complex numbers would only lose their imaginary part.
  if (text_of(value.type().attr("__name__")).starts_with("complex")) {
    raise(PyExc_TypeError, std::string(name) + " = " + text_of(nb::repr(value)) + " is not a real number");
  }
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1.0 && PyErr_Occurred() != nullptr) raise_conversion(value, name, "a real number");
  return result;
}

bool flag(nb::handle value, const char* name) {
  if (value.ptr() == Py_True || value.ptr() == Py_False) return value.ptr() == Py_True;
  const std::string type = text_of(value.type().attr("__name__"));
  if (type != "bool" && type != "bool_") {
    raise(PyExc_TypeError, std::string(name) + " = " + text_of(nb::repr(value)) + " is not a bool");
  }
  return PyObject_IsTrue(value.ptr()) == 1;
}

std::int64_t integer(nb::handle value, const char* name) {
  const nb::object index = nb::steal(PyNumber_Index(value.ptr()));
  if (!index.is_valid()) raise_conversion(value, name, "an integer");
  const long long result = PyLong_AsLongLong(index.ptr());
  if (result == -1 && PyErr_Occurred() != nullptr) raise_conversion(value, name, "an integer");
  return result;
}

std::int64_t integer_or(nb::handle value, const char* name, std::int64_t when_none) {
  return value.is_none() ? when_none : integer(value, name);
}

int axis_of(nb::handle axis) {
  constexpr std::int64_t kLimit = std::numeric_limits<int>::max();
  return static_cast<int>(std::clamp(integer(axis, "axis"), -kLimit, kLimit));
}

Granularity granularity_of(nb::handle scope, nb::handle axis, nb::handle group_size) {
  enum Scope { Tensor, Channel, Token, Group };
  int which = Tensor;
  if (!scope.is_none()) {
    which = choice_named(scope, "scope", {"tensor", "channel", "token", "group"});
  } else if (!group_size.is_none()) {
    which = Group;
  } else if (!axis.is_none()) {
    which = Channel;
  }
  if (!group_size.is_none() && which != Group) raise(PyExc_ValueError, "group_size is for scope = 'group' only");
  if (!axis.is_none() && (which == Tensor || which == Token)) {
    raise(PyExc_ValueError, "axis is for scope = 'channel' and 'group' only");
  }
  switch (which) {
    case Channel:
      if (axis.is_none()) raise(PyExc_ValueError, "scope = 'channel' needs an axis");
      return PerChannel{axis_of(axis)};
    case Token:
      return PerToken{};
    case Group:
      if (group_size.is_none()) raise(PyExc_ValueError, "scope = 'group' needs a group_size");
      return PerGroup{axis.is_none() ? -1 : axis_of(axis), integer(group_size, "group_size")};
    default:
      return PerTensor{};
  }
}

QParamArrays read_qparams(nb::handle scale, nb::handle zero_point, ElementKind element) {
  QParamArrays result;
  if (is_number(scale)) {
    result.scale = number(scale, "scale");
  } else {
    Array array = read_array(scale, "scale");
    if (array.element() != element && array.element() != compute_of(element)) {
      array = converted(array, compute_of(element));
    }
    result.scale_element = array.element();
    result.scale = ScaleArg(array.view);
    result.scale_array = std::move(array);
  }
  if (zero_point.is_none()) return result;
  if (is_number(zero_point)) {
    result.zero_point = integer(zero_point, "zero_point");
  } else {
    result.zero_point_array = read_zero_points(zero_point);
    result.zero_point = ZeroPointArg(result.zero_point_array->view);
  }
  return result;
}

void refuse_item(nb::handle outputs, int i, int count) {
  if (item_or_none(outputs, i, count).is_none()) return;
  raise(PyExc_ValueError, "out[" + std::to_string(i) + "] is given, but this call has no such result");
}

nb::object item_or_none(nb::handle outputs, int i, int count) {
  if (outputs.is_none()) return nb::none();
  if (!PyTuple_Check(outputs.ptr()) || PyTuple_Size(outputs.ptr()) != count) {
    raise(PyExc_TypeError, "out is not a tuple of " + std::to_string(count) + " arrays (None where one is to be made)");
  }
  return nb::borrow(PyTuple_GetItem(outputs.ptr(), i));
}

}  // namespace planck::python
