// The parameterised binary family's place in the kernel list, and its kernels' parameters.
#pragma once

#include "binary/job.hpp"
#include "cpu/kernel.hpp"

namespace planck::binary {

/// Rows carry a span; what is looked for in the list is the same without one.
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

}  // namespace planck::binary
