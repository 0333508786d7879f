// One function per family of operations; each adds the family's calls to the module.
#pragma once

#include <nanobind/nanobind.h>

namespace planck::python {

/// Adds a call whose arguments have no names, and may all be None.
template <class Result, class... Args>
void add_call(nanobind::module_& module, const char* name, Result (*function)(Args...)) {
  module.def(name, function, (static_cast<void>(sizeof(Args)), nanobind::arg().none())...);
}

void bind_quantize(nanobind::module_& module);
void bind_scan(nanobind::module_& module);
void bind_elementwise(nanobind::module_& module);

}  // namespace planck::python
