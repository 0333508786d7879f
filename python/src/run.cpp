#include "run.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <limits>
#include <memory>

#include "arguments.hpp"
#include "array.hpp"
#include "messages.hpp"
#include "openmp_executor.hpp"

namespace planck::python {
namespace {

std::atomic<Executor*> executor{nullptr};  // null: the library's own
std::atomic<int> max_threads{0};

void set_num_threads(nb::handle threads) {
  const std::int64_t wanted = integer(threads, "threads");
  if (wanted < 1) raise(PyExc_ValueError, "threads = " + std::to_string(wanted) + " is not at least 1");
  max_threads = static_cast<int>(std::min<std::int64_t>(wanted, std::numeric_limits<int>::max()));
}

/// "tbb" or "openmp"; whether it is there.
bool set_executor(nb::handle name) {
  const bool openmp = choice_named(name, "executor", {"tbb", "openmp"}) == 1;
  Executor* const chosen = openmp ? openmp_executor() : nullptr;
  if (openmp && chosen == nullptr) return false;
  executor = chosen;
  return true;
}

nb::str explain(const nb::callable& function, const nb::args& args, const nb::kwargs& kwargs) {
  const Explanation explanation;
  const nb::object result = function(*args, **kwargs);
  if (explanation.text.empty()) raise(PyExc_TypeError, "plan_info: this function runs no plan");
  return nb::str(explanation.text.c_str());
}

}  // namespace

Stream current_stream() {
  if (const int device = CallDevice::get(); device != CallDevice::kCpu) return Stream::cuda(cuda_stream(device));
  const int threads = max_threads.load(std::memory_order_relaxed);
  Executor* const chosen = executor.load(std::memory_order_relaxed);
  return chosen == nullptr ? Stream::cpu(threads) : Stream::cpu(*chosen, threads);
}

Stream stream_for(std::int64_t elements) {
  // PyTorch works on one thread up to here: what it wrote lies in the caches of that one.
  constexpr std::int64_t kTorchGrain = 32768;
  if (CallDevice::get() != CallDevice::kCpu) return current_stream();
  Executor* const chosen = executor.load(std::memory_order_relaxed);
  return chosen != nullptr && elements <= kTorchGrain ? Stream::cpu(*chosen, 1) : current_stream();
}

Explanation*& Explanation::current() {
  thread_local Explanation* explanation = nullptr;
  return explanation;
}

void raise(const Error& error) {
  switch (error.kind()) {
    case ErrorKind::InvalidProblem:
    case ErrorKind::BufferTooSmall:
    case ErrorKind::MisalignedOperand:
      raise(PyExc_ValueError, python_text(error));
    case ErrorKind::Unsupported:
      raise(PyExc_NotImplementedError, python_text(error));
    case ErrorKind::WorkspaceTooSmall:
    case ErrorKind::BackendFailure:
      break;
  }
  raise(PyExc_RuntimeError, python_text(error));
}

Workspace borrow_workspace(std::size_t bytes, nb::object& keeper) {
  if (bytes == 0) return Workspace::none();
  if (const int device = CallDevice::get(); device != CallDevice::kCpu) {
    void* data = nullptr;
    keeper = cuda_memory(device, bytes, data);
    return {data, bytes};
  }
  thread_local std::unique_ptr<std::byte[]> memory;
  thread_local std::size_t size = 0;
  if (size < bytes) {
    memory.reset();
    size = 0;
    memory = std::make_unique_for_overwrite<std::byte[]>(bytes);
    size = bytes;
  }
  return {memory.get(), bytes};
}

namespace {
/// The table of element kinds, for tests: number, name, dtype, bits, and names in safetensors and DLPack.
nb::list element_kinds() {
  const auto text = [](std::string_view name) { return nb::str(name.data(), name.size()); };
  nb::list rows;
  for (const ElementInfo& element : kElements) {
    rows.append(nb::make_tuple(static_cast<int>(element.kind), text(element.name), text(element.python_name),
                               int{element.bits}, text(element.safetensors_name), int{element.dlpack_code}));
  }
  return rows;
}
}  // namespace

void bind_run(nb::module_& module) {
  module.def("set_num_threads", &set_num_threads, nb::arg().none());
  module.def("get_num_threads", [] { return current_stream().threads(); });
  module.def("set_executor", &set_executor);
  module.def("explain", &explain);
  module.def("element_kinds", &element_kinds);
  module.def("torch_way", [](const nb::tuple& tensors) { return torch_way(tensors); });
  module.def("refuse_kind", [](nb::handle tensor, const char* name) { refuse_kind(tensor, name); });
}

}  // namespace planck::python
