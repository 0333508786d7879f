#include "backend/select.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace planck::backend {
namespace {

using core::fail;
using core::Text;

std::atomic<const Backend*> registered_cuda = nullptr;

std::string_view device_name(Device device) noexcept { return device == Device::Cpu ? "CPU" : "CUDA"; }

bool verbose() noexcept {
  const char* value = std::getenv("PLANCK_VERBOSE");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

void report(const Selection& selection, const detail::PlanChoice& choice) noexcept {
  const auto text = [](std::string_view s) { return static_cast<int>(s.size()); };
  const KernelSku& sku = choice.sku;
  const std::string_view plan = selection.request.plan;
  const std::string_view element = to_string(sku.element);
  const std::string_view aux = sku.aux_element ? to_string(*sku.aux_element) : "";
  const std::string_view backend = to_string(sku.backend);
  const std::string_view arch = to_string(sku.arch);
  const std::string_view machine = selection.machine;
  std::fprintf(stderr, "planck: %.*s %.*s%s%.*s -> %.*s/%.*s (%.*s%s%.*s), workspace %zu bytes\n", text(plan),
               plan.data(), text(element), element.data(), aux.empty() ? "" : "/", text(aux), aux.data(), text(backend),
               backend.data(), text(arch), arch.data(), text(selection.reason), selection.reason.data(),
               machine.empty() ? "" : "; this machine has ", text(machine), machine.data(), choice.workspace_bytes);
}

}  // namespace

void register_cuda(const Backend* cuda) noexcept { registered_cuda.store(cuda, std::memory_order_release); }

std::array<const Backend*, 3> backends() noexcept {
  return {registered_cuda.load(std::memory_order_acquire), &kCpu, &kReference};
}

Result<Selection> choose(const Request& request) noexcept {
  const Device device = request.stream.device();
  const std::optional<BackendKind>& preferred = request.preference.prefer_backend;
  bool device_known = false;
  for (const Backend* backend : backends()) {
    if (backend == nullptr || backend->device != device) continue;
    device_known = true;
    if (preferred && backend->kind != *preferred) continue;
    Selection selection{request, {}, {}, {backend}};
    PLANCK_TRY(backend->probe(selection));
    const std::optional<ArchSku>& arch = request.preference.prefer_arch;
    if (arch && *arch != selection.choice.arch) {
      return fail(Text::DeviceArchUnsupported, {request.plan, to_string(*arch), to_string(selection.choice.arch)});
    }
    return selection;
  }
  if (!device_known) return fail(Text::DeviceUnsupported, {request.plan, device_name(device)});
  return fail(Text::BackendUnsupported, {request.plan, to_string(*preferred), device_name(device)});
}

Result<detail::PlanChoice> settle(const Selection& selection) noexcept {
  const Request& request = selection.request;
  const Backend& backend = *selection.choice.backend;
  const std::size_t most = request.preference.max_workspace_bytes;
  if (backend.needs_workspace && selection.workspace_bytes > most) {
    return fail(Text::WorkspaceLimit, {request.plan, selection.workspace_bytes, device_name(backend.device), most});
  }
  detail::PlanChoice choice;
  choice.sku = request.sku;
  choice.sku.backend = backend.kind;
  choice.sku.arch = selection.choice.arch;
  choice.workspace_bytes = std::min(selection.workspace_bytes, most);
  ::new (choice.storage.data()) Choice(selection.choice);
  if (verbose()) report(selection, choice);
  return choice;
}

Status check_device(const Run& run) noexcept {
  const Device device = run.choice.backend->device;
  if (device == run.stream.device()) return {};
  return fail(Text::WrongDevice, {run.plan, device_name(device), device_name(run.stream.device())});
}

PrecisionGuarantee precision_of(ElementKind element, bool sums) noexcept {
  PrecisionGuarantee guarantee;
  const bool wide = element == ElementKind::F64;
  guarantee.math_precision = wide ? MathPrecision::F64 : MathPrecision::F32;
  guarantee.accumulator = sums || wide ? ElementKind::F64 : ElementKind::F32;
  return guarantee;
}

}  // namespace planck::backend
