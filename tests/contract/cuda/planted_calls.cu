// What check_runtime_calls.cmake must find: a launch beside an allocation and a wait.
__global__ void __launch_bounds__(32) kernel(float* x) { x[threadIdx.x] = 0; }

void run(cudaStream_t stream) {
  void* x = nullptr;
  cudaMallocAsync(&x, 128, stream);
  kernel<<<1, 32, 0, stream>>>(static_cast<float*>(x));
  cudaStreamSynchronize(stream);
}
