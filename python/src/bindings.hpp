// One function per family of operations; each adds the family's calls to the module.
#pragma once

#include <nanobind/nanobind.h>

#include "messages.hpp"

namespace planck::python {

template <class Result, class... Args>
using Function = Result (*)(Args...);

template <class Result, class... Args>
void define(nanobind::module_& module, const char* name, Function<Result, Args...> function) {
  module.def(name, function, (static_cast<void>(sizeof(Args)), nanobind::arg().none())...);
}

/// The same function, whose messages have PyTorch's names.
template <auto kFunction, class Result, class... Args>
Function<Result, Args...> from_torch(Function<Result, Args...>) {
  return [](Args... args) -> Result {
    const FromTorch names;
    return kFunction(args...);
  };
}

/// Adds a call whose arguments have no names, and may all be None: to the module for `planck`, and to its submodule
/// `for_torch` for `planck.torch`.
template <auto kFunction>
void add_call(nanobind::module_& module, const char* name) {
  define(module, name, kFunction);
  nanobind::module_ for_torch = nanobind::borrow<nanobind::module_>(module.attr("for_torch"));
  define(for_torch, name, from_torch<kFunction>(kFunction));
}

/// Adds a number that calls take, for both.
template <class Kind>
void add_kind(nanobind::module_& module, const char* name, Kind kind) {
  module.attr(name) = static_cast<int>(kind);
  module.attr("for_torch").attr(name) = static_cast<int>(kind);
}

void bind_quantize(nanobind::module_& module);
void bind_scan(nanobind::module_& module);
void bind_recurrence(nanobind::module_& module);
void bind_elementwise(nanobind::module_& module);

}  // namespace planck::python
