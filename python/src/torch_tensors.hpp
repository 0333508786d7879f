// PyTorch's tensors: seen, made and converted. Part of array.cpp.
#pragma once

#include <algorithm>
#include <array>

#include "array.hpp"
#include "dlpack_arrays.hpp"

namespace planck::python {

/// A name in Python's pool of names, so that looking it up compares pointers.
inline PyObject* interned(const char* name) {
  PyObject* text = PyUnicode_InternFromString(name);
  if (text == nullptr) nb::raise_python_error();
  return text;
}

/// Who takes part in a call of planck.torch; python/planck/torch/_autograd.py has the same numbers.
enum class Way {
  Dispatch,  ///< somebody beside the caller needs to know of it
  Run,       ///< nobody does, and no gradient is wanted
  Record,    ///< or one is
};

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

  /// The way of a call with these tensors (or None). All is asked anew each time: modes come and go.
  Way way_of(nb::handle tensors) const {
    bool recorded = false;
    for (Py_ssize_t i = 0; i < PyTuple_Size(tensors.ptr()); ++i) {
      const nb::handle tensor = PyTuple_GetItem(tensors.ptr(), i);
      if (tensor.is_none()) continue;
      const PyObject* const type = tensor.type().ptr();
      if ((type != tensor_type_ && type != parameter_type_) || !is_true(tensor.attr(nb::handle(is_cpu_)))) {
        return Way::Dispatch;
      }
      recorded = recorded || is_true(tensor.attr(nb::handle(requires_grad_)));
    }
    if (others_know()) return Way::Dispatch;
    return recorded && is_true(call(is_grad_enabled_)) ? Way::Record : Way::Run;
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

  /// The view of a tensor of which nothing needs to be asked but whether its elements are bytes.
  Array seen(nb::handle object, const char* name) const {
    Array array = seen_through_dlpack(object, name);
    // DLPack says int8 or uint8 for int1 to int7 and uint1 to uint7, whose bits may lie in any way.
    const ElementKind element = array.element();
    if (is_quantized(element)) {
      const nb::object dtype = object.attr(nb::handle(dtype_));
      if (!dtype.equal(dtype_of(element))) raise_dtype(name, text_of(dtype));
    }
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
    return seen(nb::borrow(empty_)(extents, nb::arg("dtype") = dtype_of(element), nb::arg("device") = call_device()),
                "out");
  }

  /// One number, as a tensor of no dimensions.
  Array full(double value, ElementKind element) const {
    return seen(nb::handle(module_).attr("full")(nb::tuple(), value, nb::arg("dtype") = dtype_of(element),
                                                 nb::arg("device") = call_device()),
                "number");
  }

  void* cuda_stream(int device) const {
    const nb::object cuda = nb::handle(module_).attr("cuda");
    const int current = nb::cast<int>(nb::int_(cuda.attr("current_device")()));
    if (current != device) {
      raise(PyExc_ValueError, "the arrays are on " + CallDevice::text_of_device(device) +
                                  ", but the current device is " + CallDevice::text_of_device(current) +
                                  ": call under torch.cuda.device()");
    }
    const auto handle = nb::cast<std::uintptr_t>(nb::int_(cuda.attr("current_stream")(device).attr("cuda_stream")));
    return reinterpret_cast<void*>(handle);
  }

  nb::object cuda_memory(int device, std::size_t bytes, void*& data) const {
    nb::object memory = nb::borrow(empty_)(bytes, nb::arg("dtype") = dtype_of(ElementKind::U8),
                                           nb::arg("device") = CallDevice::text_of_device(device).c_str());
    data = reinterpret_cast<void*>(nb::cast<std::uintptr_t>(nb::int_(memory.attr("data_ptr")())));
    return memory;
  }

  Array convert(nb::handle tensor, ElementKind element) const {
    return seen(tensor.attr("to")(dtype_of(element)), "tensor");
  }

  /// Refuses tensors whose elements do not stand in memory one by one, each kind with the way out.
  static void refuse_kind(nb::handle object, const char* name) {
    const auto is = [&](const char* kind) { return is_true(nb::getattr(object, kind, nb::bool_(false))); };
    const std::string layout = text_of(object.attr("layout"));
    std::string why;
    if (is("is_quantized")) {
      why = " is quantised by PyTorch (" + text_of(object.attr("dtype")) +
            "): call dequantize() on it first for its values, or int_repr() for its codes";
    } else if (is("is_nested")) {
      why = " is a nested tensor: call this function for each part of unbind(), or to_padded_tensor() on it first";
    } else if (is("is_mkldnn")) {
      why = " has oneDNN's layout (torch._mkldnn): call to_dense() on it first";
    } else if (layout != "torch.strided") {
      why = " is sparse (" + layout + "): call to_dense() on it first";
    }
    if (!why.empty()) raise(PyExc_NotImplementedError, name + why);
  }

  /// Says to autograd that the tensor was written. Older versions notice only what they write themselves.
  void touch(nb::handle object) const {
    if (increment_version_ == nullptr) {
      const nb::object graph = part_of(part_of(module_, "autograd"), "graph");
      increment_version_ = part_of(graph, "increment_version").release().ptr();
    }
    if (nb::handle(increment_version_).is_none()) {
      object.attr("copy_")(object.attr("detach")());
    } else {
      nb::borrow(increment_version_)(object);
    }
  }

 private:
  explicit Torch(nb::object module) {
    tensor_type_ = nb::object(module.attr("Tensor")).release().ptr();
    empty_ = nb::object(module.attr("empty")).release().ptr();
    empty_like_ = nb::object(module.attr("empty_like")).release().ptr();
    is_grad_enabled_ = nb::object(module.attr("is_grad_enabled")).release().ptr();
    parameter_type_ = nb::object(module.attr("nn").attr("Parameter")).release().ptr();
    current_level_ = interned("_current_level");
    requires_grad_ = interned("requires_grad");
    is_cpu_ = interned("is_cpu");
    is_neg_ = interned("is_neg");
    dtype_ = interned("dtype");
    for (const ElementInfo& element : kElements) {
      const std::string dtype(element.python_name);
      // A version that does not know a dtype has no tensors of it either.
      nb::object found = nb::getattr(module, dtype.c_str(), nb::none());
      dtypes_[static_cast<std::size_t>(element.kind)] = found.release().ptr();
    }
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

  Array seen_through_dlpack(nb::handle object, const char* name) const {
    if (api_ == nullptr) {
      refuse_kind(object, name);
      // DLPack asks for a tensor that needs no gradient, whatever the mode.
      Array array = see_dlpack(object.attr("detach")(), name, Maker::Torch);
      array.object = nb::borrow(object);
      return array;
    }
    dlpack::Tensor tensor{};
    const bool failed = api_->tensor_from_object(object.ptr(), &tensor) != 0;
    if (failed) PyErr_Clear();
    Array array{nb::borrow(object), {}, Maker::Torch, true};
    if (!failed) array.view = view_of(tensor, name, Maker::Torch, object);
    if (failed || (array.view.data == nullptr && has_elements(array.view))) raise_no_memory(object, name);
    return array;
  }

  /// Who might need to know of a call beside the caller: PyTorch's own names, which no version promises.
  struct Modes {
    PyObject* tracing_state;
    PyObject* transforms_active;
    PyObject* dispatch_modes;
    PyObject* function_modes;
    PyObject* forward_ad;
  };

  /// Null where this version does not have one of the names.
  const Modes* modes() const {
    if (!modes_found_) {
      const nb::object core = part_of(module_, "_C");
      const nb::object forward_ad = part_of(part_of(module_, "autograd"), "forward_ad");
      const bool has_level = nb::hasattr(forward_ad, nb::handle(current_level_));
      modes_ = {part_of(core, "_get_tracing_state").release().ptr(),
                part_of(core, "_are_functorch_transforms_active").release().ptr(),
                part_of(core, "_len_torch_dispatch_stack").release().ptr(),
                part_of(core, "_len_torch_function_stack").release().ptr(),
                has_level ? nb::object(forward_ad).release().ptr() : Py_None};
      modes_found_ = true;
      modes_known_ = modes_.tracing_state != Py_None && modes_.transforms_active != Py_None &&
                     modes_.dispatch_modes != Py_None && modes_.function_modes != Py_None &&
                     modes_.forward_ad != Py_None;
    }
    return modes_known_ ? &modes_ : nullptr;
  }

  /// Whether modes, transforms or a trace are, or may be, in the way: the registered operation is right for all of
  /// them.
  bool others_know() const {
    const Modes* const m = modes();
    return m == nullptr || !call(m->tracing_state).is_none() || is_true(call(m->transforms_active)) ||
           is_positive(call(m->dispatch_modes)) || is_positive(call(m->function_modes)) ||
           !is_negative(nb::handle(m->forward_ad).attr(nb::handle(current_level_)));
  }

  /// Or None.
  static nb::object part_of(nb::handle whole, const char* name) { return nb::getattr(whole, name, nb::none()); }

  static bool has_elements(const AnyTensorMut& view) {
    return std::find(view.shape.begin(), view.shape.end(), 0) == view.shape.end();
  }

  [[noreturn]] static void raise_no_memory(nb::handle object, const char* name) {
    const std::string device = text_of(object.attr("device"));
    if (device != "cpu") raise_device(name, device);
    const std::string dtype = text_of(object.attr("dtype"));
    if (dtype.starts_with("torch.bits")) raise_dtype(name, dtype);
    refuse_kind(object, name);
    raise(PyExc_NotImplementedError,
          std::string(name) + " is a " + text_of(object.type().attr("__name__")) +
              " without memory of its own, as there are in transforms: use the function of planck.torch");
  }

  static nb::str call_device() {
    const int device = CallDevice::get();
    return nb::str(device == CallDevice::kCpu ? "cpu" : CallDevice::text_of_device(device).c_str());
  }

  static bool is_true(const nb::object& object) { return object.ptr() == Py_True; }
  static bool is_positive(const nb::object& number) { return PyLong_AsLong(number.ptr()) > 0; }
  static bool is_negative(const nb::object& number) { return PyLong_AsLong(number.ptr()) < 0; }
  static nb::object call(PyObject* function) { return nb::borrow(function)(); }

  /// Gradients would silently be lost. Where none are recorded (in no_grad, in an autograd function) nothing is.
  void raise_if_recorded(nb::handle object, const char* name) const {
    if (!is_true(object.attr(nb::handle(requires_grad_))) || !is_true(call(is_grad_enabled_))) return;
    raise(PyExc_ValueError, std::string(name) +
                                " requires grad, and this function records no gradient: use the one of planck.torch, "
                                "detach() it, or call under torch.no_grad()");
  }

  nb::handle dtype_of(ElementKind element) const { return dtypes_[static_cast<std::size_t>(element)]; }

  PyObject* module_;
  PyObject* tensor_type_;
  PyObject* parameter_type_;
  PyObject* empty_;
  PyObject* empty_like_;
  PyObject* is_grad_enabled_;
  mutable PyObject* increment_version_ = nullptr;  ///< looked up when it is needed, as are the modes
  mutable Modes modes_{};
  mutable bool modes_found_ = false;
  mutable bool modes_known_ = false;
  PyObject* current_level_;
  PyObject* requires_grad_;
  PyObject* is_cpu_;
  PyObject* is_neg_;
  PyObject* dtype_;
  std::array<PyObject*, kElements.size()> dtypes_;  ///< by kind
  const dlpack::ExchangeApi* api_ = nullptr;
};

}  // namespace planck::python
