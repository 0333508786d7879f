#include "arguments.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

#include "messages.hpp"

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

/// "axis = None is not an integer", with the caller's name for the argument.
[[noreturn]] void raise_value(PyObject* type, nb::handle value, const char* name, const std::string& why) {
  raise(type, std::string(option_name(name)).append(" = ").append(text_of(nb::repr(value))).append(why));
}

/// Turns the conversion's own error into one that names the argument; other errors, such as Ctrl-C, stay.
[[noreturn]] void raise_conversion(nb::handle value, const char* name, const char* wanted) {
  const bool range = PyErr_ExceptionMatches(PyExc_OverflowError) != 0;
  if (!range && PyErr_ExceptionMatches(PyExc_TypeError) == 0) nb::raise_python_error();
  PyErr_Clear();
  if (range) raise(PyExc_ValueError, std::string(option_name(name)) + " is out of range");
  raise_value(PyExc_TypeError, value, name, std::string(" is not ") + wanted);
}

/// Whether an array of this shape serves as the one scale of a whole tensor.
bool is_one_number(const Shape& shape, const Granularity& granularity) {
  return std::holds_alternative<PerTensor>(granularity) && shape == Shape{1};
}

void require_axes(const Shape& shape, const char* scope) {
  if (shape.rank() > 0) return;
  raise(PyExc_ValueError, std::string("scope = '") + scope + "' needs " + std::string(caller_name("input")) +
                              " to have at least one dimension");
}

}  // namespace

ElementKind element_named(nb::handle dtype, const char* name, Dtypes dtypes) {
  const std::string text = name_of_dtype(dtype);
  for (const ElementKind element : kKnownDtypes) {
    if (text != python_name(element) && text != to_string(element)) continue;
    if (contains(dtypes, element)) return element;
    raise(PyExc_NotImplementedError,
          std::string(name).append(" = ").append(python_name(element)).append(" is none of ").append(text_of(dtypes)));
  }
  raise(PyExc_ValueError, std::string(name) + " = " + text + " is no dtype known here; it can be " + text_of(dtypes));
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
  raise_value(PyExc_ValueError, value, name, " is none of " + known);
}

double number(nb::handle value, const char* name) {
  if (PyFloat_Check(value.ptr())) return PyFloat_AsDouble(value.ptr());
  // NumPy's complex numbers would only lose their imaginary part.
  if (text_of(value.type().attr("__name__")).starts_with("complex")) {
    raise_value(PyExc_TypeError, value, name, " is not a real number");
  }
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1.0 && PyErr_Occurred() != nullptr) raise_conversion(value, name, "a real number");
  return result;
}

bool flag(nb::handle value, const char* name) {
  if (value.ptr() == Py_True || value.ptr() == Py_False) return value.ptr() == Py_True;
  const std::string type = text_of(value.type().attr("__name__"));
  if (type != "bool" && type != "bool_") {
    raise_value(PyExc_TypeError, value, name, " is not a bool");
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

int axis_of(nb::handle axis, const Shape& shape) {
  const nb::object index = nb::steal(PyNumber_Index(axis.ptr()));
  if (!index.is_valid()) raise_conversion(axis, "axis", "an integer");
  int overflow = 0;
  const long long given = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  const int rank = std::max(shape.rank(), 1);
  if (overflow != 0 || given < -rank || given >= rank) {
    raise(PyExc_ValueError, std::string(option_name("axis")) + " = " + text_of(index) + " is out of range for shape " +
                                text_of(shape) + ": it goes from " + std::to_string(-rank) + " to " +
                                std::to_string(rank - 1));
  }
  return static_cast<int>(given);
}

Granularity granularity_of(nb::handle scope, nb::handle axis, nb::handle group_size, const Shape& shape) {
  enum Scope { Tensor, Channel, Token, Group };
  int which = Tensor;
  if (!scope.is_none()) {
    which = choice_named(scope, "scope", {"tensor", "channel", "token", "group"});
  } else if (!group_size.is_none()) {
    which = Group;
  } else if (!axis.is_none()) {
    which = Channel;
  }
  const std::string axis_name(option_name("axis"));
  if (!group_size.is_none() && which != Group) raise(PyExc_ValueError, "group_size is for scope = 'group' only");
  if (!axis.is_none() && (which == Tensor || which == Token)) {
    raise(PyExc_ValueError, axis_name + " is for scope = 'channel' and 'group' only");
  }
  switch (which) {
    case Channel:
      if (axis.is_none()) raise(PyExc_ValueError, "scope = 'channel' needs an " + axis_name);
      require_axes(shape, "channel");
      return PerChannel{axis_of(axis, shape)};
    case Token:
      require_axes(shape, "token");
      return PerToken{};
    case Group:
      if (group_size.is_none()) raise(PyExc_ValueError, "scope = 'group' needs a group_size");
      require_axes(shape, "group");
      if (integer(group_size, "group_size") < 1) {
        raise_value(PyExc_ValueError, group_size, "group_size", " must be at least 1");
      }
      return PerGroup{axis.is_none() ? -1 : axis_of(axis, shape), integer(group_size, "group_size")};
    default:
      return PerTensor{};
  }
}

QParamArrays read_qparams(nb::handle scale, nb::handle zero_point, ElementKind element, const Shape& shape,
                          const Granularity& granularity) {
  QParamArrays result;
  if (is_number(scale)) {
    if (!std::holds_alternative<PerTensor>(granularity)) {
      raise(PyExc_ValueError,
            "scale is one number, but this scope has one for each of its parts: give an array of shape " +
                text_of(qparams_shape(shape, granularity)));
    }
    result.scale = number(scale, "scale");
  } else {
    Array array = read_array(scale, "scale", kKnownDtypes);
    if (array.element() != element && array.element() != compute_of(element)) {
      array = converted(array, compute_of(element));
    }
    result.scale_element = array.element();
    result.scale = ScaleArg(qparam_view(array, granularity));
    result.scale_array = std::move(array);
  }
  if (zero_point.is_none()) return result;
  if (is_number(zero_point)) {
    result.zero_point = integer(zero_point, "zero_point");
  } else {
    result.zero_point_array = read_zero_points(zero_point);
    result.zero_point = ZeroPointArg(qparam_view(*result.zero_point_array, granularity));
  }
  return result;
}

Shape gradient_shape(const std::optional<Array>& qparam, const Shape& shape, const Granularity& granularity) {
  return qparam && is_one_number(qparam->shape(), granularity) ? qparam->shape() : qparams_shape(shape, granularity);
}

AnyTensorMut qparam_view(const Array& array, const Granularity& granularity) {
  AnyTensorMut view = array.view;
  if (is_one_number(view.shape, granularity)) view.shape = Shape();
  return view;
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
