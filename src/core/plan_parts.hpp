// What every operation's three functions have in common, so that a plan file holds only what is its own.
//
// An operation X writes a struct XParts with `name` (the plan's, for messages), `select` (its checks and its request
// to the kernel list), `check` (its tensors and scalars), `check_contents` (what tensors hold, if that matters),
// `execute` (the work on the CPU) and `launch` (the same through a device's entry points). A `run_small` does all of it
// for short runs on the CPU in which everything is as usual, and says whether it was.
#pragma once

#include "core/checks.hpp"
#include "core/select.hpp"
#include "cpu/fp_env.hpp"
#include "planck/plan.hpp"

namespace planck::core {

template <class Parts, class Descriptor, class Args>
Status can_implement(const Descriptor& descriptor, const Args& args) noexcept {
  const cpu::FpEnvironmentGuard guard;
  OperandChecks checks(Parts::name(descriptor));
  return Parts::check(checks, descriptor, args);
}

template <class Parts, class Descriptor, class Args>
Status run(const Descriptor& descriptor, const detail::PlanChoice& choice, const Stream& stream,
           const Workspace& workspace, const Args& args) noexcept {
  // From here on: scalars are rounded to C in the right environment too.
  const cpu::FpEnvironmentGuard guard;
  if constexpr (requires { Parts::run_small(descriptor, *choice.kernel, args); }) {
    const bool plain = choice.kernel != nullptr && choice.device == stream.device() && choice.workspace_bytes == 0 &&
                       workspace.bytes == 0;
    if (plain && Parts::run_small(descriptor, *choice.kernel, args)) return Status();
  }
  const std::string_view plan = Parts::name(descriptor);
  PLANCK_TRY(check_device(plan, choice, stream));
  OperandChecks checks(plan);
  PLANCK_TRY(Parts::check(checks, descriptor, args));
  PLANCK_TRY(checks.check_workspace(workspace, choice.workspace_bytes));
  if (choice.backend != nullptr) {
    return Parts::launch(*choice.backend, {plan, stream.native(), workspace}, descriptor, args);
  }
  if constexpr (requires { Parts::check_contents(descriptor, args); }) {
    PLANCK_TRY(Parts::check_contents(descriptor, args));
  }
  Parts::execute(descriptor, choice, stream, workspace, args);
  return {};
}

}  // namespace planck::core

/// Defines the functions of NameOp from NameParts.
#define PLANCK_DEFINE_OP(Name)                                                                                     \
  Result<detail::PlanChoice> Name##Op::select(const Stream& stream, const Descriptor& descriptor,                  \
                                              const PlanPreference& preference,                                    \
                                              std::span<const ElementKind> expected) noexcept {                    \
    return Name##Parts::select(stream, descriptor, preference, expected);                                          \
  }                                                                                                                \
  Result<void> Name##Op::can_implement(const Descriptor& descriptor, const detail::PlanChoice&,                    \
                                       const Args& args) noexcept {                                                \
    return core::can_implement<Name##Parts>(descriptor, args);                                                     \
  }                                                                                                                \
  Result<void> Name##Op::run(const Descriptor& descriptor, const detail::PlanChoice& choice, const Stream& stream, \
                             Workspace workspace, const Args& args) noexcept {                                     \
    return core::run<Name##Parts>(descriptor, choice, stream, workspace, args);                                    \
  }
