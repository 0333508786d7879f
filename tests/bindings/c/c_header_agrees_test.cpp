// planck.h and planck.hpp side by side: they compile together, and every number that crosses the C ABI is the
// same in both. Everything is settled at compile time; running it says so.
#include <cstddef>
#include <cstdio>
#include <iterator>

#include "planck/planck.h"
#include "planck/planck.hpp"

namespace {

template <class A, class B>
constexpr bool same(A a, B b) {
  return static_cast<long long>(a) == static_cast<long long>(b);
}

using planck::BinaryKind;
using planck::Device;
using planck::ElementKind;
using planck::ErrorKind;
using planck::ScaleForm;
using planck::ScanKind;
using planck::ScanTies;

static_assert(same(PLANCK_OK, 0));
static_assert(same(PLANCK_MISALIGNED_OPERAND, ErrorKind::MisalignedOperand));
static_assert(same(PLANCK_INVALID_PROBLEM, ErrorKind::InvalidProblem));
static_assert(same(PLANCK_UNSUPPORTED, ErrorKind::Unsupported));
static_assert(same(PLANCK_WORKSPACE_TOO_SMALL, ErrorKind::WorkspaceTooSmall));
static_assert(same(PLANCK_BACKEND_FAILURE, ErrorKind::BackendFailure));
static_assert(same(PLANCK_BUFFER_TOO_SMALL, ErrorKind::BufferTooSmall));

constexpr planck_element kElementsInC[] = {PLANCK_F16, PLANCK_BF16, PLANCK_F32, PLANCK_F64,    PLANCK_S8,
                                           PLANCK_U8,  PLANCK_S32,  PLANCK_S64, PLANCK_F8E4M3, PLANCK_F8E5M2};
constexpr bool same_elements() {
  for (const planck::ElementInfo& element : planck::kElements) {
    const auto number = static_cast<std::size_t>(element.kind);
    if (number >= std::size(kElementsInC) || !same(kElementsInC[number], number)) return false;
  }
  return std::size(kElementsInC) == planck::kElements.size();
}
static_assert(same_elements(), "planck_element and the table of element kinds");
static_assert(same(PLANCK_F16, ElementKind::F16) && same(PLANCK_BF16, ElementKind::Bf16));
static_assert(same(PLANCK_F32, ElementKind::F32) && same(PLANCK_F64, ElementKind::F64));
static_assert(same(PLANCK_S8, ElementKind::S8) && same(PLANCK_U8, ElementKind::U8));
static_assert(same(PLANCK_S32, ElementKind::S32) && same(PLANCK_S64, ElementKind::S64));
static_assert(same(PLANCK_F8E4M3, ElementKind::F8E4M3) && same(PLANCK_F8E5M2, ElementKind::F8E5M2));

static_assert(same(PLANCK_DIVIDE, ScaleForm::Divide));
static_assert(same(PLANCK_RECIPROCAL, ScaleForm::Reciprocal));
static_assert(same(PLANCK_PER_TENSOR, planck::Granularity(planck::PerTensor{}).index()));
static_assert(same(PLANCK_PER_CHANNEL, planck::Granularity(planck::PerChannel{}).index()));
static_assert(same(PLANCK_PER_TOKEN, planck::Granularity(planck::PerToken{}).index()));
static_assert(same(PLANCK_PER_GROUP, planck::Granularity(planck::PerGroup{}).index()));
static_assert(same(PLANCK_CUMSUM, ScanKind::Cumsum));
static_assert(same(PLANCK_CUMPROD, ScanKind::Cumprod));
static_assert(same(PLANCK_CUMMAX, ScanKind::Cummax));
static_assert(same(PLANCK_CUMMIN, ScanKind::Cummin));
static_assert(same(PLANCK_LOG_CUMSUM_EXP, ScanKind::LogCumsumExp));
static_assert(same(PLANCK_TIES_FIRST, ScanTies::First));
static_assert(same(PLANCK_TIES_LAST, ScanTies::Last));
static_assert(same(PLANCK_LERP, BinaryKind::Lerp));
static_assert(same(PLANCK_ADD_SCALED, BinaryKind::AddScaled));
static_assert(same(PLANCK_CPU, Device::Cpu));
static_assert(same(PLANCK_CUDA, Device::Cuda));
static_assert(PLANCK_UNKNOWN_CAPACITY == planck::kUnknownCapacity);
static_assert(PLANCK_SCAN_CARRY_WORDS == planck::kScanCarryWords);

}  // namespace

int main() {
  std::puts("the C and C++ headers agree");
  return 0;
}
