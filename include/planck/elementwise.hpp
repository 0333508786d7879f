// Parameterised binary operations y = f(a, b; w): Lerp and AddScaled, forward and backward.
#pragma once

#include <optional>

#include "planck/plan.hpp"

namespace planck {

/// What a parameterised binary operation does, forward and backward.
///
/// a, b and w have their own shapes when they are smaller than `shape`: right-aligned, a missing dimension
/// or one of size 1 is repeated. Their gradients have the same shapes, summed over what was repeated.
struct BinaryParamDescriptor {
  BinaryKind kind = BinaryKind::Lerp;
  Shape shape;
  ElementKind element = ElementKind::F32;
  double param = 0.0;                   ///< w, rounded to C, when there is no weight tensor
  std::optional<Shape> weight_shape{};  ///< present: w is a tensor of this shape, and `param` is not used
  std::optional<Shape> a_shape{};       ///< absent: `shape`
  std::optional<Shape> b_shape{};       ///< absent: `shape`

  bool operator==(const BinaryParamDescriptor&) const = default;
};

/// Lerp: |w| < 0.5 ? a + w*(b - a) : b - (b - a)*(1 - w).   AddScaled: a + w*b.
/// `y` may be the same view as an input of the same shape.
struct BinaryParamArgs {
  AnyTensorRef a;
  AnyTensorRef b;
  std::optional<AnyTensorRef> weight{};  ///< present exactly when the descriptor has a weight_shape
  AnyTensorMut y;
};

using BinaryParamBackwardDescriptor = BinaryParamDescriptor;

/// Lerp: da = (1 - w)*dy, db = w*dy, d_weight = sum dy*(b - a).   AddScaled: da = dy, db = w*dy, d_weight = sum dy*b.
/// At least one gradient is present; one of full shape may be the same view as an input.
struct BinaryParamBackwardArgs {
  AnyTensorRef dy;
  std::optional<AnyTensorRef> a{};       ///< needed for d_weight (Lerp)
  std::optional<AnyTensorRef> b{};       ///< needed for d_weight
  std::optional<AnyTensorRef> weight{};  ///< present exactly when the descriptor has a weight_shape
  std::optional<AnyTensorMut> da{};
  std::optional<AnyTensorMut> db{};
  std::optional<AnyTensorMut> d_weight{};  ///< only with a weight tensor
};

/// BinaryParamPlan<T> or, with the element as a value, BinaryParamPlan<>.
struct PLANCK_API BinaryParamOp {
  using Descriptor = BinaryParamDescriptor;
  using Args = BinaryParamArgs;
  static constexpr std::string_view kName = "BinaryParam";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using BinaryParamPlan = Plan<BinaryParamOp, T...>;

struct PLANCK_API BinaryParamBackwardOp {
  using Descriptor = BinaryParamBackwardDescriptor;
  using Args = BinaryParamBackwardArgs;
  static constexpr std::string_view kName = "BinaryParamBackward";
  static constexpr std::size_t kElements = 1;
  static Result<detail::PlanChoice> select(const Stream&, const Descriptor&, const PlanPreference&,
                                           std::span<const ElementKind> expected) noexcept;
  static Result<void> can_implement(const Descriptor&, const detail::PlanChoice&, const Args&) noexcept;
  static Result<void> run(const Descriptor&, const detail::PlanChoice&, const Stream&, Workspace, const Args&) noexcept;
};
template <class... T>
using BinaryParamBackwardPlan = Plan<BinaryParamBackwardOp, T...>;

}  // namespace planck
