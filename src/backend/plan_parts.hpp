// What every operation's three functions have in common, so that a plan file holds only what is its own.
//
// An operation X writes a struct XParts with `name` (the plan's, for messages), `select` (its checks, and the choice of
// a backend), `check` (its tensors and scalars), `check_contents` (what tensors hold, if that matters) and `run` (which
// makes the jobs and hands them to the backend). A `run_small` may do all of it for short runs in which everything is
// as usual, and says whether it was.
#pragma once

#include "backend/select.hpp"
#include "core/checks.hpp"
#include "numerics/fp_env.hpp"
#include "planck/plan.hpp"

namespace planck::backend {

template <class Parts, class Descriptor, class Args>
Status can_implement(const Descriptor& descriptor, const Args& args) noexcept {
  const numerics::FpEnvironmentGuard guard;
  core::OperandChecks checks(Parts::name(descriptor));
  return Parts::check(checks, descriptor, args);
}

/// Inline: each has one caller, and a short run notices the call.
template <class Parts, class Descriptor, class Args>
[[gnu::always_inline]] inline Status run_plan(const Descriptor& descriptor, const detail::PlanChoice& plan_choice,
                                              const Stream& stream, const Workspace& workspace,
                                              const Args& args) noexcept {
  // From here on: scalars are rounded to C in the right environment too.
  const numerics::FpEnvironmentGuard guard;
  const Choice& choice = choice_of(plan_choice);
  const Backend& backend = *choice.backend;
  if constexpr (requires { Parts::run_small(descriptor, choice, args); }) {
    const bool plain = backend.device == stream.device() && plan_choice.workspace_bytes == 0 && workspace.bytes == 0;
    if (plain && Parts::run_small(descriptor, choice, args)) return Status();
  }
  const std::string_view plan = Parts::name(descriptor);
  PLANCK_TRY(check_device(plan, backend, stream));
  core::OperandChecks checks(plan);
  PLANCK_TRY(Parts::check(checks, descriptor, args));
  PLANCK_TRY(checks.check_workspace(workspace, plan_choice.workspace_bytes));
  if constexpr (requires { Parts::check_contents(descriptor, args); }) {
    if (backend.reads_tensors) PLANCK_TRY(Parts::check_contents(descriptor, args));
  }
  return Parts::run({plan, stream, workspace, choice}, descriptor, args);
}

}  // namespace planck::backend

/// Defines the functions of NameOp from NameParts.
#define PLANCK_DEFINE_OP(Name)                                                                                     \
  Result<detail::PlanChoice> Name##Op::select(const Stream& stream, const Descriptor& descriptor,                  \
                                              const PlanPreference& preference,                                    \
                                              std::span<const ElementKind> expected) noexcept {                    \
    return Name##Parts::select(stream, descriptor, preference, expected);                                          \
  }                                                                                                                \
  Result<void> Name##Op::can_implement(const Descriptor& descriptor, const detail::PlanChoice&,                    \
                                       const Args& args) noexcept {                                                \
    return backend::can_implement<Name##Parts>(descriptor, args);                                                  \
  }                                                                                                                \
  Result<void> Name##Op::run(const Descriptor& descriptor, const detail::PlanChoice& choice, const Stream& stream, \
                             Workspace workspace, const Args& args) noexcept {                                     \
    return backend::run_plan<Name##Parts>(descriptor, choice, stream, workspace, args);                            \
  }
