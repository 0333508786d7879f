// The reference as a backend: plain loops on one thread, which need no kernels and no workspace. Each family defines
// its own in src/<family>/reference*.cpp; every other backend is compared with them bit for bit.
#include "backend/reference.hpp"

namespace planck {
namespace reference {
namespace {

Status probe(backend::Selection& selection) noexcept {
  const auto& preferred = selection.request.preference.prefer_arch;
  if (preferred && *preferred != ArchSku::Scalar) {
    return core::fail(core::Text::ReferenceIsScalar, {selection.request.plan, to_string(*preferred)});
  }
  selection.reason = "prefer_backend";
  return {};
}

template <class Job>
Status prepare(const Job&, backend::Selection&) noexcept {
  return {};
}

}  // namespace
}  // namespace reference

constexpr backend::Backend backend::kReference{
    BackendKind::Reference,
    Device::Cpu,
    true,
    false,
    reference::probe,
    {reference::prepare, reference::run_quantize},
    {reference::prepare, reference::run_dynamic_range},
    {reference::prepare, reference::run_binary},
    {reference::prepare, reference::run_scan},
};

}  // namespace planck
