// Choosing a kernel: the part of `select` that is the same for every operation.
#pragma once

#include <optional>
#include <string_view>

#include "backend/device_backend.hpp"
#include "core/error_texts.hpp"
#include "cpu/kernel.hpp"
#include "planck/plan.hpp"

namespace planck::core {

/// What a plan asks of the kernel list.
struct KernelRequest {
  std::string_view plan;
  std::span<const detail::KernelRow> (*rows)(ArchSku) noexcept;  ///< the family's rows
  detail::KernelRow kernel;                                      ///< identity only; its span is not looked at
  std::optional<detail::KernelRow> term_kernel;                  ///< for gradients that are summed
  PrecisionGuarantee precision;
  std::size_t workspace_bytes = 0;  ///< wanted on the CPU, where a smaller preference is honoured; needed on a device
};

/// The library that launches on the stream's device; null for the CPU, and where none is loaded.
const DeviceBackend* device_backend(const Stream& stream) noexcept;

/// The best kernel that stream, preference and PLANCK_ISA allow. PLANCK_VERBOSE=1 prints it and why.
Result<detail::PlanChoice> choose_kernel(const KernelRequest& request, const Stream& stream,
                                         const PlanPreference& preference) noexcept;

/// A plan runs only on streams of the device it was selected for.
Status check_device(std::string_view plan, const detail::PlanChoice& choice, const Stream& stream) noexcept;

/// f32 or f64 math with sums (if any) in f64, and the same bits everywhere.
PrecisionGuarantee precision_of(ElementKind element, bool sums) noexcept;

}  // namespace planck::core
