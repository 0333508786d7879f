// Planck on a CUDA device beside a copy of the same bytes and, for a scan of one row, CUB's DeviceScan. One line for
// each problem: a name, milliseconds, and how many copies of the same bytes that is. scripts/bench --gpu runs it.
//
// The copy's bytes are what the operation must at least read and write. Every number is the least of several rounds,
// timed by events on the stream.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cub/device/device_scan.cuh>
#include <memory>
#include <planck/planck.hpp>

namespace {

void check(cudaError_t code) {
  if (code == cudaSuccess) return;
  std::fprintf(stderr, "CUDA error %d: %s\n", static_cast<int>(code), cudaGetErrorString(code));
  std::exit(1);
}

struct Free {
  void operator()(void* memory) const { cudaFree(memory); }
};
using Memory = std::unique_ptr<void, Free>;
Memory allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes + 1));
  check(cudaMemset(memory, 0x3C, bytes));  // small numbers as f32, and as bf16
  return Memory(memory);
}

/// Milliseconds of body(), which puts work onto the default stream.
template <class Body>
float milliseconds(const Body& body) {
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin));
  check(cudaEventCreate(&end));
  float best = 1e9F;
  for (int round = 0; round < 20; ++round) {
    check(cudaEventRecord(begin));
    body();
    check(cudaEventRecord(end));
    check(cudaEventSynchronize(end));
    float time = 0;
    check(cudaEventElapsedTime(&time, begin, end));
    best = std::min(best, time);
  }
  check(cudaEventDestroy(begin));
  check(cudaEventDestroy(end));
  return best;
}

/// The least that so many bytes, read and written together, take.
float copy_of(std::size_t bytes) {
  const Memory from = allocate(bytes / 2);
  const Memory to = allocate(bytes / 2);
  return milliseconds([&] { check(cudaMemcpyAsync(to.get(), from.get(), bytes / 2, cudaMemcpyDeviceToDevice)); });
}

void print(const char* name, float time, std::size_t bytes) {
  std::printf("%-40s %9.3f ms  %6.2f x copy\n", name, time, time / copy_of(bytes));
}

const planck::Stream kStream = planck::Stream::cuda(nullptr);

template <class Plan, class Args>
void measure(const char* name, const typename Plan::Descriptor& what, const Args& args, std::size_t bytes) {
  const auto plan = Plan::select(kStream, what);
  if (!plan) return static_cast<void>(std::printf("%-40s %s\n", name, plan.error().c_str()));
  const Memory workspace = allocate(plan->workspace_size());
  const planck::Workspace lent{workspace.get(), plan->workspace_size()};
  const float time = milliseconds([&] {
    const auto done = plan->run(kStream, lent, args);
    if (!done) std::printf("%s: %s\n", name, done.error().c_str());
  });
  print(name, time, bytes);
}

planck::AnyTensorMut view(const Memory& memory, planck::ElementKind element, const planck::Shape& shape) {
  return planck::AnyTensorMut::contiguous(memory.get(), element, shape);
}

constexpr std::int64_t kSide = 4096;
constexpr std::size_t kCount = kSide * kSide;

void measure_dynamic(const char* name, planck::ElementKind element, const planck::Granularity& scope) {
  using namespace planck;
  const auto bytes = static_cast<std::size_t>(size_of(element));
  DynamicRangeQuantizeDescriptor what;
  what.shape = {kSide, kSide};
  what.input_element = element;
  what.scope = scope;
  const Shape segments = qparams_shape(what.shape, scope);
  const Memory x = allocate(kCount * bytes), q = allocate(kCount), scale = allocate(kCount * 8);
  DynamicRangeQuantizeArgs args{view(x, element, what.shape),
                                view(scale, compute_of(element), segments),
                                view(q, ElementKind::S8, what.shape),
                                {},
                                {}};
  measure<DynamicRangeQuantizePlan<>>(name, what, args, kCount * (bytes + 1));
}

void measure_scan(const char* name, planck::ScanKind kind, const planck::Shape& shape, int axis) {
  using namespace planck;
  ScanDescriptor what;
  what.kind = kind;
  what.input_shape = shape;
  what.scan_axis = axis;
  what.element = ElementKind::F32;
  const Memory x = allocate(kCount * 4), y = allocate(kCount * 4);
  measure<ScanPlan<>>(name, what, ScanArgs{view(x, ElementKind::F32, shape), view(y, ElementKind::F32, shape), {}},
                      kCount * 8);
}

void measure_cub() {
  const Memory x = allocate(kCount * 4), y = allocate(kCount * 4);
  std::size_t bytes = 0;
  const auto scan = [&](void* workspace) {
    check(cub::DeviceScan::InclusiveSum(workspace, bytes, static_cast<const float*>(x.get()),
                                        static_cast<float*>(y.get()), static_cast<std::int64_t>(kCount)));
  };
  scan(nullptr);
  const Memory workspace = allocate(bytes);
  print("CUB DeviceScan f32, f32 sums, flat", milliseconds([&] { scan(workspace.get()); }), kCount * 8);
}

}  // namespace

int main() {
  using namespace planck;
  int devices = 0;
  const cudaError_t found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no CUDA device (%s)\n", cudaGetErrorName(found));
    return 0;
  }
  FakeQuantizeDescriptor fake;
  fake.shape = {kSide, kSide};
  fake.q_min = -128;
  fake.q_max = 127;
  {
    const Memory x = allocate(kCount * 4), y = allocate(kCount * 4);
    measure<FakeQuantizePlan<>>(
        "fake_quantize f32", fake,
        FakeQuantizeArgs{view(x, ElementKind::F32, fake.shape), 0.1, 0, view(y, ElementKind::F32, fake.shape)},
        kCount * 8);
  }
  measure_dynamic("dynamic_quantize token f32", ElementKind::F32, PerToken{});
  measure_dynamic("dynamic_quantize token bf16", ElementKind::Bf16, PerToken{});
  measure_dynamic("dynamic_quantize group 128 bf16", ElementKind::Bf16, PerGroup{1, 128});
  measure_dynamic("dynamic_quantize tensor f32", ElementKind::F32, PerTensor{});
  measure_dynamic("dynamic_quantize channel, axis 1, f32", ElementKind::F32, PerChannel{1});
  const auto flat = static_cast<std::int64_t>(kCount);
  measure_scan("cumsum f32, axis 1", ScanKind::Cumsum, {kSide, kSide}, 1);
  measure_scan("cumsum f32, axis 0", ScanKind::Cumsum, {kSide, kSide}, 0);
  measure_scan("cumsum f32, flat", ScanKind::Cumsum, {flat}, 0);
  measure_cub();
  measure_scan("cumprod f32, axis 1", ScanKind::Cumprod, {kSide, kSide}, 1);
  measure_scan("logcumsumexp f32, axis 1", ScanKind::LogCumsumExp, {kSide, kSide}, 1);
  return 0;
}
