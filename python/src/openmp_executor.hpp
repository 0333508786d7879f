// PyTorch's own threads for Planck's work.
#pragma once

#include "planck/stream.hpp"

namespace planck::python {

/// An executor on the OpenMP library that this process has loaded; null if it has none.
///
/// After an operation OpenMP's threads wait for the next one by spinning for a while, and so would keep a second pool
/// of threads from running.
Executor* openmp_executor();

}  // namespace planck::python
