// A parameterised binary operation as its plan hands it to a backend.
#pragma once

#include <cstdint>

#include "core/sums.hpp"
#include "planck/elementwise.hpp"

namespace planck::binary {

/// Where w comes from; the kernel list's `variant`.
enum class Weight : std::int32_t { Scalar = 0, Tensor = 1 };

// Operands. Scalar weight: forward a, b -> y; backward dy -> da, db.
// Tensor weight: forward a, b, w -> y; backward dy, a, b, w -> da, db, d_weight.
constexpr int inputs_of(bool backward, Weight weight) {
  if (backward) return weight == Weight::Tensor ? 4 : 1;
  return weight == Weight::Tensor ? 3 : 2;
}
constexpr int gradients_of(Weight weight) { return weight == Weight::Tensor ? 3 : 2; }

struct BinaryJob {
  BinaryKind kind;
  bool backward;
  Weight weight;
  ElementKind element;
  double param;
  /// Gradients that are sums are absent among the outputs, and come after them.
  core::Sums sums{};
  /// Operands as above; inputs that no wanted gradient reads, and gradients that are not wanted, are absent. A backend
  /// may rewrite the loop.
  core::StridedLoop* loop = nullptr;

  int inputs() const { return inputs_of(backward, weight); }
  int outputs() const { return backward ? gradients_of(weight) : 1; }
};

}  // namespace planck::binary
