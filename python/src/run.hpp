// Plans behind Python calls: run on the stream that the user chose, with borrowed workspace, errors as exceptions.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "array.hpp"
#include "call_device.hpp"
#include "planck/plan.hpp"

namespace planck::python {

namespace nb = nanobind;

/// Where calls run: the executor and the number of threads that the user chose.
Stream current_stream();
/// The same for a call of so many elements.
Stream stream_for(std::int64_t elements);

/// ValueError, NotImplementedError or RuntimeError with the library's message, in the caller's words.
[[noreturn]] void raise(const Error& error);

/// Bytes of this thread that the next call may use too; on a CUDA device, bytes that `keeper` holds.
Workspace borrow_workspace(std::size_t bytes, nb::object& keeper);

/// While one lives in a thread, calls of that thread choose a plan and note its name instead of running.
class Explanation {
 public:
  Explanation() : outer_(current()) { current() = this; }
  ~Explanation() { current() = outer_; }
  Explanation(const Explanation&) = delete;
  Explanation& operator=(const Explanation&) = delete;

  static Explanation*& current();
  std::string text;

 private:
  Explanation* outer_;
};

/// Runs a plan; without the interpreter's lock if that is worth its price. `elements` is about how many there are.
template <class Op>
void run(const Plan<Op>& plan, const typename Op::Args& args, std::int64_t elements) {
  if (Explanation* explanation = Explanation::current()) {
    const Result<void> possible = plan.can_implement(args);
    if (!possible) raise(possible.error());
    explanation->text = to_string(plan.sku());
    return;
  }
  constexpr std::int64_t kKeepLock = 4096;
  nb::object keeper;
  const Workspace workspace = borrow_workspace(plan.workspace_size(), keeper);
  const Stream stream = stream_for(elements);
  const Result<void> done = [&] {
    if (elements <= kKeepLock) return plan.run(stream, workspace, args);
    const nb::gil_scoped_release unlocked;
    return plan.run(stream, workspace, args);
  }();
  if (!done) raise(done.error());
}

/// An output for the caller, after the run.
inline nb::object written(const Array& array) {
  if (Explanation::current() == nullptr) mark_written(array);
  return array.object;
}

inline std::int64_t count(const Shape& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t extent : shape) elements *= extent;
  return elements;
}

void bind_run(nb::module_& module);

}  // namespace planck::python
