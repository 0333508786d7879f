// The compiled half of the package: arrays in, arrays out. The functions that users call, with their defaults and
// documentation, are Python and stand in planck/.
#include <nanobind/nanobind.h>

#include "bindings.hpp"
#include "run.hpp"

NB_MODULE(_core, module) {
  module.def_submodule("for_torch");
  planck::python::bind_run(module);
  planck::python::bind_quantize(module);
  planck::python::bind_scan(module);
  planck::python::bind_recurrence(module);
  planck::python::bind_elementwise(module);
}
