// Three calls of the library for scripts/walks, which stops in their inner loops and reads the stack.
//   walks fake_quantize | log_cumsum_exp_backward | dynamic_range
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <vector>

#include "planck/dynamic_range.hpp"
#include "planck/quantize.hpp"
#include "planck/scan.hpp"

namespace {

using namespace planck;

const Stream kStream = Stream::cpu();

/// Selects a plan and runs it; the exit status of the program.
template <class SomePlan>
int run(const typename SomePlan::Descriptor& descriptor, const typename SomePlan::Args& args) {
  const auto plan = SomePlan::select(kStream, descriptor);
  if (!plan) return 1;
  std::vector<std::byte> memory(plan->workspace_size());
  return plan->run(kStream, Workspace{memory.data(), memory.size()}, args) ? 0 : 1;
}

template <class T>
AnyTensorRef view(const std::vector<T>& values, const Shape& shape) {
  return AnyTensorRef::contiguous(values.data(), element_of<T>, shape);
}
template <class T>
AnyTensorMut view(std::vector<T>& values, const Shape& shape) {
  return AnyTensorMut::contiguous(values.data(), element_of<T>, shape);
}

int fake_quantize() {
  const Shape shape{1 << 20};
  const std::vector<float> x(1 << 20, 1.5F);
  std::vector<float> y(x.size());
  return run<FakeQuantizePlan<float>>({.shape = shape},
                                      {.input = view(x, shape), .scale = 0.1, .output = view(y, shape)});
}

int log_cumsum_exp_backward() {
  const Shape shape{256, 4096};
  const std::vector<float> x(1 << 20, 0.5F);
  std::vector<float> dx(x.size());
  const AnyTensorRef same = view(x, shape);
  return run<ScanBackwardPlan<float>>({.kind = ScanKind::LogCumsumExp, .input_shape = shape, .scan_axis = 1},
                                      {.dy = same, .dx = view(dx, shape), .x = same, .y = same});
}

int dynamic_range() {
  const Shape shape{256, 4096};
  const std::vector<bf16> x(1 << 20, bf16(0.5F));
  std::vector<std::int8_t> codes(x.size());
  std::vector<float> scales(256);
  return run<DynamicRangeQuantizePlan<bf16, std::int8_t>>(
      {.shape = shape, .scope = PerToken{}, .input_element = ElementKind::Bf16},
      {.input = view(x, shape), .scale_out = view(scales, {256}), .output = view(codes, shape)});
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view name = argc == 2 ? argv[1] : "";
  if (name == "fake_quantize") return fake_quantize();
  if (name == "log_cumsum_exp_backward") return log_cumsum_exp_backward();
  if (name == "dynamic_range") return dynamic_range();
  std::fprintf(stderr, "usage: walks fake_quantize | log_cumsum_exp_backward | dynamic_range\n");
  return 2;
}
