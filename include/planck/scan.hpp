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

  bool operator==(const ScanDescriptor&) const = default;
};

/// The 64-bit words that one lane of a scan passes on to the next piece of its axis; docs/numerics.md says what they
/// hold. A carry is an s64 tensor of the input's shape with this extent along the axis.
inline constexpr std::int64_t kScanCarryWords = 37;

/// `y` may be the same view as `x`, and `carry_out` as `carry_in`.
struct ScanArgs {
  AnyTensorRef x;
  AnyTensorMut y;
  std::optional<AnyTensorMut> indices{};    ///< present exactly when the descriptor has an index_element
  std::optional<AnyTensorRef> carry_in{};   ///< what stands before, if this is not the axis' first piece
  std::optional<AnyTensorMut> carry_out{};  ///< for the next piece; this one's length is then a multiple of 4096
};

using ScanBackwardDescriptor = ScanDescriptor;

/// `dx` may be the same view as an input. What is not needed may be given and is not read.
struct ScanBackwardArgs {
  AnyTensorRef dy;
  AnyTensorMut dx;
  std::optional<AnyTensorRef> x{};  ///< needed for Cumprod and LogCumsumExp, and for Cummax and Cummin without indices
  std::optional<AnyTensorRef> y{};  ///< needed for LogCumsumExp of f32 and f64
  std::optional<AnyTensorRef> indices{};  ///< present exactly when the descriptor has an index_element
};

/// ScanPlan<T> or, with the element as a value, ScanPlan<>.
PLANCK_DECLARE_OP(Scan, 1);
PLANCK_DECLARE_OP(ScanBackward, 1);

/// h[t] = a[t] * h[t-1] + b[t] along one axis; h[-1] is 0, or the initial state.
struct LinearRecurrenceDescriptor {
  Shape shape;
  std::int32_t axis = 0;
  bool reverse = false;
  ElementKind element = ElementKind::F32;
  bool initial = false;  ///< h[-1] is given: a tensor of `shape` with extent 1 along the axis

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
};

PLANCK_DECLARE_OP(LinearRecurrence, 1);
PLANCK_DECLARE_OP(LinearRecurrenceBackward, 1);

}  // namespace planck
