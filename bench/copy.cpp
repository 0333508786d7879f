// The yardstick for benchmarks from Python: the copy of interleaved.hpp, on the threads that Planck's calls use there.
//
// bench/measure.py loads this library after planck.torch, whose executor (PyTorch's OpenMP threads, where it has any)
// is found the same way here: another pool would be woken for the copy alone.
#include "copy.hpp"

#include <cstdint>

#include "openmp_executor.hpp"

/// Copies `bytes` from one place to another, on at most `threads` threads.
extern "C" __attribute__((visibility("default"))) void planck_bench_copy(void* to, const void* from, std::int64_t bytes,
                                                                         int threads) {
  planck::Executor* const openmp = planck::python::openmp_executor();
  const planck::Stream stream = openmp ? planck::Stream::cpu(*openmp, threads) : planck::Stream::cpu(threads);
  planck::bench::copy(stream, to, from, bytes);
}
