// planck info: the version, what this machine has, and which kernels the plans choose here.
#include <cstdio>

#include "checkpoint/json.hpp"
#include "commands/commands.hpp"
#include "planck/planck.hpp"
#include "planck/version.hpp"
#include "terminal/failure.hpp"
#include "terminal/table.hpp"

namespace planck::cli {
namespace {

/// The kernel that a plan would run, or why there is none (PLANCK_ISA names a set that this machine lacks).
template <class PlanType>
std::string kernel_of(const typename PlanType::Descriptor& what) {
  const auto plan = PlanType::select(Stream::cpu(), what);
  return plan ? to_string(plan->sku()) : plan.error().c_str();
}

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  FakeQuantizeDescriptor what;
  what.shape = {1};
  for (const ArchSku arch :
       {ArchSku::Avx512, ArchSku::Avx2, ArchSku::Sse4, ArchSku::Sse2, ArchSku::Neon, ArchSku::Scalar}) {
    PlanPreference preference;
    preference.prefer_arch = arch;
    if (FakeQuantizePlan<>::select(Stream::cpu(), what, preference)) names.emplace_back(to_string(arch));
  }
  return names;
}

}  // namespace

std::string version_text() { return text(PLANCK_VERSION_MAJOR, ".", PLANCK_VERSION_MINOR, ".", PLANCK_VERSION_PATCH); }

std::uint64_t peak_memory() noexcept {
  // Not getrusage: its number begins with that of the program which started this one, a large Python for example.
  std::FILE* status = std::fopen("/proc/self/status", "re");
  if (status == nullptr) return 0;
  unsigned long long kibibytes = 0;
  char line[256];
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu", &kibibytes) == 1) break;
  }
  std::fclose(status);
  return kibibytes * 1024;
}

void info_command(const InfoOptions& options) {
  const std::vector<std::string> sets = instruction_sets();
  const Shape shape{64, 64};
  std::vector<std::string> kernels;
  for (const ElementInfo& element : kElements) {
    const ElementKind kind = element.kind;
    if (!is_float(kind)) continue;
    DynamicRangeQuantizeDescriptor range;
    range.shape = shape;
    range.input_element = kind;
    kernels.push_back(kernel_of<DynamicRangeQuantizePlan<>>(range));
    DequantizeDescriptor back;
    back.shape = shape;
    back.output_element = kind;
    kernels.push_back(kernel_of<DequantizePlan<>>(back));
  }
  QuantizeDescriptor quantize;
  quantize.shape = shape;
  kernels.push_back(kernel_of<QuantizePlan<>>(quantize));
  FakeQuantizeDescriptor fake;
  fake.shape = shape;
  kernels.push_back(kernel_of<FakeQuantizePlan<>>(fake));
  ScanDescriptor scan;
  scan.input_shape = shape;
  kernels.push_back(kernel_of<ScanPlan<>>(scan));
  BinaryParamDescriptor lerp;
  lerp.shape = shape;
  kernels.push_back(kernel_of<BinaryParamPlan<>>(lerp));

  if (options.json) {
    JsonObject out;
    out.add("command", "info").add("version", version_text()).add("threads", Stream::cpu().threads());
    out.raw("instruction_sets", json_array(sets)).raw("kernels", json_array(kernels));
    std::printf("%s\n", out.str().c_str());
    return;
  }
  std::printf("planck %s\nthreads           %d\ninstruction sets ", version_text().c_str(), Stream::cpu().threads());
  for (const std::string& set : sets) std::printf(" %s", set.c_str());
  std::printf(" (best first)\nkernels\n");
  for (const std::string& kernel : kernels) std::printf("  %s\n", kernel.c_str());
}

}  // namespace planck::cli
