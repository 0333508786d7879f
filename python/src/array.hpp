// Python arrays as tensor views, without a copy: NumPy arrays, PyTorch tensors, and whatever speaks DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "planck/tensor.hpp"

namespace planck::python {

namespace nb = nanobind;

/// str(object).
std::string text_of(nb::handle object);

/// Sets a Python exception and throws it.
[[noreturn]] void raise(PyObject* type, const std::string& message);

/// A dtype that no element kind is; whoever wanted the array knows which would have done.
struct UnknownDtype : std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void raise_dtype(const char* name, const std::string& dtype);

/// The name that NumPy and PyTorch have for an element kind.
inline std::string_view python_name(ElementKind element) { return info_of(element).python_name; }

/// Element kinds that an argument may have.
using Dtypes = std::span<const ElementKind>;
template <class... T>
constexpr std::array<ElementKind, sizeof...(T)> kinds_of(TypeList<T...>) {
  return {element_of<T>...};
}
inline constexpr auto kFloats = kinds_of(TypesOf<ElementClass::Float>());
inline constexpr auto kCodes = kinds_of(TypesOf<ElementClass::Codes>());
inline constexpr auto kIndices = kinds_of(TypesOf<ElementClass::Integer>());
inline constexpr auto kScanned = kinds_of(TypesOf<ElementClass::Float>() + TypesOf<ElementClass::Integer>());
inline constexpr auto kKnownDtypes = kinds_of(ElementTypes());
/// "float16, bfloat16, float32 or float64".
std::string text_of(Dtypes dtypes);
/// "[3, 4]".
std::string text_of(const Shape& shape);
/// Whether an element kind is among them.
bool contains(Dtypes dtypes, ElementKind element);

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

/// Refuses more dimensions than plans take.
void check_rank(const char* name, const Shape& shape);

/// Whether `object` is a number and no array: a Python or NumPy scalar.
bool is_number(nb::handle object);

/// An input: an array, or what NumPy makes of anything else. `name` is for the message if that fails, or if its dtype
/// is none of `dtypes`.
Array read_array(nb::handle object, const char* name, Dtypes dtypes);

/// None, or an input.
std::optional<Array> read_optional(nb::handle object, const char* name, Dtypes dtypes);

/// An input among others that must have its dtype.
struct Operand {
  nb::handle object;
  const char* name;
  bool may_be_none = false;
};

/// Inputs of one dtype: that of the arrays among them, which Python's numbers take too (float64 where there is no
/// array). NumPy's scalars are arrays here, as in NumPy 2: they have a dtype of their own.
std::vector<std::optional<Array>> read_operands(std::initializer_list<Operand> operands, Dtypes dtypes);

/// An output of the shape of `like`: the caller's array if there is one, or else a new one with the dimensions in the
/// same order in memory.
Array output_like(nb::handle out, const char* name, const Array& like, ElementKind element);

/// An output of another shape: the caller's array if there is one, or else a new row-major one.
Array output_array(nb::handle out, const char* name, Maker maker, const Shape& shape, ElementKind element);

/// Says to the array's library that an output of the caller was written.
void mark_written(const Array& array);

/// Refuses PyTorch's tensors whose elements do not stand in memory one by one: sparse, nested, quantised, oneDNN's.
void refuse_kind(nb::handle tensor, const char* name);

/// The number of the way (torch_tensors.hpp) that a call of planck.torch with a tuple of tensors goes.
int torch_way(nb::handle tensors);

/// PyTorch's current stream of a CUDA device, which must be the current device.
void* cuda_stream(int device);
/// Memory of a CUDA device, as long as the object lives and what was put onto the current stream until then is under
/// way.
nb::object cuda_memory(int device, std::size_t bytes, void*& data);

/// The same elements as another element kind, copied by the array's own library.
Array converted(const Array& array, ElementKind element);

/// A number as an array of rank 0, of the library and on the device of `like`.
Array number_like(nb::handle value, const char* name, const Array& like);

/// Zero points of any integer dtype, as s32.
Array read_zero_points(nb::handle object);

}  // namespace planck::python
