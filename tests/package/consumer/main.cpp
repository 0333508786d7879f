// The first program a user writes: round four numbers to halves between -4 and 3.5, and check them.
#include <planck/planck.hpp>
#include <vector>

int main() {
  const std::vector<float> x{0.3F, -0.8F, 100.0F, -100.0F};
  std::vector<float> y(x.size());
  const planck::Stream stream = planck::Stream::cpu();
  const auto plan = planck::FakeQuantizePlan<float>::select(
      stream, planck::FakeQuantizeDescriptor::flat(4, -8, 7, planck::ElementKind::F32));
  if (!plan) return 1;
  if (!plan->run(stream, planck::Workspace::none(), {planck::view(x, {4}), 0.5, 0, planck::view(y, {4})})) return 1;
  return y == std::vector<float>{0.5F, -1.0F, 3.5F, -4.0F} ? 0 : 1;
}
