// The quantise family on the CPU: which rows of the kernel list a job takes, and which engine runs them.
#include <cstring>

#include "cpu/elementwise.hpp"
#include "cpu/entries.hpp"
#include "cpu/reduce.hpp"
#include "numerics/storage.hpp"
#include "quantize/cpu/kernel_row.hpp"

namespace planck::cpu {
namespace {

using core::LoopOperand;
using core::StridedLoop;
using quantize::Formula;
using quantize::QParamsFrom;
using quantize::QuantizeJob;

// Slots of a choice.
constexpr std::size_t kElements = 0;
constexpr std::size_t kTerms = 1;

template <class T>
T element_at(const LoopOperand& operand) {
  T value;
  std::memcpy(&value, operand.base, sizeof value);
  return value;
}

/// Scale and zero point as numbers: those of a run that has one scale, and what stands for absent operands.
struct Numbers {
  double scale;
  float f32_scale;
  std::int64_t zero_point;
  std::int32_t s32_zero_point;

  explicit Numbers(const QuantizeJob& job) : scale(job.scale), zero_point(job.zero_point) {
    if (job.one_scale) {
      const LoopOperand& scale_operand = job.loop->operand[job.scale_operand()];
      const LoopOperand& zero_point_operand = job.loop->operand[job.zero_point_operand()];
      if (scale_operand.base != nullptr) {
        numerics::with_float(job.scale_element,
                             [&]<class S>(S) { scale = scalar::widen<double>(element_at<S>(scale_operand)); });
      }
      if (zero_point_operand.base != nullptr) zero_point = element_at<std::int32_t>(zero_point_operand);
    }
    f32_scale = static_cast<float>(scale);
    s32_zero_point = static_cast<std::int32_t>(zero_point);
  }
};

/// One value for every element.
LoopOperand broadcast(const void* value, ElementKind element, int rank) {
  LoopOperand operand;
  // Inputs travel as bytes too; the kernels' types keep them read-only.
  operand.base = static_cast<std::byte*>(const_cast<void*>(value));
  operand.element_bytes = size_of(element);
  std::fill_n(operand.stride.begin(), rank, 0);
  return operand;
}

/// Numbers become operands that are broadcast. One scale for all is read in the compute type, whatever it was stored
/// as.
void put_numbers(const QuantizeJob& job, const Numbers& numbers) {
  StridedLoop& loop = *job.loop;
  LoopOperand& scale = loop.operand[job.scale_operand()];
  LoopOperand& zero_point = loop.operand[job.zero_point_operand()];
  if (job.one_scale) {
    scale = job.element == ElementKind::F64 ? broadcast(&numbers.scale, ElementKind::F64, loop.rank)
                                            : broadcast(&numbers.f32_scale, ElementKind::F32, loop.rank);
  }
  if (job.one_scale || zero_point.base == nullptr) {
    zero_point = broadcast(&numbers.s32_zero_point, ElementKind::S32, loop.rank);
  }
}

/// Calls body(params) in the compute type of the floats.
template <class Body>
void with_params(const QuantizeJob& job, double scale, std::int64_t zero_point, const Body& body) {
  if (job.element == ElementKind::F64) {
    body(quantize::Params<double>(scale, zero_point, job.q_min, job.q_max));
  } else {
    body(quantize::Params<float>(scale, zero_point, job.q_min, job.q_max));
  }
}

/// dx and the sums, as far as they are wanted, in one pass.
void run_sums(const Run& run, const QuantizeJob& job) noexcept {
  StridedLoop& loop = *job.loop;
  const ElementKind compute = compute_of(job.element);
  const int first_sum = job.output_operand() + 1;
  // The kernel's other outputs are the terms.
  std::array<LoopOperand, core::kMaxSums> sums;
  std::copy_n(&loop.operand[first_sum], job.sums.count, sums.begin());
  loop.operands = first_sum;
  loop.add_absent(compute);
  loop.add_absent(compute);
  for (int s = 0; s < job.sums.count; ++s) loop.operand[loop.operands++] = sums[s];
  with_params(job, 1.0, 0, [&](const auto& params) {
    run_reduction(
        run.stream,
        {kernel_in(run.choice, kTerms), run.choice.arch, &params, loop, job.output_operand(), job.sums, compute, 1},
        run.workspace);
  });
}

}  // namespace

Status prepare_quantize(const QuantizeJob& job, Selection& selection) noexcept {
  // Only these formulas know codes: one kernel of the others serves all kinds.
  const bool codes = job.formula == Formula::Quantize || job.formula == Formula::Dequantize ||
                     (job.formula == Formula::QuantizeBackward && is_float_code(job.codes));
  const bool narrow = !job.one_scale && job.scale_element != compute_of(job.element);
  const auto operands = narrow ? QParamsFrom::NarrowOperands : QParamsFrom::Operands;
  const auto rows = quantize::kernels_for(job.element, selection.choice.arch);
  const auto row = [&](QParamsFrom from, bool terms) {
    return quantize::kernel_row(job.formula, job.element, codes ? std::optional(job.codes) : std::nullopt,
                                quantize::variant_of(job.form, from), terms);
  };
  PLANCK_TRY(take_kernel(selection, kElements, rows, row(job.one_scale ? QParamsFrom::Run : operands, false)));
  if (job.sums.count == 0) return {};
  selection.want_workspace(reduce_workspace(job.loop->count(), job.reads() * size_of(job.element)));
  return take_kernel(selection, kTerms, rows, row(operands, true));
}

Status run_quantize(const Run& run, const QuantizeJob& job) noexcept {
  StridedLoop& loop = *job.loop;
  const Numbers numbers(job);
  const KernelRow& kernel = kernel_in(run.choice, kElements);
  if (job.one_scale && job.sums.count == 0) {
    // Scale and zero point are the kernel's parameters, not its operands.
    loop.operand[job.reads()] = loop.operand[job.output_operand()];
    loop.operands = job.reads() + 1;
    with_params(job, numbers.scale, numbers.zero_point,
                [&](const auto& params) { run_elementwise(run.stream, kernel, &params, loop, job.reads()); });
    return {};
  }
  put_numbers(job, numbers);
  if (job.sums.count > 0) {
    run_sums(run, job);
  } else {
    with_params(job, 1.0, 0,
                [&](const auto& params) { run_elementwise(run.stream, kernel, &params, loop, job.output_operand()); });
  }
  return {};
}

bool run_small_quantize(const Choice& choice, const QuantizeJob& job, void* const* operands, std::int64_t n) noexcept {
  with_params(job, job.scale, job.zero_point,
              [&](const auto& params) { kernel_in(choice, kElements).span(&params, operands, n, 0); });
  return true;
}

}  // namespace planck::cpu
