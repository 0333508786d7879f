// Prints one line per kernel: its name and a digest of what it makes of fixed inputs. Run on two machines, the
// outputs must be the same text; scripts/check --full compares x86-64 and 64-bit Arm.
#include <cmath>
#include <cstdio>

#include "testing/op_cases.hpp"
#include "testing/test_tensor.hpp"

namespace planck::test {
namespace {

/// FNV-1a over the elements; every NaN counts as the same.
void digest(std::uint64_t& hash, ElementKind element, const std::vector<std::byte>& packed) {
  const auto size = static_cast<std::size_t>(size_of(element));
  for (std::size_t i = 0; i < packed.size(); i += size) {
    const bool nan = std::isnan(element_as_double(element, packed, static_cast<std::int64_t>(i / size)));
    for (std::size_t k = 0; k < size; ++k) {
      hash = (hash ^ (nan ? 0xFFU : std::to_integer<std::uint64_t>(packed[i + k]))) * 0x100000001B3U;
    }
  }
}

bool print_digest(const cpu::KernelRow& row) {
  std::uint64_t hash = 0xCBF29CE484222325U;
  const Shape shape{37, 1009};
  for (const Broadcast broadcast : broadcasts_for(row, shape)) {
    const OpCase op_case = make_case(row, shape, broadcast);
    std::vector<TestTensor> tensors;
    for (const TensorSpec& spec : op_case.tensors) {
      tensors.emplace_back(spec.element, spec.shape, Layout::Contiguous);
      fill(tensors.back(), spec, tensors.size(), op_case.unit);
    }
    const Tensors views(tensors.begin(), tensors.end());
    const auto run = op_case.select(Stream::cpu(), {});
    if (!run || !(*run)(views)) return false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (op_case.tensors[i].output) digest(hash, op_case.tensors[i].element, tensors[i].packed());
    }
  }
  std::printf("%s %016llx\n", name_of(row).c_str(), static_cast<unsigned long long>(hash));
  return true;
}

}  // namespace
}  // namespace planck::test

int main() {
  for (const auto& row : planck::test::kernel_list()) {
    if (!planck::test::print_digest(row)) return 1;
  }
  return 0;
}
