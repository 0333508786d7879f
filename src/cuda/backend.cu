// The CUDA library as the plans see it: its table of entry points, the current device, and errors with their codes.
#include "backend/backend.hpp"
#include "cuda/entries.hpp"
#include "cuda/launch.hpp"

namespace planck::cuda {
namespace {

/// The compiled code that a device of this compute capability runs.
ArchSku arch_of(int major) noexcept {
  if (major >= 12) return ArchSku::Sm120;
  if (major >= 10) return ArchSku::Sm100;
  return major == 9 ? ArchSku::Sm90 : ArchSku::Sm80;
}

Status probe(Selection& selection) noexcept {
  const std::string_view plan = selection.request.plan;
  ArchSku& arch = selection.choice.arch;
  int device = 0;
  int major = 0;
  PLANCK_TRY(status_of(plan, "looking for a device", static_cast<int>(cudaGetDevice(&device))));
  PLANCK_TRY(status_of(plan, "asking for the device's architecture",
                       static_cast<int>(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device))));
  if (major < 8) return core::fail(core::Text::DeviceTooOld, {plan, major});
  arch = arch_of(major);
  selection.reason = "the current device";
  return {};
}

constexpr backend::Backend kBackend{
    BackendKind::Bespoke,
    Device::Cuda,
    false,
    true,
    probe,
    {prepare_quantize, run_quantize},
    {prepare_dynamic_range, run_dynamic_range},
    {prepare_binary, run_binary},
    {prepare_scan, run_scan},
};

/// Loading the library is enough for plans to find it.
const bool registered = [] {
  backend::register_cuda(&kBackend);
  return true;
}();

}  // namespace

core::Status status_of(std::string_view plan, std::string_view what, int code) noexcept {
  if (code == 0) return {};
  return core::fail(core::Text::DeviceFailed, {plan, what, code, cudaGetErrorName(static_cast<cudaError_t>(code))}, 0,
                    0, code);
}

}  // namespace planck::cuda

/// What programs refer to so that the linker keeps the library (CMake's planck::cuda does).
extern "C" PLANCK_API const void* planck_cuda_library() { return &planck::cuda::kBackend; }
