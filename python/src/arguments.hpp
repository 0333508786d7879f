// What Python callers write, as the library's values: names of dtypes and options, granularities, scales and weights.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>

#include "array.hpp"
#include "planck/quantize.hpp"

namespace planck::python {

/// "int8", "s8", numpy.int8, numpy.dtype("int8"), torch.int8, ml_dtypes.bfloat16 …: one of `dtypes`.
ElementKind element_named(nb::handle dtype, const char* name, Dtypes dtypes);

/// The index of a string among the names that an argument may have.
int choice_named(nb::handle value, const char* name, std::initializer_list<std::string_view> names);

double number(nb::handle value, const char* name);
/// True or False, Python's or NumPy's.
bool flag(nb::handle value, const char* name);
std::int64_t integer(nb::handle value, const char* name);
std::int64_t integer_or(nb::handle value, const char* name, std::int64_t when_none);

/// An axis of an array, of which a single number has one.
int axis_of(nb::handle axis, const Shape& shape);

/// From `scope`, or where that is None from what else is given: an axis alone is a channel's, a group size a group's.
/// The shape is that of the array with the elements.
Granularity granularity_of(nb::handle scope, nb::handle axis, nb::handle group_size, const Shape& shape);

/// Scale and zero point of a call, and the arrays that hold them.
struct QParamArrays {
  std::optional<Array> scale_array;
  std::optional<Array> zero_point_array;
  ScaleArg scale;
  ZeroPointArg zero_point;
  std::optional<ElementKind> scale_element;
};

/// Numbers as they are; arrays of another dtype than the plan takes are converted. `element` is the floats' kind,
/// `shape` that of the array with the elements. For a whole tensor an array of one element is a number too.
QParamArrays read_qparams(nb::handle scale, nb::handle zero_point, ElementKind element, const Shape& shape,
                          const Granularity& granularity);

/// The shape of a scale's or zero point's gradient: that of the array as it was given.
Shape gradient_shape(const std::optional<Array>& qparam, const Shape& shape, const Granularity& granularity);

/// The view of a scale, zero point or gradient of one, as plans take it: a whole tensor's has rank 0.
AnyTensorMut qparam_view(const Array& array, const Granularity& granularity);

/// Item i of a tuple of outputs, or None if there is no tuple.
nb::object item_or_none(nb::handle outputs, int i, int count);
/// An error if there is an item i, for a result that is not made.
void refuse_item(nb::handle outputs, int i, int count);

}  // namespace planck::python
