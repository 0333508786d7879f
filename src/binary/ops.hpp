// What the parts of the parameterised binary family tell each other: operand order, parameters, reference loops.
#pragma once

#include <cstdint>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/elementwise.hpp"

namespace planck::elementwise {

/// Where w comes from; the kernel list's `variant`.
enum class Weight : std::int32_t { Scalar = 0, Tensor = 1 };

/// A kernel's place in the list: rows carry a span, a plan's request is the same without one.
constexpr cpu::KernelRow kernel_row(BinaryKind kind, bool backward, Weight weight, ElementKind element, bool terms,
                                    cpu::SpanKernel span = nullptr) {
  return {OpCategory::BinaryElementwise,
          static_cast<std::int32_t>(kind),
          backward,
          static_cast<std::int32_t>(weight),
          terms,
          element,
          std::nullopt,
          span};
}

template <class C>
struct Params {
  C weight;  ///< not used with a weight tensor
};

// Operands of the kernels. Scalar weight: forward a, b -> y; backward dy -> da, db.
// Tensor weight: forward a, b, w -> y; backward dy, a, b, w -> da, db, dw.
inline constexpr int inputs_of(bool backward, Weight weight) {
  if (backward) return weight == Weight::Tensor ? 4 : 1;
  return weight == Weight::Tensor ? 3 : 2;
}
inline constexpr int gradients_of(Weight weight) { return weight == Weight::Tensor ? 3 : 2; }

/// The reference loops, with operands as above; absent gradients are skipped.
namespace reference {
void forward(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param);
void backward(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param);
/// One gradient (0 = da, 1 = db, 2 = dw) summed over the dimensions in which the loop's last operand, the
/// gradient itself, has stride 0.
void backward_summed(const core::StridedLoop& loop, BinaryKind kind, Weight weight, ElementKind element, double param,
                     int gradient);
}  // namespace reference

}  // namespace planck::elementwise
