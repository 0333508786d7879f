// Choosing a backend: the part of `select` that is the same for every operation, and a plan's way back to its choice.
#pragma once

#include <new>
#include <type_traits>

#include "backend/backend.hpp"

namespace planck::backend {

/// The backend that stream and preference allow, and its architecture. The plan's jobs are then prepared by it.
Result<Selection> choose(const Request& request) noexcept;

/// The finished choice, once every job is prepared. PLANCK_VERBOSE=1 prints it and why.
Result<detail::PlanChoice> settle(const Selection& selection) noexcept;

/// A plan runs only on streams of the device it was selected for.
Status check_device(const Run& run) noexcept;

static_assert(sizeof(Choice) <= sizeof(detail::PlanChoice::storage) && std::is_trivially_copyable_v<Choice>);

inline const Choice& choice_of(const detail::PlanChoice& choice) noexcept {
  return *std::launder(reinterpret_cast<const Choice*>(choice.storage.data()));
}

/// f32 or f64 math with sums (if any) in f64, and the same bits everywhere.
PrecisionGuarantee precision_of(ElementKind element, bool sums) noexcept;

}  // namespace planck::backend
