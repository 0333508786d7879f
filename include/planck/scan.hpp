// Prefix scans along one axis: running sums, products, maxima, minima, log-sum-exps and linear recurrences, forward
// and backward.
#pragma once

#include <optional>

#include "planck/plan.hpp"

namespace planck {

/// Which of equal elements a running maximum or minimum points to. NaNs are equal to each other here.
enum class ScanTies : std::int32_t { First = 0, Last = 1 };

/// What a scan does, forward and backward.
///
/// y[t] combines x[0] … x[t] along the axis; t counts from the other end with `reverse`. f32, f64, f16 and bf16;
/// forward also s32 and s64 for all kinds but LogCumsumExp, with integers that wrap.
struct ScanDescriptor {
  ScanKind kind = ScanKind::Cumsum;
  Shape input_shape;
  std::int32_t scan_axis = 0;
  bool reverse = false;
  ElementKind element = ElementKind::F32;
  bool exclusive = false;  ///< y[t] leaves out x[t]; Cumsum, Cumprod and LogCumsumExp only
  ScanTies ties = ScanTies::First;
  /// Cummax and Cummin: s32 or s64 indices along the axis are written forward and read backward.
  std::optional<ElementKind> index_element{};
  /// A ragged batch: the axis has `segments` segments, each scanned by itself, where s32 or s64 offsets say.
  std::optional<ElementKind> offset_element{};
  std::int64_t segments = 0;  ///< only with an offset_element; 0 if the axis has no elements

  bool operator==(const ScanDescriptor&) const = default;
};

/// The 64-bit words that one row along the axis passes on to the next piece of it; docs/numerics.md says what they
/// hold. A carry is an s64 tensor of the input's shape with this extent along the axis.
inline constexpr std::int64_t kScanCarryWords = 37;

/// `y` may be the same view as `x`, and `carry_out` as `carry_in`.
struct ScanArgs {
  AnyTensorRef x;
  AnyTensorMut y;
  std::optional<AnyTensorMut> indices{};    ///< present exactly when the descriptor has an index_element
  std::optional<AnyTensorRef> carry_in{};   ///< the prefix before, if this is not the axis' first piece
  std::optional<AnyTensorMut> carry_out{};  ///< for the next piece; this one's length is then a multiple of 4096
  /// [segments + 1], present exactly when the descriptor has an offset_element. Segment i of every row along the axis
  /// has the elements from offsets[i] to offsets[i + 1] - 1: offsets rise from 0 to the axis' length. Not with carries.
  std::optional<AnyTensorRef> offsets{};
};

using ScanBackwardDescriptor = ScanDescriptor;

/// `dx` may be the same view as an input. What is not needed may be given and is not read.
struct ScanBackwardArgs {
  AnyTensorRef dy;
  AnyTensorMut dx;
  std::optional<AnyTensorRef> x{};  ///< needed for Cumprod and LogCumsumExp, and for Cummax and Cummin without indices
  std::optional<AnyTensorRef> y{};  ///< needed for LogCumsumExp of f32 and f64
  std::optional<AnyTensorRef> indices{};  ///< present exactly when the descriptor has an index_element
  std::optional<AnyTensorRef> offsets{};  ///< as for ScanArgs
};

/// ScanPlan<T> or, with the element as a value, ScanPlan<>.
struct PLANCK_API ScanOp {
  using Descriptor = ScanDescriptor;
  using Args = ScanArgs;
  static constexpr std::string_view kName = "Scan";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using ScanPlan = Plan<ScanOp, T...>;

struct PLANCK_API ScanBackwardOp {
  using Descriptor = ScanBackwardDescriptor;
  using Args = ScanBackwardArgs;
  static constexpr std::string_view kName = "ScanBackward";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using ScanBackwardPlan = Plan<ScanBackwardOp, T...>;

/// h[t] = a[t] * h[t-1] + b[t] along one axis; h[-1] is 0, or the initial state.
struct LinearRecurrenceDescriptor {
  Shape input_shape;
  std::int32_t scan_axis = 0;
  bool reverse = false;
  ElementKind element = ElementKind::F32;
  /// h[-1] is given: a tensor of `input_shape` with extent 1 along the axis, or of a ragged batch `segments`.
  bool initial = false;
  std::optional<ElementKind> offset_element{};  ///< as for ScanDescriptor
  std::int64_t segments = 0;

  bool operator==(const LinearRecurrenceDescriptor&) const = default;
};

/// `h` may be the same view as `a` or `b`, and `carry_out` as `carry_in`.
struct LinearRecurrenceArgs {
  AnyTensorRef a;
  AnyTensorRef b;
  std::optional<AnyTensorRef> initial{};  ///< present exactly when the descriptor says so
  AnyTensorMut h;
  std::optional<AnyTensorRef> carry_in{};   ///< as for ScanArgs; not with an initial state, which is the first piece's
  std::optional<AnyTensorMut> carry_out{};  ///< as for ScanArgs
  std::optional<AnyTensorRef> offsets{};    ///< as for ScanArgs
};

using LinearRecurrenceBackwardDescriptor = LinearRecurrenceDescriptor;

/// At least one gradient is present; da and db may be the same view as an input.
struct LinearRecurrenceBackwardArgs {
  AnyTensorRef dh;
  AnyTensorRef a;
  std::optional<AnyTensorRef> h{};        ///< needed for da
  std::optional<AnyTensorRef> initial{};  ///< needed for da if the descriptor says so
  std::optional<AnyTensorMut> da{};
  std::optional<AnyTensorMut> db{};
  std::optional<AnyTensorMut> d_initial{};  ///< only with an initial state
  std::optional<AnyTensorRef> offsets{};    ///< as for ScanArgs
};

/// LinearRecurrencePlan<T> or LinearRecurrencePlan<>.
struct PLANCK_API LinearRecurrenceOp {
  using Descriptor = LinearRecurrenceDescriptor;
  using Args = LinearRecurrenceArgs;
  static constexpr std::string_view kName = "LinearRecurrence";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using LinearRecurrencePlan = Plan<LinearRecurrenceOp, T...>;

struct PLANCK_API LinearRecurrenceBackwardOp {
  using Descriptor = LinearRecurrenceBackwardDescriptor;
  using Args = LinearRecurrenceBackwardArgs;
  static constexpr std::string_view kName = "LinearRecurrenceBackward";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using LinearRecurrenceBackwardPlan = Plan<LinearRecurrenceBackwardOp, T...>;

}  // namespace planck
