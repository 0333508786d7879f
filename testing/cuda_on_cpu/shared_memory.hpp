// Where the kernels' shared arrays are, and nonsense in them before every block.
//
// On a device shared memory holds whatever the last block left there. Here the arrays are local statics of the kernels
// in .cu files, which the executable's own symbol table names.
#pragma once

#include <cstdint>

namespace cuda_on_cpu {

/// Overwrites the shared arrays that were written since the last call; all of them the first time. Floats become large
/// numbers or NaN, by the seed.
void spoil_shared_memory(std::uint32_t seed);

}  // namespace cuda_on_cpu
