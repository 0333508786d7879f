// Which elements share a scale and a zero point, and how a run is given them.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <variant>

#include "planck/export.hpp"
#include "planck/tensor.hpp"

namespace planck {

// Which elements share one scale and zero point (a segment), and so the shape of the scale tensor.

/// One for the whole tensor: a number, or a tensor of rank 0.
struct PerTensor {
  bool operator==(const PerTensor&) const = default;
};
/// One for each index along `axis` (negative counts from the end): shape [shape[axis]].
struct PerChannel {
  int axis = 0;
  bool operator==(const PerChannel&) const = default;
};
/// One for each row along the last axis: `shape` without its last axis.
struct PerToken {
  bool operator==(const PerToken&) const = default;
};
/// One for every `group_size` neighbours along `axis`, the last group perhaps shorter: `shape` with shape[axis]
/// replaced by the number of groups.
struct PerGroup {
  int axis = -1;
  std::int64_t group_size = 1;
  bool operator==(const PerGroup&) const = default;
};

using Granularity = std::variant<PerTensor, PerChannel, PerToken, PerGroup>;

/// The shape of a scale or zero-point tensor; the granularity must fit the shape, as `select` checks.
PLANCK_API Shape qparams_shape(const Shape& shape, const Granularity& granularity) noexcept;

/// A scale or zero point of a run: one number for every segment, or a tensor with one each.
template <class Number>
class QParam {
 public:
  constexpr QParam(Number number = {}) noexcept : number_(number) {}
  template <class View>
  requires(!std::is_arithmetic_v<View> &&
           std::convertible_to<const View&, AnyTensorRef>) constexpr QParam(const View& view) noexcept
      : tensor_(AnyTensorRef(view)) {}

  Number number() const noexcept { return number_; }
  const AnyTensorRef* tensor() const noexcept { return tensor_ ? &*tensor_ : nullptr; }

 private:
  Number number_{};
  std::optional<AnyTensorRef> tensor_;
};

/// Finite, at least C's smallest normal number. A number is rounded to C and serves PerTensor only; a tensor holds
/// the descriptor's scale_element.
using ScaleArg = QParam<double>;
/// |zp| <= 2^20; a number, or a tensor of s32. Left out, it is 0.
using ZeroPointArg = QParam<std::int64_t>;

}  // namespace planck
