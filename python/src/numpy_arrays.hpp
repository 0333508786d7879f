// NumPy's arrays: seen, made and converted. Part of array.cpp.
//
// Their first fields have been the same since version 1.7, and the few functions used here have kept their places in
// NumPy's table; so the package is built without NumPy and works with versions 1 and 2.
#pragma once

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>

#include "array.hpp"
#include "call_device.hpp"

namespace planck::python {

struct ArrayFields {
  PyObject_HEAD char* data;
  int rank;
  Py_ssize_t* extents;
  Py_ssize_t* strides;
  PyObject* base;
  PyObject* descr;
  int flags;
};

struct DescrFields {
  PyObject_HEAD PyTypeObject* scalar_type;
  char kind;
  char type;
  char byte_order;
  char flags;
  int number;
};

/// NumPy's type numbers: its own, of which half precision is the last of numbers, and from 256 on those that packages
/// like ml_dtypes have registered.
constexpr int kOwnTypes = 24;
constexpr int kFirstUserType = 256;

constexpr int kWriteable = 0x400;

class Numpy {
 public:
  static const Numpy& get() {
    // Never freed: Python may be gone before static objects are. Made under Python's lock and not C++'s, since the
    // import gives up the former; two that are made at once do no harm.
    static const Numpy* numpy = nullptr;
    if (numpy == nullptr) {
      const Numpy* made = new Numpy;
      if (numpy == nullptr) numpy = made;
    }
    return *numpy;
  }

  bool is_array(nb::handle object) const { return PyObject_TypeCheck(object.ptr(), array_type_); }
  bool is_scalar(nb::handle object) const { return PyObject_IsInstance(object.ptr(), generic_) == 1; }

  nb::object as_array(nb::handle object) const { return nb::borrow(as_array_)(object); }

  Array see(nb::handle object, const char* name) const {
    CallDevice::see(CallDevice::kCpu, name);
    const auto* fields = reinterpret_cast<const ArrayFields*>(object.ptr());
    const auto* descr = reinterpret_cast<const DescrFields*>(fields->descr);
    if (object.type().ptr() != reinterpret_cast<PyObject*>(array_type_) && nb::hasattr(object, "mask")) {
      raise(PyExc_TypeError, std::string(name) + " is a masked array, whose mask would be lost: fill it first");
    }
    const std::optional<ElementKind> element = element_of_number(descr);
    if (!element || descr->byte_order == '>') raise_dtype(name, text_of(nb::handle(fields->descr)));
    Array array{nb::borrow(object), {}, Maker::Numpy, (fields->flags & kWriteable) != 0};
    array.view.data = fields->data;
    array.view.element = *element;
    static_assert(sizeof(Py_ssize_t) == sizeof(std::int64_t));
    set_shape(array.view, reinterpret_cast<const std::int64_t*>(fields->extents), fields->rank);
    const std::int64_t bytes = size_of(*element);
    for (int d = 0; d < std::min(fields->rank, kMaxRank); ++d) {
      array.view.stride[d] = fields->strides[d] / bytes;
      if (fields->strides[d] % bytes != 0 && fields->extents[d] > 1) {
        raise(PyExc_ValueError, std::string(name) + " has a stride of " + std::to_string(fields->strides[d]) +
                                    " bytes, which is no whole number of " + std::string(python_name(*element)) +
                                    " elements: copy it first");
      }
    }
    return array;
  }

  Array convert(nb::handle array, ElementKind element) const {
    return see(array.attr("astype")(std::string(python_name(element)).c_str()), "array");
  }

  /// Row-major, or with the dimensions in the order that `like` has them in memory.
  Array make(const Array* like, const Shape& shape, ElementKind element) const {
    std::array<Py_ssize_t, kMaxRank> extents{};
    std::array<Py_ssize_t, kMaxRank> strides{};
    std::array<int, kMaxRank> order{};
    const int rank = shape.rank();
    std::copy(shape.begin(), shape.end(), extents.begin());
    std::iota(order.begin(), order.begin() + rank, 0);
    if (like != nullptr) {
      const auto larger = [&](int a, int b) { return std::abs(like->view.stride[a]) > std::abs(like->view.stride[b]); };
      for (int i = 1; i < rank; ++i) {
        for (int at = i; at > 0 && larger(order[at], order[at - 1]); --at) std::swap(order[at], order[at - 1]);
      }
    }
    Array array;
    array.view.element = element;
    array.view.shape = shape;
    array.view.capacity = kUnknownCapacity;
    std::int64_t step = 1;
    for (int i = rank - 1; i >= 0; --i) {
      const int d = order[i];
      array.view.stride[d] = step;
      strides[d] = step * size_of(element);
      step *= std::max<std::int64_t>(shape[d], 1);
    }
    array.object = nb::steal(new_array_(array_type_, descr_from_number_(number_of(element)), rank, extents.data(),
                                        strides.data(), nullptr, 0, nullptr));
    if (!array.object.is_valid()) nb::raise_python_error();
    array.view.data = reinterpret_cast<const ArrayFields*>(array.object.ptr())->data;
    return array;
  }

 private:
  Numpy() {
    nb::object numpy = nb::module_::import_("numpy");
    const int major = std::atoi(text_of(numpy.attr("__version__")).c_str());
    nb::object table = nb::module_::import_(major >= 2 ? "numpy._core.multiarray" : "numpy.core.multiarray");
    auto** api = static_cast<void**>(PyCapsule_GetPointer(nb::object(table.attr("_ARRAY_API")).ptr(), nullptr));
    if (api == nullptr) nb::raise_python_error();
    array_type_ = static_cast<PyTypeObject*>(api[2]);
    descr_from_number_ = reinterpret_cast<decltype(descr_from_number_)>(api[45]);
    new_array_ = reinterpret_cast<decltype(new_array_)>(api[94]);
    generic_ = nb::object(numpy.attr("generic")).release().ptr();
    as_array_ = nb::object(numpy.attr("asarray")).release().ptr();
    find_numbers();
  }

  /// NumPy's own numbers by the dtypes' names. Of two for one dtype (int64 is long or long long) the first is made.
  void find_numbers() {
    numbers_.fill(kUnknownNumber);
    for (int number = 0; number < kOwnTypes; ++number) {
      nb::object descr = nb::steal(descr_from_number_(number));
      if (!descr.is_valid()) nb::raise_python_error();
      own_[number] = element_with_name(text_of(descr.attr("name")));
      if (own_[number] && number_of_kind(*own_[number]) == kUnknownNumber) number_of_kind(*own_[number]) = number;
    }
  }

  static std::optional<ElementKind> element_with_name(const std::string& name) {
    for (const ElementInfo& element : kElements) {
      if (element.python_name == name) return element.kind;
    }
    return std::nullopt;
  }

  std::optional<ElementKind> element_of_number(const DescrFields* descr) const {
    if (is_own(descr->number)) return own_[descr->number];
    if (descr->number < kFirstUserType) return std::nullopt;
    const auto seen = std::find(numbers_.begin(), numbers_.end(), descr->number);
    if (seen != numbers_.end()) return kElements[static_cast<std::size_t>(seen - numbers_.begin())].kind;
    const nb::handle type(reinterpret_cast<PyObject*>(descr->scalar_type));
    const std::optional<ElementKind> element = element_with_name(text_of(type.attr("__name__")));
    // Another package's float32 is not NumPy's.
    if (!element || is_own(number_of_kind(*element))) return std::nullopt;
    number_of_kind(*element) = descr->number;
    return element;
  }

  int number_of(ElementKind element) const {
    int& number = number_of_kind(element);
    if (number == kUnknownNumber) {
      nb::object type = nb::module_::import_("ml_dtypes").attr(std::string(python_name(element)).c_str());
      number = nb::cast<int>(nb::module_::import_("numpy").attr("dtype")(type).attr("num"));
    }
    return number;
  }

  static bool is_own(int number) { return number >= 0 && number < kOwnTypes; }
  int& number_of_kind(ElementKind element) const { return numbers_[static_cast<std::size_t>(element)]; }

  static constexpr int kUnknownNumber = -1;
  PyTypeObject* array_type_;
  PyObject* generic_;
  PyObject* as_array_;
  PyObject* (*descr_from_number_)(int);
  PyObject* (*new_array_)(PyTypeObject*, PyObject* descr, int rank, const Py_ssize_t* extents,
                          const Py_ssize_t* strides, void* data, int flags, PyObject* object);
  std::array<std::optional<ElementKind>, kOwnTypes> own_;  ///< by number
  mutable std::array<int, kElements.size()> numbers_{};    ///< by kind; those of other packages once they are met
};

}  // namespace planck::python
