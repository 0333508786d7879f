#include "array.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <string_view>

#include "dlpack.hpp"

namespace planck::python {
namespace {

/// A name in Python's pool of names, so that looking it up compares pointers.
PyObject* interned(const char* name) {
  PyObject* text = PyUnicode_InternFromString(name);
  if (text == nullptr) nb::raise_python_error();
  return text;
}

[[noreturn]] void raise_dtype(const char* name, const std::string& dtype) {
  raise(PyExc_NotImplementedError, std::string(name) + " has dtype " + dtype +
                                       "; there are float16, bfloat16, float32, float64, int8, uint8, int32 and int64");
}

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

void set_shape(AnyTensorMut& view, const std::int64_t* extents, int rank) {
  view.shape = Shape(std::span<const std::int64_t>(extents, static_cast<std::size_t>(rank)));
  view.capacity = kUnknownCapacity;
}

void set_contiguous(AnyTensorMut& view) {
  std::int64_t step = 1;
  for (int d = std::min(view.shape.rank(), kMaxRank) - 1; d >= 0; --d) {
    view.stride[d] = step;
    step *= view.shape[d];
  }
}

// NumPy. Its arrays' first fields have been the same since version 1.7, and the few functions used here have kept
// their places in its table; so the package is built without NumPy and works with versions 1 and 2.

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

/// NumPy's type numbers.
enum NumpyType : int {
  kByte = 1,
  kUbyte = 2,
  kInt = 5,
  kLong = 7,
  kLongLong = 9,
  kFloat = 11,
  kDouble = 12,
  kHalf = 23,
  kFirstUserType = 256
};

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
  }

  std::optional<ElementKind> element_of_number(const DescrFields* descr) const {
    switch (descr->number) {
      case kFloat:
        return ElementKind::F32;
      case kDouble:
        return ElementKind::F64;
      case kHalf:
        return ElementKind::F16;
      case kByte:
        return ElementKind::S8;
      case kUbyte:
        return ElementKind::U8;
      case kInt:
        return ElementKind::S32;
      case kLong:
        return sizeof(long) == 8 ? ElementKind::S64 : ElementKind::S32;
      case kLongLong:
        return ElementKind::S64;
      default:
        break;
    }
    if (descr->number < kFirstUserType) return std::nullopt;
    if (descr->number == bf16_number_) return ElementKind::Bf16;
    const nb::handle type(reinterpret_cast<PyObject*>(descr->scalar_type));
    if (text_of(type.attr("__name__")) != "bfloat16") return std::nullopt;
    bf16_number_ = descr->number;
    return ElementKind::Bf16;
  }

  int number_of(ElementKind element) const {
    switch (element) {
      case ElementKind::F16:
        return kHalf;
      case ElementKind::F32:
        return kFloat;
      case ElementKind::F64:
        return kDouble;
      case ElementKind::S8:
        return kByte;
      case ElementKind::U8:
        return kUbyte;
      case ElementKind::S32:
        return kInt;
      case ElementKind::S64:
        return sizeof(long) == 8 ? kLong : kLongLong;
      case ElementKind::Bf16:
        break;
    }
    if (bf16_number_ < 0) {
      nb::object type = nb::module_::import_("ml_dtypes").attr("bfloat16");
      bf16_number_ = nb::cast<int>(nb::module_::import_("numpy").attr("dtype")(type).attr("num"));
    }
    return bf16_number_;
  }

  PyTypeObject* array_type_;
  PyObject* generic_;
  PyObject* as_array_;
  PyObject* (*descr_from_number_)(int);
  PyObject* (*new_array_)(PyTypeObject*, PyObject* descr, int rank, const Py_ssize_t* extents,
                          const Py_ssize_t* strides, void* data, int flags, PyObject* object);
  mutable int bf16_number_ = -1;
};

// DLPack.

std::optional<ElementKind> element_of_dlpack(dlpack::DataType dtype) {
  if (dtype.lanes != 1) return std::nullopt;
  using enum dlpack::TypeCode;
  switch (dtype.code) {
    case Float:
      if (dtype.bits == 16) return ElementKind::F16;
      if (dtype.bits == 32) return ElementKind::F32;
      if (dtype.bits == 64) return ElementKind::F64;
      break;
    case Bfloat:
      if (dtype.bits == 16) return ElementKind::Bf16;
      break;
    case Int:
      if (dtype.bits == 8) return ElementKind::S8;
      if (dtype.bits == 32) return ElementKind::S32;
      if (dtype.bits == 64) return ElementKind::S64;
      break;
    case Uint:
      if (dtype.bits == 8) return ElementKind::U8;
      break;
  }
  return std::nullopt;
}

void raise_unless_cpu(const char* name, dlpack::Device device, nb::handle object) {
  if (device.type == dlpack::kCpu || device.type == dlpack::kCudaHost) return;
  raise(PyExc_NotImplementedError,
        std::string(name) + " is on device " +
            (nb::hasattr(object, "device") ? text_of(object.attr("device")) : std::to_string(device.type)) +
            "; the Python package runs on the CPU: move it there first");
}

AnyTensorMut view_of(const dlpack::Tensor& tensor, const char* name, nb::handle object) {
  raise_unless_cpu(name, tensor.device, object);
  const std::optional<ElementKind> element = element_of_dlpack(tensor.dtype);
  if (!element) {
    raise_dtype(name, nb::hasattr(object, "dtype") ? text_of(object.attr("dtype"))
                                                   : "of " + std::to_string(tensor.dtype.bits) + " bits");
  }
  AnyTensorMut view;
  view.data = tensor.data == nullptr ? nullptr : static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
  view.element = *element;
  set_shape(view, tensor.shape, tensor.rank);
  if (tensor.strides == nullptr) {
    set_contiguous(view);
  } else {
    std::copy_n(tensor.strides, std::min(tensor.rank, kMaxRank), view.stride.begin());
  }
  return view;
}

/// Any object with `__dlpack__`. The capsule is never emptied, and so frees what it holds.
Array see_dlpack(nb::handle object, const char* name) {
  const nb::tuple device = nb::tuple(object.attr("__dlpack_device__")());
  raise_unless_cpu(name, {nb::cast<std::int32_t>(nb::int_(device[0])), nb::cast<std::int32_t>(nb::int_(device[1]))},
                   object);
  nb::object capsule;
  try {
    capsule = object.attr("__dlpack__")(nb::arg("max_version") = nb::make_tuple(1, 3));
  } catch (nb::python_error& error) {
    if (!error.matches(PyExc_TypeError)) throw;
    capsule = object.attr("__dlpack__")();
  }
  Array array{nb::borrow(object), {}, Maker::Numpy, true, capsule};
  if (PyCapsule_IsValid(capsule.ptr(), "dltensor_versioned")) {
    const auto* managed =
        static_cast<const dlpack::ManagedTensorVersioned*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    if (managed->version.major != 1) {
      raise(PyExc_NotImplementedError, std::string(name) + " speaks DLPack " + std::to_string(managed->version.major) +
                                           ", of which only versions 0 and 1 are known here");
    }
    array.writable = (managed->flags & (dlpack::kReadOnly | dlpack::kIsCopied)) == 0;
    array.view = view_of(managed->tensor, name, object);
    return array;
  }
  const auto* managed = static_cast<const dlpack::ManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) nb::raise_python_error();
  array.view = view_of(managed->tensor, name, object);
  return array;
}

// PyTorch.

class Torch {
 public:
  /// Null as long as nobody has imported it: then nothing can be a tensor.
  static const Torch* get() {
    static const Torch* torch = nullptr;
    if (torch == nullptr) {
      PyObject* modules = PyImport_GetModuleDict();
      PyObject* module = PyDict_GetItemString(modules, "torch");
      // While it is being imported, not all of its names are there.
      if (module == nullptr || module == Py_None ||
          is_true(nb::getattr(nb::getattr(module, "__spec__", nb::none()), "_initializing", nb::bool_(false)))) {
        return nullptr;
      }
      torch = new Torch(nb::borrow(module));
    }
    return torch;
  }

  bool is_tensor(nb::handle object) const {
    return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(tensor_type_));
  }

  Array see(nb::handle object, const char* name) const {
    raise_if_recorded(object, name);
    // A view that is yet to be negated; its numbers are somewhere else's with the other sign.
    if (is_true(object.attr(nb::handle(is_neg_))())) {
      Array array = seen(object.attr("resolve_neg")(), name);
      array.writable = false;
      return array;
    }
    return seen(object, name);
  }

  /// The view of a tensor of which nothing needs to be asked.
  Array seen(nb::handle object, const char* name) const {
    if (api_ == nullptr) {
      // DLPack asks for a tensor that needs no gradient, whatever the mode.
      Array array = see_dlpack(object.attr("detach")(), name);
      array.maker = Maker::Torch;
      array.object = nb::borrow(object);
      return array;
    }
    dlpack::Tensor tensor{};
    const bool failed = api_->tensor_from_object(object.ptr(), &tensor) != 0;
    if (failed) PyErr_Clear();
    Array array{nb::borrow(object), {}, Maker::Torch, true};
    if (!failed) array.view = view_of(tensor, name, object);
    if (failed || (array.view.data == nullptr && has_elements(array.view))) raise_no_memory(object, name);
    return array;
  }

  Array make_like(const Array& like, ElementKind element) const {
    nb::object object = like.element() == element
                            ? nb::borrow(empty_like_)(like.object)
                            : nb::borrow(empty_like_)(like.object, nb::arg("dtype") = dtype_of(element));
    return seen(object, "out");
  }

  Array make(const Shape& shape, ElementKind element) const {
    nb::list extents;
    for (const std::int64_t extent : shape) extents.append(extent);
    // Whatever default device the user has set.
    return seen(nb::borrow(empty_)(extents, nb::arg("dtype") = dtype_of(element), nb::arg("device") = "cpu"), "out");
  }

  Array convert(nb::handle tensor, ElementKind element) const {
    return seen(tensor.attr("to")(dtype_of(element)), "tensor");
  }

  /// Says to autograd that the tensor was written.
  void touch(nb::handle object) const { nb::borrow(increment_version_)(object); }

 private:
  explicit Torch(nb::object module) {
    tensor_type_ = nb::object(module.attr("Tensor")).release().ptr();
    empty_ = nb::object(module.attr("empty")).release().ptr();
    empty_like_ = nb::object(module.attr("empty_like")).release().ptr();
    is_grad_enabled_ = nb::object(module.attr("is_grad_enabled")).release().ptr();
    increment_version_ = nb::object(module.attr("autograd").attr("graph").attr("increment_version")).release().ptr();
    requires_grad_ = interned("requires_grad");
    is_neg_ = interned("is_neg");
    module_ = module.release().ptr();
    if (nb::hasattr(tensor_type_, "__dlpack_c_exchange_api__")) {
      nb::object capsule = nb::handle(tensor_type_).attr("__dlpack_c_exchange_api__");
      const auto* api =
          static_cast<const dlpack::ExchangeApi*>(PyCapsule_GetPointer(capsule.ptr(), "dlpack_exchange_api"));
      if (api == nullptr) PyErr_Clear();
      while (api != nullptr && api->version.major != 1) api = api->previous;
      if (api != nullptr && api->tensor_from_object != nullptr) api_ = api;
    }
  }

  static bool has_elements(const AnyTensorMut& view) {
    return std::find(view.shape.begin(), view.shape.end(), 0) == view.shape.end();
  }

  [[noreturn]] static void raise_no_memory(nb::handle object, const char* name) {
    const std::string device = text_of(object.attr("device"));
    const std::string layout = text_of(object.attr("layout"));
    std::string why = " is a " + text_of(object.type().attr("__name__")) +
                      " without memory of its own, as there are in transforms: use the function of planck.torch";
    if (layout != "torch.strided") why = " is sparse (" + layout + "): call to_dense() on it first";
    if (device != "cpu") why = " is on device " + device + "; the Python package runs on the CPU: move it there first";
    raise(PyExc_NotImplementedError, name + why);
  }

  static bool is_true(const nb::object& object) { return object.ptr() == Py_True; }

  /// Gradients would silently be lost. Where none are recorded (in no_grad, in an autograd function) nothing is.
  void raise_if_recorded(nb::handle object, const char* name) const {
    if (!is_true(object.attr(nb::handle(requires_grad_))) || !is_true(nb::borrow(is_grad_enabled_)())) return;
    raise(PyExc_ValueError, std::string(name) +
                                " requires grad, and this function records no gradient: use the one of planck.torch, "
                                "detach() it, or call under torch.no_grad()");
  }

  nb::object dtype_of(ElementKind element) const {
    return nb::handle(module_).attr(std::string(python_name(element)).c_str());
  }

  PyObject* module_;
  PyObject* tensor_type_;
  PyObject* empty_;
  PyObject* empty_like_;
  PyObject* is_grad_enabled_;
  PyObject* increment_version_;
  PyObject* requires_grad_;
  PyObject* is_neg_;
  const dlpack::ExchangeApi* api_ = nullptr;
};

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

std::string text_of(nb::handle object) { return nb::str(object).c_str(); }

void raise(PyObject* type, const std::string& message) {
  PyErr_SetString(type, message.c_str());
  nb::raise_python_error();
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
  // PyTorch cannot compare all of its own integers.
  source = numpy_array(source);
  Array narrow = Numpy::get().convert(source, ElementKind::S32);
  if (!nb::cast<bool>(nb::bool_(narrow.object.attr("__eq__")(source).attr("all")()))) {
    raise(PyExc_ValueError, "zero_point has values that int32 cannot hold");
  }
  return narrow;
}

}  // namespace planck::python
