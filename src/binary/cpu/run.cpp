// The parameterised binary family on the CPU: which rows of the kernel list a job takes, and which engine runs them.
#include "binary/cpu/kernel_row.hpp"
#include "cpu/elementwise.hpp"
#include "cpu/entries.hpp"
#include "cpu/reduce.hpp"

namespace planck::cpu {
namespace {

using binary::BinaryJob;

// Slots of a choice.
constexpr std::size_t kElements = 0;
constexpr std::size_t kTerms = 1;

/// Calls body(params) with the scalar weight in the element's compute type.
template <class Body>
void with_params(const BinaryJob& job, const Body& body) {
  if (job.element == ElementKind::F64) {
    body(binary::Params<double>{job.param});
  } else {
    body(binary::Params<float>{static_cast<float>(job.param)});
  }
}

}  // namespace

Status prepare_binary(const BinaryJob& job, Selection& selection) noexcept {
  const auto rows = binary_param_kernels(selection.choice.arch);
  const auto row = [&](bool terms) {
    return binary::kernel_row(job.kind, job.backward, job.weight, job.element, terms);
  };
  PLANCK_TRY(take_kernel(selection, kElements, rows, row(false)));
  if (job.sums.count == 0) return {};
  selection.want_workspace(reduce_workspace(job.loop->count(), job.inputs() * size_of(job.element)));
  return take_kernel(selection, kTerms, rows, row(true));
}

Status run_binary(const Run& run, const BinaryJob& job) noexcept {
  with_params(job, [&](const auto& params) {
    if (job.sums.count == 0) {
      run_elementwise(run.stream, kernel_in(run.choice, kElements), &params, *job.loop, job.inputs());
    } else {
      run_reduction(run.stream,
                    {kernel_in(run.choice, kTerms), run.choice.arch, &params, *job.loop, job.inputs(), job.sums,
                     compute_of(job.element)},
                    run.workspace);
    }
  });
  return {};
}

bool run_small_binary(const Choice& choice, const BinaryJob& job, void* const* operands, std::int64_t n) noexcept {
  with_params(job, [&](const auto& params) { kernel_in(choice, kElements).span(&params, operands, n, 0); });
  return true;
}

}  // namespace planck::cpu
