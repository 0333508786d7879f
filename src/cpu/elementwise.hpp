// The elementwise engine: any number of inputs and outputs, any strides, one span kernel.
#pragma once

#include "core/layout.hpp"
#include "cpu/kernel.hpp"
#include "planck/stream.hpp"

namespace planck::cpu {

/// Applies `kernel` to every index of the loop. The first `inputs` operands are read, the others written;
/// the loop is rewritten to fewer dimensions on the way. Outputs equal inputs or overlap nothing.
void run_elementwise(const Stream& stream, const KernelRow& kernel, const void* params, core::StridedLoop& loop,
                     int inputs) noexcept;

}  // namespace planck::cpu
