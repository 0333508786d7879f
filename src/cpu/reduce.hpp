// The reducing engine: gradients of broadcast operands, summed in the canonical order.
//
// The reduced dimensions are summed one at a time, innermost logical dimension first, in f64, and rounded
// once. A span kernel makes the terms in C, some rows at a time; this engine only adds. Several gradients over the same
// dimensions, and elementwise outputs beside them, come from one walk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/sums.hpp"
#include "cpu/kernel.hpp"
#include "planck/plan.hpp"
#include "planck/stream.hpp"

namespace planck::cpu {

/// Bytes that a parallel split of few, long sums can use, for this many terms that each read `term_bytes`: none if
/// one thread does it all anyway. The engine is content with less, down to nothing.
std::size_t reduce_workspace(std::int64_t terms, std::int64_t term_bytes) noexcept;

struct Reduction {
  const KernelRow& kernel;
  ArchSku arch;  ///< whose additions are used
  const void* params;
  /// Logical dimensions in order. Operands: the kernel's `inputs`, its outputs (those that are summed absent, the
  /// others in `compute` or rounded from it to the kernel's element), and last the sums, all of one shape.
  core::StridedLoop loop;
  int inputs;
  core::Sums sums;      ///< the gradients
  ElementKind compute;  ///< the terms' kind, f32 or f64
  int rounded = 0;      ///< outputs, the first ones, that the kernel itself rounds to its element
};

/// Writes every element of the gradients and of the outputs that are not summed; a sum over nothing is +0.
void run_reduction(const Stream& stream, const Reduction& reduction, Workspace workspace) noexcept;

}  // namespace planck::cpu
