// The reducing engine: gradients of broadcast operands, summed in the canonical order.
//
// The reduced dimensions are summed one at a time, innermost logical dimension first, in f64, and rounded
// once. A span kernel makes the terms in C, a row at a time; this engine only adds.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"

namespace planck::cpu {

/// Bytes that a parallel split of few, long sums can use, for this many terms that each read `term_bytes`: none if
/// one thread does it all anyway. The engine is content with less, down to nothing.
std::size_t reduce_workspace(std::int64_t terms, std::int64_t term_bytes) noexcept;

struct Reduction {
  SpanKernel kernel;
  const void* params;
  /// Logical dimensions in order. Operands: the kernel's `inputs`, its outputs (all absent), and last the
  /// gradient itself, whose stride is 0 in the reduced dimensions.
  core::StridedLoop loop;
  int inputs;
  int term;             ///< which of the kernel's outputs is summed
  ElementKind compute;  ///< the terms' kind, f32 or f64
  ElementKind element;  ///< the gradient's kind
  double factor = 1.0;  ///< multiplies each finished sum, in f64, before it is rounded
};

/// Writes every element of the gradient; a sum over nothing is +0.
void run_reduction(const Stream& stream, const Reduction& reduction, Workspace workspace) noexcept;

}  // namespace planck::cpu
