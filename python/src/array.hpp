// Python arrays as tensor views, without a copy: NumPy arrays, PyTorch tensors, and whatever speaks DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "planck/tensor.hpp"

namespace planck::python {

namespace nb = nanobind;

/// str(object).
std::string text_of(nb::handle object);

/// Sets a Python exception and throws it.
[[noreturn]] void raise(PyObject* type, const std::string& message);

/// An error about an element kind that there is not.
[[noreturn]] void raise_dtype(const char* name, const std::string& dtype);

/// The name that NumPy and PyTorch have for an element kind.
std::string_view python_name(ElementKind element);
/// The names of all kinds, for messages.
inline constexpr const char* kKnownDtypes = "float16, bfloat16, float32, float64, int8, uint8, int32 and int64";

/// Extents, over memory whose end nobody says.
inline void set_shape(AnyTensorMut& view, const std::int64_t* extents, int rank) {
  view.shape = Shape(std::span<const std::int64_t>(extents, static_cast<std::size_t>(rank)));
  view.capacity = kUnknownCapacity;
}

/// Whether PyTorch's CUDA tensors can be run on.
#if defined(PLANCK_PYTHON_CUDA)
inline constexpr bool kBuiltWithCuda = true;
#else
inline constexpr bool kBuiltWithCuda = false;
#endif

/// Who makes the outputs that belong to an input.
enum class Maker { Numpy, Torch };

/// A Python array and the view of its elements.
struct Array {
  nb::object object;
  AnyTensorMut view;
  Maker maker = Maker::Numpy;
  bool writable = true;
  nb::object keeper = {};       ///< holds the memory if the object alone does not
  bool callers_tensor = false;  ///< a PyTorch tensor that the caller gave to be written

  const Shape& shape() const { return view.shape; }
  ElementKind element() const { return view.element; }
};

/// Whether `object` is a number and no array: a Python or NumPy scalar.
bool is_number(nb::handle object);

/// An input: an array, or what NumPy makes of anything else. `name` is for the message if that fails.
Array read_array(nb::handle object, const char* name);

/// None, or an input.
std::optional<Array> read_optional(nb::handle object, const char* name);

/// An output of the shape of `like`: the caller's array if there is one, or else a new one with the dimensions in the
/// same order in memory.
Array output_like(nb::handle out, const char* name, const Array& like, ElementKind element);

/// An output of another shape: the caller's array if there is one, or else a new row-major one.
Array output_array(nb::handle out, const char* name, Maker maker, const Shape& shape, ElementKind element);

/// Says to the array's library that an output of the caller was written.
void mark_written(const Array& array);

/// PyTorch's current stream of a CUDA device, which must be the current device.
void* cuda_stream(int device);
/// Memory of a CUDA device, as long as the object lives and what was put onto the current stream until then is under
/// way.
nb::object cuda_memory(int device, std::size_t bytes, void*& data);

/// The same elements as another element kind, copied by the array's own library.
Array converted(const Array& array, ElementKind element);

/// Zero points of any integer dtype, as s32.
Array read_zero_points(nb::handle object);

}  // namespace planck::python
