// A kernel as the rest of the library sees it: one row of the kernel list and one function over contiguous spans.
//
// Every family has such a list for every instruction set: backends choose from it, the parity test walks it, and the
// benchmark times it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "backend/backend.hpp"
#include "planck/plan.hpp"

namespace planck::cpu {

using core::Status;

/// Applies an elementwise kernel to n elements. `operands` are the inputs, then the outputs, each contiguous
/// and aligned to its element; an output may equal an input. `params` is the kernel's own struct. Outputs whose
/// bit is set in `streamed` (bit 0 is the first) are stored non-temporally if their alignment allows it; the
/// caller fences.
using SpanKernel = void (*)(const void* params, void* const* operands, std::int64_t n, unsigned streamed);

/// The same over `rows` spans of n elements, of an elementwise kernel whose last two inputs, scale and zero point, are
/// one element each for a row. `row_strides`: bytes from one row to the next, for each operand.
using SegmentKernel = void (*)(const void* params, void* const* operands, const std::int64_t* row_strides,
                               std::int64_t rows, std::int64_t n, unsigned streamed);

struct ScanKernel;

/// One kernel for one instruction set.
struct KernelRow {
  OpCategory category;
  std::int32_t op;  ///< the number of the category's kind enum, or of the quantise family's formula
  bool backward;
  std::int32_t variant;  ///< the operation's own: scale form and source, scalar or tensor weight
  bool terms;            ///< outputs in C instead of the element: what summed gradients start from
  ElementKind element;
  std::optional<ElementKind> aux_element;
  SpanKernel span;
  SegmentKernel segments = nullptr;  ///< null if scale and zero point are no inputs
  const ScanKernel* scan = nullptr;  ///< for scans, which have no span
};

/// The rows of one family for one instruction set; empty if it was not compiled for it.
template <class Element>
std::span<const KernelRow> quantize_kernels(ArchSku arch) noexcept;
template <class Element>
std::span<const KernelRow> dynamic_range_kernels(ArchSku arch) noexcept;
template <class Element>
std::span<const KernelRow> scan_kernels(ArchSku arch) noexcept;
std::span<const KernelRow> binary_param_kernels(ArchSku arch) noexcept;

/// Puts the row with the identity of `like` (its functions are not looked at) into a slot of the choice.
Status take_kernel(backend::Selection& selection, std::size_t slot, std::span<const KernelRow> rows,
                   const KernelRow& like) noexcept;

inline const KernelRow& kernel_in(const backend::Choice& choice, std::size_t slot) noexcept {
  return *static_cast<const KernelRow*>(choice.kernels[slot]);
}

}  // namespace planck::cpu
