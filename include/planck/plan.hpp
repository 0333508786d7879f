// What all plans share: preferences, workspace, the kernel's identity, and the Plan template itself.
//
// An operation is a Descriptor (what), Args (this run's tensors) and a Plan (checked, immutable, reusable,
// safe to run from many threads at once, each with its own workspace).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "planck/element.hpp"
#include "planck/error.hpp"
#include "planck/export.hpp"
#include "planck/stream.hpp"
#include "planck/tensor.hpp"
#include "planck/workspace.hpp"

namespace planck {

enum class OpCategory : std::int32_t { BinaryElementwise = 0, Scan = 1, Quantization = 2 };

/// The operations of the quantise family, forward and backward.
enum class QuantizeKind : std::int32_t {
  PerTensor = 0,
  PerTensorBackward = 1,
  DequantizePerTensor = 2,
  DequantizePerTensorBackward = 3,
  PerChannel = 4,
  PerChannelBackward = 5,
  DequantizePerChannel = 6,
  DequantizePerChannelBackward = 7,
  FakeQuantize = 8,
  FakeQuantizeBackward = 9,
  PerToken = 16,
  PerTokenBackward = 17,
  PerGroup = 18,
  PerGroupBackward = 19,
  DynamicRange = 20,
  DequantizePerToken = 21,
  DequantizePerTokenBackward = 22,
  DequantizePerGroup = 23,
  DequantizePerGroupBackward = 24,
};

/// The scans. LinearRecurrence has plans of its own.
enum class ScanKind : std::int32_t {
  Cumsum = 0,
  Cumprod = 1,
  Cummax = 2,
  Cummin = 3,
  LogCumsumExp = 4,
  LinearRecurrence = 1000,
};

/// The parameterised binary operations.
enum class BinaryKind : std::int32_t { Lerp = 31, AddScaled = 1000 };

enum class MathPrecision : std::int32_t { F32 = 0, F64 = 1 };

/// What a kernel was compiled for: a GPU architecture or a CPU instruction set.
enum class ArchSku : std::int32_t {
  Sm80 = 0,
  Sm89 = 1,
  Sm90a = 2,
  Sm90 = 3,
  Sm100 = 4,
  Sm120 = 5,
  Scalar = 100,
  Sse2 = 101,
  Sse4 = 103,
  Avx2 = 104,
  Avx512 = 105,
  Neon = 106,
};

/// Who wrote the loops: Bespoke are the CUDA kernels, Cpu the vector kernels, Reference the plain loops.
enum class BackendKind : std::int32_t { Bespoke = 0, Cpu = 100, Reference = 101 };

PLANCK_API std::string_view to_string(OpCategory category) noexcept;
PLANCK_API std::string_view to_string(QuantizeKind kind) noexcept;
PLANCK_API std::string_view to_string(ScanKind kind) noexcept;
PLANCK_API std::string_view to_string(BinaryKind kind) noexcept;
PLANCK_API std::string_view to_string(MathPrecision precision) noexcept;
PLANCK_API std::string_view to_string(ArchSku arch) noexcept;
PLANCK_API std::string_view to_string(BackendKind backend) noexcept;

/// True statements about a plan's numbers; the tests hold them to it.
struct PrecisionGuarantee {
  MathPrecision math_precision = MathPrecision::F32;  ///< the compute type C
  ElementKind accumulator = ElementKind::F32;         ///< what sums are held in; C where nothing is summed
  bool bit_stable_on_same_hardware = true;
  bool deterministic = true;
  bool same_bits_everywhere = true;  ///< instruction set, threads, layout and device change no bit

  bool operator==(const PrecisionGuarantee&) const = default;
};

/// Which kernel a plan picked. `op` is the number of QuantizeKind, ScanKind or BinaryKind, by category.
struct KernelSku {
  OpCategory category = OpCategory::BinaryElementwise;
  std::int32_t op = 0;
  bool backward = false;
  ElementKind element = ElementKind::F32;
  std::optional<ElementKind> aux_element;  ///< the other tensor's kind where it differs (codes, scales)
  std::optional<std::int32_t> layout;      ///< none: every plan takes every layout
  std::optional<std::int32_t> epilogue;    ///< none: nothing is fused behind these operations
  ArchSku arch = ArchSku::Scalar;
  BackendKind backend = BackendKind::Cpu;
  PrecisionGuarantee precision_guarantee;

  bool operator==(const KernelSku&) const = default;
};

/// One line for logs: "Quantization.FakeQuantize f32 cpu/avx2".
PLANCK_API std::string to_string(const KernelSku& sku);

/// What a caller wants of the choice. Honoured or refused, never ignored.
struct PlanPreference {
  /// The plan picks a schedule that needs no more: 0 is always possible on the CPU, while a plan for a device that
  /// needs more is refused.
  std::size_t max_workspace_bytes = std::numeric_limits<std::size_t>::max();
  std::optional<BackendKind> prefer_backend{};
  /// One instruction set instead of the best one; stronger than the environment's PLANCK_ISA.
  std::optional<ArchSku> prefer_arch{};
};

namespace detail {
/// What `select` settled. The storage is the backend's and opaque, so that what it keeps there is no part of the ABI.
struct PlanChoice {
  KernelSku sku;
  std::size_t workspace_bytes = 0;
  alignas(8) std::array<std::byte, 64> storage{};
};
}  // namespace detail

/// A checked, immutable choice of kernel for one descriptor. Op supplies Descriptor, Args and the functions, its name
/// for messages (kName) and how many element types a typed plan names (kElements); Elements, when given, are the C++
/// types that the descriptor's element fields must agree with.
template <class Op, class... Elements>
class Plan {
 public:
  using Descriptor = typename Op::Descriptor;
  using Args = typename Op::Args;

  /// All checks that need no tensors, then the choice of kernel for this stream's device.
  [[nodiscard]] static Result<Plan> select(const Stream& stream, const Descriptor& descriptor,
                                           const PlanPreference& preference = {}) noexcept {
    static_assert(sizeof...(Elements) == 0 || sizeof...(Elements) == Op::kElements,
                  "a typed plan names every element type of the operation");
    constexpr std::array<ElementKind, sizeof...(Elements)> expected{element_of<Elements>...};
    Result<detail::PlanChoice> choice = Op::select(stream, descriptor, preference, expected);
    if (!choice) return tl::unexpected(choice.error());
    return Plan(descriptor, *choice);
  }

  /// All checks that need the tensors but not their contents.
  [[nodiscard]] Result<void> can_implement(const Args& args) const noexcept {
    return Op::can_implement(descriptor_, choice_, args);
  }

  /// Bytes `run` needs.
  std::size_t workspace_size() const noexcept { return choice_.workspace_bytes; }
  const KernelSku& sku() const noexcept { return choice_.sku; }
  const PrecisionGuarantee& precision_guarantee() const noexcept { return choice_.sku.precision_guarantee; }
  const Descriptor& descriptor() const noexcept { return descriptor_; }

  /// `can_implement`, then the work; back when it is done. Allocates nothing and throws nothing; a call that
  /// fails leaves the outputs as they were.
  [[nodiscard]] Result<void> run(const Stream& stream, Workspace workspace, const Args& args) const noexcept {
    return Op::run(descriptor_, choice_, stream, workspace, args);
  }
  /// For plans whose workspace_size() is 0; the others report WorkspaceTooSmall.
  [[nodiscard]] Result<void> run(const Stream& stream, const Args& args) const noexcept {
    return run(stream, Workspace::none(), args);
  }

 private:
  Plan(const Descriptor& descriptor, const detail::PlanChoice& choice) : descriptor_(descriptor), choice_(choice) {}

  Descriptor descriptor_;
  detail::PlanChoice choice_;
};

}  // namespace planck
