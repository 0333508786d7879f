// How every plan's `run` begins, in this order: the floating-point environment, the short way if everything is as
// usual, the device, the plan's own checks, the workspace, and what tensors hold if that matters. A plan calls these
// one after the other and then hands its jobs to the backend; nothing here calls a plan.
#pragma once

#include "backend/select.hpp"
#include "core/checks.hpp"
#include "numerics/fp_env.hpp"
#include "planck/plan.hpp"

namespace planck::backend {

/// Whether a run may try the short way: on the plan's device, and no workspace, neither wanted nor given.
inline bool is_plain(const detail::PlanChoice& choice, const Stream& stream, const Workspace& workspace) noexcept {
  return choice_of(choice).backend->device == stream.device() && choice.workspace_bytes == 0 && workspace.bytes == 0;
}

/// What the plan's backend is told of a run.
inline Run run_of(std::string_view plan, const detail::PlanChoice& choice, const Stream& stream,
                  const Workspace& workspace) noexcept {
  return {plan, stream, workspace, choice_of(choice)};
}

/// Whether the contents of tensors can be checked: the backend reads the caller's memory.
inline bool reads_tensors(const Run& run) noexcept { return run.choice.backend->reads_tensors; }

}  // namespace planck::backend
