#include "core/select.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cpu/isa.hpp"

namespace planck::cpu {

const KernelRow* find_kernel(std::span<const KernelRow> rows, const KernelRow& like) noexcept {
  const auto* const found = std::find_if(rows.data(), rows.data() + rows.size(), [&](const KernelRow& row) {
    return row.category == like.category && row.op == like.op && row.backward == like.backward &&
           row.variant == like.variant && row.terms == like.terms && row.element == like.element &&
           row.aux_element == like.aux_element;
  });
  return found == rows.data() + rows.size() ? nullptr : found;
}

}  // namespace planck::cpu

namespace planck::core {
namespace {

std::atomic<const DeviceBackend*> registered_cuda = nullptr;

std::string_view device_name(Device device) noexcept { return device == Device::Cpu ? "CPU" : "CUDA"; }

const DeviceBackend* backend_of(Device device) noexcept { return device == Device::Cuda ? cuda_backend() : nullptr; }

/// The instruction sets of this machine, for people: "avx2 sse4 scalar".
class ArchList {
 public:
  ArchList() noexcept {
    for (const ArchSku arch : cpu::known_archs()) {
      if (!cpu::supported(arch)) continue;
      if (used_ > 0) text_[used_++] = ' ';
      const std::string_view name = to_string(arch);
      std::memcpy(text_ + used_, name.data(), name.size());
      used_ += name.size();
    }
  }
  operator std::string_view() const noexcept { return {text_, used_}; }

 private:
  char text_[96];
  std::size_t used_ = 0;
};

bool verbose() noexcept {
  const char* value = std::getenv("PLANCK_VERBOSE");
  return value != nullptr && *value != '\0' && std::strcmp(value, "0") != 0;
}

/// The instruction set asked for by the preference or the environment, or the best one; and who decided.
struct ArchDecision {
  ArchSku arch = ArchSku::Scalar;
  std::string_view reason;
};

Result<ArchDecision> decide_arch(std::string_view plan, const PlanPreference& preference) noexcept {
  ArchDecision decision;
  if (preference.prefer_arch) {
    decision = {*preference.prefer_arch, "prefer_arch"};
  } else if (const char* name = std::getenv("PLANCK_ISA"); name != nullptr && *name != '\0') {
    const std::optional<ArchSku> arch = cpu::arch_from_name(name);
    if (!arch) return fail(Text::IsaUnknown, {plan, name, std::string_view(ArchList())});
    decision = {*arch, "PLANCK_ISA"};
  } else {
    const auto known = cpu::known_archs();
    return ArchDecision{*std::find_if(known.begin(), known.end(), cpu::supported), "the best this machine has"};
  }
  if (!cpu::supported(decision.arch)) {
    return fail(Text::IsaUnsupported, {plan, decision.reason, to_string(decision.arch), std::string_view(ArchList())});
  }
  return decision;
}

void report(const KernelRequest& request, const detail::PlanChoice& choice, std::string_view reason) noexcept {
  const auto text = [](std::string_view s) { return static_cast<int>(s.size()); };
  const KernelSku& sku = choice.sku;
  const std::string_view element = to_string(sku.element);
  const std::string_view aux = sku.aux_element ? to_string(*sku.aux_element) : "";
  const std::string_view backend = to_string(sku.backend);
  const std::string_view arch = to_string(sku.arch);
  const ArchList available;
  const std::string_view list = available;
  std::fprintf(stderr, "planck: %.*s %.*s%s%.*s -> %.*s/%.*s (%.*s; this machine has %.*s), workspace %zu bytes\n",
               text(request.plan), request.plan.data(), text(element), element.data(), aux.empty() ? "" : "/",
               text(aux), aux.data(), text(backend), backend.data(), text(arch), arch.data(), text(reason),
               reason.data(), text(list), list.data(), choice.workspace_bytes);
}

/// A device has one kernel for each request: its table of entry points.
Status choose_on_device(const KernelRequest& request, const PlanPreference& preference,
                        detail::PlanChoice& choice) noexcept {
  const std::string_view device = device_name(choice.device);
  choice.backend = backend_of(choice.device);
  if (choice.backend == nullptr) return fail(Text::DeviceUnsupported, {request.plan, device});
  choice.sku.backend = preference.prefer_backend.value_or(BackendKind::Bespoke);
  if (choice.sku.backend != BackendKind::Bespoke) {
    return fail(Text::BackendUnsupported, {request.plan, to_string(choice.sku.backend), device});
  }
  PLANCK_TRY(choice.backend->probe(request.plan, choice.sku.arch));
  if (preference.prefer_arch && *preference.prefer_arch != choice.sku.arch) {
    return fail(Text::DeviceArchUnsupported,
                {request.plan, to_string(*preference.prefer_arch), to_string(choice.sku.arch)});
  }
  if (request.workspace_bytes > preference.max_workspace_bytes) {
    return fail(Text::WorkspaceLimit, {request.plan, request.workspace_bytes, device, preference.max_workspace_bytes});
  }
  choice.workspace_bytes = request.workspace_bytes;
  return {};
}

}  // namespace

const DeviceBackend* cuda_backend() noexcept { return registered_cuda.load(std::memory_order_acquire); }
void register_cuda_backend(const DeviceBackend* backend) noexcept {
  registered_cuda.store(backend, std::memory_order_release);
}
const DeviceBackend* device_backend(const Stream& stream) noexcept { return backend_of(stream.device()); }

PrecisionGuarantee precision_of(ElementKind element, bool sums) noexcept {
  PrecisionGuarantee guarantee;
  const bool wide = element == ElementKind::F64;
  guarantee.math_precision = wide ? MathPrecision::F64 : MathPrecision::F32;
  guarantee.accumulator = sums || wide ? ElementKind::F64 : ElementKind::F32;
  return guarantee;
}

Result<detail::PlanChoice> choose_kernel(const KernelRequest& request, const Stream& stream,
                                         const PlanPreference& preference) noexcept {
  detail::PlanChoice choice;
  const detail::KernelRow& like = request.kernel;
  choice.device = stream.device();
  choice.sku.category = like.category;
  choice.sku.op = like.op;
  choice.sku.backward = like.backward;
  choice.sku.element = like.element;
  choice.sku.aux_element = like.aux_element;
  choice.sku.precision_guarantee = request.precision;
  if (stream.device() != Device::Cpu) {
    PLANCK_TRY(choose_on_device(request, preference, choice));
    if (verbose()) report(request, choice, "the current device");
    return choice;
  }
  choice.sku.backend = preference.prefer_backend.value_or(BackendKind::Cpu);

  std::string_view reason;
  switch (choice.sku.backend) {
    case BackendKind::Reference:
      if (preference.prefer_arch && *preference.prefer_arch != ArchSku::Scalar) {
        return fail(Text::ReferenceIsScalar, {request.plan, to_string(*preference.prefer_arch)});
      }
      choice.sku.arch = ArchSku::Scalar;
      reason = "prefer_backend";
      break;
    case BackendKind::Cpu: {
      const Result<ArchDecision> decision = decide_arch(request.plan, preference);
      if (!decision) return tl::unexpected(decision.error());
      choice.sku.arch = decision->arch;
      reason = decision->reason;
      const auto rows = request.rows(decision->arch);
      choice.kernel = cpu::find_kernel(rows, like);
      if (request.term_kernel) choice.term_kernel = cpu::find_kernel(rows, *request.term_kernel);
      if (choice.kernel == nullptr || (request.term_kernel && choice.term_kernel == nullptr)) {
        return fail(Text::IsaUnsupported,
                    {request.plan, reason, to_string(decision->arch), std::string_view(ArchList())});
      }
      choice.workspace_bytes = std::min(request.workspace_bytes, preference.max_workspace_bytes);
      break;
    }
    default:
      return fail(Text::BackendUnsupported,
                  {request.plan, to_string(choice.sku.backend), device_name(stream.device())});
  }
  if (verbose()) report(request, choice, reason);
  return choice;
}

Status check_device(std::string_view plan, const detail::PlanChoice& choice, const Stream& stream) noexcept {
  if (choice.device != stream.device()) {
    return fail(Text::WrongDevice, {plan, device_name(choice.device), device_name(stream.device())});
  }
  return {};
}

}  // namespace planck::core
