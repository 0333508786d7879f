// The parameterised binary family's plans: checks, the choice of kernels, and which gradients are summed.
#include <algorithm>
#include <array>
#include <optional>

#include "binary/ops.hpp"
#include "core/plan_parts.hpp"
#include "core/small_operands.hpp"
#include "cpu/elementwise.hpp"
#include "cpu/reduce.hpp"

namespace planck {
namespace {

using core::fail;
using core::OperandChecks;
using core::printable;
using core::Role;
using core::Status;
using core::StridedLoop;
using core::Text;
using detail::PlanChoice;
using elementwise::Weight;

Weight weight_of(const BinaryParamDescriptor& d) { return d.weight_shape ? Weight::Tensor : Weight::Scalar; }
const Shape& a_shape(const BinaryParamDescriptor& d) { return d.a_shape ? *d.a_shape : d.shape; }
const Shape& b_shape(const BinaryParamDescriptor& d) { return d.b_shape ? *d.b_shape : d.shape; }

/// A gradient of this shape is a sum: it has fewer elements than the result (or some where that has none).
bool summed(const BinaryParamDescriptor& d, const Shape& shape) { return core::numel(shape) != core::numel(d.shape); }

/// What any group of summed gradients needs, for any strides.
std::size_t device_sums_workspace(const core::DeviceBackend& backend, const BinaryParamDescriptor& d) noexcept {
  std::size_t bytes = 0;
  const auto take = [&](const Shape& shape) {
    if (!summed(d, shape)) return;
    StridedLoop loop(d.shape);
    loop.add(core::sum_of_shape(shape, d.element));
    bytes = std::max(bytes, backend.sums_workspace(core::sum_shape(loop), core::kMaxDeviceSums));
  };
  take(a_shape(d));
  take(b_shape(d));
  if (d.weight_shape) take(*d.weight_shape);
  return bytes;
}

Result<PlanChoice> select_binary_param(std::string_view plan, bool backward, const Stream& stream,
                                       const BinaryParamDescriptor& d, const PlanPreference& preference,
                                       std::span<const ElementKind> expected) noexcept {
  PLANCK_TRY(core::check_type_parameter(plan, "element", expected, 0, d.element));
  if (!is_float(d.element)) return fail(Text::ElementUnsupported, {plan, "element", printable(d.element)});
  if (d.kind != BinaryKind::Lerp && d.kind != BinaryKind::AddScaled) {
    return fail(Text::KindUnsupported, {plan, static_cast<std::int32_t>(d.kind)});
  }
  PLANCK_TRY(core::check_shape(plan, "shape", d.shape));
  PLANCK_TRY(core::check_broadcast(plan, "a_shape", a_shape(d), d.shape));
  PLANCK_TRY(core::check_broadcast(plan, "b_shape", b_shape(d), d.shape));
  if (d.weight_shape) PLANCK_TRY(core::check_broadcast(plan, "weight_shape", *d.weight_shape, d.shape));

  const bool sums = backward && (summed(d, a_shape(d)) || summed(d, b_shape(d)) ||
                                 (d.weight_shape.has_value() && summed(d, *d.weight_shape)));
  core::KernelRequest request;
  request.plan = plan;
  request.rows = cpu::binary_param_kernels;
  request.kernel = elementwise::kernel_row(d.kind, backward, weight_of(d), d.element, false);
  if (sums) {
    request.term_kernel = request.kernel;
    request.term_kernel->terms = true;
    const core::DeviceBackend* const device = core::device_backend(stream);
    request.workspace_bytes =
        device != nullptr ? device_sums_workspace(*device, d)
                          : cpu::reduce_workspace(core::numel(d.shape),
                                                  elementwise::inputs_of(true, weight_of(d)) * size_of(d.element));
  }
  request.precision = core::precision_of(d.element, sums);
  return core::choose_kernel(request, stream, preference);
}

/// Calls body(params) with the scalar weight in the element's compute type.
template <class Body>
void with_params(const BinaryParamDescriptor& d, const Body& body) {
  if (d.element == ElementKind::F64) {
    body(elementwise::Params<double>{d.param});
  } else {
    body(elementwise::Params<float>{static_cast<float>(d.param)});
  }
}

struct BinaryParamParts {
  static constexpr std::string_view kPlan = "BinaryParamPlan";
  static std::string_view name(const BinaryParamDescriptor&) { return kPlan; }

  static Result<PlanChoice> select(const Stream& stream, const BinaryParamDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_binary_param(kPlan, false, stream, d, preference, expected);
  }

  static Status check_weight(std::string_view plan, OperandChecks& checks, const BinaryParamDescriptor& d,
                             const std::optional<AnyTensorRef>& weight) noexcept {
    if (d.weight_shape && !weight)
      return fail(Text::ArgumentMissing, {plan, "weight", "a descriptor with weight_shape"});
    if (!d.weight_shape && weight) {
      return fail(Text::ArgumentUnexpected, {plan, "weight", "the descriptor has no weight_shape"});
    }
    if (!weight) return {};
    return checks.add({"weight", Role::Input, *weight, d.element, &*d.weight_shape});
  }

  static bool run_small(const BinaryParamDescriptor& d, const cpu::KernelRow& kernel,
                        const BinaryParamArgs& a) noexcept {
    core::SmallOperands operands(d.shape);
    if (!operands.has_work() || d.weight_shape.has_value() != a.weight.has_value()) return false;
    // What broadcasts has another shape than d.shape, or is refused for it.
    if (!operands.add_input(a.a, d.element) || a.a.shape != a_shape(d)) return false;
    if (!operands.add_input(a.b, d.element) || a.b.shape != b_shape(d)) return false;
    if (a.weight && (!operands.add_input(*a.weight, d.element) || a.weight->shape != *d.weight_shape)) return false;
    if (!operands.add_output(a.y, d.element)) return false;
    with_params(d, [&](const auto& params) { kernel.span(&params, operands.data(), operands.elements(), 0); });
    return true;
  }

  static Status check(OperandChecks& checks, const BinaryParamDescriptor& d, const BinaryParamArgs& a) noexcept {
    PLANCK_TRY(checks.add({"a", Role::Input, a.a, d.element, &a_shape(d)}));
    PLANCK_TRY(checks.add({"b", Role::Input, a.b, d.element, &b_shape(d)}));
    PLANCK_TRY(check_weight(kPlan, checks, d, a.weight));
    PLANCK_TRY(checks.add({"y", Role::Output, a.y, d.element, &d.shape}));
    return checks.check_overlaps();
  }

  static void execute(const BinaryParamDescriptor& d, const PlanChoice& choice, const Stream& stream, const Workspace&,
                      const BinaryParamArgs& a) noexcept {
    StridedLoop loop =
        a.weight ? StridedLoop(d.shape, {a.a, a.b, *a.weight, a.y}) : StridedLoop(d.shape, {a.a, a.b, a.y});
    if (choice.kernel == nullptr) {
      elementwise::reference::forward(loop, d.kind, weight_of(d), d.element, d.param);
      return;
    }
    with_params(d, [&](const auto& params) {
      cpu::run_elementwise(stream, *choice.kernel, &params, loop, elementwise::inputs_of(false, weight_of(d)));
    });
  }

  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const BinaryParamDescriptor& d,
                       const BinaryParamArgs& a) noexcept {
    StridedLoop loop(d.shape);
    loop.add(a.a);
    loop.add(a.b);
    if (a.weight) loop.add(*a.weight);
    loop.add(a.y);
    return backend.binary(run, {d.kind, false, weight_of(d), d.element, d.param}, loop);
  }
};

struct BinaryParamBackwardParts {
  static constexpr std::string_view kPlan = "BinaryParamBackwardPlan";
  static std::string_view name(const BinaryParamDescriptor&) { return kPlan; }
  static constexpr int kDa = 0;
  static constexpr int kDb = 1;
  static constexpr int kDw = 2;
  using Wanted = std::array<bool, 3>;

  static Result<PlanChoice> select(const Stream& stream, const BinaryParamDescriptor& d,
                                   const PlanPreference& preference, std::span<const ElementKind> expected) noexcept {
    return select_binary_param(kPlan, true, stream, d, preference, expected);
  }

  static const std::optional<AnyTensorMut>& gradient(const BinaryParamBackwardArgs& a, int g) {
    return g == kDa ? a.da : g == kDb ? a.db : a.dw;
  }
  static const Shape& gradient_shape(const BinaryParamDescriptor& d, int g) {
    return g == kDa ? a_shape(d) : g == kDb ? b_shape(d) : *d.weight_shape;
  }

  static Status check(OperandChecks& checks, const BinaryParamDescriptor& d,
                      const BinaryParamBackwardArgs& a) noexcept {
    if (!a.da && !a.db && !a.dw) return fail(Text::NoOutput, {kPlan, "da, db, dw"});
    if (a.dw && !d.weight_shape) {
      return fail(Text::ArgumentUnexpected, {kPlan, "dw", "the descriptor has no weight_shape"});
    }
    if (a.dw && !a.b) return fail(Text::ArgumentMissing, {kPlan, "b", "dw"});
    if (a.dw && !a.a && d.kind == BinaryKind::Lerp) return fail(Text::ArgumentMissing, {kPlan, "a", "dw"});
    PLANCK_TRY(checks.add({"dy", Role::Input, a.dy, d.element, &d.shape}));
    if (a.a) PLANCK_TRY(checks.add({"a", Role::Input, *a.a, d.element, &a_shape(d)}));
    if (a.b) PLANCK_TRY(checks.add({"b", Role::Input, *a.b, d.element, &b_shape(d)}));
    PLANCK_TRY(BinaryParamParts::check_weight(kPlan, checks, d, a.weight));
    static constexpr std::string_view kNames[] = {"da", "db", "dw"};
    for (const int g : {kDa, kDb, kDw}) {
      if (!gradient(a, g)) continue;
      const Shape& shape = gradient_shape(d, g);
      const Role role = summed(d, shape) ? Role::SummedOutput : Role::Output;
      PLANCK_TRY(checks.add({kNames[g], role, *gradient(a, g), d.element, &shape}));
    }
    return checks.check_overlaps();
  }

  /// The loop with the inputs that the wanted gradients read; the others are absent and cost nothing.
  static StridedLoop input_loop(const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a,
                                const Wanted& wanted) {
    const auto add = [&](StridedLoop& loop, const std::optional<AnyTensorRef>& view, bool needed) {
      if (needed) {
        loop.add(*view);
      } else {
        loop.add_absent(d.element);
      }
    };
    const bool lerp = d.kind == BinaryKind::Lerp;
    StridedLoop loop(d.shape);
    loop.add(a.dy);
    if (d.weight_shape) {
      add(loop, a.a, wanted[kDw] && lerp);
      add(loop, a.b, wanted[kDw]);
      add(loop, a.weight, wanted[kDb] || (wanted[kDa] && lerp));
    }
    return loop;
  }

  /// Adds the gradients that are asked for as outputs, and the others as absent ones of kind `otherwise`.
  static void add_outputs(StridedLoop& loop, const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a,
                          const Wanted& wanted, ElementKind otherwise) {
    for (int g = 0; g < elementwise::gradients_of(weight_of(d)); ++g) {
      if (wanted[g]) {
        loop.add(*gradient(a, g));
      } else {
        loop.add_absent(otherwise);
      }
    }
  }

  /// One pass over the inputs for sums of one shape, and for elementwise gradients beside them.
  static void sum_gradients(const BinaryParamDescriptor& d, const PlanChoice& choice, const Stream& stream,
                            const Workspace& workspace, const BinaryParamBackwardArgs& a, const Wanted& sums,
                            const Wanted& beside) noexcept {
    Wanted wanted{};
    for (const int g : {kDa, kDb, kDw}) wanted[g] = sums[g] || beside[g];
    StridedLoop loop = input_loop(d, a, wanted);
    const int inputs = loop.operands;
    const ElementKind compute = compute_of(d.element);
    add_outputs(loop, d, a, beside, compute);
    int count = 0;
    std::array<int, cpu::kMaxGradients> term{};
    for (const int g : {kDa, kDb, kDw}) {
      if (!sums[g]) continue;
      loop.add(*gradient(a, g));
      term[count++] = g;
    }
    with_params(d, [&](const auto& params) {
      cpu::run_reduction(stream,
                         {*choice.term_kernel, choice.sku.arch, &params, loop, inputs, count, term, compute, d.element},
                         workspace);
    });
  }

  /// The reference takes a pass for each sum.
  static void sum_by_reference(const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a, int g) {
    Wanted wanted{};
    wanted[g] = true;
    StridedLoop loop = input_loop(d, a, wanted);
    add_outputs(loop, d, a, {}, compute_of(d.element));
    loop.add(*gradient(a, g));
    elementwise::reference::backward_summed(loop, d.kind, weight_of(d), d.element, d.param, g);
  }

  /// The gradients that are asked for, by how they are made.
  struct Asked {
    Wanted elementwise{};
    Wanted sums{};
    Asked(const BinaryParamDescriptor& d, const BinaryParamBackwardArgs& a) {
      for (const int g : {kDa, kDb, kDw}) {
        if (gradient(a, g)) (summed(d, gradient_shape(d, g)) ? sums : elementwise)[g] = true;
      }
    }
    /// Takes the next sums of one shape, which come from one reading; none when all are taken.
    Wanted take_sums(const BinaryParamDescriptor& d) {
      Wanted together{};
      int first = kDa;
      while (first <= kDw && !sums[first]) ++first;
      for (int g = first; g <= kDw; ++g) {
        together[g] = sums[g] && gradient_shape(d, g) == gradient_shape(d, first);
        if (together[g]) sums[g] = false;
      }
      return together;
    }
  };

  static void execute(const BinaryParamDescriptor& d, const PlanChoice& choice, const Stream& stream,
                      const Workspace& workspace, const BinaryParamBackwardArgs& a) noexcept {
    Asked asked(d, a);
    // Sums first: they touch no input, while an elementwise gradient may overwrite one in place. So those come with the
    // last of the sums.
    if (choice.kernel == nullptr) {
      for (const int g : {kDa, kDb, kDw}) {
        if (asked.sums[g]) sum_by_reference(d, a, g);
      }
    } else {
      while (asked.sums != Wanted{}) {
        const Wanted together = asked.take_sums(d);
        const bool last = asked.sums == Wanted{};
        sum_gradients(d, choice, stream, workspace, a, together, last ? asked.elementwise : Wanted{});
        if (last) return;
      }
    }
    const Wanted& elementwise_wanted = asked.elementwise;
    if (elementwise_wanted == Wanted{}) return;
    StridedLoop loop = input_loop(d, a, elementwise_wanted);
    const int inputs = loop.operands;
    add_outputs(loop, d, a, elementwise_wanted, d.element);
    if (choice.kernel == nullptr) {
      elementwise::reference::backward(loop, d.kind, weight_of(d), d.element, d.param);
      return;
    }
    with_params(d, [&](const auto& params) { cpu::run_elementwise(stream, *choice.kernel, &params, loop, inputs); });
  }

  /// One call for the sums of one shape; elementwise gradients go with the last one, as above.
  static Status launch(const core::DeviceBackend& backend, const core::DeviceRun& run, const BinaryParamDescriptor& d,
                       const BinaryParamBackwardArgs& a) noexcept {
    Asked asked(d, a);
    do {
      const Wanted sums = asked.take_sums(d);
      const Wanted beside = asked.sums == Wanted{} ? asked.elementwise : Wanted{};
      Wanted wanted{};
      for (const int g : {kDa, kDb, kDw}) wanted[g] = sums[g] || beside[g];
      StridedLoop loop = input_loop(d, a, wanted);
      add_outputs(loop, d, a, beside, d.element);
      core::DeviceBinary job{d.kind, true, weight_of(d), d.element, d.param};
      job.sums.element = d.element;
      for (const int g : {kDa, kDb, kDw}) {
        if (!sums[g]) continue;
        loop.add(*gradient(a, g));
        job.sums.term[job.sums.count++] = g;
      }
      PLANCK_TRY(backend.binary(run, job, loop));
    } while (asked.sums != Wanted{});
    return {};
  }
};

}  // namespace

PLANCK_DEFINE_OP(BinaryParam)
PLANCK_DEFINE_OP(BinaryParamBackward)

}  // namespace planck
