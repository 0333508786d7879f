// The parity tests on a real device: tensors and workspaces are managed memory, which the CPU fills and reads.
//
// Says so and ends where there is no device.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <new>

#include "testing/memory.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorName(found));
    return 0;
  }
  auto& source = planck::test::memory_source;
  source.allocate = [](std::size_t bytes) {
    void* memory = nullptr;
    if (cudaMallocManaged(&memory, bytes == 0 ? 1 : bytes) != cudaSuccess) throw std::bad_alloc();
    return memory;
  };
  source.release = [](void* memory) { cudaFree(memory); };
  source.wait = [](const planck::Stream& stream) {
    if (stream.device() != planck::Device::Cuda) return;
    const cudaError_t done = cudaStreamSynchronize(static_cast<cudaStream_t>(stream.native()));
    EXPECT_EQ(done, cudaSuccess) << cudaGetErrorString(done);
  };
  return RUN_ALL_TESTS();
}
