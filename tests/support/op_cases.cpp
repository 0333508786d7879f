#include "support/op_cases.hpp"

#include <cstdlib>
#include <memory>

#include "cpu/isa.hpp"

namespace planck::test {
namespace {

constexpr double kScale = 0.05;
constexpr std::int64_t kZeroPoint = 3;
constexpr double kWeight = 0.7;

/// Selects Plan<Op> and binds args(tensors) to its run, with a workspace of its own.
template <class Op, class MakeArgs>
Result<std::function<Result<void>(const Tensors&)>> bind(const Stream& stream, const PlanPreference& preference,
                                                         const typename Op::Descriptor& descriptor,
                                                         const MakeArgs& make_args) {
  auto plan = Plan<Op>::select(stream, descriptor, preference);
  if (!plan) return tl::unexpected(plan.error());
  // One byte of misalignment: a workspace may have any alignment.
  auto memory = std::make_shared<std::vector<std::byte>>(plan->workspace_size() + 1);
  return [plan = *plan, stream, memory, make_args](const Tensors& tensors) {
    return plan.run(stream, Workspace::of(std::span(*memory).subspan(1)), make_args(tensors));
  };
}

Shape broadcast_shape(const Shape& shape, Broadcast broadcast) {
  Shape small = shape;
  const int rank = shape.rank();
  for (int d = 0; d < rank; ++d) {
    const bool reduced = broadcast == Broadcast::Scalar || (broadcast == Broadcast::Rows && d == rank - 1) ||
                         (broadcast == Broadcast::Columns && d == 0) ||
                         (broadcast == Broadcast::Middle && d != rank / 2);
    if (reduced) small[d] = 1;
  }
  return small;
}

OpCase fake_quantize_case(const cpu::KernelRow& row, const Shape& shape) {
  FakeQuantizeDescriptor d{shape, -128, 127, row.element, static_cast<ScaleForm>(row.variant), false};
  OpCase c;
  c.unit = kScale;
  if (row.backward) {
    c.tensors = {{"input", row.element, shape, false},
                 {"d_output", row.element, shape, false},
                 {"d_input", row.element, shape, true}};
    c.select = [d](const Stream& s, const PlanPreference& p) {
      return bind<FakeQuantizeBackwardOp>(s, p, d, [](const Tensors& t) {
        return FakeQuantizeBackwardArgs{t[0], kScale, kZeroPoint, t[1], t[2]};
      });
    };
  } else {
    c.tensors = {{"input", row.element, shape, false}, {"output", row.element, shape, true}};
    c.select = [d](const Stream& s, const PlanPreference& p) {
      return bind<FakeQuantizeOp>(s, p, d, [](const Tensors& t) {
        return FakeQuantizeArgs{t[0], kScale, kZeroPoint, t[1]};
      });
    };
  }
  return c;
}

OpCase dequantize_case(const cpu::KernelRow& row, const Shape& shape) {
  OpCase c;
  c.unit = kScale;
  const DequantizePerTensorDescriptor d{shape, row.aux_element.value_or(ElementKind::S8), row.element, false};
  if (row.backward) {
    c.tensors = {{"d_output", row.element, shape, false}, {"d_input", row.element, shape, true}};
    c.select = [d](const Stream& s, const PlanPreference& p) {
      return bind<DequantizePerTensorBackwardOp>(s, p, d, [](const Tensors& t) {
        return DequantizePerTensorBackwardArgs{kScale, t[0], t[1]};
      });
    };
  } else {
    c.tensors = {{"input", d.input_element, shape, false}, {"output", row.element, shape, true}};
    c.select = [d](const Stream& s, const PlanPreference& p) {
      return bind<DequantizePerTensorOp>(s, p, d, [](const Tensors& t) {
        return DequantizePerTensorArgs{t[0], kScale, kZeroPoint, t[1]};
      });
    };
  }
  return c;
}

OpCase binary_param_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast) {
  const bool tensor_weight = row.variant == 1;
  const Shape small = broadcast_shape(shape, broadcast);
  BinaryParamDescriptor d;
  d.kind = static_cast<BinaryKind>(row.op);
  d.shape = shape;
  d.element = row.element;
  d.param = kWeight;
  d.b_shape = small;
  if (tensor_weight) d.weight_shape = small;
  const auto optional = [](const Tensors& t, bool present, int i) {
    return present ? std::optional<AnyTensorMut>(t[static_cast<std::size_t>(i)]) : std::nullopt;
  };

  OpCase c;
  c.unit = 0.01;
  if (!row.backward) {
    c.tensors = {{"a", row.element, shape, false}, {"b", row.element, small, false}};
    if (tensor_weight) c.tensors.push_back({"weight", row.element, small, false});
    c.tensors.push_back({"y", row.element, shape, true});
    c.select = [=](const Stream& s, const PlanPreference& p) {
      return bind<BinaryParamOp>(s, p, d, [=](const Tensors& t) {
        return BinaryParamArgs{t[0], t[1], optional(t, tensor_weight, 2), t.back()};
      });
    };
    return c;
  }
  c.tensors = {{"dy", row.element, shape, false}};
  if (tensor_weight) {
    c.tensors.push_back({"a", row.element, shape, false});
    c.tensors.push_back({"b", row.element, small, false});
    c.tensors.push_back({"weight", row.element, small, false});
  }
  c.tensors.push_back({"da", row.element, shape, true});
  c.tensors.push_back({"db", row.element, small, true});
  if (tensor_weight) c.tensors.push_back({"dw", row.element, small, true});
  c.select = [=](const Stream& s, const PlanPreference& p) {
    return bind<BinaryParamBackwardOp>(s, p, d, [=](const Tensors& t) {
      const int first = tensor_weight ? 4 : 1;
      return BinaryParamBackwardArgs{t[0],
                                     optional(t, tensor_weight, 1),
                                     optional(t, tensor_weight, 2),
                                     optional(t, tensor_weight, 3),
                                     optional(t, true, first),
                                     optional(t, true, first + 1),
                                     optional(t, tensor_weight, first + 2)};
    });
  };
  return c;
}

}  // namespace

ArchSku plainest_arch() {
  ArchSku plainest{};
  for (const ArchSku arch : cpu::known_archs()) {
    if (cpu::supported(arch)) plainest = arch;
  }
  return plainest;
}

std::vector<cpu::KernelRow> kernel_list() {
  const ArchSku arch = plainest_arch();
  std::vector<cpu::KernelRow> list;
  for (const auto rows : {cpu::quantize_kernels(arch), cpu::binary_param_kernels(arch)}) {
    list.insert(list.end(), rows.begin(), rows.end());
  }
  return list;
}

std::string name_of(const cpu::KernelRow& row) {
  std::string name(row.category == OpCategory::Quantization ? to_string(static_cast<QuantizeKind>(row.op))
                                                            : to_string(static_cast<BinaryKind>(row.op)));
  if (row.category != OpCategory::Quantization && row.backward) name += "Backward";
  name += '_';
  name += to_string(row.element);
  if (row.aux_element) name += "_" + std::string(to_string(*row.aux_element));
  if (row.category == OpCategory::Quantization) {
    if (row.variant == 1) name += "_reciprocal";
  } else {
    name += row.variant == 1 ? "_tensor_weight" : "_scalar_weight";
    if (row.terms) name += "_summed";
  }
  return name;
}

OpCase make_case(const cpu::KernelRow& row, const Shape& shape, Broadcast broadcast) {
  if (row.category == OpCategory::BinaryElementwise) return binary_param_case(row, shape, broadcast);
  switch (static_cast<QuantizeKind>(row.op)) {
    case QuantizeKind::FakeQuantize:
    case QuantizeKind::FakeQuantizeBackward:
      return fake_quantize_case(row, shape);
    case QuantizeKind::DequantizePerTensor:
    case QuantizeKind::DequantizePerTensorBackward:
      return dequantize_case(row, shape);
    default:
      std::abort();  // a kernel in the list that no test knows how to run
  }
}

std::vector<Broadcast> broadcasts_for(const cpu::KernelRow& row, const Shape& shape) {
  if (row.category != OpCategory::BinaryElementwise || (row.backward && !row.terms)) return {Broadcast::None};
  std::vector<Broadcast> all{Broadcast::Scalar};
  if (shape.rank() > 1) all.insert(all.end(), {Broadcast::Rows, Broadcast::Columns});
  if (shape.rank() > 2) all.push_back(Broadcast::Middle);
  if (!row.terms) all.push_back(Broadcast::None);
  return all;
}

}  // namespace planck::test
