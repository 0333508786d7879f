// For tests in Python: the stream of the last kernel's launch.
#include "cuda/launch.hpp"

extern "C" void* cuda_on_cpu_last_stream() { return planck::cuda::last_stream; }
