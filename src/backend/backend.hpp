// One table for every backend: the plain loops of the reference, the CPU's vector kernels, and CUDA's.
//
// A plan checks and makes a job; the backend that was chosen for it runs the job. For every family a backend has
// `prepare`, which chooses kernels and says what workspace they want, and `run`, which only computes or launches: it
// allocates nothing, and on a device it waits for nothing and reads nothing. libplanck knows no CUDA: planck::cuda
// fills in its table when it is loaded and registers it here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/error_texts.hpp"
#include "planck/plan.hpp"

// What the families' plans hand over; src/<family>/job.hpp has them.
namespace planck::quantize {
struct QuantizeJob;
struct DynamicRangeJob;
}  // namespace planck::quantize
namespace planck::binary {
struct BinaryJob;
}
namespace planck::scan {
struct ScanJob;
}

namespace planck::backend {

using core::Status;
struct Backend;

/// What a plan asks for: `sku` is filled in as far as the plan decides it.
struct Request {
  std::string_view plan;
  const Stream& stream;
  const PlanPreference& preference;
  KernelSku sku{};
};

/// What a plan keeps of its backend, in the opaque storage of detail::PlanChoice.
struct Choice {
  const Backend* backend = nullptr;
  ArchSku arch = ArchSku::Scalar;
  std::int32_t small_elements = 0;       ///< how many there are, if the plan knows a shorter way for so few; or 0
  std::array<const void*, 5> kernels{};  ///< the backend's own
};

/// A choice while it is being made.
struct Selection {
  const Request& request;
  std::string_view reason;   ///< for people: why this architecture,
  std::string_view machine;  ///< and which ones there are
  Choice choice{};
  std::size_t workspace_bytes = 0;  ///< the most that any `prepare` wanted

  void want_workspace(std::size_t bytes) noexcept {
    workspace_bytes = bytes > workspace_bytes ? bytes : workspace_bytes;
  }
};

/// One run: for whom, where, and what memory it may use.
struct Run {
  std::string_view plan;
  const Stream& stream;
  Workspace workspace;
  const Choice& choice;
};

/// What a backend does for one family of operations.
template <class Job>
struct Family {
  /// The job's tensors are known by shape only.
  Status (*prepare)(const Job& job, Selection& selection) noexcept;
  Status (*run)(const Run& run, const Job& job) noexcept;
  /// The shortest way for short runs on tensors without gaps, of which only the n elements each are left to be told.
  /// Null if there is none; false, and nothing was done, if there is none for this job.
  bool (*run_small)(const Choice& choice, const Job& job, void* const* operands, std::int64_t n) noexcept = nullptr;
};

struct Backend {
  BackendKind kind;
  Device device;
  bool reads_tensors;    ///< in the caller's memory, so that their contents can be checked
  bool needs_workspace;  ///< or is content with less, down to nothing
  /// Which architecture or instruction set; fails where there is none. The preferred one, if a machine has several.
  Status (*probe)(Selection& selection) noexcept;

  Family<quantize::QuantizeJob> quantize;
  Family<quantize::DynamicRangeJob> dynamic_range;
  Family<binary::BinaryJob> binary;
  Family<scan::ScanJob> scan;
};

/// The two that are always there; src/cpu/backend.cpp and src/backend/reference.cpp fill them in.
extern const Backend kCpu;
extern const Backend kReference;

/// Called by the CUDA library when it is loaded; null takes it away again.
PLANCK_API void register_cuda(const Backend* cuda) noexcept;

/// All backends, the preferred one of each device first and the reference last; CUDA's is null where it is not loaded.
std::array<const Backend*, 3> backends() noexcept;

}  // namespace planck::backend
