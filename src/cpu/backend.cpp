// The CPU as a backend: its table, the instruction set that it runs on, and rows of the kernel list for a plan to keep.
#include "backend/backend.hpp"

#include <algorithm>
#include <cstring>

#include "cpu/entries.hpp"
#include "cpu/isa.hpp"
#include "cpu/kernel.hpp"

namespace planck {
namespace cpu {
namespace {

using core::fail;
using core::Text;

/// The instruction sets of this machine, for people: "avx2 sse4 scalar".
class ArchList {
 public:
  ArchList() noexcept {
    for (const ArchSku arch : known_archs()) {
      if (!supported(arch)) continue;
      if (used_ > 0) text_[used_++] = ' ';
      const std::string_view name = to_string(arch);
      std::memcpy(text_ + used_, name.data(), name.size());
      used_ += name.size();
    }
  }
  std::string_view text() const noexcept { return {text_, used_}; }

 private:
  char text_[96];
  std::size_t used_ = 0;
};

std::string_view archs_here() noexcept {
  static const ArchList list;
  return list.text();
}

/// The instruction set that the preference or PLANCK_ISA asks for, or the best one.
Status probe(Selection& selection) noexcept {
  const backend::Request& request = selection.request;
  ArchSku& arch = selection.choice.arch;
  selection.machine = archs_here();
  if (request.preference.prefer_arch) {
    arch = *request.preference.prefer_arch;
    selection.reason = "prefer_arch";
  } else if (const char* name = isa_asked_for(); name != nullptr) {
    const std::optional<ArchSku> named = arch_from_name(name);
    if (!named) return fail(Text::IsaUnknown, {request.plan, name, archs_here()});
    arch = *named;
    selection.reason = "PLANCK_ISA";
  } else {
    const auto known = known_archs();
    arch = *std::find_if(known.begin(), known.end(), supported);
    selection.reason = "the best this machine has";
  }
  if (supported(arch)) return {};
  return fail(Text::IsaUnsupported, {request.plan, selection.reason, to_string(arch), archs_here()});
}

}  // namespace

Status take_kernel(Selection& selection, std::size_t slot, std::span<const KernelRow> rows,
                   const KernelRow& like) noexcept {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const KernelRow& row) {
    return row.category == like.category && row.op == like.op && row.backward == like.backward &&
           row.variant == like.variant && row.terms == like.terms && row.element == like.element &&
           row.aux_element == like.aux_element;
  });
  if (found == rows.end()) {
    return fail(Text::IsaUnsupported,
                {selection.request.plan, selection.reason, to_string(selection.choice.arch), archs_here()});
  }
  selection.choice.kernels[slot] = &*found;
  return {};
}

}  // namespace cpu

constexpr backend::Backend backend::kCpu{
    BackendKind::Cpu,
    Device::Cpu,
    true,
    false,
    cpu::probe,
    {cpu::prepare_quantize, cpu::run_quantize, cpu::run_small_quantize},
    {cpu::prepare_dynamic_range, cpu::run_dynamic_range},
    {cpu::prepare_binary, cpu::run_binary, cpu::run_small_binary},
    {cpu::prepare_scan, cpu::run_scan, cpu::run_small_scan},
};

}  // namespace planck
